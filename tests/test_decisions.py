"""Decisions from probabilities: the functions, then the meta-estimators built of them."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from smaller.decisions import adjust_priors, decide, error_reject_curve, estimate_priors, expected_loss
from smaller.estimators.decisions import MinimumRiskClassifier, PriorShiftClassifier, RejectOptionClassifier

META = [PriorShiftClassifier, MinimumRiskClassifier, RejectOptionClassifier]
NEW = np.array([0.70, 0.25, 0.05])
MEANS = np.array([-2.0, 0.0, 2.0])


def simplex(n_classes, least=1e-6):
    """Strategy: a probability vector."""
    numbers = arrays(float, n_classes, elements=st.floats(least, 1.0))
    return numbers.map(lambda v: v / v.sum())


@st.composite
def posteriors(draw, max_rows=20):
    """Strategy: a matrix of posteriors and two vectors of priors for it."""
    n, K = draw(st.integers(1, max_rows)), draw(st.integers(2, 5))
    P = draw(arrays(float, (n, K), elements=st.floats(1e-6, 1.0)))
    return P / P.sum(axis=1, keepdims=True), draw(simplex(K, 0.01)), draw(simplex(K, 0.01))


def draw_classes(priors, n=20_000, seed=0):
    """Three overlapping normal classes on a line, with the class probabilities given."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=priors)
    return rng.normal(MEANS[y])[:, None], y


def bayes(X, priors):
    """Exact posteriors of `draw_classes`."""
    density = norm.pdf(X, MEANS) * priors
    return density / density.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def balanced():
    return draw_classes(np.full(3, 1 / 3), seed=1)


@pytest.fixture(scope="module")
def shifted():
    return draw_classes(NEW, seed=2)


# --- priors -----------------------------------------------------------------------------------------------


def log_likelihood(P, old, new):
    return np.log(P @ (new / old)).sum()


@given(posteriors())
def test_equal_priors_change_nothing(drawn):
    P, old, _ = drawn
    Q, priors = adjust_priors(P, old, old)
    assert_allclose(Q, P, rtol=1e-12)
    assert_allclose(priors, old, rtol=1e-12)


@given(posteriors())
def test_adjusted_rows_are_distributions_and_there_is_a_way_back(drawn):
    P, old, new = drawn
    Q, priors = adjust_priors(P, old, new)
    assert_allclose(Q.sum(axis=1), 1, rtol=1e-12)
    assert_allclose(adjust_priors(Q, priors, old)[0], P, rtol=1e-9)


def test_adjusting_bayes_posteriors_is_bayes_under_the_new_priors(shifted):
    X, _ = shifted
    uniform = np.full(3, 1 / 3)
    assert_allclose(adjust_priors(bayes(X, uniform), uniform, NEW)[0], bayes(X, NEW), rtol=1e-10)


@given(posteriors())
@settings(max_examples=50)
def test_em_never_lowers_the_likelihood(drawn):
    P, old, _ = drawn
    steps = [old] + [estimate_priors(P, old, max_iter=m).priors for m in range(1, 8)]
    values = np.array([log_likelihood(P, old, p) for p in steps])
    assert np.all(np.diff(values) >= -1e-12 * (1 + np.abs(values[1:])))


def test_em_finds_the_maximum_of_the_likelihood(shifted):
    X, _ = shifted
    old = np.array([0.2, 0.3, 0.5])
    P = bayes(X[:2000], old)
    estimate = estimate_priors(P, old, tol=1e-12)
    assert estimate.converged
    # Concave over the simplex: at the optimum the slope is 1 for every class of positive prior.
    slope = np.mean((P / old) / (P @ (estimate.priors / old))[:, None], axis=0)
    assert_allclose(slope, 1, atol=1e-6)


@pytest.mark.parametrize("old", [[1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7]])
def test_em_recovers_shifted_priors(shifted, old):
    X, y = shifted
    Q, priors = adjust_priors(bayes(X, np.array(old)), old)
    assert_allclose(priors, NEW, atol=0.01)
    assert_allclose(Q.mean(axis=0), priors, atol=1e-7)  # the fixed point of EM
    assert np.mean(Q.argmax(1) == y) > np.mean(bayes(X, np.array(old)).argmax(1) == y)


