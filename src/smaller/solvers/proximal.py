"""Accelerated proximal gradient with restart, in the array API: the solver for GPUs and clusters.

Per-column steps (a diagonal metric from the column norms) make it blind to the units of the features; the global
factor is found by backtracking, and momentum restarts whenever it points uphill.
"""

from __future__ import annotations

import math

from smaller.arrays import Array, array_namespace
from smaller.problem import Certificate, Point, Problem

__all__ = ["Proximal"]


class Proximal:
    """A block of accelerated steps between two certificates; blocks grow while the solve goes on."""

    name = "proximal"

    def __init__(self) -> None:
        self._lipschitz = 0.25  # of the loss in the metric; backtracking raises it where needed
        self._length = 25
        self._metric: tuple[Array, Array] | None = None

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Run one block from ``point`` and return the best iterate (the objective never rises)."""
        xp = array_namespace(point.w)
        if self._metric is None:
            self._metric = self._column_norms(problem, point)
        best = current = point
        w, b, eta, momentum = point.w, point.b, point.eta, 1.0
        for _ in range(self._length):
            loss, residual = problem.likelihood.evaluate(eta, problem.y, problem.weight)
            new = self._step(problem, w, b, loss, residual)
            dw, db = new.w - current.w, new.b - current.b
            uphill = float(xp.sum((w - new.w) * dw) + xp.sum((b - new.b) * db)) > 0.0
            if uphill or new.objective > current.objective:
                if momentum == 1.0 and new.objective > current.objective:
                    break  # a plain step does not lower the objective: rounding
                momentum, w, b, eta = 1.0, current.w, current.b, current.eta
                if new.objective <= current.objective:
                    current = new
                    w, b, eta = new.w, new.b, new.eta
                continue
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            beta = (momentum - 1.0) / following
            w, b = new.w + beta * dw, new.b + beta * db
            eta = new.eta + beta * (new.eta - current.eta)
            momentum, current = following, new
            if current.objective <= best.objective:
                best = current
        self._length = min(2 * self._length, 3200)
        return best

    def _column_norms(self, problem: Problem, point: Point) -> tuple[Array, Array]:
        xp = array_namespace(point.eta)
        c = xp.ones_like(point.eta[:, :1]) if problem.weight is None else problem.weight[:, None]
        norms = problem.design.squares(c) + 0.0 * point.w
        total = xp.sum(c) + 0.0 * point.b
        return xp.where(norms > 0, norms, xp.ones_like(norms)), total if problem.fit_intercept else total + math.inf

    def _step(self, problem: Problem, w: Array, b: Array, loss: float, residual: Array) -> Point:
        """One proximal step from the extrapolated point, backtracking on the quadratic bound."""
        xp = array_namespace(w)
        assert self._metric is not None
        metric_w, metric_b = self._metric
        G, gb = problem.design.adjoint(residual), xp.sum(residual, axis=0)
        while True:
            L = self._lipschitz
            moved = problem.prior.shrink(w - G / (L * metric_w), 1.0 / (L * metric_w))
            shifted = b - gb / (L * metric_b)
            dw, db = moved - w, shifted - b
            point = problem.at(moved, shifted)
            intercept = xp.sum(metric_b * db**2) if problem.fit_intercept else 0.0
            bound = loss + float(xp.sum(G * dw) + xp.sum(gb * db) + 0.5 * L * (xp.sum(metric_w * dw**2) + intercept))
            if point.loss <= bound + 1e-12 * abs(loss) or L > 1e12:
                self._lipschitz *= 0.97  # let the step grow again where the loss is flat
                return point
            self._lipschitz *= 2.0
