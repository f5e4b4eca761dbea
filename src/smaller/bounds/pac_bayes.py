"""The PAC-Bayesian bound on the error of the Gibbs classifier (Theorem 2), in its valid order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from .bound import Bound
from .divergence import Floats, binary_kl_inverse
from .gibbs import error_probabilities, gaussian_probabilities, monte_carlo_risk, positive_probabilities
from .posterior import LaplacePosterior, Objective, choose_posterior, signed_sample
from .rules import ASSUMPTIONS, check_assumptions, read_problem

__all__ = ["PacBayesBound", "pac_bayes_bound", "pac_bayes_path"]

MONTE_CARLO_SHARE = 0.1  # of delta, spent on the draws


@dataclass(frozen=True, eq=False, kw_only=True)
class PacBayesBound(Bound):
    """What is certified, for whom, and from which parts.

    Attributes
    ----------
    value : float
        Upper bound on the error rate of `classifier`.
    classifier : {"gibbs", "point"}
        For whom `value` holds: a rule drawn anew for every row, or the model's own `predict`.
    delta : float
        Probability, over the draw of the sample, that the bound fails; all corrections included.
    gibbs_value, point_value : float
        The bound for either classifier; the second is twice the first, at most 1.
    empirical_risk : float
        Error rate of the Gibbs classifier on the sample, as it entered the bound.
    risk_correction : float
        Part of `empirical_risk` that was added for the error of its computation.
    divergence : float
        Divergence of the posterior from the prior, in nats.
    allowance : float
        Right-hand side of the theorem: (divergence + ln(factor / delta)) / n.
    n_samples : int
        Number of rows.
    alpha : float
        Rate of the prior that was used (of the first column, if they differ).
    n_alphas : int
        Number of rates over which the union bound was taken.
    posterior : LaplacePosterior
        The distribution of the Gibbs classifier; hand it to `gibbs_predict`.
    risk : {"exact", "monte_carlo", "gaussian"}
        How the empirical risk was found.
    certified : bool
        False if the risk was a Gaussian approximation, which may certify too little.
    assumptions : tuple of str
        Conditions the caller vouched for.

    See Also
    --------
    pac_bayes_bound : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from smaller import SMLR
    >>> from smaller.bounds import pac_bayes_bound
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SMLR(alpha=2.0, penalize_intercept=True).fit(scale(X), y)
    >>> bound = pac_bayes_bound(model, scale(X), y, assume=["fixed_alpha", "fixed_scaling"])
    >>> bound.point_value == min(1.0, 2.0 * bound.gibbs_value)
    True
    """

    gibbs_value: float
    empirical_risk: float
    risk_correction: float
    allowance: float
    n_alphas: int
    risk: str

    @property
    def point_value(self) -> float:
        """Bound on the error rate of the model's own predictions: twice the Gibbs bound (Lemmas 1 and 2)."""
        return min(1.0, 2.0 * self.gibbs_value)

    def __str__(self) -> str:
        verb = "errs" if self.certified else "errs, by a Gaussian approximation that certifies nothing,"
        text = (
            f"With probability {self.confidence:g} over the draw of the {self.n_samples} rows, the Gibbs "
            f"classifier {verb} on at most {self.gibbs_value:.4f} of new rows and the model's own "
            f"predictions err on at most {self.point_value:.4f}."
        )
        conditions = "; ".join(ASSUMPTIONS[flag] for flag in self.assumptions)
        return f"{text} Assumed: {conditions}." if conditions else text


