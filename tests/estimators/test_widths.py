"""``gamma="cv"`` and ``"evidence"``: what they choose is what they say, recomputed from scratch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from smaller import IVM, KLR, RVC, RVR, SBMLR, SMLR, SparseProbit, SparseRegressor
from smaller.datasets import make_sinc
from smaller.estimators import widths
from smaller.estimators.widths import choose_width
from smaller.kernels import RBF
from smaller.searches.function_evidence import log_evidence
from smaller.validation import Responses

Array = Any


def wavy(n: int = 90, classes: int = 2, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    above = X[:, 1] - np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=n)
    return X, np.array(["a", "b", "c"])[np.digitize(above, [0.0] if classes == 2 else [-0.8, 0.8])]


def folds(y: Array) -> Any:
    seed = check_random_state(0).randint(2**31 - 1)
    return StratifiedKFold(5, shuffle=True, random_state=seed).split(y, y)


MODELS = [
    KLR(0.1),
    IVM(0.1),
    RVC(),
    SparseProbit(kernel="rbf"),
    SBMLR(kernel="rbf"),
    KLR(0.1, n_centers=20, centers="kmeans", random_state=0),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_width_chosen_is_the_likeliest_for_rows_left_out(model: Any, classes: int) -> None:
    X, y = wavy(classes=classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        chosen = clone(model).set_params(gamma="cv").fit(X, y)
        scores = [
            [
                -_loss(clone(model).set_params(gamma=gamma).fit(X[train], y[train]), X[test], y[test])
                for train, test in folds(y)
            ]
            for gamma in chosen.gammas_[::3]
        ]
        plain = clone(model).set_params(gamma=chosen.gamma_).fit(X, y)
    assert_allclose(chosen.gamma_scores_[::3], scores, rtol=1e-6, atol=1e-9)
    assert len(chosen.gammas_) in (7, 8)
    sizes = np.array([len(test) for _, test in folds(y)])
    means = chosen.gamma_scores_ @ sizes / len(y)
    assert chosen.gamma_ == chosen.gammas_[means.argmax()]
    assert_array_equal(chosen.predict_proba(X), plain.predict_proba(X))
    assert plain.gamma_ == chosen.gamma_
    assert not hasattr(plain, "gammas_")


def _loss(model: Any, X: Array, y: Array) -> float:
    return float(log_loss(y, model.predict_proba(X), labels=model.classes_))


@pytest.mark.parametrize("kind", [RVR(), SparseRegressor(kernel="rbf")], ids=lambda model: type(model).__name__)
def test_a_regression_scores_by_the_density_of_new_responses(kind: Any) -> None:
    X, y = make_sinc(60, random_state=1)
    model = clone(kind).set_params(gamma="cv", random_state=3).fit(X, y)
    assert model.gamma_ in model.gammas_
    assert model.score(X, y) > 0.9
    plain = clone(kind).set_params(gamma=float(model.gammas_[2])).fit(X[:40], y[:40])
    mean, deviation = plain.predict(X[40:], return_std=True)
    assert_allclose(widths.log_likelihoods(plain, X[40:], y[40:]), norm.logpdf(y[40:], mean, deviation))


@pytest.mark.parametrize(("sign", "end"), [(1, "narrowest"), (-1, "widest")])
def test_an_end_of_the_grid_is_extended_once_and_then_named(
    sign: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widths, "_score", lambda model, data, gamma, train, test: sign * np.log(gamma))
    X, y = wavy(40)
    with pytest.warns(UserWarning, match=f"KLR chose the {end} kernel that gamma='cv' tries") as caught:
        model = KLR(gamma="cv").fit(X, y)
    assert caught[0].filename == __file__
    assert_allclose(np.diff(np.log2(model.gammas_)), 1.5)
    assert len(model.gammas_) == 8
    assert model.gamma_ == model.gammas_[-1 if sign == 1 else 0]
    monkeypatch.setattr(widths, "_score", lambda model, data, gamma, train, test: 1e-6 * sign * np.log(gamma))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KLR(gamma="cv").fit(X, y)  # what gains next to nothing is not worth a word


def test_rows_without_weight_take_no_part() -> None:
    X, y = wavy(60)
    more = np.vstack([X, 50 + X[:20]]), np.append(y, y[:20])
    weight = np.repeat([1.0, 0.0], [60, 20])
    unit = KLR(gamma="cv").fit(X, y)
    weighted = KLR(gamma="cv").fit(*more, sample_weight=weight)
    assert_allclose(weighted.gammas_, unit.gammas_, rtol=1e-12)
    assert weighted.gamma_scores_.shape[1] == 5


def test_cost_is_at_most_forty_fits_before_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = widths._score
    monkeypatch.setattr(widths, "_score", lambda *args: calls.append(1) or real(*args))
    X, y = make_sinc(40, random_state=0)
    choose_width(RVR(gamma="cv"), Responses(X, y, None))
    assert len(calls) in (35, 40)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KLR(gamma="cv", kernel="linear"), "gamma='cv' chooses the width of a kernel"),
        (RVC(gamma="cv", kernel="linear"), "gamma='cv' chooses the width of a kernel"),
        (SMLR(gamma="cv", kernel="rbf"), "gamma must be a finite number"),
        (KLR(gamma="evidence"), "gamma='evidence' needs alpha='evidence'"),
        (KLR("evidence", gamma="evidence", kernel="linear"), "gamma='evidence' chooses the width of a kernel"),
        (KLR("cv"), "alpha must be"),
        (IVM("evidence"), "alpha must be"),
        (IVM(alphas=3, scoring="accuracy"), "scoring must be"),
    ],
    ids=repr,
)
def test_what_cannot_be_chosen_is_named(model: Any, message: str) -> None:
    X, y = wavy(40)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    with pytest.raises(ValueError, match="no offset"):
        SBMLR(kernel="rbf", gamma="cv").fit(X, y, offset=np.arange(40.0))
    with pytest.raises(ValueError, match="two rows of every class"):
        KLR(gamma="cv").fit(X[:4], [0, 1, 1, 1])


# --- evidence ---


@pytest.mark.parametrize("classes", [2, 3])
def test_evidence_chooses_strength_and_width(classes: int) -> None:
    X, y = wavy(70, classes)
    model = KLR("evidence", gamma="evidence").fit(X, y)
    plain = KLR(model.alpha_, gamma=model.gamma_).fit(X, y)
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))

    def evidence(alpha: float, gamma: float) -> float:
        at = KLR(alpha, gamma=gamma)
        data = _checked(X, y)
        return log_evidence(at._fitted(data, at._whitened(data, *at._basis(data))[2], alpha))

    here = evidence(model.alpha_, model.gamma_)
    assert model.log_evidence_ == pytest.approx(here, rel=1e-10)
    assert here >= evidence(1.0, KLR().fit(X, y).gamma_)
    for factor in (10**-0.5, 10**0.5):
        assert evidence(model.alpha_ * factor, model.gamma_) <= here
    for factor in (0.5, 2.0):
        assert evidence(model.alpha_, model.gamma_ * factor) <= here


def _checked(X: Array, y: Array) -> Any:
    from smaller.validation import TrainingData

    classes, codes = np.unique(y, return_inverse=True)
    return TrainingData(X, codes, None, classes)


def test_evidence_of_the_strength_alone() -> None:
    X, y = wavy(70)
    model = KLR("evidence", gamma=2.0).fit(X, y)
    assert model.gamma_ == 2.0
    assert model.alpha_ != 1.0
    precomputed = KLR("evidence", kernel="precomputed").fit(RBF(2.0)(X, X), y)
    assert precomputed.alpha_ == model.alpha_
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "KLR chose the widest kernel")
        both = KLR("evidence", gamma="cv").fit(X, y)
    assert both.gamma_ in both.gammas_
    assert KLR(3.0).fit(X, y).alpha_ == 3.0


def test_import_points_choose_their_strength_by_log_loss() -> None:
    X, y = wavy(120)
    by_loss, by_errors = (IVM(alphas=9, scoring=how, random_state=0).fit(X, y) for how in ("neg_log_loss", "error"))
    assert_array_equal(by_loss.validation_losses_, by_errors.validation_losses_)
    assert by_loss.alpha_ == by_loss.alphas_[by_loss.validation_losses_.argmin()]
    chosen = list(by_errors.alphas_).index(by_errors.alpha_)
    assert by_errors.validation_errors_[chosen] == by_errors.validation_errors_.min()
