"""Errors in the papers, each shown by a few lines of independent arithmetic (see docs/errata.md).

The page itself, its quotations and the tests that it names are read by `test_errata_page`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize
from sklearn.svm import SVC

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("gamma", "b"), [(4.0, 0.5), (0.25, 2.0), (9.0, 1.0)])
def test_the_expected_inverse_variance_has_the_root_of_gamma(gamma: float, b: float) -> None:
    """JCFO (13), (14) and (19) print gamma/|b| for the hyperprior (gamma/2) exp(-gamma tau/2)."""

    def joint(tau: float) -> float:
        return float(np.exp(-(b**2) / (2 * tau) - gamma * tau / 2) / np.sqrt(tau))

    total = integrate.quad(joint, 0, np.inf)[0]
    expected = integrate.quad(lambda tau: joint(tau) / tau, 0, np.inf)[0] / total
    assert expected == pytest.approx(np.sqrt(gamma) / b, rel=1e-6)
    assert expected != pytest.approx(gamma / b, rel=0.1)


def _klr(response: str, steps: int = 8) -> list[float]:
    """Objective along Newton's method for kernel logistic regression, with (3.11) as printed or corrected."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.8 * rng.normal(size=120) > 0.8, 1.0, -1.0)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    alpha, a, values = 0.5, np.zeros(120), []
    for _ in range(steps):
        f = K @ a
        values.append(float(np.logaddexp(0.0, -y * f).sum() + 0.5 * alpha * a @ K @ a))
        p = 1.0 / (1.0 + np.exp(-y * f))  # (3.2): the probability of the class that was observed
        w = p * (1.0 - p)
        pull = y * p if response == "printed" else y * (1.0 - p)
        a = np.linalg.solve(w[:, None] * K + alpha * np.eye(120), w * f + pull)
    return values


def test_the_working_response_of_ivm_3_11_needs_one_minus_p() -> None:
    corrected, printed = _klr("corrected"), _klr("printed")
    assert printed[1] == pytest.approx(corrected[1])  # they coincide at f = 0
    assert all(b <= a + 1e-9 for a, b in pairwise(corrected))
    assert corrected[-1] == pytest.approx(corrected[-2], rel=1e-9)
    assert max(printed) > 2.0 * printed[0]  # the printed form climbs


def _softmax(W: Any, X: Any) -> Any:
    E = np.exp(X @ W.T)
    return E / E.sum(axis=1, keepdims=True)


def test_the_second_derivative_of_sbmlr_is_in_one_weight_twice() -> None:
    """The printed right-hand side is the second derivative in w_ij, twice; the left-hand side lacks a square."""
    X, W = RNG.normal(size=(40, 3)), RNG.normal(size=(4, 3))
    t, (i, j), step = RNG.integers(4, size=40), (1, 2), 1e-4

    def loss(move: float) -> float:
        V = W.copy()
        V[i, j] += move
        return -float(np.log(_softmax(V, X)[np.arange(40), t]).sum())

    y = _softmax(W, X)[:, i]
    second = (loss(step) - 2 * loss(0.0) + loss(-step)) / step**2
    assert second == pytest.approx(float((y * (1 - y) * X[:, j] ** 2).sum()), rel=1e-5)


def test_the_printed_newton_step_of_sbmlr_leaves_the_optimum() -> None:
    """Where loss plus penalty is smallest, the loss alone has the slope alpha: the printed step goes to its minimum."""
    x, alpha = RNG.normal(size=50), 3.0
    y = np.sign(x + RNG.logistic(size=50))

    def slope(w: float) -> float:
        return float(-(y * x / (1 + np.exp(y * x * w))).sum())

    def curvature(w: float) -> float:
        p = 1 / (1 + np.exp(-x * w))
        return float((p * (1 - p) * x**2).sum())

    best = optimize.brentq(lambda w: slope(w) + alpha, 1e-6, 50.0)  # a positive weight: the effective gradient is zero
    assert slope(best) == pytest.approx(-alpha)
    w = best
    for _ in range(50):
        w -= slope(w) / curvature(w)  # as printed
    assert w == pytest.approx(optimize.brentq(slope, 1e-6, 50.0))
    assert w > 1.1 * best


