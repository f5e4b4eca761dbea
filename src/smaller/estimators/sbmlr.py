"""SBMLR: the strength integrated out, so that nothing is tuned (Cawley, Talbot, Girolami 2006)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from smaller.arrays import Array
from smaller.bases import Basis, Linear
from smaller.estimators.arguments import MultinomialArguments
from smaller.estimators.assembly import Assembly
from smaller.estimators.base import Fitted, warn_unless_converged
from smaller.estimators.blocks import Blocks, check_blocks, forget_blocks, store_blocks
from smaller.estimators.fields import checked, choice, flag, with_fields
from smaller.estimators.intervals import ProbabilityRanges
from smaller.estimators.located import LocatedData, assemble_rows, refuse_unusual
from smaller.estimators.offsets import OffsetClassifier, refuse_offset
from smaller.estimators.relaxed import Ended, forget_relaxed, relaxed
from smaller.estimators.smlr import assemble
from smaller.estimators.widths import ChosenWidth
from smaller.papers import find_greedily
from smaller.searches.blocks import BlockFit, find_strengths
from smaller.searches.evidence import EvidenceFit, find_strength
from smaller.searches.row_evidence import find_row_strength
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData, check_factors

__all__ = ["SBMLR", "select_by_evidence"]

_FOLDS_FINEST = 32  # grid steps: folds of `relax` need their strength to a quarter of a percent only


@with_fields
class SBMLR(ChosenWidth, ProbabilityRanges, MultinomialArguments, OffsetClassifier):
    """Sparse multinomial logistic regression that finds its own strength: no parameter is tuned.

    The strength ``alpha`` of the Laplace prior is integrated out analytically. What remains is :class:`SMLR` at the
    self-consistent strength::

        alpha = W / sum_j |w_j|,     W = number of non-zero weights

    One fit takes the place of a cross-validation. Scale the features first: one strength serves all of them, or all of
    a block (``blocks``).

    Parameters
    ----------
    mode : {"path", "greedy"}, default="path"
        "path": certified solves from the null model downwards; the first strength at which the equation holds is
        bracketed and narrowed. Deterministic and fast. "greedy": the paper's own scheme, one weight at a time, with a
        certified stop; kept for study.
    fallback : {"max_f", "null"}, default="max_f"
        What to return, with a warning, when no strength is self-consistent: the model that comes nearest (the
        largest ``alpha * sum |w| / W``; in greedy mode, the one the scheme ends with), or the model without features.
        With several ``blocks`` always the latter.
    blocks : array-like of shape (n_features,) or dict, default=None
        A strength of its own for every block of features that belong together (kinds of measurement, kernels): a label
        per feature, or a dict from names of blocks to indices or names of their columns. Each block's equation is the
        one above, for its own weights. Not with ``mode="greedy"``, ``kernel`` or ``penalize_intercept``.
    relax : bool, default=False
        Take the shrinkage out of the probabilities, as far as rows left out confirm it: ``coef_`` becomes ``a``
        times the penalised weights plus ``c`` times a refit of their support, a ridge whose strength is its own
        evidence. Costs about as much as ``cv`` more fits.
    posterior : bool, default=False
        Keep what `probability_interval` needs: as many numbers as the square of the number of weights in use.
    cv : int, splitter or iterable, default=5
        Folds of ``relax``; each repeats the whole fit. An integer means stratified folds.
    count : {"canonical", "as_found"}, default="canonical"
        Which of equivalent weights make up W (there are such for even numbers of classes, in symmetric coding): those
        of one definite form, or those that the solver ends with, as in the paper's tables.
    kernel, degree, coef0, kernel_params, n_centers
        As in :class:`SMLR`.
    gamma : float, "scale", "auto" or "cv", default="scale"
        Kernel coefficient. "cv": the likeliest for rows left out, as in :class:`KLR`; not with offsets or soft labels.
    coding, fit_intercept
        As in :class:`SMLR`.
    penalize_intercept : bool, default=False
        Penalise the intercept like a weight and count it in W, as the paper does.
    penalty_factors : array-like of shape (n_features,), default=None
        As in :class:`SMLR`; ``sum_j`` above is then of ``r_j |w_j|``, and weights of factor 0 are not counted.
    class_weight
        As in :class:`SMLR`.
    tol : float, default=1e-6
        The duality gap at the solution is at most ``tol`` times the negative log-likelihood of the model without
        features.
    max_iter : int, default=1000
        Limit on the outer iterations of every solve; in greedy mode, on updates as a multiple of the number of weights.
    random_state, verbose
        As in :class:`SMLR`.

    Attributes
    ----------
    alpha_ : float
        The strength found; not a number with several ``blocks``.
    gamma_, gammas_, gamma_scores_
        As in :class:`KLR`, with a kernel.
    alphas_ : ndarray of shape (n_blocks,)
        With ``blocks``: the strength of each; infinite for a block that is left out, not a number for one of which
        nothing is penalised.
    n_active_blocks_ : ndarray of shape (n_blocks,)
        With ``blocks``: W of each.
    block_names_, blocks_ : ndarray
        With ``blocks``: the name of each, and the block of every feature as an index into the names.
    n_active_ : int
        W, the number of penalised weights that are not zero, counted as ``count`` says.
    log_evidence_ : float
        Logarithm of the evidence in Laplace's approximation, to compare designs (kernel widths, sets of features) on
        the same rows; not a number without a fixed point, or where active columns depend on each other.
    solution_ : Solution
        The certificate at ``alpha_``. Status CONVERGED; KINK (the number of weights jumps where the two sides of the
        equation would meet: a valid result, the sparser side is kept); or NO_FIXED_POINT (warned about).
    relax_ : tuple of float
        With ``relax``: ``(a, c)``. Without any feature, or without folds of two classes each, ``(1, 0)``.
    penalized_coef_, penalized_intercept_, penalized_dual_coef_ : ndarray
        With ``relax``: the penalised weights (the last with a kernel), which are what ``solution_`` certifies.
    refit_strength_ : float
        With ``relax``: the ridge of the refit, ``rho / 2 * sum_j (r_j w_j)^2``; not a number without any weight.
    classes_, coef_, intercept_, active_features_, support_, support_vectors_, dual_coef_, n_iter_
        As in :class:`SMLR`.

    See Also
    --------
    SMLRCV : The strength by the log-loss of rows left out.
    select_by_evidence : Kernels and sets of features compared by their evidence.
    RVC : A strength for every weight.

    References
    ----------
    Cawley, Talbot, Girolami (2006). Sparse multinomial logistic regression via Bayesian L1 regularisation. NIPS 19.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from smaller import SBMLR
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SBMLR().fit(scale(X), y)
    >>> model.n_active_, round(model.alpha_, 2), model.solution_.status.name
    (15, 1.15, 'CONVERGED')
    """

    _anywhere = True
    _soft_labels = False

    mode: str = choice("path", "greedy")
    fallback: str = choice("max_f", "null")
    blocks: Any = None
    relax: bool = flag(False)
    cv: Any = 5
    count: str = choice("canonical", "as_found")

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        relax = checked(self, "relax")
        forget_relaxed(self)
        forget_blocks(self)
        if data.offset is not None:
            refuse_offset(self, "relax", "posterior")
        blocks = self._blocks(data, centers)
        assembly, found = self._find(data, basis, centers, progress, blocks)
        if blocks is not None and isinstance(found, BlockFit):
            store_blocks(self, blocks, found.alphas, found.n_active)
        self.alpha_, self.n_active_, self.log_evidence_ = found.alpha, int(np.sum(found.n_active)), found.log_evidence
        self._keep(basis, assembly.problem, assembly.origin(), found.solution, strength=found.strengths)
        w, b = assembly.to_user(found.solution.w, found.solution.b)
        fitted = Fitted(basis, centers, w, b, assembly.problem.likelihood, replace(found.solution, w=w, b=b))
        if not relax:
            return fitted
        ended = Ended(basis, assembly, found.solution.w, found.solution.b)
        return relaxed(self, fitted, ended, data, partial(self._repeat, blocks), self.cv)

    def _search_located(self, data: LocatedData, progress: Progress | None) -> Fitted:
        unusual = {"kernel": None, "mode": "path", "blocks": None, "relax": False, "count": "canonical"}
        for argument, usual in unusual.items():
            refuse_unusual(self, argument, usual)
        forget_relaxed(self)
        forget_blocks(self)
        problem, units = assemble_rows(self, data, alpha=1.0, l1_ratio=1.0)
        found = find_row_strength(
            problem,
            tol=checked(self, "tol"),
            max_iter=checked(self, "max_iter"),
            fallback=checked(self, "fallback"),
            progress=progress,
        )
        self.alpha_, self.n_active_, self.log_evidence_ = found.alpha, found.n_active, found.log_evidence
        w, b = units.to_user(found.solution.w, found.solution.b)
        return Fitted(Linear(), None, w, b, units.likelihood, replace(found.solution, w=w, b=b))

    def _blocks(self, data: TrainingData, centers: Array | None) -> Blocks | None:
        if self.blocks is None:
            return None
        if centers is not None:
            raise ValueError("blocks belong to features: leave them out with a kernel, or give kernel columns as X.")
        if self.mode == "greedy":
            raise ValueError("blocks have no greedy mode: use mode='path'.")
        if self.fit_intercept and self.penalize_intercept:
            raise ValueError("blocks hold features, and a penalised intercept would be in none: leave it free.")
        return check_blocks(self.blocks, data.X.shape[1], getattr(self, "feature_names_in_", None))

    def _repeat(self, blocks: Blocks | None, data: TrainingData) -> Ended:
        """Go through the whole fit again, on other rows."""
        basis, centers = self._basis(data)
        assembly, found = self._find(data, basis, centers, None, blocks, finest=_FOLDS_FINEST)
        return Ended(basis, assembly, found.solution.w, found.solution.b)

    def _find(
        self,
        data: TrainingData,
        basis: Basis,
        centers: Array | None,
        progress: Progress | None,
        blocks: Blocks | None,
        *,
        finest: int = 1,
    ) -> tuple[Assembly, EvidenceFit | BlockFit]:
        mode = checked(self, "mode")
        fallback = checked(self, "fallback")
        tol = checked(self, "tol")
        max_iter = checked(self, "max_iter")
        if self.penalty_factors is not None and centers is not None:
            raise ValueError("penalty_factors belong to features: leave them out when a kernel is used.")
        assembly = assemble(
            data,
            basis,
            alpha=1.0,
            l1_ratio=1.0,
            coding=checked(self, "coding"),
            fit_intercept=checked(self, "fit_intercept"),
            penalize_intercept=checked(self, "penalize_intercept"),
            factors=check_factors(self.penalty_factors, data.X.shape[1]) if centers is None else None,
        )
        canonical = checked(self, "count") == "canonical"
        search: Any = find_greedily if mode == "greedy" else partial(find_strength, finest=finest)
        if blocks is not None:
            numbers = blocks.of_feature[assembly.origin()[0]]
            search = partial(find_strengths, blocks=numbers, count=len(blocks.names), finest=finest)
        found = search(
            assembly.problem,
            tol=tol,
            max_iter=max_iter,
            fallback=fallback,
            progress=progress,
            canonical=canonical,
        )
        return assembly, found


def select_by_evidence(estimators: Iterable[Any], X: Any, y: Any, **fit_params: Any) -> Any:
    """Fit candidates that differ in their design and return the one with the largest evidence.

    The evidence compares models of the *same rows* without holding any out: kernel widths, kernels, sets of features.
    Candidates must agree in what is penalised (``coding``, ``fit_intercept``, ``penalize_intercept``), since the flat
    prior of a free intercept has no scale of its own.

    Parameters
    ----------
    estimators : iterable of SBMLR, or of pipelines that end in one
        The candidates; they are cloned, never fitted themselves.
    X, y
        As in :meth:`SBMLR.fit`.
    **fit_params
        Passed to every ``fit``, such as ``sample_weight``.

    Returns
    -------
    estimator
        The fitted candidate with the largest ``log_evidence_``; of equal ones the first.

    See Also
    --------
    SBMLR : What is compared.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from smaller import SBMLR
    >>> from smaller.estimators.sbmlr import select_by_evidence
    >>> X, y = make_moons(120, noise=0.25, random_state=0)
    >>> widths = [0.01, 1.0, 100.0]
    >>> select_by_evidence([SBMLR(kernel="rbf", gamma=gamma) for gamma in widths], X, y).gamma
    1.0
    """
    with warnings.catch_warnings():
        # That a candidate has no fixed point is an answer here; only the winner's troubles are the caller's.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = [clone(estimator).fit(X, y, **fit_params) for estimator in estimators]
    if not fitted:
        raise ValueError("estimators is empty: give at least one candidate.")
    classifiers = [model[-1] if isinstance(model, Pipeline) else model for model in fitted]
    values = [classifier.log_evidence_ for classifier in classifiers]
    known = [i for i, value in enumerate(values) if not math.isnan(value)]
    if not known:
        raise ValueError(
            "None of the estimators has an evidence: no strength is self-consistent, or columns depend on each other. "
            "Compare them by cross-validation instead."
        )
    best = max(known, key=values.__getitem__)
    warn_unless_converged(classifiers[best], classifiers[best].solution_)
    return fitted[best]
