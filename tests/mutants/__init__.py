"""Defects that were once in the library, a patch each: the fuzz must find every one again (`make mutants`)."""
