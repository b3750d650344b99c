"""Keys of stores, made of their first rows."""

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.sources.sparse import Numbers, SparseRows

FINGERPRINT_ROWS = 64


def fingerprint(X: Numbers, name: str = "") -> str:
    """Return a ledger key made of the content: a hash of the first 64 rows, the width, the dtype.

    A store has the same key under another path or with rows appended, if it has 64 rows (else see
    `fingerprints`); two stores that begin with different rows have different keys.

    Parameters
    ----------
    X : ndarray or `SparseRows` of shape (n, n_features), the first rows of a store, in a dtype of
        `Block`; rows are made dense one at a time, as there may be many columns
    name : the base name of the store; joins the hash if all those rows are equal (blank images),
        because such rows do not identify the store
    """
    return fingerprints(X, name)[-1]


def fingerprints(X: Numbers, name: str = "") -> list[str]:
    """Return the `fingerprint` of no row, of the first one, of the first two, and so on."""
    n = min(len(X), FINGERPRINT_ROWS)
    rows = (X[i : i + 1] for i in range(n))
    dense = (row.dense() if isinstance(row, SparseRows) else row for row in rows)
    digest = blake2b(f"{X.dtype.name} {X.shape[1]} ".encode(), digest_size=16)
    first, are_equal = None, True
    keys = [_ended(digest, name)]
    for row in dense:
        first = row if first is None else first
        are_equal = are_equal and bool((row == first).all())
        little = row.astype(row.dtype.newbyteorder("<"), copy=False)
        digest.update(np.ascontiguousarray(little).data)
        keys.append(_ended(digest, name if are_equal else ""))
    return keys


def _ended(digest: blake2b, name: str) -> str:
    """Return a hash with a name at its end, which may go on without."""
    ended = digest.copy()
    ended.update(name.encode(errors="surrogateescape"))
    return ended.hexdigest()


def column_fingerprint(values: NDArray[Any] | None) -> str | None:
    """Return a hash of the first 64 targets or weights; None of None.

    Examples
    --------
    >>> column_fingerprint(np.zeros(100)) == column_fingerprint(np.zeros(64))
    True
    """
    if values is None:
        return None
    first = values[:FINGERPRINT_ROWS].tolist()  # not the dtype: it may widen with rows to come
    return blake2b(repr(first).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
