"""Where rows of CSV end: at ends of lines that are outside quotes."""

from typing import Any

from numba import njit

from streamrf.jit.arrays import I64

NEWLINE, RETURN, QUOTE = b'\n\r"'
# Where a byte stands: at the start of a field; in one; in its quotes; after one in them. The same
# of quotes with an end of a line in them; and after those, in what a quote was forgotten before.
START, FIELD, QUOTED, CLOSED, LINES, CLOSED_LINES, BROKEN = range(7)


@njit(nogil=True, cache=True)
def row_ends(data: Any, delimiter: int, state: int, ends: I64) -> tuple[int, int]:
    """Fill `ends` with the places of newlines that end rows; return how many, and the state.

    A quote has a meaning at the beginning of a field alone, and in what it opens, where two are
    one (RFC 4180, and as pyarrow and pandas read it). Text after the quotes of several lines is
    where the next field in quotes begins, after one that nothing closed: there it stops.

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
        if state in (QUOTED, LINES):
            if byte == QUOTE:
                state = CLOSED if state == QUOTED else CLOSED_LINES
            elif byte == NEWLINE:
                state = LINES
        elif byte == NEWLINE:
            ends[n_ends] = place
            n_ends += 1
            state = START
        elif byte in (delimiter, RETURN):
            state = START
        elif byte == QUOTE and state in (START, CLOSED):
            state = QUOTED
        elif byte == QUOTE and state == CLOSED_LINES:
            state = LINES
        elif state == CLOSED_LINES:
            return n_ends, BROKEN
        else:
            state = FIELD
    return n_ends, state