@given(posteriors(), st.data())
@settings(max_examples=50)
def test_integer_weights_are_copies(drawn, data):
    P, old, _ = drawn
    copies = data.draw(arrays(int, len(P), elements=st.integers(0, 3)))
    assume(copies.sum() > 0)
    weighted = estimate_priors(P, old, sample_weight=copies, max_iter=50)
    assert_allclose(weighted.priors, estimate_priors(np.repeat(P, copies, 0), old, max_iter=50).priors, atol=1e-10)


def test_a_class_unseen_in_training_is_excluded():
    P = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.0, 1.0, 0.0]])
    old = [0.5, 0.0, 0.5]
    estimate = estimate_priors(P, old)
    assert estimate.priors[1] == 0
    assert_allclose(
        estimate.priors,
        estimate_priors([[5 / 7, 2 / 7], [1 / 9, 8 / 9]], [0.5, 0.5]).priors[[0, 0, 1]] * [1, 0, 1],
    )
    Q, _ = adjust_priors(P, old, [0.2, 0.0, 0.8])
    assert_array_equal(Q[:, 1], 0)
    assert_allclose(Q[2], [0.2, 0.0, 0.8])  # nothing to rescale: the priors are all that is known
    with pytest.raises(ValueError, match=r"new_priors must be 0 where train_priors is 0 \(columns \[1\]\)"):
        adjust_priors(P, old, [0.2, 0.1, 0.7])


def test_unfinished_em_says_so():
    P = np.array([[0.51, 0.49], [0.52, 0.48]])  # optimum at the corner, reached slowly
    assert not estimate_priors(P, [0.5, 0.5], max_iter=3).converged
    with pytest.warns(RuntimeWarning, match="still moved after 2000 iterations"):
        adjust_priors(np.array([[0.5001, 0.4999], [0.4999, 0.5001], [0.50005, 0.49995]]), [0.5, 0.5])


@pytest.mark.parametrize(
    ("proba", "train", "new", "message"),
    [
        ([0.5, 0.5], [0.5, 0.5], None, "proba must be a non-empty"),
        (np.empty((0, 2)), [0.5, 0.5], None, "proba must be a non-empty"),
        ([[1.5, -0.5]], [0.5, 0.5], None, "proba must hold finite, non-negative"),
        ([[np.nan, 1]], [0.5, 0.5], None, "proba must hold finite, non-negative"),
        ([[2.0, 3.0]], [0.5, 0.5], None, "proba must have rows that sum to 1"),
        ([[0.5, 0.5]], [0.5, 0.2, 0.3], None, "train_priors must have one entry per class"),
        ([[0.5, 0.5]], [30, 70], None, "train_priors must be non-negative and sum to 1"),
        ([[0.5, 0.5]], [0.5, 0.5], [1.5, -0.5], "new_priors must be non-negative"),
        ([[0.0, 1.0]], [1.0, 0.0], None, "proba must hold a row of positive weight"),
    ],
)
def test_bad_priors_are_named(proba, train, new, message):
    with pytest.raises(ValueError, match=message):
        adjust_priors(proba, train, new)


def test_bad_em_settings_are_named():
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        estimate_priors([[0.5, 0.5]], [0.5, 0.5], max_iter=0)
    for weight in ([1.0, 1.0], [-1.0], [0.0], [np.nan]):
        with pytest.raises(ValueError, match="sample_weight must"):
            estimate_priors([[0.5, 0.5]], [0.5, 0.5], sample_weight=weight)


# --- risk and rejection -----------------------------------------------------------------------------------


