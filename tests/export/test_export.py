"""JSON, SQL and ONNX give the probabilities of `predict_proba`, also where `smaller` is not installed."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial import Polynomial
from scipy import special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from smaller import IVM, JCFO, KLR, RMLR, RVC, SBMLR, SMLR, SMLRCV, OrdinalSMLR, SparseProbit
from smaller.export import ExportError, formula_of, to_json, to_onnx, to_sql
from smaller.export.formula import log_erfcx_coefficients

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
EVALUATOR = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)[0]
TOLERANCE = 1e-6


# ---- three readers of what was written ---------------------------------------------------------------------


def by_json(model: Any, frame: pd.DataFrame) -> np.ndarray:
    space: dict[str, Any] = {}
    exec(EVALUATOR, space)
    formula = json.loads(to_json(model))
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return np.array([list(space["probabilities"](formula, row).values()) for row in rows])


def by_sqlite(model: Any, frame: pd.DataFrame) -> np.ndarray:
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("da ta", base, index_label="row number")
        query = to_sql(model, table="da ta", keep=["row number"], dialect="sqlite")
        found = base.execute(query + "\nORDER BY 1").fetchall()
    return np.array(found, dtype=np.float64)[:, 1:]


def by_duckdb(model: Any, frame: pd.DataFrame) -> np.ndarray:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as base:
        base.register("da ta", frame.reset_index(names="row number"))
        query = to_sql(model, table="da ta", keep=["row number"], dialect="duckdb")
        found = base.execute(query + "\nORDER BY 1").fetchall()
    return np.array(found, dtype=np.float64)[:, 1:]


def by_onnx(model: Any, frame: pd.DataFrame, dtype: str = "float64") -> np.ndarray:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model, dtype=dtype).SerializeToString())
    labels, proba = session.run(None, feed(session, frame, dtype))
    assert labels.tolist() == model.classes_[proba.argmax(axis=1)].tolist()
    return proba


def feed(session: Any, frame: pd.DataFrame, dtype: str) -> dict[str, np.ndarray]:
    names = [value.name for value in session.get_inputs()]
    if names == ["X"]:
        return {"X": frame.to_numpy(dtype)}
    fed = {}
    for name in names:
        column = frame[name]
        text = not pd.api.types.is_numeric_dtype(column)
        fed[name] = (column.fillna("").to_numpy(object) if text else column.to_numpy(dtype))[:, None]
    return fed


READERS = {"json": by_json, "sqlite": by_sqlite, "duckdb": by_duckdb, "onnx": by_onnx}


def numbers(n: int, K: int, p: int = 12) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(K)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4, p) + rng.normal(size=p)
    eta = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(p, K)) * (rng.random((p, 1)) < 0.5)[0]
    y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]), y


def table(n: int, K: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers and texts with gaps, names and levels that need quoting, labels that are text."""
    frame, y = numbers(n, K, 6)
    rng = np.random.default_rng(7)
    frame = frame.set_axis(["x0", 'a"b', "c'd; --", "größe", "_1", "X"], axis=1)
    levels = np.array(["it's", 'say "no"', "ä", "plain", "; DROP TABLE x"], dtype=object)
    frame["ci ty"] = levels[(y + rng.integers(0, 2, n)) % 5]
    frame["wing"] = np.where(rng.random(n) < 0.5, "left", "right").astype(object)
    frame["stage"] = rng.integers(0, 4, n).astype(float)
    for name in frame.columns:
        frame.loc[rng.random(n) < 0.05, name] = np.nan if frame[name].dtype == float else None
    return frame, np.array([f"class {k}" for k in range(K)])[y]


def preparation(frame: pd.DataFrame) -> ColumnTransformer:
    numeric = list(frame.columns[:6])
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    return ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numeric),
        ("texts", text, ["ci ty"]),
        ("gaps as a level", OneHotEncoder(drop="first", handle_unknown="ignore"), ["wing"]),
        ("steps", ordinal, ["stage"]),
    ])  # fmt: skip


# ---- equal probabilities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [to_json, to_sql, to_onnx])
def test_an_offset_is_no_column(write: Any) -> None:
    frame, y = numbers(200, 2)
    with pytest.raises(ExportError, match="fitted with an offset"):
        write(SMLR(alpha=20.0).fit(frame, y, offset=np.linspace(-1.0, 1.0, 200)))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("K", [2, 5, 26])
