"""Models without Python: one formula, written as JSON, SQL, an ONNX graph or a card of points.

    reading -> Formula -> json_text | sql | onnx_graph | card

`reading` turns a fitted model, with the scalers, imputers, encoders and column choices before it, into a `Formula`:
columns of a table, features made of them, scores, and what makes probabilities of scores. The writers know formulas
only. `card` rounds a linear formula of two classes to whole points.
"""

from smaller.export.card import Card, to_card
from smaller.export.formula import ExportError, Formula
from smaller.export.json_text import to_json
from smaller.export.onnx_graph import to_onnx
from smaller.export.reading import formula_of
from smaller.export.sql import to_sql

__all__ = ["Card", "ExportError", "Formula", "formula_of", "to_card", "to_json", "to_onnx", "to_sql"]