@given(posteriors())
def test_zero_one_loss_decides_for_the_most_probable_class(drawn):
    P, _, _ = drawn
    decided = P.argmax(axis=1)
    clear = (P.max(axis=1, keepdims=True) - P < 1e-12).sum(axis=1) == 1  # near ties are rounding's to break
    for loss in (None, 1 - np.eye(P.shape[1])):
        decisions = decide(P, loss)
        assert_array_equal(decisions.decision[clear], decided[clear])
        assert_allclose(decisions.risk, 1 - P.max(axis=1), atol=1e-14)
        assert not decisions.rejected.any()


@given(posteriors(), st.data())
def test_no_decision_has_less_expected_loss(drawn, data):
    P, _, _ = drawn
    loss = data.draw(arrays(float, (P.shape[1], 3), elements=st.floats(-10, 10)))
    R, decisions = expected_loss(P, loss), decide(P, loss)
    assert_allclose(R, (P[:, :, None] * loss).sum(axis=1), atol=1e-12)
    assert np.all(decisions.risk[:, None] <= R)


@given(posteriors(), st.floats(0, 1), st.floats(0, 1))
def test_rejection_is_chow_and_monotone_in_the_threshold(drawn, a, b):
    P, _, _ = drawn
    strict, loose = decide(P, threshold=min(a, b)), decide(P, threshold=max(a, b))
    assert_array_equal(strict.rejected, 1 - P.max(axis=1) > min(a, b))
    assert np.all(strict.rejected | ~loose.rejected)


def test_the_cost_of_rejection_is_the_best_threshold(shifted):
    X, y = shifted
    decision, risk, _ = decide(bayes(X, NEW))
    cost = 0.15

    def total(threshold):
        return np.where(risk > threshold, cost, risk).mean()

    assert all(total(cost) <= total(t) for t in np.linspace(0, 0.7, 71))
    assert_allclose(np.mean(decision != y), risk.mean(), atol=0.01)


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            arrays(float, n, elements=st.integers(0, 5).map(lambda i: i / 5)),
            arrays(float, n, elements=st.floats(0, 1)),
            arrays(int, n, elements=st.integers(0, 3)),
        )
    )
)
def test_error_reject_curve_agrees_with_its_definition(drawn):
    risk, incurred, weight = drawn
    assume(weight.sum() > 0)
    curve = error_reject_curve(risk, incurred, sample_weight=weight)
    assert curve.rejected[0] == 0
    assert np.all(np.diff(curve.thresholds) < 0)
    assert np.all(np.diff(curve.rejected) > 0)
    for threshold, rejected, error in zip(*curve, strict=True):
        accepted = risk <= threshold
        assert_allclose(rejected, weight[~accepted].sum() / weight.sum(), atol=1e-12)
        assert_allclose(error, np.average(incurred[accepted], weights=weight[accepted]), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_loss([[0.5, 0.5]], [[0, 1]]), "loss must have one row per true class"),
        (lambda: expected_loss([[0.5, 0.5]], [[0, np.inf], [1, 0]]), "loss must be finite"),
        (lambda: decide([[0.5, 0.5]], threshold=np.nan), "threshold must be a number"),
        (lambda: error_reject_curve([0.1], [0, 1]), "risk and incurred must be non-empty vectors"),
        (lambda: error_reject_curve([], []), "risk and incurred must be non-empty vectors"),
        (lambda: error_reject_curve([np.nan], [0]), "risk and incurred must be finite"),
    ],
)
def test_bad_losses_and_thresholds_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- meta-estimators --------------------------------------------------------------------------------------


