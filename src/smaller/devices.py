"""Arrays of torch and CuPy as rows: what an estimator does with data that are on a device.

Loaded when such an array arrives. With ``sklearn.set_config(array_api_dispatch=True)`` the work stays where the data
are, and predictions are there too; the fitted model is small and kept on the host. Without it arrays on the host are
NumPy's as ever, and arrays elsewhere are refused: nothing is fetched silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils.multiclass import check_classification_targets

from smaller.arrays import Array, array_namespace, from_host, log_partition, to_host
from smaller.likelihoods import Likelihood, Multinomial
from smaller.rows.device import DeviceRows
from smaller.rows.device_matrix import DeviceMatrix

__all__ = ["mapped", "rows_of", "stays"]


def stays(a: Any) -> bool:
    """Whether the work is done where ``a`` is; else it is a host array like any other.

    Raises
    ------
    TypeError
        With the sentence that tells the user how, where it would have to be fetched.
    """
    if get_config()["array_api_dispatch"]:
        return True
    if _on_host(a):
        return False
    raise TypeError(
        f"X is on {_device(a)}: call sklearn.set_config(array_api_dispatch=True) to work there (with the environment "
        "variable SCIPY_ARRAY_API=1 set before SciPy is imported), or move it to the host."
    )


def _device(a: Any) -> Any:
    return getattr(a, "device", "another device")


def _on_host(a: Any) -> bool:
    device = _device(a)
    return str(getattr(device, "type", device)) in ("cpu", "array_api_strict.Device('CPU_DEVICE')")


def rows_of(X: Any, y: Any, weight: Any, likelihood: Callable[[int], Likelihood]) -> DeviceRows:
    """Return checked arrays as rows where they are."""
    if y is None:
        raise ValueError("y must be given: an array on a device does not know its labels.")
    design = _matrix(X)
    codes, labels = _codes(y, X)
    found = likelihood(len(labels))
    if len(labels) < 2:
        raise ValueError(f"y holds one class only ({labels.tolist()}): at least 2 classes are needed.")
    return DeviceRows(design, found.encode(codes), _weight(weight, X), found, labels=labels)


def _matrix(X: Any) -> DeviceMatrix:
    """Return X as a design; it must be finite, of two dimensions, in single or double precision."""
    if str(getattr(_device(X), "type", "")) == "mps":
        raise TypeError("X is on Apple's mps, which has no float64: move it to the host, certificates need it.")
    xp = array_namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have two dimensions, neither of them empty; its shape is {tuple(X.shape)}.")
    if X.dtype not in (xp.float32, xp.float64):
        raise TypeError(f"X of {X.dtype} must be converted to float32 or float64 first.")
    X = X.detach() if hasattr(X, "detach") else X
    broken = ~xp.all(xp.isfinite(X), axis=0)
    if bool(xp.any(broken)):
        column = int(np.flatnonzero(to_host(broken))[0])
        raise ValueError(f"Input X contains NaN or infinity (column {column}): impute it or leave the rows out.")
    return DeviceMatrix(X)


def _beside(name: str, a: Any, X: Any) -> Array:
    """Return labels or weights (n,) on the device of X; host arrays are brought there."""
    xp = array_namespace(X)
    host = isinstance(a, np.ndarray | list | tuple)
    a = np.asarray(a) if host else a
    if a.ndim != 1 or a.shape[0] != X.shape[0]:
        raise ValueError(
            f"{name} must have one entry for each of the {X.shape[0]} rows; its shape is {tuple(a.shape)}."
        )
    if not host and (array_namespace(a) is not xp or _device(a) != _device(X)):
        raise ValueError(f"X is on {_device(X)} and {name} on {_device(a)}: move both to one device.")
    return a


def _codes(y: Any, X: Any) -> tuple[Array, np.ndarray[Any, Any]]:
    """Return class codes on the device, and the labels on the host."""
    y = _beside("y", y, X)
    if isinstance(y, np.ndarray):
        labels, codes = np.unique(y, return_inverse=True)
        check_classification_targets(y)
        return from_host(codes, X), labels
    found = array_namespace(y).unique_inverse(y)
    labels = to_host(found.values)
    check_classification_targets(labels)
    return found.inverse_indices, labels


def _weight(weight: Any, X: Any) -> Array | None:
    """Return observation weights on the device, in double precision."""
    if weight is None:
        return None
    a = _beside("sample_weight", weight, X)
    xp = array_namespace(X)
    c = xp.astype(from_host(a.astype(np.float64), X) if isinstance(a, np.ndarray) else a, xp.float64)
    if not bool(xp.all(xp.isfinite(c))) or bool(xp.any(c < 0)) or not bool(xp.any(c > 0)):
        raise ValueError("sample_weight must hold finite numbers >= 0, not all of them 0.")
    return c


def mapped(X: Any, answer: Any, accept: Callable[[int, Any], None]) -> Array:
    """Return predictions where the rows are; labels that are texts are NumPy's."""
    design = _matrix(X)
    accept(design.shape[1], None)
    model, method = answer.estimator, answer.method
    if not isinstance(getattr(model, "_likelihood", None), Multinomial) or not hasattr(model, "coef_"):
        raise TypeError(f"{type(model).__name__} predicts for arrays on the host: move X there.")
    xp = array_namespace(X)
    w, b = (from_host(np.asarray(part, dtype=np.float64), X) for part in (model.coef_.T, model.intercept_))
    eta = design.forward(w) + b
    if method == "decision_function":
        return eta[:, 0] if eta.shape[1] == 1 else eta
    scores = xp.concat([xp.zeros_like(eta), eta], axis=1) if eta.shape[1] == 1 else eta
    if method == "predict":
        codes = xp.argmax(scores, axis=1)
        if model.classes_.dtype.kind not in "biuf":
            return model.classes_[to_host(codes)]
        return xp.take(from_host(model.classes_, X), codes)
    lse, P = log_partition(scores, pinned=False)
    return P if method == "predict_proba" else scores - lse[:, None]
