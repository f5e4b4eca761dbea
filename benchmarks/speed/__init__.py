"""How long our own estimators take, and beside their rivals: ``python -m benchmarks.speed SUBJECT [PART ...]``.

One core unless the environment says otherwise: set before NumPy is loaded.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
