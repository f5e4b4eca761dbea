"""Measurements: the papers' tables, and comparisons with other packages."""
