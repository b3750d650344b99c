"""Sums of hashes of rows' targets and weights: by them the same rows are told from others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.sources.hashing import hashed
from streamrf.sources.labels import as_labels

CHECKSUM_MASK = 2**63 - 1  # files hold integers below 2^63


def checksum(indices: NDArray[np.int64], y: NDArray[Any], roots: NDArray[np.float64]) -> int:
    """Return ``sum_i hash(indices_i, y_i, roots_i) mod 2^63``, of any order of the rows.

    Rows of root 0 add nothing, as they add nothing to sums. Equal labels have equal hashes,
    whatever their dtype.

    Parameters
    ----------
    indices : (n,), of the rows in their store
    y : (n,) labels, or (n, n_targets) targets as they enter the sums
    roots : (n,) roots of the weights, as they enter the sums
    """
    n = len(indices)
    columns = _words(y if y.ndim == 2 or y.dtype.kind == "U" else as_labels(y))
    factors = hashed(np.arange(columns.shape[1] + 2), 1) | np.uint64(1)
    with np.errstate(over="ignore"):  # sums are mod 2^64
        mixed = indices.astype(np.uint64) * factors[0] + _float_words(roots) * factors[1]
        for column, factor in zip(columns.T, factors[2:], strict=True):
            mixed += column * factor
        hashes = hashed(mixed)
        weigh = roots != 0
        hashes = hashes if np.count_nonzero(weigh) == n else hashes[weigh]
        return int(hashes.sum(dtype=np.uint64)) & CHECKSUM_MASK


def _words(y: NDArray[Any]) -> NDArray[np.uint64]:
    """Return labels or targets as words (n, width); words of 0 at the end change no checksum."""
    if y.dtype.kind == "U":
        width = y.dtype.itemsize // 4
        codes = np.ascontiguousarray(y).view(np.uint32) if width else np.empty(0)
        return codes.reshape(len(y), width).astype(np.uint64)
    words = _float_words(y.astype(np.float64, copy=False))
    if y.dtype.kind == "i" and len(y) and max(y.max(), -(y.min() + 1)) >= 2**53:
        great = (y > 2**53) | (y < -(2**53))  # labels of floats end there
        words = np.where(great, hashed(y), words)
    return words.reshape(len(y), -1) if len(y) else words.reshape(0, 1)


def _float_words(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the bits of floats; those of low order, mostly 0, are filled from the others."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 is 0
    return bits ^ (bits >> np.uint64(32))
