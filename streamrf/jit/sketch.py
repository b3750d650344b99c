"""Count sketches of 16 rows side by side."""

from numba import njit

from streamrf.jit.arrays import F32, I32, I64

LANES = 16


@njit(nogil=True, cache=True)
def find_entries(x: F32, out: I64) -> int:
    """Fill `out` with the entries of x (d, 16) that are not zero in every row; return their number.

    Parameters
    ----------
    x : (d, 16) float32
    out : (d,) int64
    """
    n = 0
    for j in range(x.shape[0]):
        for lane in range(LANES):
            if x[j, lane] != 0.0:
                out[n] = j
                n += 1
                break
    return n


@njit(nogil=True, cache=True)
def count_sketch(
    x: F32, entries: I64, buckets: I32, signs: F32, scale: float, constant: float, out: F32
) -> None:
    """``out[b] = sum of signs[j] v[j] over the j in bucket b``, with ``v = (scale x, constant)``.

    Parameters
    ----------
    x : (d, 16) float32
    entries : (n,) int64, ascending, the entries of x to add
    buckets : (d + 1,) int32
    signs : (d + 1,) float32 of +-1
    scale, constant : float32
    out : (n_buckets, 16) float32
    """
    d = x.shape[0]
    for b in range(out.shape[0]):
        for lane in range(LANES):
            out[b, lane] = 0.0
    for j in entries:
        factor = signs[j] * scale
        for lane in range(LANES):
            out[buckets[j], lane] += factor * x[j, lane]
    for lane in range(LANES):
        out[buckets[d], lane] += signs[d] * constant
