"""What is changed around a solver: the strength, the set of centres, the feature scales."""
