"""``python -m benchmarks.gpu``: the device's table beside FISTA and the processor; also written as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from benchmarks.gpu.ceilings import ceilings
from benchmarks.gpu.fista import fista
from benchmarks.gpu.paths import RATIO, TOL, Traced, cross_validated, on_device, on_host
from benchmarks.gpu.problems import PROBLEMS
from smaller.likelihoods import Multinomial


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("problems", nargs="*", help="all of them by default")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows (wide: of the columns)")
    parser.add_argument("--runs", type=int, default=3, help="the least of so many runs counts")
    parser.add_argument("--cpu", nargs="*", default=[], help="problems that the processor solves too")
    parser.add_argument("--cv", nargs="*", default=[], help="problems on which SMLRCV(cv=5) is timed too")
    parser.add_argument("--fista", nargs="*", default=[], help="problems on which FISTA solves the last strength")
    parser.add_argument("--profile", help="show where the time of this problem's path goes")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    result: dict[str, Any] = {"device": name, "torch": torch.__version__, "cores": os.cpu_count(), "scale": asked.scale}
    result["ceilings"] = ceilings(torch, device, asked.scale)
    print(result, flush=True)
    result["paths"] = {}
    for problem in asked.problems or PROBLEMS:
        result["paths"][problem] = _measured(problem, device, asked)
        asked.out.write_text(json.dumps(result, indent=1))


def _measured(name: str, device: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Measure one problem and print its line."""
    data = PROBLEMS[name](asked.scale)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def move(a: Any) -> Any:
        return torch.asarray(a, device=device)

    row: dict[str, Any] = {"shape": [*data.X.shape, data.n_classes]}
    try:
        row["device"] = on_device(data, move, wait, asked.runs).row()
        if asked.profile == name:
            _profiled(lambda: on_device(data, move, wait, 1))
        if name in asked.cpu:
            row["cpu"] = on_host(data, 1).row()
        if name in asked.cv:
            row["cv"] = cross_validated(data, move)
        if name in asked.fista:
            X, Y = move(data.X).contiguous(), Multinomial(data.n_classes).encode(move(data.y))
            R = Y.mean(0) - Y
            alpha = RATIO * float((X.T @ R).abs().max())
            row["fista"] = fista(torch, X, Y, alpha, TOL, 20_000)
    except Exception as error:  # the other problems are still worth their time
        row["error"] = repr(error)
    print(name, row["shape"], *(f"{key} {_short(row[key])}" for key in row if key != "shape"), sep="  ", flush=True)
    return row


def _short(found: Any) -> Any:
    return {key: round(value, 9) for key, value in found.items()} if isinstance(found, dict) else found


def _profiled(action: Any) -> Traced:
    import cProfile
    import pstats

    with cProfile.Profile() as profile:
        found = action()
    pstats.Stats(profile).sort_stats("cumtime").print_stats(30)
    return found


if __name__ == "__main__":
    main()