@parametrize_with_checks(
    [wrap(LogisticRegression()) for wrap in META]
    + [
        PriorShiftClassifier(DecisionTreeClassifier(max_depth=3, random_state=0)),  # exact zeros and ones
        RejectOptionClassifier(MinimumRiskClassifier(PriorShiftClassifier(LogisticRegression()))),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("wrap", META)
@pytest.mark.parametrize("labels", [np.array([0, 1, 2]), np.array(["a", "bb", "ccc"])])
def test_defaults_change_no_prediction(balanced, wrap, labels):
    X, y = balanced
    plain = LogisticRegression().fit(X, labels[y])
    wrapped = wrap(LogisticRegression()).fit(X, labels[y])
    assert_allclose(wrapped.predict_proba(X), plain.predict_proba(X), atol=1e-12)
    assert_allclose(wrapped.predict_log_proba(X), plain.predict_log_proba(X), atol=1e-9)
    assert_array_equal(wrapped.predict(X), plain.predict(X))
    assert wrapped.predict(X).dtype == plain.predict(X).dtype
    assert wrapped.score(X, labels[y]) == plain.score(X, labels[y])


def test_adapt_recovers_priors_and_lowers_the_error(balanced, shifted):
    X_new, y_new = shifted
    model = PriorShiftClassifier(LogisticRegression()).fit(*balanced)
    before = model.score(X_new, y_new)
    assert_array_equal(model.priors_, model.train_priors_)
    assert model.n_iter_ == 0
    assert model.adapt(X_new) is model
    assert_allclose(model.priors_, NEW, atol=0.01)
    assert model.n_iter_ > 1
    assert model.score(X_new, y_new) > before + 0.02
    known = PriorShiftClassifier(LogisticRegression(), new_priors=NEW).fit(*balanced)
    assert_allclose(known.priors_, NEW)
    assert_allclose(known.predict_proba(X_new), model.predict_proba(X_new), atol=0.06)
    assert_array_equal(clone(model).fit(*balanced).priors_, model.train_priors_)


def test_predict_never_adapts(balanced, shifted):
    model = PriorShiftClassifier(LogisticRegression()).fit(*balanced)
    whole = model.predict_proba(shifted[0][:50])
    assert_array_equal(whole[:5], model.predict_proba(shifted[0][:5]))
    assert_array_equal(model.priors_, model.train_priors_)


def test_training_priors_are_weighted_frequencies(balanced):
    X, y = balanced
    weight = np.array([1.0, 2.0, 5.0])[y]
    model = PriorShiftClassifier(LogisticRegression()).fit(X, y, sample_weight=weight)
    assert_allclose(model.train_priors_, np.bincount(y, weight) / weight.sum())
    assert_allclose(model.estimator_.coef_, LogisticRegression().fit(X, y, weight).coef_)
    piped = PriorShiftClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    piped.fit(X, y, logisticregression__sample_weight=weight)
    assert_allclose(piped.train_priors_, model.train_priors_)


@pytest.mark.parametrize("frozen", [False, True])
def test_class_weights_ask_for_training_priors(balanced, frozen):
    X, y = balanced[0][2000:], np.minimum(balanced[1][2000:], 1)
    inner = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    inner = FrozenEstimator(inner.fit(X, y)) if frozen else inner
    with pytest.warns(UserWarning, match="class_weight='balanced'.*Set train_priors"):
        PriorShiftClassifier(inner).fit(X, y)
    model = PriorShiftClassifier(inner, train_priors=[0.5, 0.5], new_priors=np.bincount(y) / len(y)).fit(X, y)
    # A logistic model moves its intercept alone when the priors move, so the mean posterior is the frequency.
    assert_allclose(model.predict_proba(X).mean(axis=0), np.bincount(y) / len(y), atol=0.01)


@pytest.mark.parametrize("wrap", META)
def test_a_frozen_estimator_is_kept_through_fit_and_clone(balanced, wrap):
    X, y = balanced
    trained = LogisticRegression().fit(X, y)
    model = clone(wrap(FrozenEstimator(trained)))
    model.fit(X[:100], y[:100])
    assert model.estimator_.estimator is trained
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_frozen_estimator_may_lack_a_class_in_y(balanced):
    X, y = balanced
    keep = y != 1
    model = PriorShiftClassifier(FrozenEstimator(GaussianNB().fit(X, y))).fit(X[keep], y[keep])
    assert model.train_priors_[1] == 0
    assert_array_equal(model.predict_proba(X)[:, 1], 0)
    assert np.isneginf(model.predict_log_proba(X)[:, 1]).all()
    for unknown in (y + 1, y.astype(str)):
        with pytest.raises(ValueError, match="y must hold only classes of the wrapped estimator"):
            model.fit(X, unknown)
    with pytest.raises(ValueError, match="y must be given to fit"):
        model.fit(X, None)


def test_loss_matrix_moves_decisions_not_beliefs(balanced):
    X, y = balanced
    loss = np.array([[0, 1, 1], [1, 0, 1], [30, 30, 0]])
    model = MinimumRiskClassifier(LogisticRegression(), loss=loss).fit(X, y)
    plain = LogisticRegression().fit(X, y)
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert_array_equal(model.predict(X), (plain.predict_proba(X) @ loss).argmin(axis=1))
    assert_allclose(model.expected_loss(X), plain.predict_proba(X) @ loss)
    assert loss[y, model.predict(X)].mean() < loss[y, plain.predict(X)].mean()
    assert_array_equal(model.set_params(loss=None).predict(X), plain.predict(X))


def test_rejection_follows_the_posterior(balanced):
    X, y = balanced
    model = RejectOptionClassifier(LogisticRegression(), threshold=0.2).fit(X, y)
    unsure = 1 - model.predict_proba(X).max(axis=1) > 0.2
    assert 0.05 < unsure.mean() < 0.95
    assert_array_equal(model.rejected(X), unsure)
    assert_array_equal(model.predict(X) == -1, unsure)
    right = model.predict(X) == y
    assert_allclose(model.score(X, y), right.mean())
    assert_allclose(model.score(X, y, sample_weight=y + 1), np.average(right, weights=y + 1))
    assert right[~unsure].mean() > model.set_params(threshold=None).score(X, y)
    assert not model.rejected(X).any()


@pytest.mark.parametrize(
    ("classes", "label", "kind"),
    [
        (np.array([0, 1]), -1, "i"),
        (np.array([0, 1], dtype=np.uint8), -1, "i"),
        (np.array([False, True]), -1, "i"),
        (np.array([0, 1]), np.nan, "f"),
        (np.array(["no", "yes"]), "refer to a doctor", "U"),
        (np.array(["no", "yes"]), -1, "O"),
        (np.array(["no", "yes"], dtype=object), None, "O"),
        (np.array([0, 1]), "unsure", "O"),
    ],
)
def test_any_reject_label_survives_among_the_classes(classes, label, kind):
    X, y = [[0.0], [1.0], [2.0], [3.0]], classes[[0, 0, 1, 1]]
    model = RejectOptionClassifier(LogisticRegression(), threshold=0.3, reject_label=label).fit(X, y)
    predicted = model.predict([[0.0], [1.5], [3.0]])
    assert predicted.dtype.kind == kind
    assert predicted[0] == classes[0]
    assert predicted[2] == classes[1]
    assert predicted[1] is label or predicted[1] == label or np.isnan(predicted[1])


@pytest.mark.parametrize(("classes", "label"), [(["ill", "well"], "rejected"), ([0, 1], -1), ([False, True], -1)])
def test_the_reject_label_is_of_the_type_of_the_classes(classes, label):
    X, y = [[0.0], [1.0], [2.0], [3.0]], np.array(classes)[[0, 0, 1, 1]]
    model = RejectOptionClassifier(LogisticRegression(), threshold=0.3).fit(X, y)
    predicted = model.predict([[0.0], [1.5], [3.0]])
    assert predicted.tolist() == [classes[0], label, classes[1]]
    table = confusion_matrix(np.array(classes)[[0, 0, 1]].astype(predicted.dtype), predicted)
    assert table.sum() == 3


def test_a_class_cannot_be_the_reject_label():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1]
    model = RejectOptionClassifier(LogisticRegression()).fit(X, y)  # nothing is rejected, so nothing clashes
    with pytest.raises(ValueError, match="reject_label must differ from every class, but -1 is one"):
        model.set_params(threshold=0.1).predict(X)
    with pytest.raises(ValueError, match="reject_label must differ"):
        model.fit(X, y)
    assert_array_equal(model.set_params(reject_label=0).fit(X, y).predict([[1.5]]), [0])


def test_curve_of_the_estimator(balanced, shifted):
    X, y = shifted
    model = RejectOptionClassifier(LogisticRegression(), threshold=0.01).fit(*balanced)
    curve = model.error_reject_curve(X, y)
    assert_allclose(curve.error[0], 1 - model.estimator_.score(X, y))
    assert np.interp(0.5, curve.rejected, curve.error) < curve.error[0] / 2
    threshold = curve.thresholds[np.searchsorted(curve.rejected, 0.3)]
    assert_allclose(model.set_params(threshold=threshold).rejected(X).mean(), 0.3, atol=0.01)
    with pytest.raises(ValueError, match="y must hold only classes"):
        model.error_reject_curve(X, y + 1)


# --- composition ------------------------------------------------------------------------------------------

LOSS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [8.0, 4.0, 0.0]])


