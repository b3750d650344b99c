"""Generators of random numbers by a seed, and what is drawn by them."""

import numpy as np
from numpy.random import Generator, RandomState

from streamrf.errors import ParameterError
from streamrf.jit.arrays import F32

Seed = int | RandomState | None


def as_random_state(seed: Seed) -> RandomState:
    """Return a generator by scikit-learn's rules, which is imported for None only, or an error."""
    if isinstance(seed, int | np.integer) and 0 <= seed < 2**32:
        return RandomState(seed)
    if not (seed is None or seed is np.random or isinstance(seed, RandomState)):
        raise ParameterError(
            f"random_state must be an integer from 0 to 2^32 - 1, a RandomState or None, got "
            f"{seed!r}"
        )
    from sklearn.utils import check_random_state

    return check_random_state(seed)


def random_signs(rng: Generator, shape: int | tuple[int, ...]) -> F32:
    """Draw +-1 as float32, each with probability one half."""
    return (2.0 * rng.integers(0, 2, size=shape, dtype=np.int8) - 1.0).astype(np.float32)