def test_laplaces_approximation_leaves_two_pi_for_every_weight() -> None:
    """-log of the integral of exp(-w'Aw/2) is log|A|/2 less (W/2) log 2 pi: no constant, W being that of the model."""
    A = np.array([[2.0, 0.3], [0.3, 1.0]])

    def density(*w: float) -> float:
        return float(np.exp(-0.5 * np.array(w) @ A[: len(w), : len(w)] @ np.array(w)))

    one = integrate.quad(density, -12, 12)[0]
    two = integrate.dblquad(density, -12, 12, -12, 12)[0]
    rests = [-np.log(value) - 0.5 * np.linalg.slogdet(A[:W, :W])[1] for W, value in ((1, one), (2, two))]
    assert rests == pytest.approx([-0.5 * np.log(2 * np.pi), -np.log(2 * np.pi)])


def test_prior_correction_must_divide_every_term_by_its_own_training_prior() -> None:
    """With p_t(omega_i) in every term of the denominator even equal priors change the posterior."""
    P, prior = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.3, 0.2])
    printed = np.array([P[i] * prior[i] / prior[i] / (P * prior / prior[i]).sum() for i in range(3)])
    corrected = (P * prior / prior) / (P * prior / prior).sum()
    assert corrected == pytest.approx(P)
    assert printed[0] > P[0] + 0.05


def test_new_priors_are_means_over_the_test_patterns() -> None:
    """(6) sums posteriors of the N test patterns: with 1/l of the training sample they are no probabilities."""
    posterior, n_train = _softmax(RNG.normal(size=(3, 2)), RNG.normal(size=(70, 2))), 40
    assert posterior.sum(axis=0).sum() / 70 == pytest.approx(1.0)
    assert posterior.sum(axis=0).sum() / n_train == pytest.approx(70 / 40)


def test_the_l1_optimum_need_not_be_unique() -> None:
    """The 2005 paper speaks of a unique maximum: with two equal columns every split of a weight is as good."""
    x = RNG.normal(size=30)
    X, y = np.column_stack([x, x]), np.sign(x + 0.3 * RNG.normal(size=30))

    def objective(w: Any) -> float:
        return float(np.logaddexp(0.0, -y * (X @ w)).sum() + 2.0 * np.abs(w).sum())

    values = [objective(np.array([1.3 * t, 1.3 * (1 - t)])) for t in (0.0, 0.25, 0.5, 1.0)]
    assert values == pytest.approx([values[0]] * 4)


def test_minimal_divergence_does_not_give_the_tightest_bound() -> None:
    """Section 4.7 of the 2005 paper; the library's optimised widths are compared in test_bounds."""
    from smaller.bounds import pac_bayes_bound

    X = RNG.normal(size=(500, 10))
    w = np.r_[2.0, -1.5, np.zeros(8)]
    y = np.sign(X @ w + RNG.logistic(size=500))
    papers = pac_bayes_bound((w, 2.0), X, y, widths="divergence").value
    assert pac_bayes_bound((w, 2.0), X, y, widths="optimal").value < papers - 0.02


def test_theorem_1_of_smlr_needs_r_above_one() -> None:
    """The logarithm to the base r of r g~/g = r^2 max(D/g, 1) is two or more for r > 1; below one it turns negative."""
    D, g = 20.0, 1.0

    def logarithm(r: float) -> float:
        return float(np.log(r * r * max(D, g) / g) / np.log(r))

    assert min(logarithm(r) for r in (1.01, 2.0, 10.0)) >= 2.0  # and so its own logarithm is positive
    assert max(logarithm(r) for r in (0.3, 0.5, 0.9)) < 0.0