def test_shift_then_risk_then_reject_is_the_three_formulas(balanced, shifted):
    X, y = shifted
    shift = PriorShiftClassifier(LogisticRegression(), new_priors=NEW)
    model = RejectOptionClassifier(MinimumRiskClassifier(shift, loss=LOSS), threshold=0.4).fit(*balanced)
    P = LogisticRegression().fit(*balanced).predict_proba(X)
    Q, _ = adjust_priors(P, np.bincount(balanced[1]) / len(balanced[1]), NEW)
    assert_allclose(model.predict_proba(X), Q, rtol=1e-12)
    assert_allclose(model.expected_loss(X), Q @ LOSS, rtol=1e-12)
    best = (Q @ LOSS).argmin(axis=1)
    assert_array_equal(model.predict(X), np.where((Q @ LOSS).min(axis=1) > 0.4, -1, best))
    assert_allclose(model.error_reject_curve(X, y).error[0], LOSS[y, best].mean())


def test_shift_and_risk_commute(balanced, shifted):
    logistic = LogisticRegression()
    outer = MinimumRiskClassifier(PriorShiftClassifier(logistic, new_priors=NEW), loss=LOSS).fit(*balanced)
    inner = PriorShiftClassifier(MinimumRiskClassifier(logistic, loss=LOSS), new_priors=NEW).fit(*balanced)
    assert_array_equal(outer.predict(shifted[0]), inner.predict(shifted[0]))


