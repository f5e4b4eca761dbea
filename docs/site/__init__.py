"""What turns the pages of docs/ into a site; `docs/conf.py` uses it."""
