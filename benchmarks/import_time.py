"""What the estimators cost over `import sklearn.linear_model`: CPU seconds of fresh processes, best of several.

    python -m benchmarks.import_time

The processes take turns; byte code is compiled before, as it is after an installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

ROUNDS = 11
IMPORTS = {
    "sklearn.linear_model": "import sklearn.linear_model",
    "SMLR": "import sklearn.linear_model; from smaller import SMLR",
}
CODE = "import time\nstart = time.process_time()\n{}\nprint(time.process_time() - start)"


def seconds(statement: str, environment: dict[str, str]) -> float:
    """Return the CPU seconds of a statement in a new process."""
    command = [sys.executable, "-c", CODE.format(statement)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print both times and their difference."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        times = {name: [seconds(statement, environment) for _ in range(2)] for name, statement in IMPORTS.items()}
        times = {name: [] for name in times}  # those compiled
        for _ in range(ROUNDS):
            for name, statement in IMPORTS.items():
                times[name].append(seconds(statement, environment))
    base, with_us = (min(times[name]) for name in IMPORTS)
    print(f"sklearn.linear_model {base:.3f} s, smaller {with_us - base:.3f} s more")


if __name__ == "__main__":
    main()
