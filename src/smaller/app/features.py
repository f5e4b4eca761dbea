"""The table encoder for pipelines: what `smaller fit` does with columns, as a transformer of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from smaller.app.columns import check_columns, decide, encode
from smaller.app.frames import from_frame, numbers_or_text
from smaller.app.remarks import sentences
from smaller.app.tables import Table, TableError, unique_names
from smaller.arrays import Array
from smaller.estimators.documentation import DocumentationLink

__all__ = ["TableFeatures"]


class TableFeatures(DocumentationLink, TransformerMixin, BaseEstimator):
    """Turn the columns of a table into features: numbers stay, texts become indicators, gaps are filled and marked.

    Numbers written as text (units, thousands, percent, limits) are read as numbers; a text becomes one indicator per
    value, of two values one. Constant and empty columns, texts that differ in most rows and numbers that count them are
    left out. ``smaller fit`` does the same with the columns of a file.

    Parameters
    ----------
    drop : sequence of str, default=()
        Columns to leave out.
    keep : sequence of str, default=()
        Columns of numbers to use although they look like identifiers.
    fill : bool, default=True
        Fill gaps in numbers with the median of the rows learnt from; without it they are NaN.

    Attributes
    ----------
    columns_ : tuple of Column
        The columns in use, with their levels and units.
    medians_ : ndarray of shape (n_features_out,)
        What gaps are filled with.
    notes_ : list of str
        What was done, in sentences.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_columns,)
        Their names, if the table has names.

    See Also
    --------
    study : A table as a whole, to a report.

    Notes
    -----
    A value that was not seen in training has no indicator: it is zero in all of them. Dates are refused: turn them into
    numbers, or drop them.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller import TableFeatures
    >>> dose, colour = ["1 mg", "3 mg", "?", "8 mg", "4 mg"], ["red", "blue", "red", "red", "blue"]
    >>> table = np.array([dose, colour], dtype=object).T
    >>> encoder = TableFeatures().fit(table)
    >>> encoder.get_feature_names_out(["dose", "colour"]).tolist()
    ['dose', 'colour = red']
    >>> encoder.transform(table)[:3].tolist()
    [[1.0, 1.0], [3.0, 0.0], [3.5, 1.0]]
    """

    def __init__(self, drop: Sequence[str] = (), *, keep: Sequence[str] = (), fill: bool = True) -> None:
        self.drop = drop
        self.keep = keep
        self.fill = fill

    def fit(self, X: Any, y: Any = None) -> TableFeatures:
        """Decide what becomes of every column.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            Numbers and texts; columns of arrays without names are called x0, x1, ...
        y : None
            Not looked at.

        Returns
        -------
        self
            The fitted encoder.
        """
        table = self._table(X, reset=True)
        check_columns(table, [*self.drop, *self.keep])
        self.columns_, remarks = decide(table, skip=self.drop, keep=self.keep)
        if not self.columns_:
            raise TableError("No column is left to learn from: every one is dropped, constant or an identifier.")
        features = encode(self.columns_, table)
        self.medians_ = np.array([np.median(column[~np.isnan(column)]) for column in features.T])
        self.notes_ = sentences(remarks, table.n_rows)
        return self

    def transform(self, X: Any) -> Array:
        """Return the features of the rows of a table.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            With the columns of `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_features_out)
            Features; gaps are filled, or NaN.
        """
        check_is_fitted(self)
        features = encode(self.columns_, self._table(X, reset=False))
        return np.where(np.isnan(features), self.medians_, features) if self.fill else features

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Array:
        """Return the names of the features.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns of an array; those of a data frame are known.

        Returns
        -------
        ndarray of str objects
            Such as "age", "age is missing" and "colour = red".
        """
        check_is_fitted(self)
        given = unique_names([str(name) for name in _check_feature_names_in(self, input_features)])
        called = dict(zip(self._names, given, strict=True))
        columns = [replace(column, name=called[column.name]) for column in self.columns_]
        return np.asarray(unique_names([name for column in columns for name in column.features]), dtype=object)

    @property
    def _names(self) -> list[str]:
        """Names of the columns of the table, unique."""
        return unique_names([str(name) for name in _check_feature_names_in(self)])

    def _table(self, X: Any, *, reset: bool) -> Table:
        """Return checked columns under the names that they had when the encoder was fitted."""
        if hasattr(X, "columns") and hasattr(X, "shape"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if hasattr(self, "feature_names_in_"):
                return from_frame(X, "X")
            X = np.asarray(X, dtype=object)  # a frame whose columns have numbers for names
        matrix = validate_data(
            self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=1 + reset
        )
        columns, refused = {}, {}
        for name, values in zip(self._names, matrix.T, strict=True):
            try:
                columns[name] = numbers_or_text(values, name)
            except TableError as error:
                refused[name] = str(error)
        return Table(columns, refused=refused)

    def __sklearn_tags__(self) -> Any:
        """Say that texts and gaps are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags
