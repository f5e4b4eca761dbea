"""`python -m mutants`: put an old defect back into a copy of the library, and let the fuzz find it; one by one.

A patch that no longer applies proves nothing: then this program fails, and the defect has to be put into today's code.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import smaller._core

import smaller

HERE = Path(__file__).parent
CASES = 2000

# An editable installation finds the package before any path is looked at: in the process of a mutant it may not.
START = """
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
import smaller
assert smaller.__file__.startswith(sys.path[0]), smaller.__file__
sys.argv = ["fuzz", "--cases", sys.argv[1], "--until", "1"]
runpy.run_module("fuzz", run_name="__main__")
"""


def mutated(patch: Path, folder: Path) -> None:
    """Write the library with the defect below ``folder``."""
    package = folder / "src" / "smaller"
    shutil.copytree(Path(smaller.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    core = Path(smaller._core.__file__)
    if not (package / core.name).exists():
        shutil.copy(core, package)
    done = subprocess.run(["git", "apply", "-p0", str(patch)], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"mutants: {patch.name} no longer applies to src/smaller; put the defect into today's code and write its "
            f"patch again (git diff --no-prefix -U2 src > tests/mutants/{patch.name}).\n{done.stderr}"
        )


def found(patch: Path, cases: int) -> str | None:
    """Return what the fuzz says about the library with this defect, None where it finds nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        mutated(patch, folder)
        paths = [str(folder / "src"), str(HERE.parent)]
        run = subprocess.run(
            [sys.executable, "-c", START, str(cases)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    seed = re.search(r"again: make fuzz SEED=(\d+)", run.stdout)
    if run.returncode == 0:
        return None
    if seed is None:
        raise SystemExit(f"mutants: the fuzz did not run with {patch.name}.\n{run.stdout}{run.stderr}")
    healthy = subprocess.run([sys.executable, "-m", "fuzz", "--seed", seed[1]], capture_output=True, check=False)
    if healthy.returncode:
        raise SystemExit(f"mutants: seed {seed[1]} is a finding without {patch.name} too: mend that first.")
    return f"seed {seed[1]}, {run.stdout.splitlines()[0][:100]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of the patches' names; all without any")
    parser.add_argument("--cases", type=int, default=CASES)
    options = parser.parse_args()
    patches = [p for p in sorted(HERE.glob("*.patch")) if p.name.startswith(tuple(options.names or [""]))]
    missed = 0
    for patch in patches:
        how = found(patch, options.cases)
        missed += how is None
        print(f"{patch.stem}: {how or f'NOT FOUND in {options.cases} cases'}", flush=True)
    print(f"mutants: {len(patches) - missed} of {len(patches)} found")
    return int(missed > 0 or not patches)


if __name__ == "__main__":
    sys.exit(main())
