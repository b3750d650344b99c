"""Class labels: one of four dtypes, sorted, joined and found."""

import numpy as np

from streamrf.errors import DataError


def as_labels(y: np.ndarray) -> np.ndarray:
    """Give labels in one of four dtypes: int64, float64, bool or str."""
    y = np.asarray(y)
    if y.dtype.kind in "iu":
        return y.astype(np.int64)
    if y.dtype.kind == "f":
        return y.astype(np.float64)
    if y.dtype.kind in "OS":
        return y.astype(str)
    return y


def join_labels(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Give the sorted union; labels of different kinds (number and string) are refused."""
    if len(ours) and len(theirs) and (ours.dtype.kind in "U") != (theirs.dtype.kind in "U"):
        raise DataError(
            "labels must be all numbers or all strings, "
            f"got {ours[0].item()!r} and {theirs[0].item()!r}"
        )
    return narrowed(np.union1d(ours, theirs) if len(ours) else theirs)


def narrowed(labels: np.ndarray) -> np.ndarray:
    """Give strings no wider than the longest, so that nothing tells of longer ones that left."""
    if not len(labels):
        return np.empty(0, dtype=np.int64)
    return np.array(labels.tolist(), dtype=str) if labels.dtype.kind == "U" else labels


def find_labels(labels: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find each of `y` among the sorted `labels`: index (n,), and whether it is unknown (n,)."""
    if not len(labels) or (y.dtype.kind == "U") != (labels.dtype.kind == "U"):
        return np.zeros(len(y), dtype=np.int64), np.ones(len(y), dtype=bool)
    index = np.searchsorted(labels, y).clip(max=len(labels) - 1)
    return index, labels[index] != y
