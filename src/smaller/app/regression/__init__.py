"""Regression of one column: `smaller fit --task regression`.

`question` makes a table ready, `model` says what can be fitted, `study` predicts rows that were not learnt from and
turns that into numbers, `page` is the report.
"""

from smaller.app.regression.model import MODELS, ResponseModel
from smaller.app.regression.question import ResponseData, prepare_responses
from smaller.app.regression.study import ResponseStudy, run_regression

__all__ = ["MODELS", "ResponseData", "ResponseModel", "ResponseStudy", "prepare_responses", "run_regression"]
