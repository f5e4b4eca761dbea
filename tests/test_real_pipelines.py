"""Model files hold what real pipelines hold: columns by kind, categories, calibration, votes, thresholds, searches."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler

from smaller import IVM, SBMLR, SMLR, load, save
from smaller.persistence import ModelFileError, model_bytes

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 5))
TWO = np.where(X[:, 0] + 0.7 * RNG.normal(size=N) > 0, "ill", "healthy")
NEW = RNG.normal(size=(40, 5))


def table(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(60, 9, n), "dose": rng.gamma(2.0, size=n)})
    frame.loc[rng.random(n) < 0.1, "dose"] = np.nan
    frame["site"] = np.array(["north", "süd", "east"], dtype=object)[rng.integers(0, 3, n)]
    frame["kind"] = np.array(["a", np.nan, "b"], dtype=object)[rng.integers(0, 3, n)]
    frame["stage"] = rng.integers(1, 5, n)
    frame["smoker"] = rng.random(n) < 0.4
    return frame


def columns(**how: Any) -> ColumnTransformer:
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return ColumnTransformer(
        [
            ("numbers", numbers, ["age", "dose"]),
            ("site", OneHotEncoder(drop="if_binary"), ["site"]),
            ("kind", OneHotEncoder(handle_unknown="ignore", min_frequency=3, dtype=np.float32), ["kind"]),
            ("stage", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, dtype=float), ["stage"]),
        ],
        **how,
    )


def same_after(model: Any, new: Any, folder: Path) -> Any:
    """Save, load, and hold every answer against the saved model's, to the bit."""
    save(model, folder / "m.smaller")
    again = load(folder / "m.smaller")
    for name in ("predict", "predict_proba", "transform", "decision_function"):
        if hasattr(model, name):
            ours, theirs = getattr(again, name)(new), getattr(model, name)(new)
            ours, theirs = (np.asarray(a.todense() if hasattr(a, "todense") else a) for a in (ours, theirs))
            assert ours.tobytes() == theirs.tobytes(), name
    return again


@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
@pytest.mark.parametrize("model", [SMLR(0.5), SBMLR(), IVM(1.0, max_points=10)], ids=lambda m: type(m).__name__)
def test_a_pipeline_over_columns_of_all_kinds(model: Any, remainder: str, tmp_path: Path) -> None:
    frame = table(N, 1)
    y = np.where(frame["age"] + 20 * (frame["site"] == "süd") > 65, "high", "low")
    pipe = make_pipeline(columns(remainder=remainder), model).fit(frame, y)
    again = same_after(pipe, table(50, 2), tmp_path)
    assert list(again[0].get_feature_names_out()) == list(pipe[0].get_feature_names_out())
    assert again.fit(frame, y).predict(frame).tolist() == pipe.predict(frame).tolist()


def test_columns_by_number_mask_and_slice(tmp_path: Path) -> None:
    mask = [False, False, False, True, False]
    parts = [
        ("few", StandardScaler(), [0, 1]),
        ("one", PolynomialFeatures(2), slice(2, 3)),
        ("rest", "passthrough", mask),
    ]
    pipe = make_pipeline(ColumnTransformer(parts), FunctionTransformer(), SMLR()).fit(X, TWO)
    assert isinstance(same_after(pipe, NEW, tmp_path)[0].transformers[1][2], slice)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_calibrated_classifiers(method: str, ensemble: bool, tmp_path: Path) -> None:
    model = CalibratedClassifierCV(SMLR(), method=method, cv=3, ensemble=ensemble).fit(X, TWO)
    same_after(model, NEW, tmp_path)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    same_after(
        CalibratedClassifierCV(FrozenEstimator(SMLR().fit(X, three)), method=method).fit(X, three), NEW, tmp_path
    )


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_votes(voting: str, tmp_path: Path) -> None:
    members = [("sparse", SMLR()), ("kernel", IVM(max_points=8)), ("none", "drop")]
    model = VotingClassifier(members, voting=voting, weights=[2.0, 1.0, 1.0]).fit(X, TWO)
    again = same_after(model, NEW, tmp_path)
    assert again.named_estimators_.sparse.alpha == 1.0


def test_features_selected_by_one_model_for_another(tmp_path: Path) -> None:
    pipe = make_pipeline(StandardScaler(), SelectFromModel(SMLR(3.0), threshold=1e-5), IVM(max_points=8)).fit(X, TWO)
    again = same_after(pipe, NEW, tmp_path)
    assert again[1].get_support().tolist() == pipe[1].get_support().tolist()


