"""The table encoder as a transformer: scikit-learn's contract, and the same features as the command line's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from smaller import SMLR, TableFeatures, load, save
from smaller.app.columns import TableEncoder
from smaller.app.frames import from_frame
from smaller.app.tables import TableError

pd = pytest.importorskip("pandas")


@parametrize_with_checks([TableFeatures(), TableFeatures(fill=False)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def patients(n: int = 60) -> Any:
    """A frame with gaps, units, texts of two and three values, and a column that counts the rows."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, n).astype(float)
    age[:6] = np.nan
    dose = [f"{value} mg" for value in rng.integers(1, 90, n)]
    dose[7] = "unknown"
    return pd.DataFrame(
        {
            "patient id": np.arange(n), "age": age, "dose": dose, "sex": rng.choice(["f", "m"], n),
            "stage": rng.choice(["I", "II", "III"], n), "left": rng.random(n) < 0.5, "constant": 3,
        }
    )  # fmt: skip


def test_features_are_those_of_the_definition() -> None:
    frame = patients()
    encoder = TableFeatures().fit(frame)
    dose = pd.to_numeric(frame["dose"].str.removesuffix(" mg"), errors="coerce")
    expected = {
        "age": frame["age"].fillna(frame["age"].median()), "age is missing": frame["age"].isna(),
        "dose": dose.fillna(dose.median()), "sex = m": frame["sex"] == "m", "stage = I": frame["stage"] == "I",
        "stage = II": frame["stage"] == "II", "stage = III": frame["stage"] == "III", "left = true": frame["left"],
    }  # fmt: skip
    assert encoder.get_feature_names_out().tolist() == list(expected)
    assert_array_equal(encoder.transform(frame), np.column_stack(list(expected.values())).astype(float))
    assert any("'patient id'" in note for note in encoder.notes_)
    assert TableFeatures(keep=["patient id"]).fit(frame).get_feature_names_out()[0] == "patient id"


def test_it_is_the_encoder_of_the_command_line() -> None:
    frame = patients()
    table = from_frame(frame.assign(y="a"))
    known, notes = TableEncoder.learn(table, "y")
    encoder = TableFeatures(fill=False).fit(frame)
    assert encoder.columns_ == known.columns
    assert encoder.notes_ == notes
    assert_array_equal(encoder.transform(frame), known.transform(table))


def test_gaps_are_filled_with_what_was_learnt() -> None:
    train, new = patients(), patients(30).assign(age=np.nan, dose=None, stage="IV")
    encoder = TableFeatures().fit(train)
    made = pd.DataFrame(encoder.transform(new), columns=encoder.get_feature_names_out())
    assert (made["age"] == train["age"].median()).all()
    assert (made["age is missing"] == 1.0).all()
    assert (made[["stage = I", "stage = II", "stage = III"]] == 0.0).all(axis=None)


def test_arrays_without_names_and_frames_of_other_kinds_give_the_same() -> None:
    frame = patients().drop(columns="patient id")  # which is known by its name
    encoder = TableFeatures().fit(frame)
    bare = TableFeatures().fit(frame.to_numpy(dtype=object))
    assert_array_equal(bare.transform(frame.to_numpy(dtype=object)), encoder.transform(frame))
    assert bare.get_feature_names_out()[0] == "x0"
    assert_array_equal(bare.get_feature_names_out(frame.columns), encoder.get_feature_names_out())
    numbered = frame.set_axis(range(frame.shape[1]), axis=1)
    assert_array_equal(TableFeatures().fit_transform(numbered), encoder.transform(frame))
    polars = pytest.importorskip("polars")
    assert_array_equal(encoder.transform(polars.from_pandas(frame)), encoder.transform(frame))


def test_dates_are_refused_unless_dropped() -> None:
    plain = patients().drop(columns="patient id")
    frame = plain.assign(seen=pd.Timestamp("2026-05-31"))
    for given, name in ((frame, "seen"), (frame.to_numpy(dtype=object), "x6")):
        with pytest.raises(TableError, match=f"{name}.*dates"):
            TableFeatures().fit(given)
        assert_array_equal(TableFeatures(drop=[name]).fit_transform(given), TableFeatures().fit_transform(plain))
    with pytest.raises(TableError, match="did you mean 'stage'"):
        TableFeatures(drop=["stag"]).fit(frame)
    with pytest.raises(TableError, match="No column is left"):
        TableFeatures().fit(patients()[["constant"]])


def test_a_pipeline_with_it_takes_tables_as_they_are_and_survives_a_model_file(tmp_path: Path) -> None:
    frame = patients(120)
    y = np.where((frame["sex"] == "m") ^ (np.random.default_rng(1).random(120) < 0.1), "ill", "well")
    pipeline = make_pipeline(TableFeatures(), StandardScaler(), SMLR(alpha=5.0))
    assert cross_val_score(clone(pipeline), frame, y, cv=3).min() > 0.75
    model = pipeline.fit(frame, y)
    save(model, tmp_path / "m.smaller")
    again = load(tmp_path / "m.smaller")
    assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert_array_equal(again[:-2].get_feature_names_out(), model[:-2].get_feature_names_out())
