"""Simulations in which the truth is known: how often ranges hold it, and what relaxing and blocks are worth."""
