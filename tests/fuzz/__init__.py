"""Hostile problems made from a seed, and a judge that believes nothing: `make fuzz CASES=5000`, `make fuzz SEED=17`."""
