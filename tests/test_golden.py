"""What earlier versions wrote is read, and says what it said then."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.exceptions import InconsistentVersionWarning
from tests.golden.make import FOLDER, answers, as_form, cases

import smaller

MODELS = sorted(FOLDER.glob("*/*.smaller"))
# A pickle names modules, and modules move: these cannot be read any more. Whoever has one loads it with the version
# that wrote it and keeps it by `smaller.save`: model files are read by every later version.
LOST_PICKLES = {"0.1": {"table_ivm", "table_smlr", "table_sparse_probit"}}  # smaller.study became smaller.app.study


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def expect_the_same(model: Any, path: Path) -> None:
    with np.load(path.with_suffix(".npz")) as kept:
        said = answers(model, as_form(kept["rows"], str(kept["form"])))
        assert said.keys() == set(kept.files) - {"rows", "form"}
        for name, values in said.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(values, kept[name], rtol=1e-12, atol=1e-12, err_msg=name)
            else:
                assert values.tolist() == kept[name].tolist(), name


@pytest.mark.parametrize("path", MODELS, ids=name_of)
def test_a_model_file_predicts_what_it_did(path: Path) -> None:
    expect_the_same(smaller.load(path), path)


@pytest.mark.parametrize("path", MODELS, ids=name_of)
def test_a_pickle_predicts_what_it_did_or_cannot_be_read(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)  # of scikit-learn's own scalers
        if path.stem in LOST_PICKLES[path.parent.name]:
            with pytest.raises((ModuleNotFoundError, AttributeError)):
                joblib.load(path.with_suffix(".joblib"))
            return
        model = joblib.load(path.with_suffix(".joblib"))
    expect_the_same(model, path)


def test_every_golden_case_has_its_three_files_and_all_are_small() -> None:
    for folder in {path.parent for path in MODELS}:
        kept = {ending: {path.stem for path in folder.glob(f"*{ending}")} for ending in (".smaller", ".joblib", ".npz")}
        assert kept[".smaller"] == kept[".joblib"] == kept[".npz"] <= set(cases())
        assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    assert len([path for path in MODELS if path.parent.name == "0.1"]) == 39
