"""Accelerated proximal gradient with restart, in the array API: the solver for GPUs and clusters.

Per-column steps (a diagonal metric from the column norms) make it blind to the units of the features; the global
factor is found by backtracking, and momentum restarts whenever it points uphill.
"""

from __future__ import annotations

import math

from smaller.arrays import Array, array_namespace
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import only_single_weights

__all__ = ["Proximal"]

_RESOLUTION = 1e-13  # relative differences of the objective below this are rounding


class Proximal:
    """A block of accelerated steps between two certificates; blocks grow while the solve goes on."""

    name = "proximal"
    pace = 20

    def __init__(self) -> None:
        self._lipschitz = 0.25  # of the loss in the metric; backtracking raises it where needed
        self._length = 25
        self._metric: tuple[Array, Array | None] | None = None  # per weight, per intercept (None: there are none)

    @staticmethod
    def suits(problem: Problem) -> str | None:
        return None if problem.prior.separable else only_single_weights("proximal", problem)

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Run one block from ``point``; the objective never rises by more than rounding."""
        if self._metric is None:
            self._metric = self._column_norms(problem, point)
        current, lowest = point, point.objective
        w, b, eta, momentum = point.w, point.b, point.eta, 1.0
        for _ in range(self._length):
            loss, residual = problem.evaluate(eta)
            new = self._step(problem, w, b, eta, loss, residual)
            rises = new.objective > lowest + _RESOLUTION * abs(lowest)
            if momentum > 1.0 and (rises or self._uphill(w, b, current, new)):
                momentum, w, b, eta = 1.0, current.w, current.b, current.eta  # start again from the last good point
                continue
            if rises:
                break  # a plain step does not lower the objective: rounding
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            beta = (momentum - 1.0) / following
            w, b = new.w + beta * (new.w - current.w), new.b + beta * (new.b - current.b)
            eta = new.eta + beta * (new.eta - current.eta)
            momentum, current, lowest = following, new, min(lowest, new.objective)
        self._length = min(2 * self._length, 800)
        return current

    def _uphill(self, w: Array, b: Array, current: Point, new: Point) -> bool:
        """Whether the last move points against the (generalised) gradient, metric times ``(w, b) - new``."""
        xp = array_namespace(w)
        assert self._metric is not None
        metric_w, metric_b = self._metric
        along = xp.sum(metric_w * (w - new.w) * (new.w - current.w))
        if metric_b is not None:
            along = along + xp.sum(metric_b * (b - new.b) * (new.b - current.b))
        return float(along) > 0.0

    def _column_norms(self, problem: Problem, point: Point) -> tuple[Array, Array | None]:
        xp = array_namespace(point.eta)
        c = xp.ones_like(point.eta[:, :1]) if problem.weight is None else problem.weight[:, None]
        norms = problem.design.squares(c) + 0.0 * point.w
        return xp.where(norms > 0, norms, xp.ones_like(norms)), xp.sum(
            c
        ) + 0.0 * point.b if problem.fit_intercept else None

    def _step(self, problem: Problem, w: Array, b: Array, eta: Array, loss: float, residual: Array) -> Point:
        """One proximal step from the extrapolated point, backtracking on the quadratic bound."""
        xp = array_namespace(w)
        assert self._metric is not None
        metric_w, metric_b = self._metric
        G, gb = problem.design.adjoint(residual), xp.sum(residual, axis=0)
        while True:
            L = self._lipschitz
            moved = problem.prior.shrink(w - G / (L * metric_w), 1.0 / (L * metric_w))
            length = xp.sum(metric_w * (moved - w) ** 2)
            shifted = b
            if metric_b is not None:
                shifted = b - gb / (L * metric_b)
                length = length + xp.sum(metric_b * (shifted - b) ** 2)
            point = problem.at(moved, shifted)
            delta = point.eta - eta
            above_tangent = point.loss - loss - float(xp.sum(residual * delta))
            if abs(above_tangent) <= 1e-10 * abs(loss):  # drowned in rounding; the trapezium rule is not
                above_tangent = 0.5 * float(xp.sum((point.residual - residual) * delta))
            if above_tangent <= 0.5 * L * float(length) or L > 1e12:
                self._lipschitz *= 0.97  # let the step grow again where the loss is flat
                return point
            self._lipschitz *= 2.0
