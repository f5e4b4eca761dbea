"""A study: one table, one model, and honest answers about it.

`models` says what can be fitted, `honest` predicts rows that were not learnt from, `judgement` turns those predictions
into numbers, `stability` counts which features are found again, `facts` lets the model speak about itself, and
`run_study` puts the answer together. Nothing here reads or writes files.
"""

from smaller.app.study.answer import Study, TableModel, UnusableModelError, run_study
from smaller.app.study.models import available_models

__all__ = ["Study", "TableModel", "UnusableModelError", "available_models", "run_study"]
