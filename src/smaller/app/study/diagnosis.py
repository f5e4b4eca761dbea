"""What this installation has."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from smaller.app.study.models import available_models

__all__ = ["diagnose"]


def diagnose() -> dict[str, Any]:
    """Return versions, linear-algebra libraries, threads, models and GPU as plain values."""
    facts: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform()}
    for name in ("smaller", "numpy", "scipy", "scikit-learn", "pyarrow", "matplotlib", "pandas", "torch"):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    from joblib import cpu_count
    from threadpoolctl import threadpool_info

    facts["linear algebra"] = sorted(
        {f"{part['internal_api']} {part['version']} ({part['num_threads']} threads)" for part in threadpool_info()}
    )
    facts["cores"] = cpu_count()
    facts["models"] = available_models()
    facts["gpu"] = _gpu()
    return facts


# Compute capabilities whose float64 is half as fast as float32, or better.
_FULL_RATE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def _gpu() -> str:
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return "not looked for: torch is not installed"
    if not torch.cuda.is_available():
        return "none"
    found = torch.cuda.get_device_properties(0)
    speed = "full speed" if (found.major, found.minor) in _FULL_RATE else "a small part of float32's speed"
    return f"{found.name}, {found.total_memory / 2**30:.0f} GiB; float64 at {speed}"
