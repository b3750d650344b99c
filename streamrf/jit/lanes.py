"""Raw rows to lanes and lanes to rows: scaling, rounding, clipping and exactness sums.

Lanes are ``(groups, width, 16)`` float32: row ``16 g + l`` of a block is at ``[g, :, l]``.
"""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32, F64, I64, Numbers
from streamrf.jit.runs import PART

LANES = 16
TERMS = 8  # of a sum, added at a time
STRETCH = 64  # features that a task takes


@njit(nogil=True, cache=True, parallel=True)
def load(X: Numbers, shift: F64, inverse_scale: F64, norm: int, compress: bool, out: F32) -> None:
    """Scale rows and lay them out as lanes: ``(x - shift) * inverse_scale``, then as asked for.

    Parameters
    ----------
    X : (n, d) of any real dtype
    shift, inverse_scale : (d,) float64
    norm : 2 or 1, divide each row by its 2-norm or 1-norm (a zero row stays zero), or 0
    compress : bool, take asinh of each value
    out : (groups, d, 16) float32 with ``16 * groups >= n``; lanes past the last row become zero
    """
    n, d = X.shape
    for task in prange(out.shape[0]):
        g = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        for lane in range(LANES):
            i = g * LANES + lane
            if i >= n:
                for j in range(d):
                    out[g, j, lane] = 0.0
                continue
            factor = 1.0
            if norm > 0:
                total = 0.0
                for j in range(d):
                    value = (np.float64(X[i, j]) - shift[j]) * inverse_scale[j]
                    total += value * value if norm == 2 else abs(value)
                if total > 0.0:
                    factor = 1.0 / (np.sqrt(total) if norm == 2 else total)
            for j in range(d):
                value = (np.float64(X[i, j]) - shift[j]) * inverse_scale[j]
                if compress:
                    value = np.arcsinh(value)
                out[g, j, lane] = np.float32(value * factor)


@njit(nogil=True, cache=True, parallel=True)
def load_entries(
    values: Numbers, places: I64, ends: I64, inverse_scale: F64, norm: int, out: F32
) -> None:
    """Scale sparse rows and lay them out, to the bits of `load` with a shift of zero.

    Parameters
    ----------
    values, places : (m,) of any real dtype and int64, the entries of all rows and their columns,
        ascending within a row
    ends : (n + 1,) int64, where the entries of each row begin, and the last end
    inverse_scale, norm, out : see `load`
    """
    n = len(ends) - 1
    for task in prange(out.shape[0]):
        g = np.int64(task)
        out[g] = 0.0
        for lane in range(LANES):
            if g * LANES + lane >= n:
                break
            first, last = ends[g * LANES + lane], ends[g * LANES + lane + 1]
            factor = 1.0
            if norm > 0:
                total = 0.0
                for e in range(first, last):
                    value = np.float64(values[e]) * inverse_scale[places[e]]
                    total += value * value if norm == 2 else abs(value)
                if total > 0.0:
                    factor = 1.0 / (np.sqrt(total) if norm == 2 else total)
            for e in range(first, last):
                value = np.float64(values[e]) * inverse_scale[places[e]]
                out[g, places[e], lane] = np.float32(value * factor)


@njit(nogil=True, cache=True, parallel=True)
def stretch(x: F32, factors: F32) -> None:
    """``x[g, j] *= factors[j]`` for lanes x (groups, d, 16) and factors (d,)."""
    for g in prange(x.shape[0]):
        for j in range(x.shape[1]):
            for lane in range(LANES):
                x[g, j, lane] *= factors[j]


@njit(nogil=True, cache=True, parallel=True)
def store(z: F32, out: F32) -> None:
    """Lay lanes out as rows: ``out[16 g + l, j] = z[g, j, l]``, out (n, width)."""
    n, width = out.shape
    for task in prange(z.shape[0]):
        g = np.int64(task)
        for lane in range(min(LANES, n - g * LANES)):
            for j in range(width):
                out[g * LANES + lane, j] = z[g, j, lane]


