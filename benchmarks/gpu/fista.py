"""The rival that needs no Hessian: accelerated proximal gradient steps in torch, with restarts, for one strength."""

from __future__ import annotations

import time
from typing import Any

from smaller.arrays import log_partition

_CHECKED = 50  # steps between two looks at the gap


def fista(torch: Any, X: Any, Y: Any, alpha: float, tol: float, most: int) -> dict[str, float]:
    """Return seconds and steps until the gap is below ``tol`` of the null loss, or the gap after ``most`` steps."""
    n, d = X.shape
    K = Y.shape[1]
    start = time.perf_counter()
    null = -float((Y.mean(0) * Y.mean(0).log()).sum()) * n
    vector = torch.ones(d + 1, dtype=X.dtype, device=X.device)
    for _ in range(30):  # the largest eigenvalue of (X, 1)'(X, 1), by powers
        product = X @ vector[:d] + vector[d]
        vector = torch.cat([X.T @ product, product.sum()[None]])
        top = vector.norm()
        vector = vector / top
    step = 2.0 / float(top) / 1.01
    w, b = torch.zeros(d, K, dtype=X.dtype, device=X.device), torch.zeros(K, dtype=X.dtype, device=X.device)
    v, c, momentum = w, b, 1.0
    gap, steps = float("inf"), 0
    while steps < most:
        steps += 1
        _, P = log_partition(X @ v + c, pinned=False)
        R = P - Y
        ahead = v - step * (X.T @ R)
        moved = torch.sign(ahead) * (ahead.abs() - step * alpha).clamp(min=0.0)
        shifted = c - step * R.sum(0)
        if float(((v - moved) * (moved - w)).sum()) > 0.0:
            momentum = 1.0
        later = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        factor = (momentum - 1.0) / later
        v, c = moved + factor * (moved - w), shifted + factor * (shifted - b)
        w, b, momentum = moved, shifted, later
        if steps % _CHECKED == 0:
            gap = _gap(torch, X, Y, w, b, alpha)
            if gap <= tol * null:
                break
    return {"seconds": time.perf_counter() - start, "steps": steps, "gap": gap / null}


def _gap(torch: Any, X: Any, Y: Any, w: Any, b: Any, alpha: float) -> float:
    """Return the duality gap at the intercepts that balance the residuals best."""
    base = X @ w
    for _ in range(20):  # Newton steps of the intercepts; the flat direction is left alone
        lse, P = log_partition(base + b, pinned=False)
        R = P - Y
        H = torch.diag(P.sum(0)) - P.T @ P + torch.ones_like(b)[:, None]
        b = b - torch.linalg.solve(H, R.sum(0))
    lse, P = log_partition(base + b, pinned=False)
    R = P - Y
    loss = float((lse - (Y * (base + b)).sum(1)).sum())
    scale = min(1.0, alpha / float((X.T @ R).abs().max()))
    Q = (Y + scale * R).clamp(min=1e-300)
    return loss + alpha * float(w.abs().sum()) + float((Q * Q.log()).sum())
