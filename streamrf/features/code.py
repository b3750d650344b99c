"""Code of the user's own: whether it is fitted, whether it is that of the training."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap
from streamrf.jit.arrays import F32
from streamrf.kernels import name_of

TOLERANCE = 0.01  # of a component's greatest value: other machines differ by far less


def is_code(found: Any) -> bool:
    """Return whether this is a function, or has a transform."""
    return callable(found) or callable(getattr(found, "transform", None))


def is_ready(code: Any) -> bool:
    """Return whether code can be called as it is: a function, or a transformer that is fitted."""
    if isinstance(code, str) or not callable(getattr(code, "fit", None)):
        return True
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(code)
    except NotFittedError:
        return False
    except (AttributeError, TypeError):  # of another library
        return True
    return True


def check_ready(features: Any) -> None:
    """Raise ParameterError for a transformer that a restart could not fit again as it was."""
    code = features.code if isinstance(features, FeatureMap) else []
    unready = [name_of(each) for each in code if not is_ready(each)]
    if unready:
        raise ParameterError(
            f"features: {unready[0]} would be fitted to rows of this run, and no file holds it; "
            "fit it before a run with checkpoint= or spill="
        )


def check_names(features: Any, names: Any) -> None:
    """Raise ParameterError for a transformer that was fitted to columns of other names."""
    for code in features.code if isinstance(features, FeatureMap) and names is not None else []:
        fitted = list(getattr(code, "feature_names_in_", names))
        if fitted != list(names):
            raise ParameterError(
                f"features: the transformer {name_of(code)} was fitted to the columns {fitted}, "
                f"and the rows have {list(names)}; give both the same columns in the same order"
            )


def attach_code(features: FeatureMap, given: Any) -> None:
    """Let a map that was read from a file have the code that it names.

    Parameters
    ----------
    features : changed in place
    given : the map that was trained with, its function or transformer, or a list of them in order

    Raises
    ------
    ParameterError
        If there is more or less code than named, or it answers otherwise than the one trained with.
    """
    wanted, code = features.code, _codes(given)
    if not wanted:
        raise ParameterError("features= is for maps of your own code, and this file has none")
    if len(code) != len(wanted):
        raise ParameterError(
            f"features= has {len(code)} functions or transformers, and the file names "
            f"{len(wanted)}: {', '.join(map(name_of, wanted))}"
        )
    features.attach(iter(code))


def _codes(given: Any) -> list[Any]:
    if isinstance(given, FeatureMap):
        return given.code
    return [code for one in given for code in _codes(one)] if isinstance(given, list) else [given]


def unseeded(transformer: Any) -> list[str]:
    """Return the names of the seeds that are None, in order."""
    params = sorted(transformer.get_params().items())
    return [k for k, v in params if v is None and k.split("__")[-1] == "random_state"]


def apart(a: F32, b: F32) -> NDArray[np.bool_]:
    """Return which features of rows differ, by more than machines do."""
    scale = np.abs(np.where(np.isfinite(a), a, 0))
    bound = TOLERANCE * scale.max(axis=0) + 1e-6 * scale.max(initial=0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        near = (np.abs(a - b) <= bound) | (a == b)
    return ~(near | (np.isnan(a) & np.isnan(b)))