@njit(nogil=True, cache=True, parallel=True)
def store_scaled(z: F32, shift: F64, inverse_step: F64, root: F64, out: Numbers) -> None:
    """``out[i, j] = root[i] * (z_ij - shift_j) * inverse_step_j``, out (n, width) of any float."""
    n, width = out.shape
    for task in prange(z.shape[0]):
        g = np.int64(task)
        for lane in range(min(LANES, n - g * LANES)):
            i = g * LANES + lane
            for j in range(width):
                out[i, j] = root[i] * ((np.float64(z[g, j, lane]) - shift[j]) * inverse_step[j])


@njit(nogil=True, cache=True, parallel=True)
def linear(
    z: F32, columns: I64, shift: F64, inverse_step: F64, coef: F64, intercept: F64, out: F64
) -> None:
    """``out[i, o] = sum_j coef[j, o] (z_ic_j - shift_j) inverse_step_j + intercept[o]``.

    Each row in the order of the features, so that its bits do not depend on other rows. The scaled
    features are never stored: doing so took three quarters of a prediction.

    Parameters
    ----------
    z : (groups, any, 16) float32
    columns : (width,) int64, of the features, c_j
    shift, inverse_step : (width,) float64
    coef : (width, n_outputs) float64
    intercept : (n_outputs,) float64
    out : (n, n_outputs) float64
    """
    n, n_outputs = out.shape
    width = coef.shape[0]
    for task in prange(z.shape[0]):
        g = np.int64(task)
        sums = np.zeros((n_outputs, LANES))
        values = np.empty((TERMS, LANES))
        for start in range(0, width, TERMS):
            n_terms = min(TERMS, width - start)
            for k in range(n_terms):
                j = start + k
                row = z[g, columns[j]]
                for lane in range(LANES):
                    values[k, lane] = (np.float64(row[lane]) - shift[j]) * inverse_step[j]
            for o in range(n_outputs):
                if n_terms == TERMS:  # unrolled: a sum is fetched and put once for all terms
                    for lane in range(LANES):
                        for k in range(TERMS):
                            sums[o, lane] += coef[start + k, o] * values[k, lane]
                else:
                    for k in range(n_terms):
                        for lane in range(LANES):
                            sums[o, lane] += coef[start + k, o] * values[k, lane]
        for lane in range(min(LANES, n - g * LANES)):
            for o in range(n_outputs):
                out[g * LANES + lane, o] = sums[o, lane] + intercept[o]


@njit(nogil=True, cache=True)
def _rounded(value: float, limit: float) -> tuple[float, int, int]:
    """Return the integer stored for a value, and whether it was clipped, and is not finite."""
    value = np.rint(value)
    if np.abs(value) <= limit:
        return value, 0, 0
    if not np.isfinite(value):
        return 0.0, 1, 1
    return (limit if value > limit else -limit), 1, 0


@njit(nogil=True, cache=True, parallel=True)
def store_rounded(
    z: F32,
    shift: F64,
    inverse_step: F64,
    root: F64,
    limit: float,
    out: F32,
    clipped: I64,
    invalid: I64,
) -> None:
    """``out[i, j] = rint(root[i] * (z_ij - shift_j) * inverse_step_j)``, clipped to +-limit.

    Parameters
    ----------
    z : (groups, >= width, 16) float32
    shift, inverse_step : (width,) float64
    root : (n,) float64, square root of each row's weight
    out : (n, width) float32 of integers
    clipped : (groups,) int64, entries clipped in each group
    invalid : (groups,) int64, entries of each group that are infinite or NaN; they become 0
    """
    n, width = out.shape
    for task in prange(z.shape[0]):
        g = np.int64(task)
        n_lanes = min(LANES, n - g * LANES)
        roots = np.zeros(LANES)
        for lane in range(n_lanes):
            roots[lane] = root[g * LANES + lane]
        tile = np.empty((LANES, LANES), np.float32)  # of as many columns, turned to rows
        beyond = np.empty(LANES, np.int32)
        n_clipped = n_invalid = 0
        for start in range(0, width, LANES):
            n_columns = min(LANES, width - start)
            for lane in range(LANES):
                beyond[lane] = 0
            for k in range(n_columns):
                j = start + k
                for lane in range(LANES):
                    value = (np.float64(z[g, j, lane]) - shift[j]) * inverse_step[j]
                    value = np.rint(roots[lane] * value)
                    beyond[lane] |= np.int32(0) if np.abs(value) <= limit else np.int32(1)
                    tile[k, lane] = np.float32(value)
            if beyond.any():  # seldom: a loop of its own leaves the other without a branch
                for k in range(n_columns):
                    j = start + k
                    for lane in range(n_lanes):
                        value = (np.float64(z[g, j, lane]) - shift[j]) * inverse_step[j]
                        value, is_clipped, is_invalid = _rounded(roots[lane] * value, limit)
                        tile[k, lane] = value
                        n_clipped += is_clipped
                        n_invalid += is_invalid
            for lane in range(n_lanes):
                i = g * LANES + lane
                if n_columns == LANES:  # of known length: written at once
                    for k in range(LANES):
                        out[i, start + k] = tile[k, lane]
                else:
                    for k in range(n_columns):
                        out[i, start + k] = tile[k, lane]
        clipped[g] = n_clipped
        invalid[g] = n_invalid


