"""probability_interval on every estimator that offers it, and the sentences of those that do not."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import scale

from smaller import IVM, JCFO, KLR, SBMLR, SMLR, SMLRCV, SparseProbit
from smaller.estimators.intervals import notes_on_ranges
from smaller.persistence import load, save

Array = Any

X3, Y3 = load_wine(return_X_y=True)
X3 = scale(X3)
X2, Y2 = X3[Y3 < 2], Y3[Y3 < 2]

SPARSE_MODELS = [
    SMLR(alpha=3.0, posterior=True),
    SMLRCV(alphas=12, posterior=True),
    SBMLR(posterior=True),
    SBMLR(posterior=True, relax=True),
    SMLRCV(alphas=12, posterior=True, relax=True),
    SparseProbit(posterior=True),
    SMLR(alpha=3.0, kernel="rbf", gamma=0.02, posterior=True),
    SBMLR(penalty_factors=np.r_[0.0, 2.0, np.ones(11)], posterior=True),
    SMLR(alpha=3.0, penalize_intercept=True, coding="reference", posterior=True),
]
KERNEL_MODELS = [KLR(posterior=True, gamma=0.02), IVM(posterior=True, gamma=0.02)]
MODELS = SPARSE_MODELS + KERNEL_MODELS


def name_of(model: Any) -> str:
    return str(model).replace("\n", "")


def fresh(model: Any, **settings: Any) -> Any:
    return type(model)(**(model.get_params() | settings))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_ranges_hold_the_probability_and_widen_with_the_level(model: Any, K: int) -> None:
    X, y = (X2, Y2) if K == 2 else (X3, Y3)
    model = fresh(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the smallest alpha of twelve, a class without features
        model.fit(X, y)
    P = model.predict_proba(X)
    low, high = model.probability_interval(X)
    wider = model.probability_interval(X, 0.99)
    assert low.shape == high.shape == P.shape
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (low <= P + 1e-12).all()
    assert (high >= P - 1e-12).all()
    assert (wider[0] <= low).all()
    assert (wider[1] >= high).all()
    if K == 2:
        assert_allclose(low[:, 0], 1.0 - high[:, 1], atol=1e-12)


@pytest.mark.parametrize("model", [model for model in MODELS if model.kernel != "precomputed"], ids=name_of)
def test_sparse_rows_and_model_files_give_the_same_ranges(model: Any, tmp_path: Path) -> None:
    model = fresh(model, tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X2, Y2)
        thin = fresh(model).fit(sparse.csr_array(X2), Y2)
    expected = model.probability_interval(X2)
    assert_allclose(thin.probability_interval(sparse.csc_array(X2)), expected, atol=1e-4)
    save(model, tmp_path / "m.smaller")
    assert_array_equal(load(tmp_path / "m.smaller").probability_interval(X2), expected)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_without_posterior_there_is_none_and_the_sentence_names_it(model: Any) -> None:
    model = fresh(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X2, Y2).set_params(posterior=False).fit(X2, Y2)
    with pytest.raises(AttributeError, match="fit it with posterior=True"):
        model.probability_interval(X2)
    with pytest.raises(AttributeError, match="posterior=True"):
        _ = model.reach_


def test_posterior_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="posterior must be True or False"):
        SMLR(posterior="yes").fit(X2, Y2)


def test_weights_are_repetitions() -> None:
    c = np.random.default_rng(0).integers(0, 3, len(Y2))
    once = SMLR(alpha=3.0, posterior=True, tol=1e-12).fit(X2, Y2, c)
    often = SMLR(alpha=3.0, posterior=True, tol=1e-12).fit(np.repeat(X2, c, axis=0), np.repeat(Y2, c))
    assert_allclose(once.probability_interval(X2), often.probability_interval(X2), atol=1e-6)
    assert once.reach_ == pytest.approx(often.reach_, rel=1e-5)


def test_class_weights_change_the_rows_weights() -> None:
    balanced = SMLR(alpha=3.0, class_weight={0: 2.0, 1: 1.0}, posterior=True, tol=1e-12).fit(X2, Y2)
    weighted = SMLR(alpha=3.0, posterior=True, tol=1e-12).fit(X2, Y2, np.where(Y2 == 0, 2.0, 1.0))
    assert_allclose(balanced.probability_interval(X2), weighted.probability_interval(X2), atol=1e-9)


def test_extreme_units_change_nothing() -> None:
    units = np.ones(X2.shape[1])
    units[6] = 2.0**-300
    model = SMLR(alpha=3.0, posterior=True, tol=1e-12, penalty_factors=1.0 / units).fit(X2 / units, Y2)
    plain = SMLR(alpha=3.0, posterior=True, tol=1e-12).fit(X2, Y2)
    if (plain.coef_ != 0)[0, 6]:
        assert (model.coef_ != 0)[0, 6]
    assert_allclose(model.probability_interval(X2 / units), plain.probability_interval(X2), atol=1e-6)


def test_a_blend_lies_in_the_hull_and_can_only_widen_it() -> None:
    plain, relaxed = (SBMLR(posterior=True, relax=relax).fit(X2, Y2) for relax in (False, True))
    (low, high), (low_too, high_too) = plain.probability_interval(X2), relaxed.probability_interval(X2)
    assert (low_too <= low + 1e-12).all()
    assert (high_too >= high - 1e-12).all()
    assert (low_too <= relaxed.predict_proba(X2)).all()


def noise(n: int, p: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.permutation(np.arange(n) % 2)


def test_an_empty_support_has_the_range_of_its_intercept() -> None:
    X, y = noise(400, 3)
    model = SMLR(alpha=1e4, posterior=True).fit(X, y)
    low, high = model.probability_interval(X[:5])
    s = 1.0 / np.sqrt(400 * 0.25)
    assert_allclose(high[:, 1], special.expit(1.6448536269514722 * s), rtol=1e-6)
    assert_allclose(low + high, 1.0)
    without = SMLR(alpha=1e4, fit_intercept=False, posterior=True).fit(X, y)
    assert without.reach_ == np.inf
    with pytest.warns(UserWarning, match="every range is 0 to 1"):
        without.probability_interval(X)


def test_beyond_its_reach_every_range_is_0_to_1_with_one_warning() -> None:
    X, y = noise(30, 2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SBMLR(posterior=True).fit(X, y)
    with pytest.warns(UserWarning, match="every range is 0 to 1") as caught:
        low, high = model.probability_interval(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (low == 0).all()
    assert (high == 1).all()
    if model.solution_.status.name == "NO_FIXED_POINT":
        assert "no strength of the penalty is self-consistent" in str(caught[0].message)
    assert notes_on_ranges(model) == (
        "There are too few samples for so many features to say how sure a single probability is. The error rate above "
        "was measured and stays valid.",
    )


def test_dependent_columns_have_no_ranges_and_one_warning() -> None:
    X = np.column_stack([X2, X2[:, 6]])
    model = SMLR(alpha=0.5, l1_ratio=0.5, posterior=True).fit(X, Y2)
    with pytest.warns(UserWarning, match="depend on each other"):
        low, high = model.probability_interval(X)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_a_separable_support_is_covered_by_the_penalty() -> None:
    X = np.r_[np.linspace(-2, -1, 30), np.linspace(1, 2, 30)][:, None]
    model = SMLR(alpha=0.1, posterior=True).fit(X, (X[:, 0] > 0).astype(int))
    low, high = model.probability_interval(X)
    assert np.isfinite(low).all()
    assert (high[:, 1] - low[:, 1]).max() > 0.01


# --- kernel logistic regression as a Gaussian process ---


def two_moons(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def test_the_variance_is_that_of_scikit_learns_gaussian_process() -> None:
    X, y = two_moons(60)
    X_new = np.random.default_rng(1).uniform(-4, 4, size=(40, 2))
    alpha, gamma = 0.7, 0.5
    model = KLR(alpha=alpha, gamma=gamma, fit_intercept=False, posterior=True, tol=1e-14).fit(X, y)
    kernel = ConstantKernel(1.0 / alpha) * RBF(1.0 / np.sqrt(2.0 * gamma))
    process = GaussianProcessClassifier(kernel, optimizer=None, max_iter_predict=1000).fit(X, y)
    mean, variance = process.latent_mean_and_variance(X_new)
    eta = model.decision_function(X_new)
    s = model._posterior.standard_errors(X_new, eta[:, None])
    assert_allclose(eta, mean, atol=1e-6)
    assert_allclose(s[:, 1] ** 2, variance, atol=1e-8, rtol=1e-8)
    assert_allclose(model.averaged_proba(X_new), process.predict_proba(X_new), atol=0.004)


def test_far_from_the_data_the_range_of_a_kernel_model_is_wide() -> None:
    X, y = two_moons(80)
    far = np.array([[50.0, 50.0]])
    for model in (KLR(gamma=0.5, alpha=0.1, posterior=True), IVM(gamma=0.5, alpha=0.1, posterior=True)):
        low, high = model.fit(X, y).probability_interval(far)
        assert (high - low > 0.9).all()
        assert np.abs(model.averaged_proba(X) - 0.5).sum() < np.abs(model.predict_proba(X) - 0.5).sum()


def test_averages_over_three_functions_are_those_of_many_draws() -> None:
    model = KLR(alpha=0.5, gamma=0.05, posterior=True).fit(X3[::3], Y3[::3])
    X_new = 1.5 * X3[1::9]
    eta = model.decision_function(X_new)
    kept = model._posterior
    P = model.averaged_proba(X_new)
    assert_allclose(P.sum(axis=1), 1.0)
    rng = np.random.default_rng(0)
    errors = []
    for rows, phi, rest in kept._parts(X_new):
        covariance = kept._covariance(phi, np.eye(3)[:2] - np.eye(3)[2])
        covariance += rest[:, None, None] * (np.eye(2) + 1.0)
        for i, C in enumerate(covariance):
            drawn = (eta[rows][i][:2] - eta[rows][i][2]) + rng.multivariate_normal(np.zeros(2), C, 40000)
            exact = special.softmax(np.column_stack([drawn, np.zeros(len(drawn))]), axis=1).mean(axis=0)
            errors.append(np.abs(exact - P[rows][i]).max())
    assert np.mean(errors) < 0.004
    assert max(errors) < 0.011


def test_what_a_kernel_model_cannot_offer_is_refused() -> None:
    X, y = two_moons(30)
    with pytest.raises(ValueError, match="kernel='precomputed' does not give"):
        KLR(kernel="precomputed", posterior=True).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="more than memory_limit"):
        KLR(posterior=True, memory_limit=8 * 30 * 30).fit(np.vstack([X, X + 0.1])[:30], np.arange(30) % 3)
    model = KLR(posterior=True).fit(X, y)
    with pytest.raises(AttributeError, match="has no reach_"):
        _ = model.reach_
    with pytest.raises(AttributeError, match="posterior=True"):
        KLR().fit(X, y).averaged_proba(X)
    with pytest.raises(AttributeError, match="JCFO offers no probability_interval"):
        JCFO().probability_interval(X)


# --- what may be said ---

SHOWS = "The range shows how far the number of samples leaves the weights of the chosen features open."
SECOND = (
    "It takes the choice of features as given. For the most clear-cut cases it is too narrow: in simulations it held "
    "the truth in 60 to 85 of 100 of them, not in 90."
)


def test_the_sentences_follow_reach_rows_and_classes() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = SMLR(alpha=2.0, posterior=True).fit(scale(X), y)
    kept = dataclasses.replace(model._posterior, reach=1.4)
    model._posterior = kept
    assert notes_on_ranges(model) == (SHOWS,)
    for changed in ({"reach": 1.5}, {"reach": 3.9}, {"n_rows": 399}):
        model._posterior = dataclasses.replace(kept, **changed)
        assert notes_on_ranges(model) == (SHOWS, SECOND)
        assert "ranges meant for 90 of 100" in notes_on_ranges(model, 0.5)[1]
    model._posterior = dataclasses.replace(kept, reach=float("nan"))
    assert "too few samples" in notes_on_ranges(model)[0]
    three = SMLR(alpha=2.0, posterior=True).fit(np.repeat(X3, 3, axis=0), np.repeat(Y3, 3))
    assert len(notes_on_ranges(three)) == 2
    probit = SparseProbit(posterior=True).fit(scale(X), y)
    assert notes_on_ranges(probit) == (SHOWS, SECOND)
    centres = SMLR(alpha=3.0, kernel="rbf", gamma=0.02, posterior=True).fit(X2, Y2)
    assert "chosen kernel centres" in notes_on_ranges(centres)[0]
    assert "its kernel and alpha as given" in notes_on_ranges(KLR(posterior=True).fit(X2, Y2))[0]
