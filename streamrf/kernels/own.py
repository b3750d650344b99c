"""The kernel of features that are a user's own code."""

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf.errors import ParameterError
from streamrf.kernels.base import Kernel, rows_of
from streamrf.kernels.dot_product import Floats


class FeatureProduct(Kernel):
    """``K(x, y) = <f(x), f(y)>``, where f is a function, or what a transformer transforms to.

    Files name it and do not hold it; see `load_model`.

    Parameters
    ----------
    transform : function of rows (n, n_features), float32, that returns (n, n_components), or a
        fitted transformer. Of a kernel from a file the name, with which nothing can be computed

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> srf.FeatureProduct(np.sqrt)([[1.0, 4.0]], [[9.0, 16.0]])
    array([[11.]])
    """

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    @property
    def code_names(self) -> dict[str, str]:
        """Settings that are code, by the names that files have for them."""
        return {"transform": name_of(self.transform)}

    def check_settings(self) -> None:
        transform = getattr(self.transform, "transform", self.transform)
        if not callable(transform) and not isinstance(transform, str):
            raise ParameterError(
                f"transform must be a function or a fitted transformer, got {self.transform!r}"
            )

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        if isinstance(self.transform, str):
            raise ParameterError(not_held(self.transform))
        found = self._features(X)
        return found @ (found if Y is None else self._features(Y)).T

    def _features(self, X: ArrayLike) -> Floats:
        transform = getattr(self.transform, "transform", self.transform)
        return np.asarray(transform(rows_of(X).astype(np.float32)), dtype=np.float64)


def codes_of(kernel: Any) -> list[Any]:
    """Return the functions and transformers in a kernel, and in the kernels that it is made of."""
    if isinstance(kernel, FeatureProduct):
        return [kernel.transform]
    inside: Any = kernel if isinstance(kernel, list | tuple) else ()
    if isinstance(kernel, Kernel):
        inside = kernel.get_params(deep=False).values()
    return [code for value in inside for code in codes_of(value)]


def name_of(code: Any) -> str:
    """Return the name that files have for a function or a transformer; a name is its own.

    Examples
    --------
    >>> import functools
    >>> name_of(np.sqrt), name_of(functools.partial(np.clip, a_min=0)), name_of(FeatureProduct("f"))
    ('sqrt', 'clip', 'FeatureProduct')
    """
    if isinstance(code, str):
        return code
    names = (getattr(code, key, None) for key in ("name_", "__qualname__", "__name__"))
    known = next(filter(None, names), None)
    if known is None and isinstance(code, functools.partial):
        return name_of(code.func)
    return str(known or type(code).__name__)


def not_held(name: str) -> str:
    """Return the message where features are needed, and the code that they take is not there."""
    return (
        f"the features are those of {name!r}, code that files name and do not hold; in Python, "
        "pass it when loading: load_model(path, features=...), load_statistics(path, features=...)"
    )