def test_the_bounds_of_smlr_may_exceed_one() -> None:
    """A rule that has learnt nothing (q = p, D = 0) from the 38 rows of AML/ALL, delta = .05, g = 1, r = 2, s = 1."""
    n, g, r = 38, 1.0, 2.0
    tilde = r * g
    rademacher = 1.0 + 2.0 * np.sqrt(2 * tilde / n)  # soft votes of zero have the loss one; the last root is positive
    assert rademacher > 1.0
    allowance = np.log((n + 1) / 0.05) / n

    def excess(p: float) -> float:
        return 0.5 * np.log(0.5 / p) + 0.5 * np.log(0.5 / (1 - p)) - allowance

    gibbs = optimize.brentq(excess, 0.5, 1 - 1e-12)
    assert 0.5 < gibbs < 1.0 < 2.0 * gibbs


def test_the_bound_of_the_penalty_touches_at_both_signs() -> None:
    w, other = np.array([1.5, -0.4]), np.array([-1.5, -0.4])
    bound = 0.5 * ((w**2 / np.abs(other)).sum() + np.abs(other).sum())
    assert bound == pytest.approx(np.abs(w).sum())  # equality, and yet w is not w'
    assert (w != other).any()


def test_the_bound_of_the_hessian_is_singular_for_wide_data() -> None:
    """(8): -1/2 [I - 11'/m] (x) sum x x' with ten rows of twenty columns."""
    X = RNG.normal(size=(10, 20))
    B = -0.5 * np.kron(np.eye(2) - np.ones((2, 2)) / 3, X.T @ X)
    eigenvalues = np.linalg.eigvalsh(B)
    assert eigenvalues.max() == pytest.approx(0.0, abs=1e-10)
    assert np.sum(eigenvalues < -1e-8) == 2 * 10 < len(B)


def test_crabs_and_mines_have_fewer_rows() -> None:
    """Table 1 of the 2005 paper: n, d and m, so that n > (dm)^2 fails for both and n > (d(m - 1))^2 holds."""
    for n, d, m in ((80, 5, 2), (11467, 106, 2)):
        assert (d * (m - 1)) ** 2 < n < (d * m) ** 2
    assert (80 * (2 - 1)) ** 2 > 80  # with the kernel of Table 2


def test_a_weight_belongs_to_its_centre() -> None:
    """(1) of the JCFO paper sums beta_j K(x_i, x_j); with beta_i in the sum the outputs are others."""
    X, beta = RNG.normal(size=(6, 2)), RNG.normal(size=6)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    classifier = [sum(beta[j] * K[i, j] for j in range(6)) for i in range(6)]
    assert K @ beta == pytest.approx(classifier)
    assert np.abs(beta * K.sum(axis=1) - classifier).max() > 0.1


