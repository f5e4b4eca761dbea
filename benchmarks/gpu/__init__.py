"""Paths and cross-validation on a device, beside the processor: ``python -m benchmarks.gpu [--scale 0.1]``."""
