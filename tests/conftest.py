"""Settings shared by all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Shared machines pause; an example's wall-clock time says nothing about the code. The seed is fixed so that a red test
# is red for everybody.
settings.register_profile(
    "smaller", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("smaller")

# A shell starts background jobs with Ctrl-C ignored, and Python then installs no handler: tests that interrupt
# themselves would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of the papers' data sets, or skip."""
    folder = os.environ.get("SMALLER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SMALLER_DATA does not name the folder of the papers' data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def load_data(data_folder: Path) -> Callable[[str], Any]:
    """Return the loader of the papers' data sets, or skip."""
    reason = "the papers' data sets are read by benchmarks/, which is not part of this copy"
    loader: Callable[[str], Any] = pytest.importorskip("benchmarks.papers.datasets", reason=reason).load
    return loader