def test_the_maximum_of_q_may_have_negative_scales() -> None:
    """JCFO (16) with the kernel (4), maximised over beta by (19): conjugate gradients end at scales below zero."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 6))
    v, omega, delta = X[:, 0] + 0.3 * rng.normal(size=30), np.full(31, 0.1), np.full(6, 0.1)
    squares = (X[:, None] - X[None]) ** 2

    def negative_q(theta: Any) -> float:
        H = np.column_stack([np.ones(30), np.exp(-squares @ theta)])
        beta = np.linalg.solve(np.diag(omega) + H.T @ H, H.T @ v)  # (19)
        return float(((H @ beta) ** 2).sum() - 2 * v @ H @ beta + omega @ beta**2 + delta @ theta**2)

    end = optimize.minimize(negative_q, np.full(6, 0.2), method="CG").x
    assert end.min() < -0.1
    assert negative_q(end) < negative_q(np.maximum(end, 0.0)) - 1.0


def test_the_constraint_of_theorem_1_is_on_the_norm() -> None:
    """Zhu and Hastie: under |beta|^2 <= s (2.8) the solution has the norm sqrt(s), not s as in Lemma A.1."""
    h, y = np.array([-2.0, -1.0, 0.5, 3.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    quotients = []
    for s in (4.0, 100.0, 1000.0):
        end = optimize.minimize_scalar(
            lambda b: float(np.logaddexp(0.0, -y * h * b).sum()),
            bounds=(-np.sqrt(s), np.sqrt(s)),
            method="bounded",
            options={"xatol": 1e-10},
        ).x
        assert end == pytest.approx(np.sqrt(s), rel=1e-3)
        quotients.append(end / s)
    assert quotients == pytest.approx([0.5, 0.1, 1000**-0.5], rel=1e-3)  # towards zero, and beta* = 1


def _realisations(data: Any, count: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Standardised training rows, their labels, test rows, theirs."""
    for train, test in data.realisations[:count]:
        mean, scale = data.data[train].mean(axis=0), data.data[train].std(axis=0)
        scale[scale == 0] = 1.0
        rows = (data.data - mean) / scale
        yield rows[train], data.target[train], rows[test], data.target[test]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "variance", "strength", "printed", "deviation"),
    [("banana", 1.0, 3.16e-3, 90, 10), ("twonorm", 40.0, 0.316, 70, 5), ("waveform", 20.0, 1.0, 151, 9)],
)
def test_the_strengths_of_the_ivms_table_1_are_for_the_sum(
    load_data: Callable[[str], Any], name: str, variance: float, strength: float, printed: int, deviation: int
) -> None:
    """Support vectors of Table 3, with (2.1) read without its 1/n and as printed."""
    counts: dict[str, list[int]] = {"sum": [], "mean": []}
    for X, y, *_ in _realisations(load_data(f"ida_{name}"), 4):
        for scale, n in (("sum", 1), ("mean", len(y))):
            machine = SVC(C=1.0 / (n * strength), gamma=0.5 / variance).fit(X, y)
            counts[scale].append(len(machine.support_))
    assert abs(np.mean(counts["sum"]) - printed) < deviation
    assert abs(np.mean(counts["mean"]) - printed) > 8 * deviation


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "variance", "strength", "printed", "deviation"),
    [
        ("banana", 1.0, 3.16e-3, 10.34, 0.46),
        ("german", 55.0, 0.316, 23.53, 2.48),
        ("heart", 120.0, 0.316, 15.80, 3.49),
        ("titanic", 2.0, 1e-5, 22.39, 1.03),
        ("twonorm", 40.0, 0.316, 2.45, 0.15),
    ],
)
def test_the_ivms_tables_do_not_tell_whether_there_was_an_intercept(
    load_data: Callable[[str], Any], name: str, variance: float, strength: float, printed: float, deviation: float
) -> None:
    """Errors in per cent with and without an intercept differ by less than the printed deviation."""
    from smaller import IVM

    means = []
    for fit_intercept in (True, False):
        model = IVM(strength, gamma=0.5 / variance, fit_intercept=fit_intercept)
        scores = [model.fit(X, y).score(*test) for X, y, *test in _realisations(load_data(f"ida_{name}"), 4)]
        means.append(100.0 * (1.0 - np.mean(scores)))
    assert abs(means[0] - means[1]) < deviation
    assert np.mean(means) == pytest.approx(printed, abs=max(2.0, deviation))


def test_the_ivm_paper_has_eleven_data_sets() -> None:
    """The list that section 4.2 quotes has twelve names, the tables that the runner repeats eleven of them."""
    tables = pytest.importorskip("benchmarks.papers.ivm", reason="benchmarks/ is not part of this copy")
    listed = (
        "Banana, Breast-cancer, Flare-solar, German, Heart, Image, "
        "Ringnorm, Splice, Thyroid, Titanic, Twonorm and Waveform"
    )
    names = {name.lower().replace("-", "_") for name in listed.replace(" and ", ", ").split(", ")}
    assert len(names) == 12
    assert names - set(tables.IDA) == {"splice"}
    assert len(tables.IDA) == 11


@pytest.mark.data
def test_golub_has_47_all_and_pima_7_inputs(load_data: Callable[[str], Any]) -> None:
    """The JCFO paper swaps the class sizes of the leukaemia set and speaks of eight inputs of Ripley's Pima set."""
    golub = load_data("golub")
    assert dict(zip(golub.target_names, np.bincount(golub.target).tolist(), strict=True)) == {"ALL": 47, "AML": 25}
    assert load_data("pima").data.shape[1] == 7
