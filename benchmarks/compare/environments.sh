#!/bin/sh
# Build the competitors' environments, apart from ours because their pins conflict (adelie needs numpy < 2).
# Location: $SMALLER_BENCH_ENVS, default .cache/bench-envs below the current folder. glmnet needs R with its glmnet package.
set -eu
root="${SMALLER_BENCH_ENVS:-.cache/bench-envs}"
python="${PYTHON:-python3}"

build() {
    name="$1"
    shift
    [ -x "$root/$name/bin/python" ] || "$python" -m venv "$root/$name"
    "$root/$name/bin/python" -m pip install --quiet "$@"
}

mkdir -p "$root"
build peers scikit-learn skglm celer cyanure snapml
build numpy1 "numpy<2" adelie
command -v Rscript >/dev/null && Rscript -e 'library(glmnet)' >/dev/null 2>&1 ||
    echo "glmnet is missing: install R and its glmnet package to include it" >&2
