"""Estimators on rows that are elsewhere: the answers of the same rows in memory, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.rows.fakes import Strict

from smaller import KLR, RMLR, SBMLR, SMLR, SMLRCV, SparseProbit, alpha_max, smlr_path
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.rows import Fold, HostRows, from_files

N, D = 900, 15
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
X[:, 3], X[:, 4] = 1.0, X[:, 4] + 1e7  # a constant column, and one far from zero
LABELS = np.array(["low", "middle", "high"])[(X[:, :3] + 0.7 * RNG.normal(size=(N, 3))).argmax(axis=1)]
WEIGHT = RNG.integers(0, 4, N).astype(float)
NAMES = [f"f{j}" for j in range(D)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    here = tmp_path_factory.mktemp("rows")
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        np.savez(here / f"{k}.npz", X=X[part], y=LABELS[part], c=WEIGHT[part])
    return here


def files(folder: Path, **options: Any) -> Any:
    return from_files(f"{folder}/*.npz", **({"target": "y", "weight": "c", "block_mb": 0.02} | options))


MODELS = {
    "smlr": SMLR(alpha=5.0),
    "share": SMLR(alpha=0.1, alpha_scale="max"),
    "mixed": SMLR(alpha=5.0, l1_ratio=0.5, class_weight={"low": 1.0, "middle": 2.0, "high": 3.0}),
    "balanced": SMLR(alpha=5.0, class_weight="balanced"),
    "reference": SMLR(alpha=5.0, coding="reference", class_weight="balanced"),
    "factors": SMLR(alpha=5.0, penalty_factors=np.r_[0.0, 0.0, np.ones(D - 2)]),
    "excluded": SMLR(alpha=5.0, exclude=[1, 7]),
    "origin": SMLR(alpha=5.0, fit_intercept=False, exclude=[3, 4]),
    "ridge": RMLR(alpha=2.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_files_give_the_model_of_the_same_rows_in_memory(name: str, folder: Path) -> None:
    from sklearn.base import clone

    model, there = clone(MODELS[name]), clone(MODELS[name])
    model.fit(X, LABELS, WEIGHT)
    there.fit(files(folder))
    assert there.solution_.converged
    assert list(there.classes_) == list(model.classes_)
    tolerance = 2e-6 * model.solution_.scale
    assert there.solution_.objective == pytest.approx(model.solution_.objective, abs=tolerance)
    assert np.abs(there.coef_ - model.coef_).max() <= 1e-3
    assert np.array_equal(there.predict(X), model.predict(X))


@pytest.mark.parametrize("two", [False, True], ids=["three classes", "two"])
def test_the_class_weights_of_rows_are_those_of_arrays(two: bool) -> None:
    labels = np.where(LABELS == "low", "low", "other") if two else LABELS
    classes, codes = np.unique(labels, return_inverse=True)
    likelihood = Multinomial(len(classes))
    rows = HostRows(as_design(X), likelihood.encode(codes), None, likelihood, labels=classes)
    model = SMLR(alpha=5.0, class_weight="balanced", tol=1e-9).fit(X, labels)
    there = SMLR(alpha=5.0, class_weight="balanced", tol=1e-9).fit(Strict(rows))
    assert np.abs(there.coef_ - model.coef_).max() <= 1e-5


def test_the_path_of_files_is_that_of_the_same_rows_in_memory(folder: Path) -> None:
    assert alpha_max(files(folder)) == pytest.approx(alpha_max(X, LABELS, sample_weight=WEIGHT), rel=1e-12)
    path = smlr_path(X, LABELS, sample_weight=WEIGHT, alphas=12, eps=0.05)
    there = smlr_path(files(folder), alphas=12, eps=0.05)
    assert there.converged
    assert there.null_loss == pytest.approx(path.null_loss, rel=1e-12)
    assert np.allclose(there.alphas, path.alphas, rtol=1e-12)
    assert np.abs(there.objectives - path.objectives).max() <= 2e-6 * path.null_loss
    assert (there.gaps <= 1e-6 * path.null_loss).all()
    capped = smlr_path(files(folder), alphas=12, eps=0.05, max_features=3)
    assert len(capped.alphas) == np.count_nonzero(path.n_active <= 3)
    with pytest.raises(ValueError, match="max_features=0, but the largest alpha"):
        smlr_path(files(folder), alphas=[1.0], max_features=0)


def test_folds_are_judged_on_the_rows_they_leave_out(folder: Path) -> None:
    from scipy.special import log_softmax

    alphas = [30.0, 10.0, 3.0]
    model = SMLRCV(alphas=alphas, cv=3, random_state=1).fit(files(folder))
    codes = np.searchsorted(model.classes_, LABELS)
    for i in range(3):
        out = Fold(i, 3, 1, outside=False).member(np.arange(N))
        path = smlr_path(X[~out], LABELS[~out], sample_weight=WEIGHT[~out], alphas=alphas)
        for k in range(3):
            log_proba = log_softmax(X[out] @ path.coefs[k].T + path.intercepts[k], axis=1)
            score = np.average(log_proba[np.arange(out.sum()), codes[out]], weights=WEIGHT[out])
            assert model.scores_[i, k] == pytest.approx(score, abs=1e-4)
    assert model.alpha_ == alphas[int(model.scores_.mean(axis=0).argmax())]
    assert model.solution_.converged
    several = SMLRCV(alphas=10, cv=3, l1_ratio=[1.0, 0.5], max_features=6, rule="1se").fit(files(folder))
    assert several.scores_.shape == (3, 2, 10)
    assert len(several.active_features_) <= 6


def test_the_strength_of_files_by_evidence_is_that_of_the_same_rows_in_memory(folder: Path) -> None:
    model, there = SBMLR().fit(X, LABELS, WEIGHT), SBMLR().fit(files(folder))
    assert there.solution_.status is model.solution_.status
    assert there.n_active_ == model.n_active_
    assert there.alpha_ == pytest.approx(model.alpha_, rel=2e-4)
    assert there.log_evidence_ == pytest.approx(model.log_evidence_, abs=1e-2)
    assert np.abs(there.coef_ - model.coef_).max() <= 1e-3


@pytest.mark.parametrize("two", [False, True], ids=["three classes", "two"])
def test_kernel_columns_of_files_are_those_of_their_centres(two: bool, folder: Path) -> None:
    labels = np.where(LABELS == "low", "low", "other") if two else LABELS
    rows = files(folder, target=labels)
    for model in (SMLR(alpha=0.5, tol=1e-8), RMLR(alpha=0.5, tol=1e-8)):
        model.set_params(kernel="rbf", gamma=0.1, n_centers=40, random_state=1).fit(rows)
        assert model.solution_.converged
        assert np.array_equal(model.support_vectors_, X[model.support_])
        columns = model._basis_.kernel(X, model.support_vectors_)
        same = type(model)(alpha=0.5, tol=1e-8).fit(columns, labels, WEIGHT)  # centres without a weight change nothing
        assert same.solution_.objective == pytest.approx(model.solution_.objective, rel=1e-6)
        assert np.allclose(same.predict_proba(columns), model.predict_proba(X), atol=1e-3)
        proba = np.concatenate(list(model.predict_proba(files(folder, target=None))))
        assert np.allclose(proba, model.predict_proba(X), atol=1e-12)


def test_kernel_logistic_regression_of_files_has_the_norm_of_its_functions(folder: Path) -> None:
    model = KLR(alpha=0.5, gamma=0.1, n_centers=40, random_state=1, tol=1e-9).fit(files(folder))
    assert model.solution_.converged
    assert len(model.support_) == 40
    K = model._basis_.kernel(model.support_vectors_, model.support_vectors_)
    penalty = 0.25 * np.einsum("kj,ji,ki->", model.dual_coef_, K, model.dual_coef_)  # alpha/2 |f|_K^2
    log_proba = model.predict_log_proba(X)
    loss = -np.sum(WEIGHT * log_proba[np.arange(N), np.searchsorted(model.classes_, LABELS)])
    assert model.solution_.objective == pytest.approx(loss + penalty, rel=1e-8)
    worse = loss + penalty
    for scale in (0.99, 1.01):  # it is the minimum in its own scale
        eta = scale * (model.decision_function(X) - model.intercept_) + model.intercept_
        proba = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
        moved = -np.sum(WEIGHT * np.log(proba[np.arange(N), np.searchsorted(model.classes_, LABELS)]))
        assert moved + scale**2 * penalty > worse


def test_predictions_of_files_come_block_by_block(folder: Path) -> None:
    model = SMLR(alpha=5.0).fit(files(folder))
    for method in ("predict_proba", "predict_log_proba", "decision_function", "predict"):
        blocks = list(getattr(model, method)(files(folder, target=None)))
        assert len(blocks) > 3
        assert np.array_equal(np.concatenate(blocks), getattr(model, method)(X))


def test_a_warm_start_begins_where_the_last_fit_ended(folder: Path) -> None:
    model = SMLR(alpha=5.0, warm_start=True).fit(files(folder))
    assert model.fit(files(folder)).n_iter_ <= 1


def test_dask_collections_are_fitted_and_answered_where_they_are() -> None:
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    whole, labels = da.from_array(X, chunks=(250, -1)), da.from_array(LABELS, chunks=200)
    model = SMLR(alpha=5.0).fit(whole, labels, da.from_array(WEIGHT, chunks=-1))
    local = SMLR(alpha=5.0).fit(X, LABELS, WEIGHT)
    assert np.abs(model.coef_ - local.coef_).max() <= 1e-3
    proba = model.predict_proba(whole.rechunk((250, 4)))  # columns are put together again
    assert proba.chunks == (whole.chunks[0], (3,))
    assert np.array_equal(proba.compute(), model.predict_proba(X))
    assert np.array_equal(model.predict(whole).compute(), model.predict(X))
    entries = whole.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))
    assert np.allclose(model.predict_proba(entries).compute(), model.predict_proba(X), atol=1e-8)

    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3)
    target = dd.from_pandas(pd.Series(LABELS), npartitions=3)
    model = SMLR(alpha=5.0).fit(frame, target)
    assert list(model.feature_names_in_) == NAMES
    assert np.array_equal(model.predict_proba(frame).compute(), model.predict_proba(pd.DataFrame(X, columns=NAMES)))
    nothing = frame[frame["f0"] > 1.0]  # partitions of unknown size, perhaps empty
    assert np.array_equal(model.predict(nothing).compute(), model.predict(pd.DataFrame(X, columns=NAMES))[X[:, 0] > 1])
    with pytest.raises(ValueError, match="Column 0 of X is 'f1'"):
        model.predict(frame[["f1", "f0", *NAMES[2:]]])


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (SMLR(solver="proximal"), r"solver='proximal'\) needs arrays in memory"),
        (SMLR(kernel="rbf"), "needs n_centers"),
        (SMLR(kernel="precomputed", n_centers=3), r"kernel='precomputed'\) needs arrays in memory"),
        (SMLR(kernel="rbf", n_centers=3, penalty_factors=np.ones(D)), "penalty_factors belong to features"),
        (SMLRCV(kernel="rbf"), r"kernel='rbf'\) needs arrays in memory"),
        (KLR(), "needs n_centers"),
        (KLR(n_centers=5, centers="kmeans"), r"centers='kmeans'\) needs arrays in memory"),
        (KLR(n_centers=5, gamma="cv"), r"gamma='cv'\) needs arrays in memory"),
        (SMLR(posterior=True), r"posterior=True\) needs arrays in memory"),
        (SMLR(penalize_intercept=True), r"penalize_intercept=True\) needs arrays in memory"),
        (SMLR(penalty="grouped"), "penalties of single weights without limits"),
        (SMLR(class_weight={"low": 0.0}), "finite values > 0"),
        (SBMLR(mode="greedy"), r"mode='greedy'\) needs arrays in memory"),
        (SBMLR(relax=True), r"relax=True\) needs arrays in memory"),
        (SMLRCV(scoring="accuracy"), r"scoring='accuracy'\) needs arrays in memory"),
        (SMLRCV(cv=[([0], [1])]), "cv must be a number for rows"),
        (SMLRCV(cv=900), "drawn by lot"),
        (SparseProbit(), "needs arrays in memory"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_needs_the_matrix_is_refused_by_a_sentence(model: Any, sentence: str, folder: Path) -> None:
    before = dict(vars(model))
    with pytest.raises((TypeError, ValueError), match=sentence):
        model.fit(files(folder))
    assert vars(model) == before


def test_nothing_of_an_earlier_fit_in_memory_is_left(folder: Path) -> None:
    model = SMLR(alpha=5.0, posterior=True).fit(X, LABELS, WEIGHT)
    model.probability_interval(X[:2])
    model.set_params(posterior=False).fit(files(folder))
    with pytest.raises(AttributeError, match="has kept no posterior"):
        model.probability_interval(X[:2])
    kernel = KLR(alpha="evidence", gamma=0.1).fit(X[:60], LABELS[:60])
    assert kernel.log_evidence_ < 0.0
    kernel.set_params(alpha=0.5, gamma="scale", n_centers=20).fit(files(folder))
    assert not hasattr(kernel, "log_evidence_")
    rows = np.repeat(X, WEIGHT.astype(int), axis=0)
    assert kernel.gamma_ == pytest.approx(1.0 / (D * rows.var()), rel=1e-6)


def test_labels_come_with_the_rows(folder: Path) -> None:
    with pytest.raises(TypeError, match="hold their labels"):
        SMLR().fit(files(folder), LABELS)
    with pytest.raises(ValueError, match="not told where the labels are"):
        SMLR().fit(files(folder, target=None))
    with pytest.raises(ValueError, match="'none' has a positive weight"):
        SMLR().fit(files(folder, classes=["high", "low", "middle", "none"]))
    model = SMLR(alpha=5.0).fit(files(folder))
    with pytest.raises(ValueError, match="14 features"):
        model.predict(from_files(f"{folder}/*.npz", columns=range(D - 1)))
