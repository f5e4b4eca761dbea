"""Writes docs/benchmarks.md and its plots from the cached records alone."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .libraries import LIBRARIES
from .run import CACHE, ROOT, Task, comparable, problem_file

PAGE, IMAGES = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "img"
NAME = re.compile(r"(?P<problem>.+)-(?P<kind>fit|path)-(?P<fraction>[^-]+)-(?P<library>.+)-(?P<threads>\d)\.json")
NOTABLE = 0.01  # seconds: a task on which our solver takes less has no panel of its own
LEVELS = (1e-6, 1e-4)
INTRODUCTION = """# Benchmarks

Seconds until the relative suboptimality `(F - F*) / F*` falls below a level, judged by our own float64 objective

    F(W, b) = sum of log-losses + alpha * ||W||_1,     free intercept, symmetric coding (one vector for two classes)

whatever the solver itself believes. `F*` is the best objective any library reached; the column *certified* is its
relative duality gap, so the truth lies no further below. Each library climbs a ladder of its own tolerances, every
rung from a cold start after a warm-up, minimum of up to five runs; conversions of the data are not counted, nor the
start of R. glmnet and adelie approach a single alpha over ten warm-started ones, which is faster for them than a cold
start. One thread: CPU seconds; two threads: wall-clock seconds. **Bold**: fastest. `> t`: stopped by the time limit
after a looser tolerance had taken t seconds; `-`: not reached at any tolerance; `?`: measured, but the optimum is not
certified to that level, so nobody can be credited with it; empty: not measured. Machines differ
and timings vary by a factor of about 1.5: compare within a row only.

Reproduce: `sh benchmarks/compare/environments.sh`, then `python -m benchmarks.compare --problems A,B --fractions
0.1,0.01` (`--paths` for whole paths, `--threads 1,2`). Records are kept in `.cache/compare`; `--refresh smaller`
measures a library again.

Problems: A two classes, 100 x 5000, correlated blocks; B 10 classes, 500 x 5000, correlated; C 5 classes,
100000 x 100; D 26 classes, 5000 x 600, 60 latent factors; E 20 classes, 20000 x 50000, sparse word counts;
F 3 classes, RBF kernel columns 2000 x 2000; others: real sets, standardised, all rows (`/3`: every third row).
"""
OTHER = """These libraries minimise another function and are judged on that one: skglm's losses are one-versus-rest
(equal to ours for two classes), liblinear's also penalise the intercept, celer and Snap ML (whose intercept is not
returned) fit none. Their seconds are not those of the same task.
"""


def entries() -> dict[tuple[bool, int], dict[Task, dict[str, dict]]]:
    """All records: (path?, threads) -> task -> library -> record."""
    found: dict = {}
    for file in sorted((CACHE / "records").glob("*.json")):
        part = NAME.fullmatch(file.name).groupdict()
        task = Task(part["problem"].replace("_3", "/3"), float(part["fraction"]), part["kind"] == "path")
        group = found.setdefault((task.path, int(part["threads"])), {})
        group.setdefault(task, {})[part["library"]] = json.loads(file.read_text())
    return found


def curve(record: dict, best: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and worst relative suboptimality (over the alphas) of each rung."""
    seconds = [rung["cpu" if threads == 1 else "wall"] for rung in record["rungs"]]
    worst = [np.max((np.array(rung["F"]) - best) / best) for rung in record["rungs"]]
    return np.array(seconds), np.array(worst)


def time_to(level: float, record: dict, best: np.ndarray, threads: int) -> float | None:
    """Fewest seconds of a rung at least as good as `level`; None if there is none."""
    seconds, worst = curve(record, best, threads)
    return float(seconds[worst <= level].min()) if np.any(worst <= level) else None


def is_ours(name: str, n_classes: int) -> bool:
    return name in comparable("smaller", n_classes)


def show(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"


def missed(record: dict) -> str:
    """Why a level was not reached: the ladder ended, or time ran out after a rung of at least so many seconds."""
    if record.get("finished"):
        return "-"
    return f"> {show(max(rung['cpu'] for rung in record['rungs']))}" if record["rungs"] else "> limit"


def row(task: Task, records: dict[str, dict], columns: list[str], level: float, threads: int, ours: bool) -> str | None:
    """One line of a table, or None when no column has anything to say."""
    facts = problem_file(task.problem)[1]
    judged = {name: task.bounds(comparable(name, facts["K"])) for name in columns if name in records}
    judged = {name: bounds for name, bounds in judged.items() if is_ours(name, facts["K"]) == ours}
    if not any(records[name]["rungs"] for name in judged):
        return None
    times = {name: time_to(level, records[name], best, threads) for name, (best, _) in judged.items()}
    fastest = min((t for t in times.values() if t is not None), default=None)
    cells = [""] * len(columns)
    for k, name in enumerate(columns):
        if name in times and "failed" not in records[name]:
            t, (best, lower) = times[name], judged[name]
            if np.max((best - lower) / best) > level:
                cells[k] = "?"  # the best run would be judged against itself
                continue
            cells[k] = missed(records[name]) if t is None else f"**{show(t)}**" if t == fastest else show(t)
    best, lower = next(iter(judged.values()))
    certified = f"{max(0.0, np.max((best - lower) / best)):.0e}" if ours else ""
    label = f"{task.problem} ({facts['n']} x {facts['d']}, {facts['K']} classes)"
    return " | ".join(["", label, f"{task.fraction:g}", *cells, certified, ""]).strip()


def table(group: dict[Task, dict[str, dict]], level: float, threads: int, ours: bool) -> list[str]:
    """Markdown table of one kind (fits or paths) at one level."""
    present = {name for records in group.values() for name, record in records.items() if record["rungs"]}
    columns = [name for name in LIBRARIES if name in present and (ours or not is_ours(name, 3))]
    columns = [name for name in columns if not ours or is_ours(name, 2)]
    tasks = sorted(group, key=lambda t: (len(t.problem) > 1, t.problem, -t.fraction))
    rows = [r for t in tasks if (r := row(t, group[t], columns, level, threads, ours))]
    head = ["problem", "alpha / alpha_max", *columns, "certified" if ours else ""]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *rows, ""] if rows else []


