"""Where rows of CSV end: at ends of lines that are outside quotes."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamrf.jit.arrays import I64

U8 = NDArray[np.uint8]

NEWLINE, RETURN, QUOTE = b'\n\r"'
START, FIELD, QUOTED, CLOSED = range(4)  # of a field; in one; in its quotes; after one in them


@njit(nogil=True, cache=True)
def row_ends(data: Any, delimiter: int, state: int, ends: I64) -> tuple[int, int]:
    """Fill `ends` with the places of newlines that end rows; return how many, and the state.

    A quote has a meaning at the beginning of a field alone, and in what it opens, where two are
    one (RFC 4180, and as pyarrow and pandas read it).

    Parameters
    ----------
    data : (n,) uint8, may be read-only
    delimiter : the byte between fields
    state : before the first byte, which `START` is at the beginning of a file
    ends : (n_newlines,) int64
    """
    n_ends = 0
    for place in range(len(data)):
        byte = data[place]
        if state == QUOTED:
            if byte == QUOTE:
                state = CLOSED
        elif byte == NEWLINE:
            ends[n_ends] = place
            n_ends += 1
            state = START
        elif byte in (delimiter, RETURN):
            state = START
        elif byte == QUOTE and state in (START, CLOSED):
            state = QUOTED
        else:
            state = FIELD
    return n_ends, state
