"""Decisions from class probabilities: new class priors, unequal losses, and the right to say "I do not know".

Every function takes posteriors ``proba`` (one row per sample, one column per class) from any source. The
papers: Saerens, Latinne and Decaestecker (2002) for the priors, Chow (1970) for the reject rule; equation
numbers are those of Cawley, Talbot and Girolami (2006), whose (6) misprints an index and a divisor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smaller.telling import tell

__all__ = [
    "Decisions",
    "ErrorRejectCurve",
    "PriorEstimate",
    "adjust_priors",
    "decide",
    "error_reject_curve",
    "estimate_priors",
    "expected_loss",
    "net_benefit",
]

FloatArray = NDArray[np.float64]

# Rows of float32 soft-maxes over many classes miss 1 by about 1e-5; a decision value misses it by far more.
_ROW_SUM_TOL = 1e-3
_PRIOR_SUM_TOL = 1e-6


class PriorEstimate(NamedTuple):
    """Class priors found by `estimate_priors`, and how the search for them ended.

    See Also
    --------
    estimate_priors : Makes it.

    Examples
    --------
    >>> from smaller.decisions import estimate_priors
    >>> estimate_priors([[0.99, 0.01]] * 3 + [[0.01, 0.99]], [0.5, 0.5]).converged
    True
    """

    priors: FloatArray
    n_iter: int
    converged: bool


class Decisions(NamedTuple):
    """What `decide` chose for every row: the column, its expected loss, and whether the row is rejected.

    See Also
    --------
    decide : Makes them.

    Examples
    --------
    >>> from smaller.decisions import decide
    >>> decide([[0.9, 0.1], [0.45, 0.55]], threshold=0.2).rejected.tolist()
    [False, True]
    """

    decision: NDArray[np.intp]
    risk: FloatArray
    rejected: NDArray[np.bool_]


class ErrorRejectCurve(NamedTuple):
    """Points of `error_reject_curve`, from "accept everything" to "accept only the surest rows".

    See Also
    --------
    error_reject_curve : Makes it.

    Examples
    --------
    >>> from smaller.decisions import error_reject_curve
    >>> curve = error_reject_curve([0.1, 0.4, 0.3], [False, True, False])
    >>> curve.error.round(3).tolist()
    [0.333, 0.0, 0.0]
    """

    thresholds: FloatArray
    rejected: FloatArray
    error: FloatArray


def adjust_priors(
    proba: ArrayLike, train_priors: ArrayLike, new_priors: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Move posteriors from the class priors of the training set to those of operation.

    .. math:: q_{ik} \propto p_{ik}\, \pi_k / \pi^t_k, \qquad \sum_k q_{ik} = 1

    This is right under *label shift* alone: the class frequencies changed, the distribution of the features
    within each class did not.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        Posterior probabilities under the training priors.
    train_priors : array-like of shape (n_classes,)
        Class priors the model was trained with. A class of prior 0 is excluded: its posterior becomes 0.
    new_priors : array-like of shape (n_classes,), default=None
        Class priors in operation. If None they are estimated from `proba` by `estimate_priors`.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes)
        Posterior probabilities under the new priors. A row whose whole mass lies on classes of new prior 0
        leaves nothing to rescale; it gets the new priors themselves.
    priors : ndarray of shape (n_classes,)
        The new priors, given or estimated.

    See Also
    --------
    estimate_priors : The estimate alone, with its iteration count.

    Examples
    --------
    A test calibrated on as many ill as healthy people, used where one in ten is ill:

    >>> from smaller.decisions import adjust_priors
    >>> proba, _ = adjust_priors([[0.2, 0.8]], train_priors=[0.5, 0.5], new_priors=[0.9, 0.1])
    >>> proba.round(3).tolist()
    [[0.692, 0.308]]
    """
    P = _check_proba(proba)
    old = check_priors(train_priors, P.shape[1], "train_priors")
    if new_priors is None:
        estimate = estimate_priors(P, old)
        if not estimate.converged:
            tell(
                f"The estimate of the new priors still moved after {estimate.n_iter} iterations; the classes "
                "overlap too much to tell their frequencies apart. Give new_priors if they are known.",
                RuntimeWarning,
            )
        new = estimate.priors
    else:
        new = check_priors(new_priors, P.shape[1], "new_priors", seen=old > 0)
    Q = P * _ratio(new, old)
    total = Q.sum(axis=1, keepdims=True)
    return np.where(total > 0, Q, new) / np.where(total > 0, total, 1.0), new