def test_adapt_reaches_the_shift_within(balanced, shifted):
    model = RejectOptionClassifier(MinimumRiskClassifier(PriorShiftClassifier(LogisticRegression()))).fit(*balanced)
    alone = PriorShiftClassifier(LogisticRegression()).fit(*balanced).adapt(shifted[0])
    assert model.adapt(shifted[0]) is model
    assert_array_equal(model.estimator_.estimator_.priors_, alone.priors_)
    assert_array_equal(model.predict(shifted[0]), alone.predict(shifted[0]))
    assert not hasattr(RejectOptionClassifier(LogisticRegression()), "adapt")
    # A frozen shift is shared by every clone, so adapting one must not move the others.
    assert not hasattr(MinimumRiskClassifier(FrozenEstimator(alone)).fit(*balanced), "adapt")


@pytest.mark.parametrize("wrap", META)
def test_rejection_must_come_last(balanced, wrap):
    with pytest.raises(TypeError, match="make the RejectOptionClassifier the outermost"):
        wrap(RejectOptionClassifier(LogisticRegression())).fit(*balanced)


@pytest.mark.parametrize("wrap", META)
def test_probabilities_are_required(balanced, wrap):
    with pytest.raises(TypeError, match="estimator must have predict_proba, RidgeClassifier has not"):
        wrap(RidgeClassifier()).fit(*balanced)


