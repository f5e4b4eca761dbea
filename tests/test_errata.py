"""Errors in the papers, each shown by a few lines of independent arithmetic (see docs/errata.md)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("gamma", "b"), [(4.0, 0.5), (0.25, 2.0), (9.0, 1.0)])
def test_the_expected_inverse_variance_has_the_root_of_gamma(gamma: float, b: float) -> None:
    """JCFO (13), (14), (19) and the 2003 paper print gamma/|b| for the hyperprior (gamma/2) exp(-gamma tau/2)."""

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


def test_the_second_derivative_of_sbmlrs_penalty_has_a_square() -> None:
    """W log(sum |w|) has the second derivative -W/(sum |w|)^2; the paper prints -W/(sum |w|)."""
    w, step = np.array([1.5, -0.4, 2.0]), 1e-4

    def penalty(first: float) -> float:
        return 3.0 * float(np.log(abs(first) + np.abs(w[1:]).sum()))

    second = (penalty(w[0] + step) - 2 * penalty(w[0]) + penalty(w[0] - step)) / step**2
    assert second == pytest.approx(-3.0 / np.abs(w).sum() ** 2, rel=1e-4)
    assert second != pytest.approx(-3.0 / np.abs(w).sum(), rel=0.1)


def test_prior_correction_must_divide_every_term_by_its_own_training_prior() -> None:
    """With p_t(omega_i) in every term of the denominator even equal priors change the posterior."""
    P, prior = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.3, 0.2])
    printed = np.array([P[i] * prior[i] / prior[i] / (P * prior / prior[i]).sum() for i in range(3)])
    corrected = (P * prior / prior) / (P * prior / prior).sum()
    assert corrected == pytest.approx(P)
    assert printed[0] > P[0] + 0.05


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


@pytest.mark.data
def test_golub_has_47_all_and_pima_7_inputs(load_data: Callable[[str], Any]) -> None:
    """The JCFO paper swaps the class sizes of the leukaemia set and speaks of eight inputs of Ripley's Pima set."""
    golub = load_data("golub")
    assert dict(zip(golub.target_names, np.bincount(golub.target).tolist(), strict=True)) == {"ALL": 47, "AML": 25}
    assert load_data("pima").data.shape[1] == 7