def estimate_priors(
    proba: ArrayLike,
    train_priors: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 2000,
) -> PriorEstimate:
    r"""Estimate the class priors of unlabelled rows by maximum likelihood (Saerens' EM).

    .. math:: \hat\pi = \arg\max_\pi \sum_i c_i \log \sum_k p_{ik}\, \pi_k / \pi^t_k

    over the simplex: a concave problem. Each EM step sets the priors to the mean, over the rows, of the
    posteriors adjusted to the last ones, and never lowers the likelihood.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        Posteriors, under the training priors, of rows drawn *in operation*; their labels are not needed.
    train_priors : array-like of shape (n_classes,)
        Class priors the model was trained with; the start. Classes of prior 0 are excluded and stay at 0.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights c of the rows; an integer weight equals so many copies of the row.
    tol : float, default=1e-8
        Stop when no prior moves by more than this.
    max_iter : int, default=2000
        Most EM steps taken.

    Returns
    -------
    PriorEstimate
        Named tuple `(priors, n_iter, converged)`.

    See Also
    --------
    adjust_priors : Probabilities under the priors found.
    smaller.PriorShiftClassifier : The same around a classifier.

    Examples
    --------
    >>> from smaller.decisions import estimate_priors
    >>> sharp = [[0.99, 0.01]] * 3 + [[0.01, 0.99]]
    >>> estimate_priors(sharp, [0.5, 0.5]).priors.round(3).tolist()
    [0.755, 0.245]
    """
    P = _check_proba(proba)
    old = check_priors(train_priors, P.shape[1], "train_priors")
    weight = _check_weight(sample_weight, len(P))
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}.")
    # Likelihood ratios p(x | k) / p(x), all the data say about the priors. A row with no mass on the classes
    # seen in training says nothing and drops out.
    ratios = P * _ratio(np.ones_like(old), old)
    informative = (ratios.sum(axis=1) > 0) & (weight > 0)
    if not informative.any():
        raise ValueError("proba must hold a row of positive weight with some mass on a class of positive train_priors.")
    ratios, weight = ratios[informative], weight[informative]
    weight = weight / weight.sum()

    priors, converged, n_iter = old, False, 0
    while not converged and n_iter < max_iter:
        # (6) corrected: the denominator sums over the classes j with p_t(C_j), and the mean runs over the
        # rows of operation, not those of training.
        update = priors * ((weight / (ratios @ priors)) @ ratios)
        converged = bool(np.max(np.abs(update - priors)) < tol)
        priors, n_iter = update, n_iter + 1
    return PriorEstimate(priors / priors.sum(), n_iter, converged)


def expected_loss(proba: ArrayLike, loss: ArrayLike | None = None) -> FloatArray:
    r"""Return the expected loss of every decision.

    .. math:: R_{ia} = \sum_k p_{ik} L_{ka}

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        Posterior probabilities.
    loss : array-like of shape (n_classes, n_decisions), default=None
        `loss[k, a]` is the loss of decision `a` when the truth is class `k` (rows true, columns
        decided, as in a confusion matrix). None is the 0-1 loss, for which R = 1 - proba.

    Returns
    -------
    ndarray of shape (n_samples, n_decisions)
        Expected losses.

    See Also
    --------
    decide : The column with the smallest expected loss.
    smaller.MinimumRiskClassifier : The same around a classifier.

    Examples
    --------
    >>> from smaller.decisions import expected_loss
    >>> expected_loss([[0.9, 0.1]], loss=[[0, 1], [20, 0]]).round(3).tolist()
    [[2.0, 0.9]]
    """
    P = _check_proba(proba)
    if loss is None:
        return 1.0 - P
    return P @ _check_loss(loss, P.shape[1])