def pac_bayes_bound(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    delta: float = 0.05,
    classifier: str = "gibbs",
    widths: str = "optimal",
    risk: str = "exact",
    factor: str = "paper",
    alphas: Iterable[float] | None = None,
    intercept_alpha: float | None = None,
    n_draws: int = 100_000,
    assume: Sequence[str] = (),
    random_state: int | np.random.Generator | None = None,
) -> PacBayesBound:
    r"""PAC-Bayesian bound on the error rate of a sparse linear classifier, from its own training rows.

    .. math:: \mathrm{kl}(R_{\text{sample}} \,\|\, R_{\text{true}}) \le \frac{D(q\|p) + \ln((n+1)/\delta)}{n}

    with probability at least :math:`1-\delta` over the draw of the rows, for all posteriors q at once. Here
    p is the Laplace prior with rate alpha, and q is Laplace around a multiple of the model's weights. (The
    paper prints the arguments of kl in the other order, which does not hold.)

    Parameters
    ----------
    model : fitted binary linear classifier, or pair (w, alpha)
        Needs `coef_`, `classes_`, `alpha` (or `alpha_`) and, with an intercept, `intercept_`. `alpha` is on
        the scale of the sum of log-losses and is the rate of the Laplace prior.
    X, y : array-like or sparse matrix of shape (n, d), array-like of shape (n,)
        Independent rows from the distribution the bound speaks about, each counted once: as a rule the
        training set. With (w, alpha) the labels are -1/+1 or 0/1.
    delta : float
        Probability with which the bound may fail.
    classifier : {"gibbs", "point"}
        For whom `value` is stated: the random classifier, or, with the factor 2, the model's predictions.
    widths : {"optimal", "divergence", "prior"}
        Rates of q: lowering the whole bound; lowering the divergence only (the paper's choice); or those of
        the prior, with the closed form D <= alpha*|w|_1.
    risk : {"exact", "monte_carlo", "gaussian"}
        Empirical risk of the Gibbs classifier: by inverting the characteristic function, with the numerical
        error added; by `n_draws` draws, with a tenth of `delta` for their confidence limit; or by a Gaussian
        approximation that can certify too little and marks the result as not certified.
    factor : {"paper", "exact"}
        n + 1 inside the logarithm, or the smaller exact constant sum_k C(n,k) (k/n)^k (1-k/n)^(n-k).
    alphas : iterable of float, optional
        Prior rates, fixed before seeing the data, in place of the model's. Each gets an equal share of
        `delta` and the best is returned. With `widths="optimal"` one rate is enough, because the centre of q
        may be stretched: ``alphas=(1.0,)`` covers a model whose alpha was chosen on the data.
    intercept_alpha : float, optional
        Rate of the prior of the intercept, fixed before seeing the data; needed if it was not penalised.
    n_draws : int
        Number of Monte-Carlo draws.
    assume : sequence of {"fixed_alpha", "fixed_scaling", "fixed_basis"}
        Conditions you vouch for where they cannot be seen in the data.
    random_state : int, Generator or None
        Source of the draws.

    Returns
    -------
    PacBayesBound
        With `value` and all its parts.

    Raises
    ------
    ValueError
        If a condition of the theorem is visibly violated; the message says what to do.

    See Also
    --------
    pac_bayes_path : The bound along a path of strengths.
    rademacher_bound : Another bound of the model's own predictions.
    gibbs_predict : The predictions that it is about.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> bound = pac_bayes_bound(([4.0, 0.0, 0.0], 1.0), X, y)
    >>> bound.value < 0.05, bound.classifier, bound.confidence
    (True, 'gibbs', 0.95)
    """
    _check_options(delta=delta, classifier=classifier, risk=risk, factor=factor, n_draws=n_draws)
    rules, X, positive = read_problem(model, X, y, alphas=alphas, intercept_alpha=intercept_alpha, assume=assume)
    n = X.shape[0]
    share = MONTE_CARLO_SHARE * delta if risk == "monte_carlo" else 0.0
    price = float(np.log(_factor(n, factor) * len(rules) / (delta - share)))
    objective = _objective(n, price)
    signed = signed_sample(X, positive, rules[0].weights.size)
    choices = [choose_posterior(rule, widths, signed, objective) for rule in rules]
    best = min(range(len(rules)), key=lambda k: choices[k][0])
    posterior = choices[best][1]
    raw, used = _risk(X, positive, posterior, risk, n_draws, share, np.random.default_rng(random_state))
    allowance = (posterior.divergence + price) / n
    gibbs = float(binary_kl_inverse(used, allowance))
    return PacBayesBound(
        value=gibbs if classifier == "gibbs" else min(1.0, 2.0 * gibbs),
        classifier=classifier,
        delta=delta,
        gibbs_value=gibbs,
        empirical_risk=used,
        risk_correction=used - raw,
        divergence=posterior.divergence,
        allowance=allowance,
        n_samples=n,
        alpha=float(rules[best].rates[0]),
        n_alphas=len(rules),
        posterior=posterior,
        risk=risk,
        certified=risk != "gaussian",
        assumptions=check_assumptions(assume),
    )


