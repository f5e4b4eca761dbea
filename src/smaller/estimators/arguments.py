"""Constructor arguments that several estimators share."""

from __future__ import annotations

from typing import Any

from smaller.estimators.fields import choice, flag, integer, number, with_fields

__all__ = ["AdaptiveArguments", "AnyKernel", "FoldArguments", "MultinomialArguments", "StructureArguments"]


@with_fields
class AnyKernel:
    """Kernels of one's own, on some of the training rows."""

    kernel_params: Any = None
    n_centers: int | None = integer(None, least=1)


@with_fields
class MultinomialArguments(AnyKernel):
    """The multinomial model's coding and free block."""

    coding: str = choice("symmetric", "reference")
    fit_intercept: bool = flag(True)
    penalize_intercept: bool = flag(False)
    penalty_factors: Any = None


@with_fields
class StructureArguments:
    """What is asked of the weights beyond a sum of absolute values; see `smaller.estimators.structure`."""

    alpha_scale: str = choice("sum", "max")
    penalty: str = choice("elementwise", "grouped", "sparse-grouped")
    feature_groups: Any = None
    group_l1_ratio: float = number(0.5, least=0.0, most=1.0)
    lower_limits: Any = None
    upper_limits: Any = None
    positive: bool = flag(False)
    exclude: Any = None


@with_fields
class FoldArguments:
    """How strengths are chosen by cross-validation."""

    cv: Any = 5
    rule: str = choice("min", "1se")
    n_jobs: int | None = None


@with_fields
class AdaptiveArguments(AnyKernel):
    """Adaptive sparseness: Jeffreys' prior, or Laplace's with a strength."""

    prior: str = choice("jeffreys", "laplace")
    alpha: float = number(1.0, least=0.0, open_left=True)
    fit_intercept: bool = flag(True)
    init_eps: float = number(1e-6, least=0.0, open_left=True)
    prune: float = number(1e-5, least=0.0, most=1.0)