def decide(proba: ArrayLike, loss: ArrayLike | None = None, threshold: float | None = None) -> Decisions:
    r"""Take the decision of least expected loss, or none where even that is too dear.

    .. math:: a_i = \arg\min_a R_{ia}, \qquad \text{row } i \text{ is rejected if } R_{i a_i} > t

    With the 0-1 loss this is Chow's rule: the most probable class, rejected if `1 - max(proba) > threshold`.
    If a rejection costs `t` on the scale of the loss, `threshold=t` gives the least total expected loss.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        Posterior probabilities.
    loss : array-like of shape (n_classes, n_decisions), default=None
        Loss matrix as in `expected_loss`; None is the 0-1 loss.
    threshold : float, default=None
        Largest expected loss accepted, or the cost of a rejection. None never rejects.

    Returns
    -------
    Decisions
        Named tuple `(decision, risk, rejected)`; `decision` holds column indices, for rejected rows too.

    See Also
    --------
    expected_loss : What is minimised.
    error_reject_curve : What rejecting would bring.
    smaller.RejectOptionClassifier : The same around a classifier.

    Examples
    --------
    >>> from smaller.decisions import decide
    >>> decision, risk, rejected = decide([[0.9, 0.1], [0.45, 0.55]], threshold=0.2)
    >>> decision.tolist(), rejected.tolist()
    ([0, 1], [False, True])
    """
    losses = expected_loss(proba, loss)
    decision = losses.argmin(axis=1)
    risk = losses[np.arange(len(losses)), decision]
    if threshold is None:
        return Decisions(decision, risk, np.zeros(len(risk), dtype=bool))
    if np.isnan(threshold):
        raise ValueError("threshold must be a number, or None to never reject; got NaN.")
    return Decisions(decision, risk, risk > threshold)


