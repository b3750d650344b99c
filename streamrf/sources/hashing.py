"""Numbers that look random and depend on a row's index alone."""

import numpy as np
from numpy.typing import NDArray


def hashed(integers: NDArray[np.integer], salt: int = 0) -> NDArray[np.uint64]:
    """Hash integers (n,) to 64 bits, each `salt` by a hash of its own.

    The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    """
    with np.errstate(over="ignore"):
        x = integers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(salt + 1)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return x


def uniform(integers: NDArray[np.integer], salt: int = 0) -> NDArray[np.float64]:
    """Hash integers (n,) to float64 in [0, 1), each `salt` by a hash of its own."""
    return hashed(integers, salt) / 2.0**64