def is_notable(records: dict[str, dict]) -> bool:
    ours = records.get("smaller", {"rungs": []})["rungs"]
    return any(rung["cpu"] >= NOTABLE for rung in ours)


def plot(group: dict[Task, dict[str, dict]], file: Path, threads: int) -> None:
    """Suboptimality against time, one panel per task of some size, for the libraries that solve our problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    tasks = [task for task in group if is_notable(group[task])] or list(group)
    tasks.sort(key=lambda t: (len(t.problem) > 1, t.problem, -t.fraction))
    columns = min(3, len(tasks))
    figure, axes = plt.subplots(-(-len(tasks) // columns), columns, squeeze=False, layout="constrained")
    figure.set_size_inches(4 * columns, 3 * len(axes) + 0.5)
    colours = dict(zip(LIBRARIES, plt.get_cmap("tab20").colors, strict=False))
    handles = {}
    for task, axis in zip(tasks, axes.flat, strict=False):
        n_classes = problem_file(task.problem)[1]["K"]
        best, lower = task.bounds(comparable("smaller", n_classes))
        floor = max(1e-9, np.max((best - lower) / best))  # finer differences are not certified
        for name, record in group[task].items():
            if is_ours(name, n_classes) and record["rungs"]:
                seconds, worst = curve(record, best, threads)
                style = {"linewidth": 2.5, "zorder": 3} if name == "smaller" else {}
                order = np.argsort(seconds)
                lowest = np.maximum(np.minimum.accumulate(worst[order]), floor)
                (handles[name],) = axis.loglog(seconds[order], lowest, "o-", ms=3, color=colours[name], **style)
        axis.set_title(f"{task.problem}, {'path to ' if task.path else ''}{task.fraction:g} alpha_max", fontsize=10)
        axis.set_ylim(3e-10, 2)
        axis.xaxis.set_minor_formatter(NullFormatter())
        low, high = axis.get_xlim()
        if high < 12 * low:  # a decade at least, so that a tick is labelled
            axis.set_xlim(low / 2, high * 5)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(tasks) :]:
        axis.set_visible(False)
    figure.supxlabel("CPU seconds" if threads == 1 else "seconds")
    figure.supylabel("relative suboptimality")
    shown = [name for name in LIBRARIES if name in handles]
    figure.legend([handles[name] for name in shown], shown, loc="outside upper center", ncols=7, fontsize=9)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def versions(found: dict) -> str:
    """Measured versions, as the workers reported them."""
    records = [item for group in found.values() for records in group.values() for item in records.items()]
    return "Versions: " + ", ".join(sorted({r["version"] for _, r in records if "version" in r})) + ".\n"


def sections(found: dict) -> Iterator[str]:
    yield INTRODUCTION
    yield versions(found)
    for (path, threads), group in sorted(found.items()):
        kind = "100 alphas from alpha_max down" if path else "One alpha"
        yield f"## {kind}, {threads} thread{'s' * (threads > 1)}\n"
        for level in LEVELS:
            yield f"Seconds to a relative suboptimality of {level:.0e}{' at every alpha' * path}:\n"
            yield from table(group, level, threads, ours=True)
        image = IMAGES / f"bench_{'path' if path else 'fit'}_{threads}.png"
        plot(group, image, threads)
        yield f"![Suboptimality against time](img/{image.name})\n"
        if others := table(group, LEVELS[0], threads, ours=False):
            yield "### Other objectives\n"
            yield OTHER
            yield from others


GROWTH = """## Growth and memory

`python -m benchmarks.speed scaling time` (one pass is loss, residual and gradient; dotted: proportional):

![Seconds against rows, columns and classes](img/bench_scaling.png)

`python -m benchmarks.speed scaling memory` prints what a fit allocates beyond the caller's X. A matrix stored column by
column and a CSC matrix are used where they lie; one stored row by row is copied once. The rest is a dozen or two arrays
of the size of the predictions and the weights.
"""


def write() -> None:
    """Write the page and its plots."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join([*sections(entries()), GROWTH]))
