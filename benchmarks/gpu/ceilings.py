"""What the device could do at most: copies, products, factors; the floor under the table's seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def ceilings(torch: Any, device: str, scale: float) -> dict[str, float]:
    """Return TB/s of a copy, TFLOP/s of products in two precisions, milliseconds of factors of some sizes."""
    generator = torch.Generator(device=device).manual_seed(0)

    def normal(*shape: int, dtype: Any = torch.float64) -> Any:
        return torch.randn(*shape, dtype=dtype, device=device, generator=generator)

    found = {}
    size = int(2**28 * scale)
    source, target = normal(size), normal(size)
    found["copy TB/s"] = 16 * size / _seconds(torch, device, lambda: target.copy_(source)) / 1e12
    m = int(8192 * scale**0.5)
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        A, B = normal(m, m, dtype=dtype), normal(m, m, dtype=dtype)
        found[f"product {name} TFLOP/s"] = 2 * m**3 / _seconds(torch, device, lambda A=A, B=B: A @ B) / 1e12
    for size in (300, 1200):
        A = normal(size, 2 * size)
        H = A @ A.T
        found[f"factor of {size} ms"] = 1e3 * _seconds(torch, device, lambda H=H: torch.linalg.cholesky_ex(H))
    X, R = normal(int(60_000 * scale), 784), normal(int(60_000 * scale), 10)
    found["gradient of mnist60k ms"] = 1e3 * _seconds(torch, device, lambda: X.T @ R)
    return found


def _seconds(torch: Any, device: str, action: Callable[[], Any], runs: int = 7) -> float:
    """Return the median of several runs, the device waited for."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    action()
    seconds = []
    for _ in range(runs):
        wait()
        start = time.perf_counter()
        action()
        wait()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[runs // 2]
