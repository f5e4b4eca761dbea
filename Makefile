# The whole workflow in one file. `make demo` and `make test` need nothing but Python >= 3.11 and a C++17 compiler.

PYTHON  ?= python3
VENV    := .venv
PY      := $(VENV)/bin/python
SOURCES := pyproject.toml CMakeLists.txt $(wildcard core/*)
INSTALL := -m pip install --quiet --disable-pip-version-check

# The papers' data sets are not part of the project; tests that need them skip when SMALLER_DATA is unset.
ifneq ($(wildcard ../shared/data/.),)
SMALLER_DATA ?= $(abspath ../shared/data)
endif
ifdef SMALLER_DATA
export SMALLER_DATA
endif

# Nor are their texts, in which the quotations of docs/errata.md are looked up.
ifneq ($(wildcard ../shared/papers/.),)
SMALLER_PAPERS ?= $(abspath ../shared/papers)
endif
ifdef SMALLER_PAPERS
export SMALLER_PAPERS
endif

.PHONY: help setup demo test fuzz mutants test-real browser-test noise lint format typecheck docs docs-check wheels sanitize nosimd bench papers clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- set-up: once, and again when the build configuration or the C++ core changes ----------------------------------

setup: $(VENV)/.ready  ## create .venv and install the package with its development tools

$(VENV)/.ready: $(SOURCES)
	@echo "setup: installing smaller into $(VENV) (compiles a small C++ core; a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(PY) $(INSTALL) --editable ".[dev]"
	@if [ -d .git ]; then git config core.hooksPath .githooks; fi
	@touch $@

# ---- use ---------------------------------------------------------------------------------------------------------

demo: setup  ## from a table to a report: which features matter, how sure can one be
	@$(VENV)/bin/smaller demo --out build/demo

# Many small fits: a process a core, and no threads inside BLAS, which would cost more than they bring.
test: setup  ## run the tests (budget: 6 minutes on two cores)
	OPENBLAS_NUM_THREADS=1 $(PY) -m pytest --numprocesses auto --dist worksteal

# Problems made from seeds, every claim recomputed in extended precision: make fuzz CASES=20000; make fuzz SEED=17
fuzz: setup  ## fit hostile problems and believe nothing (CASES=1000, FIRST=0, or one SEED)
	@OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(PY) -m fuzz $(if $(SEED),--seed $(SEED),--cases $(or $(CASES),1000) --first $(or $(FIRST),0))

# Half an hour or more: each defect once found, put back into a copy of the library (ONLY="01 07": some of them).
mutants: setup  ## is the fuzz any good? it must find every old defect again
	@OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(PY) -m mutants $(ONLY)

# One script a part in .ci/real; `make test-real ONLY="browser docs"` runs some of them.
test-real: setup  ## run the tests that need a real browser, cluster, built wheel ...
	.ci/test-real $(ONLY)

browser-test: setup  ## open reports in headless Chromium and move every slider
	.ci/test-real browser

noise: setup  ## study tables of pure noise, SEEDS=0:20 or others: how many claim more than guessing?
	PYTHONPATH=tests $(PY) -m app.noise $(or $(SEEDS),0:20)

# ---- quality -----------------------------------------------------------------------------------------------------

lint: setup  ## ruff: rules and layout
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: setup  ## rewrite Python (and C++, where clang-format is installed) in the house layout
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	@if command -v clang-format >/dev/null; then clang-format -i core/*.hpp core/*.cpp; \
	 else echo "format: clang-format not found, core/ left as it is"; fi

typecheck: setup  ## mypy --strict
	$(PY) -m mypy

docs-check: setup  ## run the examples of the docstrings, the README and docs/
	$(PY) -m pytest --doctest-modules --doctest-glob='*.md' src README.md docs/*.md docs/papers

# Warnings are errors, every link is followed, nothing is fetched. GALLERY=0 leaves the walk-throughs unexecuted.
docs: setup $(VENV)/.docs  ## build the site and end with the path of its first page (GALLERY=0: quickly)
	@rm -rf build/site docs/api docs/gallery
	$(PY) -m sphinx --quiet --fail-on-warning --keep-going -D plot_gallery=$(or $(GALLERY),1) docs build/site
	$(PY) -m docs.site.check build/site
	@echo "site: $(abspath build/site/index.html)"

$(VENV)/.docs: pyproject.toml | setup
	@$(PY) $(INSTALL) "pip>=25.1"
	@$(PY) $(INSTALL) --group docs
	@touch $@

# ---- what is installed ---------------------------------------------------------------------------------------------

wheels:  ## build, repair and try wheels and sdist in clean environments of every Python at hand (into build/wheels)
	ALL=1 .ci/real/wheels

# ---- the core, built differently ----------------------------------------------------------------------------------

sanitize: DEFINE := SMALLER_SANITIZE=ON
sanitize: .venv-sanitize/.ready  ## the core's tests under the address and undefined-behaviour sanitizers
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	.venv-sanitize/bin/python -m pytest tests/test_core.py tests/solvers/test_small.py

nosimd: DEFINE := SMALLER_SIMD_CLONES=OFF
nosimd: .venv-nosimd/.ready  ## core and solver tests with one plain copy of every loop
	.venv-nosimd/bin/python -m pytest tests/test_core.py tests/solvers/test_solvers.py

.venv-%/.ready: $(SOURCES)
	@echo "$*: installing smaller into .venv-$* with -D$(DEFINE)"
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(INSTALL) --editable ".[dev]" --config-settings=build-dir=build/$* \
	  --config-settings=cmake.define.$(DEFINE) --config-settings=install.strip=false
	@touch $@

# ---- measurements --------------------------------------------------------------------------------------------------

bench: setup  ## time the solvers against other libraries
	PYTHON=$(PYTHON) sh benchmarks/compare/environments.sh
	$(PY) -m benchmarks.compare

papers: setup  ## reproduce the papers' tables (needs SMALLER_DATA); goes on where a run was broken off
	$(PY) -m benchmarks.papers

clean:  ## remove environments, builds and caches
	rm -rf .venv .venv-sanitize .venv-nosimd .venv-wheels build dist docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
