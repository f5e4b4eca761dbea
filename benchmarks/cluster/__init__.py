"""Rows beyond the memory of one process: files, and a local Dask cluster beside its rivals."""