# --- fit: failure, weights, routing, data -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "bad"),
    [
        (PriorShiftClassifier(LogisticRegression()), {"new_priors": [0.5, 0.5]}),
        (PriorShiftClassifier(LogisticRegression()), {"train_priors": [0.9, 0.9, 0.9]}),
        (MinimumRiskClassifier(LogisticRegression()), {"loss": np.ones((2, 3))}),
        (RejectOptionClassifier(LogisticRegression()), {"threshold": 0.1, "reject_label": 2}),
        (RejectOptionClassifier(LogisticRegression()), {"estimator__C": -1.0}),
    ],
)
def test_a_failed_fit_leaves_the_model_as_it_was(balanced, model, bad):
    X, y = balanced
    model = clone(model).fit(X, y)
    good = {name: model.get_params()[name] for name in bad}
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
    expected = model.predict_proba(X)
    with pytest.raises(ValueError, match=list(bad)[-1].split("__")[-1]):
        model.set_params(**bad).fit(np.hstack([X, X]), y)
    model.set_params(**good)
    assert {name: value for name, value in vars(model).items() if name.endswith("_")} == fitted
    assert model.n_features_in_ == 1
    assert_array_equal(model.predict_proba(X), expected)


def test_a_failed_adapt_leaves_the_priors_as_they_were(balanced, shifted):
    model = PriorShiftClassifier(LogisticRegression()).fit(*balanced).adapt(shifted[0])
    priors, n_iter = model.priors_, model.n_iter_
    with pytest.raises(ValueError, match="features"):
        model.adapt(np.ones((4, 7)))
    assert model.priors_ is priors
    assert model.n_iter_ == n_iter
    with pytest.warns(ConvergenceWarning, match="still moved after 2 EM iterations"):
        model.adapt(shifted[0], max_iter=2)
    assert model.n_iter_ == 2


@pytest.mark.parametrize("wrap", META)
def test_weights_are_routed(balanced, wrap):
    X, y = balanced[0][:600], balanced[1][:600]
    weight = np.array([1.0, 2.0, 5.0])[y]
    expected = LogisticRegression().fit(X, y, weight).coef_
    with config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = wrap(inner).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        assert_allclose(model.fit(X, y, sample_weight=weight).estimator_.coef_, expected)
        scores = cross_validate(model, X, y, params={"sample_weight": weight}, cv=3, error_score="raise")
        assert scores["test_score"].min() > 0.5
        deaf = wrap(LogisticRegression().set_fit_request(sample_weight=False)).fit(X, y, sample_weight=weight)
        assert_allclose(deaf.estimator_.coef_, LogisticRegression().fit(X, y).coef_)


def test_training_priors_follow_the_weights_the_estimator_saw(balanced):
    X, y = balanced[0][:600], balanced[1][:600]
    weight = np.array([1.0, 2.0, 5.0])[y]
    weighted, plain = np.bincount(y, weight) / weight.sum(), np.bincount(y) / len(y)
    with config_context(enable_metadata_routing=True):
        for wanted, priors in ((True, weighted), (False, plain)):
            inner = LogisticRegression().set_fit_request(sample_weight=wanted)
            model = PriorShiftClassifier(inner).fit(X, y, sample_weight=weight)
            assert_allclose(model.train_priors_, priors)
        frozen = FrozenEstimator(LogisticRegression().fit(X, y, weight))
        assert_allclose(PriorShiftClassifier(frozen).fit(X, y, sample_weight=weight).train_priors_, weighted)


@pytest.mark.parametrize("wrap", META)
def test_weights_for_an_estimator_without_them_are_an_error(balanced, wrap):
    with pytest.raises(TypeError, match="sample_weight"):
        wrap(KNeighborsClassifier()).fit(*balanced, sample_weight=np.ones(len(balanced[1])))


@pytest.mark.parametrize("wrap", META)
def test_grid_search_sparse_input_and_nested_parameters(balanced, wrap):
    X, y = balanced[0][:600], balanced[1][:600]
    search = GridSearchCV(wrap(LogisticRegression()), {"estimator__C": [0.1, 1.0]}, cv=3).fit(csr_array(X), y)
    assert search.best_score_ > 0.7
    assert_allclose(search.predict_proba(csr_array(X)), search.predict_proba(X), atol=1e-10)
