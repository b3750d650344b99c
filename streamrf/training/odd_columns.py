"""Columns that a map makes little of: far from 0, tiny, of other scales, with codes for missing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.errors import warn
from streamrf.jit.arrays import Floats, Mask
from streamrf.kernels import DotProductKernel, Linear, ShiftInvariantKernel
from streamrf.preprocessing import (
    COLUMNWISE,
    FAINT,
    Encoder,
    deviations,
    far_values,
    named_columns,
)
from streamrf.sources import SparseRows
from streamrf.training.wide_steps import warn_of_equal_features

FAR = 2.0**18  # deviations from 0, where float32 has 32 numbers a deviation
TINY = 1e-37  # from where on down float32 holds less and less of a value
ROUNDED = 2.0**-46  # of a constant, by which float64 may vary: 64 times its rounding
_CODE = re.compile(r"-?9{2,}|-?\d(\.\d+)?e\+\d+|-?214748364[78]")
RARE_APART = 10.0  # spreads of all others that a code of few rows is off the nearest of them
_RARE = re.compile(r"-?9{3,}|-?32768|-?214748364[78]")
UNSEEN = 1e-3  # of the greatest deviation of a column


def warn_of_named_map(
    encoder: Encoder, X: Any, names: Sequence[str] = (), is_scaled: bool = True
) -> None:
    """Warn of what a map that the user names loses of calibration rows X (n, d).

    Rows that maps, which take float32, do not tell apart, by columns that are far from 0 or for any
    other reason in all features; and, to a kernel of distances or products, codes for missing
    values and, if no scaling `is_scaled`, columns that hardly vary beside others.
    """
    columns = None if isinstance(X, SparseRows) else Columns.of(X, names)
    if columns is None or not _warn_of_far(encoder, columns):
        warn_of_equal_features(encoder, X)
    kernel = getattr(encoder.features, "kernel_", None)
    sees_scales = isinstance(kernel, ShiftInvariantKernel | DotProductKernel)
    if columns is None or not sees_scales or isinstance(kernel, Linear):
        return
    if encoder.preprocessing.normalize != "quantile":
        _warn_of_codes(columns)
    if not is_scaled:
        _warn_of_unequal(columns)


def warn_of_far_columns(encoder: Encoder, X: Any) -> None:
    """Warn of columns of X (n, d) that float32, which kernels take, hardly tells apart."""
    if not isinstance(X, SparseRows):
        _warn_of_far(encoder, Columns.of(X))


@dataclass(frozen=True)
class Columns:
    """What one look at columns of rows X (n, d), not sparse, finds; the others are (d,)."""

    X: Any
    names: tuple[str, ...]
    least: Any
    greatest: Any
    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, X: Any, names: Sequence[str] = ()) -> "Columns":
        """Look at rows X (n, d)."""
        with np.errstate(over="ignore"):
            return cls(
                X,
                tuple(names),
                X.min(axis=0),
                X.max(axis=0),
                X.mean(axis=0, dtype=np.float64),
                deviations(X),
            )

    @property
    def varies(self) -> Mask:
        """Whether there are two values; the mean of equal ones is rounded."""
        return self.least != self.greatest

    def named(self, which: list[int]) -> str:
        """Return columns as messages call them."""
        return named_columns(which, self.names)


def _warn_of_far(encoder: Encoder, columns: Columns) -> bool:
    """Warn of columns that single precision loses; return whether there are any.

    Those that no scaling moves to 0 and that vary by little next to what they are, as times do, or
    all columns vary by little next to one that is constant; of those that one moves there, but
    takes as constant and does not scale, those of large integers, as keys are, and of floats that
    vary by more than is rounded of them; and those near 0 of which nothing is left.
    """
    is_moved = encoder.preprocessing.normalize in COLUMNWISE
    middle, spread, varies = columns.mean, columns.spread, columns.varies
    with np.errstate(over="ignore"):
        apart = np.linalg.norm(spread[varies])
    is_told = _warn_of_tiny(encoder, columns)
    size = np.abs(middle)
    if is_moved:
        is_more = (size > 2.0**53) | (spread > ROUNDED * size)  # than roundings of a constant
        is_far = varies & (spread < FAINT * size) & is_more
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
    first = found[0]
    if varies[first]:
        told = f"the values vary by {spread[first]:.2g} around {middle[first]:.6g}, {wrong}"
    else:
        told = (
            f"the value is {middle[first]:.6g} in all rows looked at, and next to it single "
            f"precision loses some or all of the other columns, which vary by {apart:.2g}; use "
            "normalize='standard' (--normalize standard), or leave it out"
        )
    warn(f"{columns.named(found)} of X: {told}")
    return True


def _warn_of_tiny(encoder: Encoder, columns: Columns) -> bool:
    """Warn of columns so near 0 that scaled rows have one value; return whether there are any."""
    size = np.maximum(np.abs(columns.greatest), np.abs(columns.least))
    is_tiny = columns.varies & (size < TINY)
    if not is_tiny.any():
        return False
    scaled = replace(encoder.preprocessing, warp=None).apply(columns.X)
    found = np.flatnonzero(is_tiny & (scaled.min(axis=0) == scaled.max(axis=0))).tolist()
    if found:
        warn(
            f"{columns.named(found)} of X: the values, at most "
            f"{size[found].max():.6g}, are so small that they or their squares are taken for 0; "
            "use normalize='standard' (--normalize standard), or multiply them by a constant"
        )
    return bool(found)


def _warn_of_codes(columns: Columns) -> None:
    """Warn of columns with a number that stands for what is missing, such as -999."""
    ends = zip(columns.least, columns.greatest, strict=True)
    places = [j for j, pair in enumerate(ends) if any(map(_is_code, pair))]
    found = far_values(columns.X[:, places]) if places else {}
    codes = {places[j]: value for j, value in found.items() if _is_code(value)}
    told = "many rows have"
    if not codes:
        rare = ((j, _rare_code(columns.X[:, j])) for j in places)
        codes = {j: value for j, value in rare if value is not None}
        first = next(iter(codes), 0)
        n_rows = np.count_nonzero(columns.X[:, first] == codes.get(first))
        told = f"{n_rows:,} of {len(columns.X):,} rows looked at are"
    if codes:
        shown = f"{next(iter(codes.values())):.10g}"
        warn(
            f"{columns.named([*codes])} of X: {told} {shown}, far from all "
            "others, as a number that stands for what is missing; to a kernel it is a distance: "
            "use normalize='quantile' (--normalize quantile), or put the mean in its place"
        )


def _rare_code(column: Any) -> float | None:
    """Return the least or greatest value if it is a code, very far off, that few rows have."""
    values = np.sort(column.astype(np.float64))
    for code, others in (
        (values[0], values[values > values[0]]),
        (values[-1], values[values < values[-1]]),
    ):
        if not len(others) or _RARE.fullmatch(f"{code:.10g}") is None:
            continue
        low, high = np.quantile(others, (0.05, 0.95))
        if np.abs(others - code).min() > RARE_APART * (high - low) > 0:
            return float(code)
    return None


def _is_code(value: float) -> bool:
    return _CODE.fullmatch(f"{value:.10g}") is not None


def _warn_of_unequal(columns: Columns) -> None:
    """Warn if half of the columns that vary, or more, vary next to nothing beside one of them."""
    found = hardly_seen(columns.spread, columns.varies)
    if found:
        widest = columns.named([int(columns.spread.argmax())])
        warn(
            f"{columns.named(found)} of X vary by less than a thousandth of "
            f"what {widest} does, so the kernel hardly sees them: use normalize='standard' "
            "(--normalize standard); normalize=None (--normalize none) keeps rows as they are"
        )


def hardly_seen(spread: Floats, varies: Mask) -> list[int]:
    """Return the columns that vary next to nothing beside one, if half of those that vary do."""
    found: list[int] = np.flatnonzero(varies & (spread < UNSEEN * spread.max())).tolist()
    return found if 2 * len(found) >= np.count_nonzero(varies) else []
