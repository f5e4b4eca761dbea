"""The papers' tables beside ours: ``python -m benchmarks.papers``.

One module per paper declares what was measured (`engine.Paper` made of `engine.Table`s of
`engine.Experiment`s of `engine.Row`s); `protocols` splits and cross-validates, `rivals` holds the other
methods, `engine` runs and writes. To add a paper, write a module with a constant ``PAPER`` and name it
here.
"""

MODULES = ("smlr", "sbmlr", "adaptive", "jcfo", "ivm")
