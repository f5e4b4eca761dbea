"""Speed comparison with other L1 logistic solvers: `python -m benchmarks.compare --help`."""
