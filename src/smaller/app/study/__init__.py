"""A study: one table, one model, and honest answers about it.

`question` makes a table ready, `units` says which rows belong together and `splits` keeps them so, `models` says what
can be fitted, `honest` predicts rows that were not learnt from, `judgement` turns those predictions into numbers with
`intervals`, `ridge` is the yardstick of all features, `verdict` says what the evidence allows, `stability` counts which
features are found again, `certainty` and `ranges` say how sure single effects and probabilities are, `observed` does
all this in order, `facts` lets the model speak about itself, and `run_study` puts the answer together, in the structure
of `schema`. Nothing here reads or writes files.
"""

from smaller.app.study.answer import Study, TableModel, run_study
from smaller.app.study.models import Procedure, available_models
from smaller.app.study.observed import UnusableModelError
from smaller.app.study.question import Data, Question, prepare
from smaller.app.study.schema import Facts

__all__ = ["Data", "Facts", "Procedure", "Question", "Study", "TableModel", "UnusableModelError", "available_models",
           "prepare", "run_study"]  # fmt: skip