def error_reject_curve(
    risk: ArrayLike, incurred: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> ErrorRejectCurve:
    """Trace the error among accepted rows against the fraction rejected.

    One point per distinct risk t: rows of risk > t are rejected, the others accepted.

    Parameters
    ----------
    risk : array-like of shape (n_samples,)
        Expected loss of the decision taken for each row (`decide(...).risk`), or any score of doubt.
    incurred : array-like of shape (n_samples,)
        Loss each decision turned out to have: 1 for wrong and 0 for right, or its entry of the loss matrix.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; rows of weight 0 are ignored.

    Returns
    -------
    ErrorRejectCurve
        Named tuple `(thresholds, rejected, error)`: decreasing thresholds, the rejected fraction rising
        from 0, and the mean incurred loss among the accepted rows. Every point accepts at least one row.

    See Also
    --------
    decide : Where the risks come from.
    smaller.plotting.ErrorRejectDisplay : The curve drawn.

    Examples
    --------
    >>> from smaller.decisions import error_reject_curve
    >>> curve = error_reject_curve(risk=[0.1, 0.2, 0.4, 0.4], incurred=[0, 0, 1, 0])
    >>> curve.thresholds.tolist(), curve.rejected.tolist(), curve.error.tolist()
    ([0.4, 0.2, 0.1], [0.0, 0.5, 0.75], [0.25, 0.0, 0.0])
    """
    doubt, lost = np.asarray(risk, dtype=np.float64), np.asarray(incurred, dtype=np.float64)
    if doubt.ndim != 1 or doubt.shape != lost.shape or doubt.size == 0:
        raise ValueError(
            f"risk and incurred must be non-empty vectors of one length, got {doubt.shape} and {lost.shape}."
        )
    if not (np.isfinite(doubt).all() and np.isfinite(lost).all()):
        raise ValueError("risk and incurred must be finite; drop or repair the rows that are not.")
    weight = _check_weight(sample_weight, len(doubt))
    order = np.flatnonzero(weight > 0)
    order = order[np.argsort(doubt[order], kind="stable")]
    doubt, lost, weight = doubt[order], lost[order], weight[order]
    last = np.flatnonzero(np.append(doubt[1:] > doubt[:-1], True))[::-1]  # last of each run of equal risks
    accepted = np.cumsum(weight)
    rejected = 1.0 - accepted[last] / accepted[-1]
    return ErrorRejectCurve(doubt[last], rejected, np.cumsum(weight * lost)[last] / accepted[last])


def net_benefit(positive: ArrayLike, proba: ArrayLike, thresholds: ArrayLike) -> FloatArray:
    r"""Return the net benefit of acting on every row whose probability reaches a threshold (decision curve).

    .. math:: B(t) = \frac{\mathrm{TP}(t)}{n} - \frac{\mathrm{FP}(t)}{n} \, \frac{t}{1 - t}

    Acting from a probability t on says that a needless action is worth t / (1 - t) of a needed one (Vickers and Elkin
    2006). To act on nobody has the benefit 0; to act on everybody, that of ``proba`` all ones.

    Parameters
    ----------
    positive : array-like of shape (n_samples,)
        True where acting would be right.
    proba : array-like of shape (n_samples,)
        Probabilities of that.
    thresholds : array-like of shape (n_thresholds,)
        Probabilities from which one acts, at least 0 and below 1.

    Returns
    -------
    ndarray of shape (n_thresholds,)
        Net benefits, in needed actions a row.

    See Also
    --------
    expected_loss : What any decision costs.

    Examples
    --------
    >>> from smaller.decisions import net_benefit
    >>> net_benefit([True, False, False, True], [0.9, 0.6, 0.1, 0.4], thresholds=[0.2, 0.5]).round(4).tolist()
    [0.4375, 0.0]
    """
    needed, p, t = np.asarray(positive, dtype=bool), np.asarray(proba, np.float64), np.asarray(thresholds, np.float64)
    if needed.ndim != 1 or needed.shape != p.shape or needed.size == 0 or t.ndim != 1:
        raise ValueError(
            f"positive and proba must be non-empty vectors of one length, got {needed.shape} and {p.shape}."
        )
    if not ((t >= 0) & (t < 1)).all():
        raise ValueError("thresholds must be probabilities of at least 0 and below 1.")
    if np.isnan(p).any():
        raise ValueError("proba must hold no NaN.")
    hits = (needed & (p >= t[:, None])).mean(axis=1)
    needless = (~needed & (p >= t[:, None])).mean(axis=1)
    return np.asarray(hits - needless * t / (1.0 - t))


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide, with 0 where the denominator is 0: classes unseen in training are excluded."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _check_proba(proba: ArrayLike) -> FloatArray:
    P = np.asarray(proba, dtype=np.float64)
    if P.ndim != 2 or P.size == 0:
        raise ValueError(f"proba must be a non-empty (n_samples, n_classes) array, got shape {P.shape}.")
    if not np.isfinite(P).all() or P.min() < 0:
        raise ValueError("proba must hold finite, non-negative probabilities.")
    if np.max(np.abs(P.sum(axis=1) - 1.0)) > _ROW_SUM_TOL:
        raise ValueError("proba must have rows that sum to 1; pass the output of predict_proba.")
    return P


def check_priors(priors: ArrayLike, n_classes: int, name: str, *, seen: NDArray[np.bool_] | None = None) -> FloatArray:
    """Return the priors, exactly normalised, or raise a ValueError; `seen` marks the classes of training."""
    p = np.asarray(priors, dtype=np.float64)
    if p.shape != (n_classes,):
        raise ValueError(f"{name} must have one entry per class, shape ({n_classes},), got {p.shape}.")
    if not np.isfinite(p).all() or p.min() < 0 or abs(p.sum() - 1.0) > _PRIOR_SUM_TOL:
        raise ValueError(f"{name} must be non-negative and sum to 1, got {p.tolist()}; divide counts by their sum.")
    if seen is not None and np.any(p[~seen] > 0):
        raise ValueError(
            f"{name} must be 0 where train_priors is 0 (columns {np.flatnonzero(~seen).tolist()}): "
            "a model cannot recognise a class it never saw."
        )
    return np.asarray(p / p.sum())


def _check_loss(loss: ArrayLike, n_classes: int) -> FloatArray:
    L = np.asarray(loss, dtype=np.float64)
    if L.ndim != 2 or len(L) != n_classes or L.shape[1] == 0:
        raise ValueError(f"loss must have one row per true class ({n_classes}), got shape {L.shape}.")
    if not np.isfinite(L).all():
        raise ValueError("loss must be finite; use a large number for a decision that must never be taken.")
    return L


def _check_weight(sample_weight: ArrayLike | None, n_samples: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have one entry per row, shape ({n_samples},), got {weight.shape}.")
    if not np.isfinite(weight).all() or weight.min() < 0 or weight.sum() == 0:
        raise ValueError("sample_weight must be finite and non-negative, and not zero throughout.")
    return weight