def test_table_with_gaps_and_categories(reader: str, K: int) -> None:
    frame, y = table(10_000, K)
    model = make_pipeline(preparation(frame), SMLR(alpha=20.0)).fit(frame[:3000], y[:3000])
    assert np.abs(READERS[reader](model, frame) - model.predict_proba(frame)).max() < TOLERANCE


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "estimator",
    [
        SMLR(alpha=3.0, coding="reference"),
        SMLRCV(alphas=5, cv=2, relax=True),
        SMLR(alpha=1.0, kernel="rbf", n_centers=40),
        OrdinalSMLR(alpha=1.0),
        OrdinalSMLR(alpha=1.0, kernel="rbf", n_centers=20),
        RMLR(alpha=1.0),
        SBMLR(),
        SparseProbit(),
        IVM(max_points=10),
        KLR(kernel="poly", degree=2),
        RVC(kernel="linear", moderate=False),
        JCFO(alpha=1.0, alpha_scales=5.0, n_centers=30, likelihood="probit"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("K", [2, 3])
def test_every_classifier(reader: str, estimator: Any, K: int) -> None:
    frame, y = numbers(150, K, 6)
    model = make_pipeline(StandardScaler(), estimator).fit(frame, y)
    assert np.abs(READERS[reader](model, frame) - model.predict_proba(frame)).max() < TOLERANCE


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "steps",
    [
        [RobustScaler(), SelectKBest(k=4)],
        [MinMaxScaler(feature_range=(-1, 2), clip=True)],
        [FeatureUnion([("a", MaxAbsScaler()), ("b", RobustScaler(with_centering=False))])],
        [FunctionTransformer(), StandardScaler(with_mean=False)],
        [ColumnTransformer([("some", "passthrough", [0, 2]), ("none", "drop", [1])], remainder=StandardScaler())],
    ],
    ids=lambda steps: type(steps[0]).__name__,
)
def test_every_transformer(reader: str, steps: list[Any]) -> None:
    frame, y = numbers(200, 3, 6)
    model = make_pipeline(*steps, SMLR(alpha=1.0)).fit(frame[:100], y[:100])
    assert np.abs(READERS[reader](model, frame) - model.predict_proba(frame)).max() < TOLERANCE


@pytest.mark.parametrize("estimator", [SMLR(alpha=1e6), IVM(), JCFO(alpha=1.0, alpha_scales=3.0, n_centers=30)])
def test_onnx_of_single_precision(estimator: Any) -> None:
    frame, y = numbers(300, 3)
    frame = frame.astype(np.float32)
    model = make_pipeline(StandardScaler(), estimator).fit(frame.astype(np.float64), y)
    expected = model.predict_proba(frame.astype(np.float64))
    assert np.abs(by_onnx(model, frame, "float32") - expected).max() < TOLERANCE


@pytest.mark.parametrize("reader", READERS)
def test_a_model_without_features(reader: str) -> None:
    frame, y = numbers(100, 3)
    model = SMLR(alpha=1e9).fit(frame, y)
    assert np.abs(READERS[reader](model, frame) - model.predict_proba(frame)).max() < TOLERANCE


@pytest.mark.parametrize("reader", READERS)
def test_rare_levels_share_an_indicator(reader: str) -> None:
    frame, y = table(400, 3)
    encoder = OneHotEncoder(min_frequency=90, handle_unknown="ignore")
    model = make_pipeline(
        ColumnTransformer([("texts", encoder, ["ci ty", "wing"])]), SMLR(alpha=0.5, penalize_intercept=True)
    ).fit(frame, y)
    assert np.abs(READERS[reader](model, frame) - model.predict_proba(frame)).max() < TOLERANCE


def test_a_gap_that_nothing_fills_has_no_probabilities() -> None:
    frame, y = numbers(100, 2)
    model = make_pipeline(StandardScaler(), SMLR(alpha=1.0)).fit(frame, y)
    used = formula_of(model).used_columns[0]
    frame.loc[3, used] = np.nan
    for reader in (by_sqlite, by_duckdb):
        found = reader(model, frame)
        assert np.isnan(found).any(axis=1).nonzero()[0].tolist() == [3]
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    assert np.isnan(session.run(None, feed(session, frame, "float64"))[1]).any(axis=1).nonzero()[0].tolist() == [3]


# ---- without smaller ---------------------------------------------------------------------------------------


def test_json_and_sqlite_in_a_process_without_packages(tmp_path: Path) -> None:
    frame, y = table(300, 5)
    model = make_pipeline(preparation(frame), SMLR(alpha=5.0)).fit(frame, y)
    (tmp_path / "model.json").write_text(to_json(model), "utf-8")
    (tmp_path / "model.sql").write_text(to_sql(model, keep=["row"], dialect="sqlite") + "\nORDER BY 1", "utf-8")
    rows = frame.astype(object).where(frame.notna(), None)
    (tmp_path / "rows.json").write_text(json.dumps(rows.to_dict("records")), "utf-8")
    with sqlite3.connect(tmp_path / "base.db") as base:
        rows.to_sql("data", base, index_label="row")
    code = f"""{EVALUATOR}
import sqlite3, sys
rows = json.load(open("rows.json", encoding="utf-8"))
model = json.load(open("model.json", encoding="utf-8"))
first = [list(probabilities(model, row).values()) for row in rows]
second = [row[1:] for row in sqlite3.connect("base.db").execute(open("model.sql", encoding="utf-8").read())]
assert not {{"smaller", "sklearn", "numpy"}} & set(sys.modules)
print(json.dumps([first, second]))
"""
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    for found in json.loads(run.stdout):
        assert np.abs(np.array(found) - model.predict_proba(frame)).max() < TOLERANCE


def test_onnx_in_a_process_without_smaller(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    frame, y = numbers(200, 5)
    model = make_pipeline(StandardScaler(), SMLR(alpha=2.0)).fit(frame, y)
    onnx.save(to_onnx(model), tmp_path / "model.onnx")
    np.save(tmp_path / "X.npy", frame.to_numpy())
    code = """
import sys
sys.modules["smaller"] = sys.modules["sklearn"] = None
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
np.save("p.npy", session.run(["probabilities"], {"X": np.load("X.npy")})[0])
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert np.abs(np.load(tmp_path / "p.npy") - model.predict_proba(frame)).max() < TOLERANCE


# ---- what is refused, and what is written ------------------------------------------------------------------


def square(X: Any) -> Any:
    return X**2


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (LogisticRegression(), "LogisticRegression has no formula"),
        (CalibratedClassifierCV(SMLR(), cv=2), "CalibratedClassifierCV has no formula"),
        (RVC(kernel=None), "moderate=False"),
        (SMLR(kernel=lambda A, B: A @ B.T), "FromCallable kernel"),
        (Pipeline([("f", FunctionTransformer(square)), ("m", SMLR())]), "function of Python"),
        (Pipeline([("f", SimpleImputer(missing_values=-999)), ("m", SMLR())]), "mark gaps as NaN"),
    ],
    ids=["foreign", "wrapped", "moderated", "callable kernel", "function", "marked gaps"],
)
def test_what_has_no_formula_is_refused_by_name(model: Any, sentence: str) -> None:
    frame, y = numbers(60, 2, 3)
    with pytest.raises(ExportError, match=sentence):
        formula_of(model.fit(frame, y))


@pytest.mark.parametrize("arguments", [{"dialect": "oracle"}, {"table": "a\0b"}])
def test_sql_arguments_are_checked(arguments: dict[str, str]) -> None:
    frame, y = numbers(60, 2, 3)
    with pytest.raises(ExportError):
        to_sql(SMLR().fit(frame, y), **arguments)


def test_onnx_dtype_is_checked() -> None:
    frame, y = numbers(60, 2, 3)
    with pytest.raises(ExportError, match="dtype"):
        to_onnx(SMLR().fit(frame, y), dtype="float16")


def test_onnx_without_its_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    frame, y = numbers(60, 2, 3)
    with pytest.raises(ExportError, match=r"smaller\[onnx\]"):
        to_onnx(SMLR().fit(frame, y))


def test_only_what_takes_part_is_written() -> None:
    frame, y = numbers(200, 2)
    model = make_pipeline(StandardScaler(), SMLR(alpha=15.0)).fit(frame, y)
    used = set(frame.columns[model[-1].active_features_])
    formula = json.loads(to_json(model))
    assert 0 < len(used) < 12
    assert {column["name"] for column in formula["columns"]} == used
    assert set(formula["scores"][0]["weights"]) == used
    assert "uses" in formula["words"][0]
    assert set(re.findall(r'"(x\d+)"', to_sql(model))) == used


def test_the_normal_distribution_by_exp_and_log_alone() -> None:
    u = np.concatenate([-np.logspace(-9, 6, 4000), [0.0]])
    t = 1.0 / (1.0 - u / np.sqrt(8.0))
    found = np.log(t / 2) - u**2 / 2 + Polynomial(log_erfcx_coefficients())(t)
    assert np.abs(found / special.log_ndtr(u) - 1.0).max() < 1e-9


def test_numbers_come_back_to_the_last_bit() -> None:
    from smaller.export.sql import _literal

    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5, 123456789.123456789, 0.0, -0.0]
    for value in values:
        assert float(_literal(value).strip("()")) == value
    with sqlite3.connect(":memory:") as base:
        assert [base.execute(f"SELECT {_literal(value)}").fetchone()[0] for value in values[:2]] == values[:2]


def test_the_query_quotes_whatever_it_is_given() -> None:
    frame, y = numbers(60, 2, 1)
    frame.columns = ['x"; DROP TABLE "data']
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("data", base)
        rows = base.execute(to_sql(SMLR().fit(frame, y), dialect="sqlite")).fetchall()
        assert len(rows) == len(frame)
        assert base.execute('SELECT count(*) FROM "data"').fetchone() == (60,)