@njit(nogil=True, cache=True, parallel=True)
def add_moments(z: F32, n_rows: int, n_before: int, mean: F64, squares: F64) -> None:
    """Merge means and sums of squared deviations of features with those of more rows.

    By the formula of Chan, Golub and LeVeque (1979), sixteen rows at a time, so that the result
    does not depend on how many rows a call adds, if all but the last add a multiple of sixteen.

    Parameters
    ----------
    z : (groups, >= width, 16) float32
    n_rows : rows in `z`
    n_before : rows merged before
    mean, squares : (width,) float64, changed in place
    """
    width = mean.size
    for task in prange((width + STRETCH - 1) // STRETCH):
        start = np.int64(task) * STRETCH
        stop = min(start + STRETCH, width)
        for g in range((n_rows + LANES - 1) // LANES):
            seen = np.float64(n_before + g * LANES)
            count = min(LANES, n_rows - g * LANES)
            for j in range(start, stop):  # type: ignore[call-overload]
                centre = 0.0
                for lane in range(count):
                    centre += np.float64(z[g, j, lane])
                centre /= count
                square = 0.0
                for lane in range(count):
                    square += (np.float64(z[g, j, lane]) - centre) ** 2
                apart = centre - mean[j]
                share = count / (seen + count)
                mean[j] += apart * share
                squares[j] += square + apart * apart * seen * share


@njit(nogil=True, cache=True, parallel=True)
def column_squares(Q: Numbers, out: F64) -> None:
    """``out[t, j] = sum_i Q[i, j]^2`` over the t-th 64 rows, exact for integers below 2^15.

    Parameters
    ----------
    Q : (n, width) float32 or float64
    out : (ceil(n / 64), width) float64
    """
    n, width = Q.shape
    for task in prange(out.shape[0]):  # read as they lie: jumps from row to row wait for memory
        start = np.int64(task) * PART
        stop = min(start + PART, n)
        whole = stop - (stop - start) % 4
        sums = out[task]
        for j in range(width):
            sums[j] = 0.0
        for i in range(start, whole, 4):
            for j in range(width):
                a, b = np.float64(Q[i, j]), np.float64(Q[i + 1, j])
                c, d = np.float64(Q[i + 2, j]), np.float64(Q[i + 3, j])
                sums[j] += (a * a + b * b) + (c * c + d * d)
        for i in range(whole, stop):
            for j in range(width):
                value = np.float64(Q[i, j])
                sums[j] += value * value


@njit(nogil=True, cache=True, parallel=True)
def outputs(Q: Numbers, coef: F64, out: F64) -> None:
    """``out = Q coef``, every sum in the order of the features, so that a row's bits are its own.

    Parameters
    ----------
    Q : (n, width) float32 or float64
    coef : (width, n_outputs) float64
    out : (n, n_outputs) float64
    """
    n, width = Q.shape
    n_outputs = out.shape[1]
    for task in prange((n + LANES - 1) // LANES):
        start = np.int64(task) * LANES
        sums = np.empty(n_outputs)
        for i in range(start, min(start + LANES, n)):
            sums[:] = 0.0
            for j in range(width):
                value = np.float64(Q[i, j])
                for o in range(n_outputs):
                    sums[o] += coef[j, o] * value
            out[i] = sums
