"""JCFOCV: the two strengths of JCFO chosen by held-out likelihood."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.arguments import FoldArguments
from smaller.estimators.base import Fitted
from smaller.estimators.callbacks import with_callbacks
from smaller.estimators.fields import anything, with_fields
from smaller.estimators.folds import classes_in, folds_of
from smaller.estimators.jcfo import JCFO, ScaledKernels
from smaller.estimators.widths import log_likelihoods
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
        As in :class:`JCFO`; centres and features are chosen anew in every fold.
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
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in JCFO().get_params()}
        model = JCFO(**(shared | {"class_weight": None, "warm_start": True, "verbose": 0}))
        held_out_weight = check_weight(sample_weight, data.X.shape[0])
        folds = folds_of(self.cv, data, groups)
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(carried(_score_fold))(model, data, held_out_weight, train, test, self.alphas_, self.alphas_scales_)
            for train, test in folds
        )
        self.scores_ = np.array(scores)
        i, j = _choose(self.scores_, self.rule)
        self.alpha_, self.alpha_scales_ = float(self.alphas_[i]), float(self.alphas_scales_[j])
        return self._found(data, basis, centers, progress)

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


def _score_fold(
    model: JCFO,
    data: TrainingData,
    held_out_weight: Array | None,
    train: Array,
    test: Array,
    alphas: Array,
    alphas_scales: Array,
) -> Array:
    """Return the mean held-out log-likelihood of every pair of strengths."""
    X = data.X.tocsr() if sparse.issparse(data.X) else data.X
    weight = None if data.weight is None else data.weight[train]
    classes_in(data.codes[train], weight)
    test_weight = None if held_out_weight is None else held_out_weight[test]
    scores = np.empty((len(alphas), len(alphas_scales)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "JCFO (kept no kernel|keeps)")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i, alpha in enumerate(alphas):
            chain = clone(model).set_params(alpha=alpha)
            for j in reversed(range(len(alphas_scales))):
                chain.set_params(alpha_scales=alphas_scales[j]).fit(X[train], data.codes[train], weight)
                scores[i, j] = np.average(log_likelihoods(chain, X[test], data.codes[test]), weights=test_weight)
    return scores
