"""Stability selection: which features are chosen again and again, whichever half of the rows is used."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.estimators.documentation import DocumentationLink
from smaller.estimators.fields import anything, check_all, checked, choice, flag, integer, number, with_fields
from smaller.estimators.regularization_path import alpha_max, smlr_path
from smaller.threads import carried
from smaller.validation import (
    check_classification_data,
    column_ranges,
    powers_of_two,
    unchanged_on_failure,
)

__all__ = ["StabilitySelection", "expected_false_selections"]

_DEFAULT_THRESHOLD = 0.9  # when neither the threshold nor the number of features per half is given
_GRID, _DEPTH = 40, 0.02  # of the path on each half: strengths, and the smallest as a share of the largest
_STRIDE = 8  # strengths solved at a time
_PATH_TOL = 1e-4  # which features enter first is settled long before the weights are


def expected_false_selections(
    threshold: float, n_chosen: float, n_features: int, n_pairs: int, *, bound: str = "worst-case"
) -> float:
    r"""Bound the expected number of selected features that a half of the rows chooses no oftener than chance.

    .. math:: E|V| \le \frac{q^2}{(2\tau - 1)\,p}

    for q features chosen per half out of p, and threshold :math:`\tau`; "chance" is a probability of at most q/p. With
    ``bound="unimodal"`` the distribution of the simultaneous selection frequencies is assumed to have one mode, which
    gives a sharper factor (Shah and Samworth 2013, Theorem 2).

    Parameters
    ----------
    threshold : float
        Selection frequency from which a feature counts as stable, above 1/2.
    n_chosen : float
        Mean number q of features chosen on a half.
    n_features : int
        Number p of features.
    n_pairs : int
        Number B of complementary pairs.
    bound : {"worst-case", "unimodal"}, default="worst-case"
        Which bound.

    Returns
    -------
    float
        The bound; infinite where there is none.

    Examples
    --------
    >>> expected_false_selections(0.9, 10, 100, 50)
    1.25
    """
    theta = n_chosen / n_features
    if bound == "worst-case":
        return theta * n_chosen / (2.0 * threshold - 1.0) if threshold > 0.5 else math.inf
    half = 1.0 / (2.0 * n_pairs)
    if theta > 1.0 / math.sqrt(3.0) or threshold <= min(0.5 + theta**2, 0.5 + half + 0.75 * theta**2):
        return math.inf
    if threshold <= 0.75:
        factor = 1.0 / (2.0 * (2.0 * threshold - 1.0 - half))
    else:
        factor = 4.0 * (1.0 - threshold + half) / (1.0 + 2.0 * half)
    return factor * theta * n_chosen


@with_fields
class StabilitySelection(DocumentationLink, SelectorMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Keep the features that are chosen on most halves of the rows, with a bound on false ones.

    .. math:: \hat\Pi_j = \frac{1}{2B} \sum_{b=1}^{B} \bigl(1[j \in S(A_b)] + 1[j \in S(\bar A_b)]\bigr)

    The rows are split at random into complementary halves B times (within each class, so that halves keep the
    proportions); S is what is chosen on a half. Features with :math:`\hat\Pi_j \ge \tau` are kept. A high frequency
    says that a feature is found again on other rows, not that it causes anything: of two copies of one feature each
    may be chosen half of the time.

    Parameters
    ----------
    estimator : estimator, default=None
        Fitted to every half; features with a non-zero ``coef_`` count as chosen (of a `Pipeline` the last step is
        asked). None: the first ``n_features`` features that enter the path of :class:`smaller.SMLR`.
    n_features : int, default=None
        Number q of features taken from each half when ``estimator`` is None. None: as many as ``max_false`` allows at
        ``threshold``.
    n_pairs : int, default=50
        Number B of complementary pairs; 2B fits.
    threshold : float in (0.5, 1], default=None
        None: the smallest one whose bound is at most ``max_false``.
    max_false : float, default=1.0
        Tolerated expected number of selected features that are chosen no oftener than by chance.
    bound : {"worst-case", "unimodal"}, default="worst-case"
        See :func:`expected_false_selections`.
    standardize : bool, default=True
        Without ``estimator``: divide features by their standard deviation on the half.
    n_jobs : int, default=None
        Pairs fitted in parallel.
    random_state : int, RandomState or None, default=None
        For the splits.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features,)
        Selection frequencies.
    threshold_ : float
        Frequency from which a feature is kept; above 1 (nothing is kept) where no threshold meets ``max_false``.
    n_chosen_ : float
        Mean number of features chosen on a half.
    expected_false_ : float
        The bound at ``threshold_``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    coef_interval : Ranges and p-values of the weights.
    smaller.plotting.StabilityDisplay : The frequencies as bars.

    References
    ----------
    Meinshausen, Buehlmann (2010). Stability selection. JRSS B 72(4).
    Shah, Samworth (2013). Variable selection with error control: another look at stability selection. JRSS B 75(1).

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.estimators.stability import StabilitySelection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 30))
    >>> y = X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=200) > 0
    >>> StabilitySelection(n_pairs=10, random_state=0).fit(X, y).get_support(indices=True)
    array([3, 7])
    """

    estimator: Any = anything(None, kw_only=False)
    n_features: int | None = integer(None, least=1)
    n_pairs: int = integer(50, least=1)
    threshold: float | None = number(None, least=0.5, most=1.0, open_left=True)
    max_false: float = number(1.0, least=0.0, open_left=True)
    bound: str = choice("worst-case", "worst-case", "unimodal")
    standardize: bool = flag(True)
    n_jobs: int | None = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Count how often each feature is chosen.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Class labels.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group stay in one half; the halves are then of about equal size.

        Returns
        -------
        self : StabilitySelection
            The fitted selector, left as it was before if fitting fails.
        """
        check_all(self)
        with unchanged_on_failure(self):
            data = check_classification_data(self, X, y)
            rows = data.X.tocsr() if hasattr(data.X, "tocsr") else data.X
            n_pairs = checked(self, "n_pairs")
            count, standardize = self._count(rows.shape[1]), checked(self, "standardize")
            rng = check_random_state(self.random_state)
            draw = _complementary_halves if groups is None else partial(_group_halves, _check_groups(groups, rows))
            halves = [half for _ in range(n_pairs) for half in draw(data.codes, rng)]
            labels = data.classes[data.codes]
            chosen = Parallel(n_jobs=self.n_jobs)(
                delayed(carried(_choose))(rows[half], labels[half], self.estimator, count, standardize)
                for half in halves
            )
            self.frequencies_ = np.mean(chosen, axis=0)
            self.n_chosen_ = float(np.sum(self.frequencies_))
            self.threshold_ = self._resolved_threshold(rows.shape[1])
            self.expected_false_ = self._expected_false(self.threshold_, rows.shape[1])
        return self

    def _count(self, p: int) -> int:
        """Return how many features to take from each half: q = sqrt((2 tau - 1) p max_false) unless given."""
        if self.n_features is not None:
            return int(min(checked(self, "n_features"), p))
        threshold = _DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return max(1, min(p, int(math.sqrt((2.0 * threshold - 1.0) * p * self.max_false))))

    def _expected_false(self, threshold: float, p: int) -> float:
        if threshold > 1.0:
            return 0.0
        return expected_false_selections(threshold, self.n_chosen_, p, self.n_pairs, bound=self.bound)

    def _resolved_threshold(self, p: int) -> float:
        if self.threshold is not None:
            return float(self.threshold)
        # Frequencies are multiples of 1/(2B), so only those can matter.
        steps = np.arange(self.n_pairs + 1, 2 * self.n_pairs + 1) / (2 * self.n_pairs)
        allowed = [float(step) for step in steps if self._expected_false(float(step), p) <= self.max_false]
        return allowed[0] if allowed else 1.0 + 1.0 / (2 * self.n_pairs)

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return self.frequencies_ >= self.threshold_ - 1e-12

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True if self.estimator is None else get_tags(self.estimator).input_tags.sparse
        return tags


def _complementary_halves(codes: Array, rng: Any) -> tuple[Array, Array]:
    """Split the rows into two halves of floor(n/2), alternating within every class."""
    order = rng.permutation(len(codes))
    class_order = rng.permutation(codes.max() + 1)  # which class gives up the odd row is left to chance
    order = order[np.argsort(class_order[codes[order]], kind="stable")][: len(codes) // 2 * 2]
    halves = np.sort(order[0::2]), np.sort(order[1::2])
    if any(len(np.unique(codes[half])) < 2 for half in halves):
        raise ValueError("y must have two rows of at least two classes: a minimum of 2 is required in each half.")
    return halves


def _check_groups(groups: Any, X: Any) -> Array:
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(codes) != X.shape[0]:
        raise ValueError(f"groups has {len(codes)} values for {X.shape[0]} rows: give one for each row.")
    return np.asarray(codes)


def _group_halves(groups: Array, codes: Array, rng: Any) -> tuple[Array, Array]:
    """Split whole groups into two halves, alternating among the groups of one commonest class."""
    count, n_classes = groups.max() + 1, codes.max() + 1
    table = np.bincount(groups * n_classes + codes, minlength=count * n_classes).reshape(count, n_classes)
    order = np.lexsort((rng.permutation(count), table.argmax(axis=1)))
    first = np.empty(count, dtype=bool)
    first[order] = np.arange(count) % 2 == 0
    halves = np.flatnonzero(first[groups]), np.flatnonzero(~first[groups])
    if any(len(np.unique(codes[half])) < 2 for half in halves):
        raise ValueError("y must have two groups of at least two classes: a minimum of 2 is required in each half.")
    return halves


def _choose(X: Any, y: Array, estimator: Any, count: int, standardize: bool) -> Array:
    """Return which features are chosen on these rows."""
    if estimator is None:
        return _first_on_path(X, y, count, standardize)
    fitted = clone(estimator).fit(X, y)
    last = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    if not hasattr(last, "coef_"):
        raise TypeError(f"estimator must have coef_ after fit, {type(last).__name__} has not: leave out its kernel.")
    return np.atleast_2d(last.coef_).any(axis=0)


def _first_on_path(X: Any, y: Array, count: int, standardize: bool) -> Array:
    """Return the features that enter the path first; those that enter together rank by their weight there."""
    if standardize:
        X = StandardScaler(with_mean=not hasattr(X, "tocsr")).fit_transform(_near_one(X))
    never = _GRID
    entry, weight = np.full(X.shape[1], never), np.zeros(X.shape[1])
    largest = alpha_max(X, y)
    if largest > 0.0:
        grid = np.geomspace(largest, _DEPTH * largest, _GRID)
        for start in range(0, _GRID, _STRIDE):  # piece by piece: the path is followed no further than needed
            for step, w in enumerate(_path(X, y, grid[start : start + _STRIDE]), start):
                size = abs(w).max(axis=1).toarray().ravel()
                new = (size > 0) & (entry == never)
                entry[new], weight[new] = step, size[new]
            if (entry < never).sum() >= count:
                break
    first = np.lexsort((-weight, entry))[:count]
    chosen = np.zeros(X.shape[1], dtype=bool)
    chosen[first] = entry[first] < never
    return chosen


def _near_one(X: Any) -> Any:
    """Return columns of extreme size times powers of two, so that their variances are numbers."""
    low, high = column_ranges(X)
    scales = powers_of_two(np.maximum(np.abs(low), np.abs(high)))
    if scales is None:
        return X
    return X @ sparse.diags_array(scales) if hasattr(X, "tocsr") else X * scales


def _path(X: Any, y: Array, alphas: Array) -> Any:
    return smlr_path(X, y, alphas=alphas, tol=_PATH_TOL).weights
