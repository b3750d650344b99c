"""Class labels: one of four dtypes, sorted, joined and found."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import DataError, UnknownLabelError

HEAD_ROWS = 64  # whose targets tell how those of a file are written


def as_labels(y: ArrayLike) -> NDArray[Any]:
    """Return labels in one of four dtypes: int64, float64, bool or str.

    Raises DataError for integers that int64 does not hold, for floats so great that integers next
    to each other are one, and as `check_text` does.
    """
    y = np.asarray(y)
    if y.dtype == np.uint64 and len(y) and y.max() > np.iinfo(np.int64).max:
        raise DataError(
            f"the label {y.max()} is beyond {np.iinfo(np.int64).max}, the greatest of integers;"
            " give such labels as strings"
        )
    if y.dtype.kind == "f" and (joined := np.isfinite(y) & (np.abs(y) >= np.float64(2**53))).any():
        raise DataError(
            f"labels such as {y[joined][0]} are floats of 2^53 or beyond, where labels next to each"
            " other are one; give them as integers of 64 bits or strings, or numbered from 0 on"
        )
    kinds = {"i": np.int64, "u": np.int64, "f": np.float64, "O": str, "S": str}
    y = y.astype(kinds[y.dtype.kind]) if y.dtype.kind in kinds else y
    if y.dtype.kind == "f":
        y += 0.0  # -0.0 is the label 0
    if y.dtype.kind == "U":
        check_text(y, "labels")
    return y


def is_one_hot(y: NDArray[Any]) -> bool:
    """Return whether each row of targets (n, k) has a single 1 and else zeros."""
    if y.ndim != 2 or y.shape[1] < 2 or not len(y) or y.dtype.kind not in "biuf":
        return False
    return bool(((y == 0) | (y == 1)).all() and (np.count_nonzero(y, axis=1) == 1).all())


def places_of_ones(y: NDArray[Any], where: str, row: int) -> NDArray[Any]:
    """Return the index of the 1 in each row of targets (n, k), the first of which is row `row`.

    They are integers, or floats where some are NaN as their rows have one. Raises DataError for
    another row that has not a single 1 and else zeros.
    """
    missing = np.isnan(y).any(axis=1) if y.dtype.kind == "f" else np.zeros(len(y), np.bool_)
    odd = ((y != 0) & (y != 1)).any(axis=1) | (np.count_nonzero(y, axis=1) != 1)
    if (odd := odd & ~missing).any():
        index = int(odd.argmax())
        raise DataError(
            f"{where}, row {row + index}: the targets are {y[index].tolist()}, and those of the "
            "first rows have a single 1, as classes written one-hot have; correct it or take the "
            "row out, or if they are values say so by task='regression' (--task regression)"
        )
    found = y.argmax(axis=1)
    return np.where(missing, np.nan, found) if missing.any() else found


def check_text(y: NDArray[Any], where: str) -> None:
    """Raise DataError for strings with a lone surrogate or NUL, which files of text cannot hold.

    NULs at the end have been lost where an array of NumPy's strings was made.
    """
    if not y.size or not y.dtype.itemsize:
        return
    codes = np.ascontiguousarray(y).reshape(-1, 1).view(np.uint32)
    bad = ((codes >= 0xD800) & (codes < 0xE000)).any(axis=1)
    bad |= ((codes[:, :-1] == 0) & (codes[:, 1:] != 0)).any(axis=1)
    if bad.any():
        raise no_text(where, int(bad.argmax()) // (y.size // len(y)), y.ravel()[bad][0].item())


def check_listed(y: Any, where: str) -> None:
    """Raise DataError for a string with NUL in a list, which NumPy's arrays lose at the end."""
    if isinstance(y, list | tuple):
        for row, label in enumerate(y):
            if isinstance(label, str) and "\0" in label:
                raise no_text(where, row, label)


def no_text(where: str, row: int, label: str) -> DataError:
    """Return the error of a label that files of text cannot hold."""
    return DataError(
        f"{where}, row {row}: {label!r} holds a lone surrogate or NUL, which no file of text can "
        "hold; rename it"
    )


def join_labels(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
    """Return the sorted union.

    Raises DataError if some are numbers and some strings, or if integers so great that float64 has
    not each of them would have to become floats.
    """
    if len(ours) and len(theirs) and (ours.dtype.kind in "U") != (theirs.dtype.kind in "U"):
        raise DataError(
            "labels must be all numbers or all strings, "
            f"got {ours[0].item()!r} and {theirs[0].item()!r}"
        )
    joined = np.union1d(ours, theirs) if len(ours) else theirs
    for labels in (ours, theirs):
        if joined.dtype.kind == "f" and labels.dtype.kind == "i" and np.any(np.abs(labels) > 2**53):
            raise DataError(
                f"labels such as {labels[-1]} are integers beyond 2^53, and others are floats,"
                " which cannot tell them apart; give all as integers, or as strings"
            )
    return narrowed(joined)


def narrowed(labels: NDArray[Any]) -> NDArray[Any]:
    """Return strings no wider than the longest, whatever longer ones there were before."""
    if not len(labels):
        return np.empty(0, dtype=np.int64)
    return np.array(labels.tolist(), dtype=str) if labels.dtype.kind == "U" else labels


def find_labels(
    labels: NDArray[Any], y: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find each of `y` in the sorted `labels`: index (n,), and whether it is unknown (n,)."""
    if not len(labels) or (y.dtype.kind == "U") != (labels.dtype.kind == "U"):
        return np.zeros(len(y), dtype=np.int64), np.ones(len(y), dtype=bool)
    index = np.searchsorted(labels, y).clip(max=len(labels) - 1)
    return index, labels[index] != y


def without_gaps(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels without NaN and infinity, which are none: `check_rows` takes their rows."""
    return labels[np.isfinite(labels)] if labels.dtype.kind == "f" else labels


def check_known(y: ArrayLike, classes: ArrayLike) -> None:
    """Raise UnknownLabelError for a label that is none of the classes said to be all."""
    given = without_gaps(np.asarray(y))
    labels, found = np.unique(as_labels(classes)), np.unique(as_labels(given))
    unknown = find_labels(labels, found)[1]
    if unknown.any():
        raise UnknownLabelError(
            f"the label {found[unknown][0].item()!r} is none of classes={labels.tolist()}; name "
            "all that will appear, or leave classes out"
        )


def same_labels(ours: ArrayLike, theirs: ArrayLike) -> bool:
    """Return whether two lists name the same labels, in any order."""
    return np.array_equal(np.unique(as_labels(ours)), np.unique(as_labels(theirs)))
