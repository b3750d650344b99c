"""Products of the features of another map, on lanes."""

from numba import njit, prange

from streamrf.jit.arrays import F32, I32, I64

LANES = 16


@njit(nogil=True, cache=True, parallel=True)
def multiply(
    w: F32, degrees: I64, indices: I32, scales: F32, factor: float, first: int, out: F32
) -> None:
    """``out[first+i] = scales[i] * prod_j (factor * w[indices])``.

    Parameters
    ----------
    w : (groups, n_factors, 16) float32
    degrees : (n_products,) int64, descending, all >= 1
    indices : (sum of degrees,) int32, row of w for each factor, level by level: first the first
        factors of all products, then the second factors of those that have one
    scales : (n_products,) float32
    factor : float32
    first : row of `out` where the first product goes
    out : (groups, >= first + n_products, 16) float32
    """
    n_products = degrees.shape[0]
    for g in prange(w.shape[0]):
        k = 0
        for level in range(degrees[0] if n_products else 0):
            for i in range(n_products):
                if degrees[i] <= level:
                    break
                row = indices[k]
                k += 1
                if level == 0:
                    for lane in range(LANES):
                        out[g, first + i, lane] = scales[i] * (factor * w[g, row, lane])
                else:
                    for lane in range(LANES):
                        out[g, first + i, lane] *= factor * w[g, row, lane]