def test_a_grid_search_is_stored_as_its_best_estimator_and_says_so(tmp_path: Path) -> None:
    search = GridSearchCV(make_pipeline(StandardScaler(), SMLR()), {"smlr__alpha": [0.3, 3.0]}, cv=3).fit(X, TWO)
    with pytest.warns(UserWarning, match="does not hold a GridSearchCV but its best estimator"):
        again = same_after(search, NEW, tmp_path)
    assert isinstance(again, Pipeline)
    assert again[-1].alpha == search.best_params_["smlr__alpha"]


def test_a_search_without_a_model_is_refused() -> None:
    search = GridSearchCV(SMLR(), {"alpha": [0.3, 3.0]}, cv=3, refit=False).fit(X, TWO)
    with pytest.raises(ModelFileError, match="refit=True"):
        model_bytes(Pipeline([("search", search)]))


def test_a_tuned_threshold_is_stored_as_the_threshold_found(tmp_path: Path) -> None:
    model = TunedThresholdClassifierCV(SMLR(), scoring="balanced_accuracy", cv=3).fit(X, TWO)
    with pytest.warns(UserWarning, match="a FixedThresholdClassifier with the threshold found"):
        again = same_after(model, NEW, tmp_path)
    assert again.threshold == model.best_threshold_
    assert (again.predict(NEW) != again.estimator.predict(NEW)).any()  # the threshold is not 1/2 here


def test_searches_inside_others(tmp_path: Path) -> None:
    inner = GridSearchCV(SMLR(), {"alpha": [0.3, 3.0]}, cv=3)
    model = CalibratedClassifierCV(inner, cv=2).fit(X, TWO)
    with pytest.warns(UserWarning, match="best estimator"):
        again = same_after(model, NEW, tmp_path)
    assert again.estimator.param_grid == {"alpha": [0.3, 3.0]}  # the search yet to be done is kept as it is


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (make_pipeline(FunctionTransformer(np.abs), SMLR()), "ufunc"),
        (
            make_pipeline(
                ColumnTransformer([("a", StandardScaler(), make_column_selector("x"))], remainder="drop"), SMLR()
            ),
            "",
        ),
        (VotingClassifier([("sparse", SMLR()), ("forest", RandomForestClassifier(3, random_state=0))]), "RandomForest"),
        (
            make_pipeline(OneHotEncoder(dtype=np.complex64, sparse_output=False), FunctionTransformer(), SMLR()),
            "complex64",
        ),
    ],
    ids=["function", "selector", "forest", "dtype"],
)
def test_unknown_types_are_refused_with_a_sentence(model: Any, named: str) -> None:
    rows: Any = pd.DataFrame(X, columns=list("xyzuv"))
    if named == "complex64":
        model, rows = OneHotEncoder(dtype=np.complex64), rows.round()
    model.fit(rows, TWO)
    with pytest.raises(ModelFileError, match=f"{named}.*which a model file cannot hold"):
        model_bytes(model)


def rewritten(content: bytes, old: str, new: str) -> io.BytesIO:
    """Return a file whose model.json says something else, checksums in order."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            data = source.read(name)
            if name == "model.json":
                assert old in data.decode()
                data = text = data.decode().replace(old, new, 1).encode()
            elif name == "sha256":
                data = hashlib.sha256(text).hexdigest().encode()
            archive.writestr(zipfile.ZipInfo(name), data)
    target.seek(0)
    return target


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"type":"float64"}', '{"type":"eval"}'),
        ('{"type":"float64"}', '{"type":["float64"]}'),
        ('{"slice":[0,', '{"slice":["0",'),
        ('{"objects":["a","b",{"float":"nan"}]}', '{"objects":["a",{"dict":[]},{"float":"nan"}]}'),
        ('{"objects":["a","b",{"float":"nan"}]}', '{"objects":["a",2305843009213693951]}'),
    ],
)
def test_hostile_values_of_the_new_kinds_are_refused(old: str, new: str) -> None:
    frame = table(N, 1)
    parts = [("kind", OneHotEncoder(handle_unknown="ignore"), ["kind"]), ("age", StandardScaler(), ["age"])]
    content = model_bytes(ColumnTransformer(parts).fit(frame))
    assert json.loads(zipfile.ZipFile(io.BytesIO(content)).read("model.json"))["version"] == 1
    with pytest.raises(ModelFileError):
        load(rewritten(content, old, new))


def test_nothing_is_said_about_models_that_are_stored_whole(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(make_pipeline(StandardScaler(), SMLR()).fit(X, TWO), tmp_path / "m.smaller")
