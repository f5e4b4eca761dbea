"""JCFOCV: the two strengths of JCFO chosen by held-out likelihood."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from smaller.arrays import Array, log_partition
from smaller.bases import Basis
from smaller.estimators.arguments import FoldArguments
from smaller.estimators.base import Fitted, class_scores
from smaller.estimators.callbacks import with_callbacks
from smaller.estimators.centers import double_rows
from smaller.estimators.fields import anything, with_fields
from smaller.estimators.folds import SMALLEST_PROBABILITY, folds_of, part_of
from smaller.estimators.scaled_kernels import Ready, ScaledKernels
from smaller.solvers.driver import Progress
from smaller.threads import carried
from smaller.validation import TrainingData, check_number, check_weight

__all__ = ["JCFOCV"]


@with_fields
class JCFOCV(FoldArguments, ScaledKernels):
    """JCFO with both strengths chosen by cross-validated log-likelihood.

    In every fold and for every ``alpha`` the fits go up ``alphas_scales``, each from the end of the one before, so that
    features leave a rich model one by one. (Downwards, fits stay in the region of a first model that is too poor.) The
    model kept is that of :class:`JCFO` with the chosen strengths on all rows, from its own start. Of equal scores the
    larger strengths win.

    Parameters
    ----------
    alphas : array-like, default=(3.0, 1.0, 0.3)
        Strengths on the weights to choose from.
    alphas_scales : array-like, default=(30.0, 10.0, 3.0, 1.0, 0.3)
        Strengths on the scales to choose from. Good ones are larger where scales are smaller: for many features, or
        inputs of large spread.
    cv : int, splitter or iterable, default=5
        Folds; an integer means stratified folds.
    rule : {"min", "1se"}, default="min"
        The best mean score, or the *largest* strengths within one standard error of it: the largest such ``alpha``, and
        the largest ``alpha_scales`` that goes with it.
    n_jobs : int, default=None
        Folds fitted in parallel.
    kernel, gamma, degree, coef0, n_centers, centers, preselect, preselect_alpha, n_preselect
        As in :class:`JCFO`; centres and features are chosen anew in every fold. With ``n_centers="auto"`` the folds
        have 200 centres, and only the last fit has a second stage.
    likelihood, fit_intercept, penalize_intercept, class_weight, starts, n_init, em_iter, tol, max_iter
        As in :class:`JCFO`.
    random_state, verbose
        As in :class:`JCFO`.

    Attributes
    ----------
    alpha_, alpha_scales_ : float
        The chosen strengths.
    alphas_, alphas_scales_ : ndarray
        The grids, largest first.
    scores_ : ndarray of shape (n_folds, n_alphas, n_alphas_scales)
        Mean log-likelihood of the held-out rows.
    classes_, scales_, active_features_, support_, support_vectors_, dual_coef_, intercept_, preselected_, solution_
        As in :class:`JCFO`, at the chosen strengths.

    See Also
    --------
    JCFO : Strengths that you know.

    Examples
    --------
    >>> from smaller.datasets import make_rings
    >>> from smaller.estimators.jcfo_cv import JCFOCV
    >>> X, y = make_rings(100, n_features=6, random_state=0)
    >>> model = JCFOCV(alphas=[1.0], alphas_scales=[30.0, 3.0], cv=3).fit(X, y)
    >>> model.active_features_
    array([0, 1])
    """

    alphas: Any = anything((3.0, 1.0, 0.3), kw_only=False)
    alphas_scales: Any = anything((30.0, 10.0, 3.0, 1.0, 0.3), kw_only=False)

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the strengths on the folds and fit all rows with them.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`JCFO.fit`; held-out scores are weighted too.
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter.

        Returns
        -------
        self : JCFOCV
            The fitted estimator, left as it was before if fitting fails.
        """
        return self._fit(X, y, sample_weight, partial(self._search, groups=groups, sample_weight=sample_weight))

    def _search(
        self,
        data: TrainingData,
        basis: Basis,
        centers: Array | None,
        progress: Progress | None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Fitted:
        self.alphas_ = _grid("alphas", self.alphas)
        self.alphas_scales_ = _grid("alphas_scales", self.alphas_scales)
        held_out_weight = check_weight(sample_weight, data.X.shape[0])
        model = clone(self)  # what is fitted must not travel to every fold
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(carried(model._fold_scores))(data, held_out_weight, train, test, self.alphas_, self.alphas_scales_)
            for train, test in folds_of(self.cv, data, groups)
        )
        self.scores_ = np.array(scores)
        i, j = _choose(self.scores_, self.rule)
        self.alpha_, self.alpha_scales_ = float(self.alphas_[i]), float(self.alphas_scales_[j])
        return self._found(data, self._ready(data, basis, centers), None, progress)

    def _fold_scores(
        self,
        data: TrainingData,
        held_out_weight: Array | None,
        train: Array,
        test: Array,
        alphas: Array,
        alphas_scales: Array,
    ) -> Array:
        """Return the mean held-out log-likelihood of every pair of strengths.

        The rows are looked at once: centres, screens and starts are the same for all strengths.
        """
        part, X, present = part_of(data, train, test, pairwise=False)
        X, codes = double_rows(X), data.codes[test]
        weight = None if held_out_weight is None else held_out_weight[test]
        ready = self._ready(part, *self._basis(part))
        ready = ready if ready.few is None else ready.narrowed(ready.few)
        scores = np.empty((len(alphas), len(alphas_scales)))
        first = None
        for i in reversed(range(len(alphas))):
            last = first
            for j in reversed(range(len(alphas_scales))):
                last = self._solved(ready, (alphas[i], alphas_scales[j]), last)
                first = last if j == len(alphas_scales) - 1 else first
                eta = ready.outputs(last, X)
                found = _log_likelihoods(eta[:, 0] if eta.shape[1] == 1 else eta, ready, codes, present)
                scores[i, j] = np.average(found, weights=weight)
        return scores

    def _strengths(self) -> tuple[float, float]:
        return self.alpha_, self.alpha_scales_


def _grid(name: str, values: Any) -> Array:
    grid = np.sort([check_number(name, value, least=0.0, open_left=True) for value in np.ravel(values)])[::-1]
    if len(grid) == 0:
        raise ValueError(f"{name} must hold at least one strength.")
    return grid


def _choose(scores: Array, rule: str) -> tuple[int, int]:
    """Return the indices of the chosen strengths, given largest first; ties go to the larger."""
    mean = scores.mean(axis=0)
    best = int(mean.argmax())
    if rule == "1se" and len(scores) > 1:
        error = scores.reshape(len(scores), -1)[:, best].std(ddof=1) / np.sqrt(len(scores))
        best = int(np.flatnonzero(mean.ravel() >= mean.max() - error)[0])
    i, j = np.unravel_index(best, mean.shape)
    return int(i), int(j)


def _log_likelihoods(eta: Array, ready: Ready, codes: Array, present: Array) -> Array:
    """Return the log-likelihood of every row's class, a smallest one where the fold knows no such class."""
    scores = class_scores(eta, ready.scaled.likelihood)
    values = scores - log_partition(scores, pinned=False)[0][:, None]
    found = np.where(codes[:, None] == present, values, -np.inf).max(axis=1)
    return np.maximum(found, np.log(SMALLEST_PROBABILITY))
