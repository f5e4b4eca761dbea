"""scikit-learn's callback protocol where it exists (1.9 and later), and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smaller.problem import Certificate
from smaller.solvers.driver import Progress

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin, which this version does not have."""

    def with_callbacks(method: Any) -> Any:
        """Stand in for scikit-learn's decorator, which this version does not have."""
        return method


__all__ = ["CallbackSupportMixin", "reported_progress", "with_callbacks"]


@contextmanager
def reported_progress(estimator: Any, X: Any, y: Any) -> Iterator[Progress | None]:
    """Yield a progress function that reports every outer iteration to the estimator's callbacks, if it has any."""
    if not hasattr(estimator, "_skl_callbacks"):
        yield None
        return
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def progress(iteration: int, certificate: Certificate) -> bool:
        step = context.subcontext(task_name="iteration")
        step.call_on_fit_task_begin(estimator=estimator)
        return bool(step.call_on_fit_task_end(estimator=estimator))

    yield progress
    context.call_on_fit_task_end(estimator=estimator, X=X, y=y)
