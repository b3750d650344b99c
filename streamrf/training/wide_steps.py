"""Columns and steps whose roundings are too wide for what the rows differ by."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamrf.errors import warn
from streamrf.preprocessing import FAINT, Encoder
from streamrf.sources import SparseRows
from streamrf.training.column_moments import named_columns

FAR = 2.0**18  # deviations from 0, where float32 has 32 numbers a deviation
NOISE = 1e-6  # of a row's greatest deviation
LOOKED_AT, MAX_LOST = 256, 0.2  # rows, and the share of features that steps may be too wide for


def warn_of_wide_steps(encoder: Encoder, X: Any) -> None:
    """Warn if most calibration rows X (n, d) are rounded to one value in many features.

    A step is a share of a deviation, and one row in other units makes a deviation of its own. The
    least step may be a share of the deviation of other features, and is not looked at.
    """
    if not encoder.calibration.noise_alpha(1.0):
        return
    step = encoder.calibration.step
    own = (step > step.min()) | (step.max() == step.min())
    rows = X[:: max(1, len(X) // LOOKED_AT)]
    scaled = np.empty((len(rows), encoder.n_components), dtype=np.float32)
    encoder.scale(rows, scaled)
    middle = np.median(scaled, axis=0)
    apart = np.abs(scaled - middle) * step
    is_apart = apart > NOISE * apart.max(axis=1, keepdims=True)  # else by rounding of the map
    is_lost = (np.rint(scaled) == np.rint(middle)) & is_apart
    share = float(np.mean(is_lost[:, own].mean(axis=0) > 0.5))
    if share > MAX_LOST:
        warn(
            f"in {share:.0%} of the features most rows are rounded to the same value, since a few "
            "rows are so much longer that they make the steps too wide for all others; take those "
            "out, or use normalize='asinh' (--normalize asinh) or precision='float64' "
            "(--precision float64)"
        )


def warn_of_far_columns(encoder: Encoder, X: Any, names: Sequence[str] = ()) -> None:
    """Warn of columns of X (n, d) that float32, which maps and kernels take, hardly tells apart.

    Those that no scaling moves to 0 and that vary by little next to what they are, as times do; and
    of those that one moves there, but takes as constant and does not scale, those of large
    integers, as keys are.
    """
    if isinstance(X, SparseRows):
        return
    is_moved = encoder.preprocessing.normalize in ("standard", "asinh")
    middle = X.mean(axis=0, dtype=np.float64)
    with np.errstate(over="ignore"):
        spread = X.std(axis=0, dtype=np.float64)
    varies = X.min(axis=0) != X.max(axis=0)  # the mean of equal values is rounded
    far, least = (1 / FAINT, 2.0**53) if is_moved else (FAR, 0.0)
    size = np.abs(middle)
    found = np.flatnonzero(varies & (spread * far < size) & (size > least)).tolist()
    if not found:
        return
    if is_moved:
        wrong = "so little that they are not scaled; take a constant from them before"
    else:
        wrong = (
            "of which single precision keeps next to nothing; use normalize='standard' "
            "(--normalize standard), or take a constant from them"
        )
    first = found[0]
    warn(
        f"{named_columns(found, tuple(names))} of X: the values vary by {spread[first]:.2g} "
        f"around {middle[first]:.6g}, {wrong}"
    )
