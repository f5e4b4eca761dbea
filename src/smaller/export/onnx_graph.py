"""A formula as an ONNX graph: features in blocks of equal steps, then one matrix product, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.export.formula import ExportError, Feature, Formula, Step, log_erfcx_coefficients
from smaller.export.json_text import words
from smaller.export.reading import formula_of

__all__ = ["as_onnx", "to_onnx"]

_OPSET, _ML_OPSET, _IR = 17, 2, 8  # ONNX Runtime reads them since 1.12
_UNKNOWN = -1.0  # the code of a text that no step speaks of


def to_onnx(model: Any, *, dtype: str = "float64") -> Any:
    """Return a fitted classifier as an ONNX model with the outputs ``label`` and ``probabilities``.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this package, alone or at the end of a `Pipeline`; see `formula_of`.
    dtype : {"float64", "float32"}
        Of the inputs. All arithmetic is in double precision.

    Returns
    -------
    onnx.ModelProto
        With the input ``X`` (rows, columns), all columns of training in their order; or, if a column holds text, an
        input (rows, 1) for every column in use, under its name. Missing values are NaN, in text the empty string.

    See Also
    --------
    to_json : Numbers that any language can evaluate.
    to_sql : For databases.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> model = SMLR(alpha=20).fit(*load_iris(return_X_y=True))
    >>> graph = to_onnx(model).graph  # doctest: +SKIP
    >>> [output.name for output in graph.output]  # doctest: +SKIP
    ['label', 'probabilities']
    """
    return as_onnx(formula_of(model), dtype=dtype)


def as_onnx(formula: Formula, *, dtype: str = "float64") -> Any:
    """Return a formula as an ONNX model."""
    if dtype not in ("float64", "float32"):
        raise ExportError(f"dtype must be 'float64' or 'float32', not {dtype!r:.60}.")
    try:
        import onnx
    except ImportError as error:
        raise ExportError("ONNX export needs the package onnx: pip install 'smaller[onnx]'.") from error
    build = _Builder(onnx, formula, dtype)
    scores = build.scores()
    build.outputs(build.probabilities(scores))
    graph = onnx.helper.make_graph(build.nodes, "smaller", build.inputs, build.results, list(build.constants.values()))
    made = onnx.helper.make_model(
        graph,
        producer_name="smaller",
        producer_version=version("smaller"),
        ir_version=_IR,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPSET)],
        doc_string=" ".join(words(formula)[:1]),
    )
    onnx.checker.check_model(made, full_check=True)
    return made


class _Builder:
    """Collects nodes; a value is known by its name, and no name of the user is taken."""

    def __init__(self, onnx: Any, formula: Formula, dtype: str) -> None:
        self.onnx, self.formula = onnx, formula
        self.number = onnx.TensorProto.FLOAT if dtype == "float32" else onnx.TensorProto.DOUBLE
        self.double = onnx.TensorProto.DOUBLE
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.results: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._taken = {*formula.columns, "X", "label", "probabilities"}
        self._count = 0

    # -- names, constants, operations --

    def fresh(self) -> str:
        self._count += 1
        name = f"_{self._count}"
        return self.fresh() if name in self._taken else name

    def constant(self, value: Any) -> str:
        name = self.fresh()
        self.constants[name] = self.onnx.numpy_helper.from_array(np.asarray(value), name)
        return name

    def op(self, kind: str, *operands: str | Array | float, out: str | None = None, **options: Any) -> str:
        """Add a node and return the name of its value; arrays and numbers become constants."""
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        out = out or self.fresh()
        self.nodes.append(self.onnx.helper.make_node(kind, names, [out], **options))
        return out

    def input(self, name: str, kind: int, width: int) -> str:
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["rows", width]))
        return name

    # -- from inputs to scores --

    def scores(self) -> str:
        """Return the scores (n, q)."""
        formula = self.formula
        blocks, order = self._blocks()
        if formula.weights.shape[0] == 0:
            return self._constant_rows(blocks, formula.intercept)
        H = blocks[0] if len(blocks) == 1 else self.op("Concat", *blocks, axis=1)
        if formula.kernel is None:
            return self.op("Add", self.op("MatMul", H, formula.weights[order]), formula.intercept)
        K = self._kernel(H, formula.kernel.scales[order], formula.kernel.centers[:, order])
        return self.op("Add", self.op("MatMul", K, formula.weights), formula.intercept)

    def _blocks(self) -> tuple[list[str], list[int]]:
        """Return the features as blocks (n, k), and which feature every column is."""
        formula = self.formula
        groups: dict[tuple[str, ...], list[int]] = {}
        for j, feature in enumerate(formula.features):
            groups.setdefault(tuple(verb for verb, _ in feature.steps), []).append(j)
        columns = self._columns()
        blocks = []
        for members in groups.values():
            features = [_in_codes(formula.features[j], self._vocabulary) for j in members]
            x = columns([feature.column for feature in features])
            for i in range(len(features[0].steps)):
                x = self._step(x, [feature.steps[i] for feature in features])
            blocks.append(x)
        return blocks, [j for members in groups.values() for j in members]

    def _columns(self) -> Any:
        """Declare the inputs; return a function from names of columns to a matrix of doubles."""
        formula = self.formula
        self._vocabulary = {name: _texts(formula, name) for name in formula.text_columns}
        if not self._vocabulary:
            X = self.input("X", self.number, len(formula.columns))
            self._any_input = X
            X = self.op("Cast", X, to=self.double)
            index = {name: j for j, name in enumerate(formula.columns)}
            return lambda names: self.op("Gather", X, np.array([index[name] for name in names]), axis=1)
        single = {name: self._column(name) for name in formula.used_columns}
        self._any_input = formula.used_columns[0]

        def together(names: list[str]) -> str:
            values = [single[name] for name in names]
            return values[0] if len(values) == 1 else self.op("Concat", *values, axis=1)

        return together

    def _column(self, name: str) -> str:
        """Return one column (n, 1) as doubles; text becomes codes, what is missing NaN."""
        known = self._vocabulary.get(name)
        if known is None:
            return self.op("Cast", self.input(name, self.number, 1), to=self.double)
        text = self.input(name, self.onnx.TensorProto.STRING, 1)
        keys = [*known, *([] if "" in known else [""])]
        values = [float(i) for i in range(len(known))] + [float("nan")] * (len(keys) - len(known))
        codes = self.op(
            "LabelEncoder", text, domain="ai.onnx.ml", keys_strings=keys, values_floats=values, default_float=_UNKNOWN
        )
        return self.op("Cast", codes, to=self.double)

    def _step(self, x: str, steps: list[Step]) -> str:
        """Return a block after one step; all features of the block take a step of the same name."""
        verb, arguments = steps[0][0], [argument for _, argument in steps]
        if verb == "fill":
            return self.op("Where", self.op("IsNaN", x), np.array(arguments, dtype=np.float64), x)
        if verb == "clip":
            low, high = np.array(arguments, dtype=np.float64).T
            return self.op("Min", self.op("Max", x, low), high)
        if verb == "one_of":
            pairs = [[[level, 1.0] for level in levels] for levels in arguments]
            return self._look_up(x, pairs, np.zeros(len(steps)))
        if verb == "code":
            others = [np.nan if other is None else other for _, other in arguments]
            return self._look_up(x, [pairs for pairs, _ in arguments], np.array(others, dtype=np.float64))
        operator = {"subtract": "Sub", "divide": "Div", "multiply": "Mul", "add": "Add"}[verb]
        return self.op(operator, x, np.array(arguments, dtype=np.float64))

    def _look_up(self, x: str, pairs: list[list[Any]], other: Array) -> str:
        """Return the number beside each value; a level of NaN equals nothing, so short lists are filled with it."""
        k = len(pairs)
        known = [[pair for pair in listed if pair[0] is not None] for listed in pairs]
        value = self.op("Add", self.op("Mul", self.op("Cast", self.op("IsNaN", x), to=self.double), 0.0), other)
        missing = np.array([next((pair[1] for pair in listed if pair[0] is None), o)
                            for listed, o in zip(pairs, other, strict=True)], dtype=np.float64)  # fmt: skip
        for i in range(max(map(len, known), default=0)):
            levels, numbers = np.full(k, np.nan), np.zeros(k)
            for j, listed in enumerate(known):
                if i < len(listed):
                    levels[j], numbers[j] = listed[i]
            value = self.op("Where", self.op("Equal", x, levels), numbers, value)
        return self.op("Where", self.op("IsNaN", x), missing, value)

    def _kernel(self, H: str, scales: Array, centers: Array) -> str:
        kernel = self.formula.kernel
        assert kernel is not None
        if kernel.kind == "poly":
            S = self.op("Add", self.op("MatMul", H, (centers * scales).T.copy()), kernel.coef0)
            return self.op("Pow", S, float(kernel.degree))
        # |a|^2 + |c|^2 - 2 a'c about the mean centre, against cancellation
        middle, root = centers.mean(axis=0), np.sqrt(scales)
        A, C = self.op("Mul", self.op("Sub", H, middle), root), (centers - middle) * root
        norms = self.op("ReduceSum", self.op("Mul", A, A), np.array([1]), keepdims=1)
        D = self.op("Add", self.op("MatMul", A, -2.0 * C.T), self.op("Add", norms, (C**2).sum(axis=1)))
        return self.op("Exp", self.op("Neg", self.op("Max", D, 0.0)))

    def _constant_rows(self, blocks: list[str], row: Array) -> str:
        """Return ``row`` for every row of the input: a model without features."""
        shape = self.op("Shape", self._any_input)
        n = self.op("Gather", shape, np.array([0]), axis=0)
        return self.op("Expand", row[None, :], self.op("Concat", n, np.array([len(row)]), axis=0))

    # -- from scores to outputs --

    def probabilities(self, scores: str) -> str:
        q, link = len(self.formula.intercept), self.formula.link
        if link == "cumulative":  # of reaching every grade but the first; neighbours differ by a grade's own
            steps = np.eye(q, q + 1, 1) - np.eye(q, q + 1)
            reached = self.op("MatMul", self.op("Sigmoid", scores), steps)
            return self.op("Add", reached, np.eye(1, q + 1), out="probabilities")
        if link == "probit":
            both = self.op("Concat", self.op("Neg", scores), scores, axis=1) if q == 1 else scores
            scores = self._log_phi(both)
        elif q == 1:
            scores = self.op("Concat", self.op("Sub", scores, scores), scores, axis=1)
        return self.op("Softmax", scores, out="probabilities", axis=1)

    def _log_phi(self, u: str) -> str:
        """Log of the normal distribution function; `log_erfcx_coefficients` says how."""
        t = self.op("Div", 1.0, self.op("Add", self.op("Div", self.op("Abs", u), float(np.sqrt(8.0))), 1.0))
        polynomial: str | float = 0.0
        for c in reversed(log_erfcx_coefficients()):
            polynomial = self.op("Add", self.op("Mul", polynomial, t), c)
        square = self.op("Mul", self.op("Mul", u, u), 0.5)
        tail = self.op("Add", self.op("Sub", self.op("Log", self.op("Mul", t, 0.5)), square), polynomial)
        rest = self.op("Log", self.op("Sub", 1.0, self.op("Exp", tail)))
        return self.op("Where", self.op("Less", u, 0.0), tail, rest)

    def outputs(self, probabilities: str) -> None:
        labels = _labels(self.formula.classes)
        best = self.op("ArgMax", probabilities, axis=1, keepdims=0)
        self.op("Gather", labels, best, out="label")
        make = self.onnx.helper.make_tensor_value_info
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(labels.dtype)
        self.results = [make("label", kind, ["rows"])]
        self.results.append(make(probabilities, self.double, ["rows", len(self.formula.classes)]))


def _labels(classes: Sequence[Any]) -> Array:
    if all(isinstance(label, str) for label in classes):
        return np.array(classes, dtype=object)
    if all(isinstance(label, bool | int) for label in classes):
        return np.array(classes)
    return np.array(classes, dtype=np.float64)


def _texts(formula: Formula, column: str) -> list[str]:
    """Return every text that a step speaks of, once."""
    found: dict[str, None] = {}
    for feature in formula.features:
        if feature.column == column:
            for verb, argument in feature.steps:
                spoken = {"fill": [argument], "one_of": argument}.get(verb, [])
                spoken = [pair[0] for pair in argument[0]] if verb == "code" else spoken
                found |= dict.fromkeys(item for item in spoken if isinstance(item, str))
    return list(found)


def _in_codes(feature: Feature, vocabulary: dict[str, list[str]]) -> Feature:
    """Return a feature of text as one of codes: its place in the vocabulary stands for every text."""
    if feature.column not in vocabulary:
        return feature
    place = {text: float(i) for i, text in enumerate(vocabulary[feature.column])}

    def coded(value: Any) -> Any:
        return place.get(value, value) if isinstance(value, str) else value

    steps: list[Step] = []
    for verb, argument in feature.steps:
        if verb == "fill":
            steps.append((verb, coded(argument)))
        elif verb == "one_of":
            steps.append((verb, [coded(level) for level in argument]))
        elif verb == "code":
            steps.append((verb, [[[coded(level), number] for level, number in argument[0]], argument[1]]))
        else:
            steps.append((verb, argument))
    return Feature(feature.name, feature.column, tuple(steps))
