"""What of the rows is lost: by single precision, by steps too wide, by a kernel too smooth."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamrf.errors import warn
from streamrf.jit.arrays import F32, Mask
from streamrf.kernels import DotProductKernel, Linear, ShiftInvariantKernel
from streamrf.preprocessing import COLUMNWISE, FAINT, Encoder, deviations, far_values
from streamrf.sources import SparseRows
from streamrf.training.column_moments import named_columns

FAR = 2.0**18  # deviations from 0, where float32 has 32 numbers a deviation
NOISE = 1e-6  # of a row's greatest deviation
TINY = 1e-37  # from where on down float32 holds less and less of a value
_CODE = re.compile(r"-?9{2,}|-?\d(\.\d+)?e\+\d+|-?214748364[78]")
UNSEEN = 1e-3  # of the greatest deviation of a column
MIN_WIDTH = 64  # of features, of which fewer may happen not to vary
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
    scaled = _scaled(encoder, X)
    middle = np.median(scaled, axis=0)
    apart = np.abs(scaled - middle) * step
    is_apart = apart > NOISE * apart.max(axis=1, keepdims=True)  # else by rounding of the map
    is_lost = (np.rint(scaled) == np.rint(middle)) & is_apart
    share = float(np.mean(is_lost[:, own].mean(axis=0) > 0.5))
    if share > MAX_LOST:
        asinh = "normalize='asinh' (--normalize asinh), "
        warn(
            f"in {share:.0%} of the features most rows are rounded to the same value, since steps "
            "are made for a few rows that lie far from all others there, being much longer or, to "
            "a narrow kernel, near a landmark; take those out, or use "
            f"{'' if encoder.preprocessing.normalize == 'asinh' else asinh}a smoother kernel or "
            "precision='float64' (--precision float64)"
        )


def warn_of_lost_rows(encoder: Encoder, X: Any, names: Sequence[str] = ()) -> None:
    """Warn if calibration rows X (n, d) differ by less than maps, which take float32, tell apart.

    By columns that are far from 0, or for any other reason in all features.
    """
    if not warn_of_far_columns(encoder, X, names):
        warn_of_equal_features(encoder, X)


def warn_of_equal_features(encoder: Encoder, X: Any) -> None:
    """Warn if calibration rows X (n, d) are all equal, or none of many features varies in them."""
    if len(X) < 2:
        return
    if isinstance(X, np.ndarray) and (X[0] == X).all():
        warn(
            f"the {len(X):,} rows of X looked at before the pass are all equal, so that nothing "
            "can be learnt of them: check the columns, or shuffle the rows"
        )
        return
    if encoder.n_components < MIN_WIDTH:
        return
    scaled, calibration = _scaled(encoder, X), encoder.calibration
    if (np.ptp(scaled, axis=0) * calibration.step <= NOISE * np.abs(calibration.shift)).all():
        warn(
            "no feature varies by a millionth of itself in the rows looked at before the pass, so "
            "that nothing can be learnt of them: take another gamma ('median' is that of the "
            "rows), scaling or kernel"
        )


def warn_of_far_columns(encoder: Encoder, X: Any, names: Sequence[str] = ()) -> bool:
    """Warn of columns of X (n, d) that float32, which maps and kernels take, hardly tells apart.

    Those that no scaling moves to 0 and that vary by little next to what they are, as times do, or
    all columns vary by little next to one that is constant; of those that one moves there, but
    takes as constant and does not scale, those of large integers, as keys are; and those near 0 of
    which nothing is left. Return whether there are any.
    """
    if isinstance(X, SparseRows):
        return False
    is_moved = encoder.preprocessing.normalize in COLUMNWISE
    middle = X.mean(axis=0, dtype=np.float64)
    with np.errstate(over="ignore"):
        spread = deviations(X)
        varies = X.min(axis=0) != X.max(axis=0)  # the mean of equal values is rounded
        apart = np.linalg.norm(spread[varies])
    is_told = _warn_of_tiny(encoder, X, varies, names)
    size = np.abs(middle)
    if is_moved:
        is_far = varies & (spread < FAINT * size) & (size > 2.0**53)
        wrong = "so little that they are not scaled; take a constant from them before"
    else:
        is_far = (np.where(varies, spread, apart) * FAR < size) & varies.any()
        wrong = (
            "of which single precision loses some or all; use normalize='standard' "
            "(--normalize standard), or take a constant from them"
        )
    found = np.flatnonzero(is_far).tolist()
    if not found:
        return is_told
    first, which = found[0], named_columns(found, tuple(names))
    if varies[first]:
        told = f"the values vary by {spread[first]:.2g} around {middle[first]:.6g}, {wrong}"
    else:
        told = (
            f"the value is {middle[first]:.6g} in all rows looked at, and next to it single "
            f"precision loses some or all of the other columns, which vary by {apart:.2g}; use "
            "normalize='standard' (--normalize standard), or leave it out"
        )
    warn(f"{which} of X: {told}")
    return True


def warn_of_scales(
    encoder: Encoder, X: Any, names: Sequence[str] = (), is_scaled: bool = False
) -> None:
    """Warn of what a kernel of distances or products makes of the scales of columns X (n, d).

    For maps that are named: of codes for missing values, and, if no scaling `is_scaled`, of columns
    that hardly vary beside others.
    """
    kernel = getattr(encoder.features, "kernel_", None)
    sees_scales = isinstance(kernel, ShiftInvariantKernel | DotProductKernel)
    if isinstance(X, SparseRows) or not sees_scales or isinstance(kernel, Linear):
        return
    if encoder.preprocessing.normalize != "quantile":
        _warn_of_codes(X, names)
    if not is_scaled:
        _warn_of_unequal_columns(X, names)


def _warn_of_codes(X: Any, names: Sequence[str]) -> None:
    """Warn of columns with a number that stands for what is missing, such as -999."""
    ends = zip(X.min(axis=0), X.max(axis=0), strict=True)
    places = [j for j, pair in enumerate(ends) if any(map(_is_code, pair))]
    found = far_values(X[:, places]) if places else {}
    codes = {places[j]: value for j, value in found.items() if _is_code(value)}
    if codes:
        shown = f"{next(iter(codes.values())):.10g}"
        warn(
            f"{named_columns([*codes], tuple(names))} of X: many rows have {shown}, far from all "
            "others, as a number that stands for what is missing; to a kernel it is a distance: "
            "use normalize='quantile' (--normalize quantile), or put the mean in its place"
        )


def _is_code(value: float) -> bool:
    return _CODE.fullmatch(f"{value:.10g}") is not None


def _warn_of_unequal_columns(X: Any, names: Sequence[str]) -> None:
    """Warn if half of the columns that vary, or more, vary next to nothing beside one of them."""
    with np.errstate(over="ignore"):
        spread = deviations(X)
    varies = X.min(axis=0) != X.max(axis=0)
    found = np.flatnonzero(varies & (spread < UNSEEN * spread.max()))
    if len(found) and 2 * len(found) >= np.count_nonzero(varies):
        widest = named_columns([int(spread.argmax())], tuple(names))
        warn(
            f"{named_columns(found.tolist(), tuple(names))} of X vary by less than a thousandth of "
            f"what {widest} does, so the kernel hardly sees them: use normalize='standard' "
            "(--normalize standard); normalize=None (--normalize none) keeps rows as they are"
        )


def _warn_of_tiny(encoder: Encoder, X: Any, varies: Mask, names: Sequence[str]) -> bool:
    """Warn of columns so near 0 that scaled rows have one value; return whether there are any."""
    size = np.maximum(np.abs(X.max(axis=0)), np.abs(X.min(axis=0)))
    is_tiny = varies & (size < TINY)
    if not is_tiny.any():
        return False
    scaled = replace(encoder.preprocessing, warp=None).apply(X)
    found = np.flatnonzero(is_tiny & (scaled.min(axis=0) == scaled.max(axis=0))).tolist()
    if found:
        warn(
            f"{named_columns(found, tuple(names))} of X: the values, at most "
            f"{size[found].max():.6g}, are so small that they or their squares are taken for 0; "
            "use normalize='standard' (--normalize standard), or multiply them by a constant"
        )
    return bool(found)


def _scaled(encoder: Encoder, X: Any) -> F32:
    """Return the scaled features of some of the rows, float32."""
    rows = X[:: max(1, len(X) // LOOKED_AT)]
    scaled = np.empty((len(rows), encoder.n_components), dtype=np.float32)
    encoder.scale(rows, scaled)
    return scaled