def pac_bayes_path(
    models: Sequence[Any], X: Any, y: ArrayLike, *, delta: float = 0.05, **options: Any
) -> tuple[PacBayesBound, ...]:
    """Bounds of many models that hold together, so that the smallest may choose among them.

    Every model gets `delta` divided by their number; `options` are those of `pac_bayes_bound`. The number and
    the strengths of the models must be fixed before seeing the data.

    See Also
    --------
    pac_bayes_bound : One model.
    smaller.smlr_path : Makes the path.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> bounds = pac_bayes_path([([0.0, 1.0], 1.0), ([9.0, 0.0], 1.0)], X, y)
    >>> int(np.argmin([bound.value for bound in bounds]))
    1
    """
    if not models:
        raise ValueError("models must not be empty.")
    return tuple(pac_bayes_bound(model, X, y, delta=delta / len(models), **options) for model in models)


def _factor(n: int, factor: str) -> float:
    """Upper limit of E exp(n kl(frequency || bias)) over all coins, thrown n times."""
    if factor == "paper":
        return n + 1.0
    k = np.arange(n + 1.0)
    choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return float(np.sum(np.exp(choose + xlogy(k, k / n) + xlogy(n - k, 1.0 - k / n))))


def _objective(n: int, price: float) -> Objective:
    """Bound as a function of the rows' error probabilities and the divergence, with its derivatives."""

    def objective(errors: Floats, divergence: float) -> tuple[float, Floats, float]:
        q = float(np.clip(errors.mean(), 1e-12, 1.0 - 1e-9))
        p = min(float(binary_kl_inverse(q, (divergence + price) / n)), 1.0 - 1e-12)
        by_p = (1.0 - q) / (1.0 - p) - q / p  # of kl(q || p), as the next line by q
        by_q = np.log(q / p) - np.log((1.0 - q) / (1.0 - p))
        return p, np.full(errors.size, -by_q / by_p / errors.size), 1.0 / (n * by_p)

    return objective


def _risk(
    X: Any,
    positive: NDArray[np.bool_],
    posterior: LaplacePosterior,
    risk: str,
    n_draws: int,
    delta: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Empirical Gibbs risk as computed, and as it may be used."""
    center, eta = posterior.center, posterior.eta
    if risk == "monte_carlo":
        return monte_carlo_risk(X, positive, center, eta, n_draws=n_draws, delta=delta, rng=rng)
    if risk == "gaussian":
        raw = float(np.mean(error_probabilities(gaussian_probabilities(X, center, eta), positive)))
        return raw, raw
    probability, slack = positive_probabilities(X, center, eta)
    raw = float(np.mean(error_probabilities(probability, positive)))
    return raw, min(1.0, raw + float(np.mean(slack)))


def _check_options(*, delta: float, classifier: str, risk: str, factor: str, n_draws: int) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie between 0 and 1, got {delta}.")
    if classifier not in ("gibbs", "point"):
        raise ValueError(f"classifier must be 'gibbs' or 'point', got {classifier!r}.")
    if risk not in ("exact", "monte_carlo", "gaussian"):
        raise ValueError(f"risk must be 'exact', 'monte_carlo' or 'gaussian', got {risk!r}.")
    if factor not in ("paper", "exact"):
        raise ValueError(f"factor must be 'paper' or 'exact', got {factor!r}.")
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws}.")
