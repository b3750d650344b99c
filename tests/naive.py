"""Plain twins of the compiled kernels, by the names of the kernels: written to be read, not fast.

A name that two families share has its family's name before it.

Where a kernel works on lanes its twin works on rows ``(n, width)``; `lanes` and `rows` are the two
ways between them. A twin gives its result, in float64 where the kernel rounds to float32.
"""

import math
import re
from fractions import Fraction

import numpy as np
from scipy import ndimage
from scipy.linalg import hadamard
from scipy.linalg.lapack import dtfttr, dtrttf

LANES = 16


# The layouts.


def lanes(X, dtype=np.float32):
    """Rows (n, width) as lanes (groups, width, 16); lanes past the last row are zero."""
    n, width = X.shape
    out = np.zeros((-(-n // LANES), width, LANES), dtype=dtype)
    for i in range(n):
        out[i // LANES, :, i % LANES] = X[i]
    return out


def rows(z, n):
    """The first `n` rows (n, width) of lanes (groups, width, 16)."""
    return np.array([z[i // LANES, :, i % LANES] for i in range(n)])


def packed(matrix):
    """The lower triangle in LAPACK's rectangular full packed format."""
    vector, info = dtrttf(matrix, transr="N", uplo="L")
    assert info == 0
    return vector


def strides(n, column):
    """Where (0, 0) would be, and the steps of a row and a column, read off the packed indices."""
    place = full(np.arange(n * (n + 1) / 2), n).astype(int)
    first = 0 if column < (n + 1) // 2 else (n + 1) // 2  # of its side, which has two or more
    by_row = place[n - 1, first] - place[n - 2, first]
    by_column = place[n - 1, first + 1] - place[n - 1, first]
    return place[n - 1, first] - (n - 1) * by_row - first * by_column, by_row, by_column


def full(vector, n):
    """The symmetric matrix (n, n) that `packed` packed."""
    lower, info = dtfttr(n, vector, transr="N", uplo="L")
    assert info == 0
    lower = np.tril(lower)
    return lower + np.tril(lower, -1).T


# streamrf/jit/additive.py


def homogeneous(X, amplitudes, interval):
    """``sqrt(x)`` times the first amplitude, then times ``cos(k L log x)`` and ``sin`` and its own.

    Whole rows next to each other, zeros where x is 0.
    """
    X = X.astype(np.float64)
    root, phase = np.sqrt(X), interval * np.log(np.where(X > 0, X, 1))
    blocks = [amplitudes[0] * root]
    for k, amplitude in enumerate(amplitudes[1:], 1):
        blocks += [amplitude * root * np.cos(k * phase), amplitude * root * np.sin(k * phase)]
    return np.hstack(blocks)


def shifted_log(X, shift):
    """``log(x + shift)``."""
    return np.log(X.astype(np.float64) + shift)


# streamrf/jit/hadamard.py


def fwht(a):
    """``H a`` for each (length, 16) of a; H = H_left (x) H_right, which is Sylvester's order."""
    length = a.shape[-2]
    left = 1 << (length.bit_length() - 1) // 2
    H_left, H_right = hadamard(left), hadamard(length // left)
    cells = a.astype(np.float64).reshape(*a.shape[:-2], left, length // left, -1)
    cells = np.einsum("lm,...mrx->...lrx", H_left, H_right @ cells, optimize=True)
    return cells.reshape(a.shape)


def fwht_groups(a):
    """``H a[g]`` for each g."""
    return np.array([fwht(group) for group in a])


def signed_transform(x, signs, length):
    """``H (flip * x)`` of a (d, 16), zero-padded to a length."""
    padded = np.zeros((length, x.shape[1]))
    padded[: len(x)] = signs[:, np.newaxis] * x
    return fwht(padded)


def transforms(X, signs):
    """``H (flip * x)`` for each row of `signs`, one after the other."""
    d = X.shape[1]
    H = hadamard(1 << (d - 1).bit_length())
    return np.concatenate([(X * flip).astype(np.float64) @ H[:, :d].T for flip in signs], axis=1)


def maclaurin(X, signs, degrees, picks, scales):
    """``Z_i(x) = scales_i prod_j <w_ij, x>``, each w_ij a row of H with its columns' signs flipped.

    Level j of a block of features, as many as H has rows, has signs of its own; the picks name the
    rows of H in the order block, level, feature.
    """
    n, d = X.shape
    H = hadamard(1 << (d - 1).bit_length())
    Z = np.tile(scales.astype(np.float64), (n, 1))
    next_signs, next_pick = iter(signs), iter(picks)
    for start in range(0, len(degrees), len(H)):
        block = range(start, min(start + len(H), len(degrees)))
        for level in range(max(degrees[block])):
            flip = next(next_signs)
            for i in block:
                if degrees[i] > level:
                    w = H[next(next_pick), :d] * flip
                    Z[:, i] *= X.astype(np.float64) @ w
    assert next(next_signs, None) is next(next_pick, None) is None
    return Z


def maclaurin_complex(X, signs, degrees, picks, scales):
    """`maclaurin` with ``w_ij`` of {1, -1, i, -i}: real and imaginary parts side by side."""
    flips = signs[:, 0] + 1j * signs[:, 1]
    n, d = X.shape
    H = hadamard(1 << (d - 1).bit_length())
    Z = np.ones((n, len(degrees)), dtype=np.complex128)
    next_flip, next_pick = iter(flips), iter(picks)
    for start in range(0, len(degrees), len(H)):
        block = range(start, min(start + len(H), len(degrees)))
        for level in range(max(degrees[block])):
            flip = next(next_flip)
            for i in block:
                if degrees[i] > level:
                    Z[:, i] *= X.astype(np.float64) @ (H[next(next_pick), :d] * flip)
    assert next(next_pick, None) is None
    parts = np.stack((Z.real, Z.imag), axis=2).reshape(n, -1)
    return parts[:, : len(scales)] * scales.astype(np.float64)


def tensor_tree(X, scale, constant, signs, steps, picks):
    """The tree of `tensor_tree` on ``v = (scale x, constant)``, every node a dense product."""
    v = scale * X.astype(np.float64)
    if constant:
        v = np.column_stack((v, np.full(len(X), constant)))
    slots = {-1: v}
    for left, right, n_left, n_right, slot, length in steps.tolist():
        sides = []
        for child, n in ((left, n_left), (right, n_right)):
            assert slots[child].shape[1] == n
            H = hadamard(1 << (n - 1).bit_length())[:, :n]
            sides.append((slots[child] * signs[:n]) @ H.T)
            signs = signs[n:]
        i, j = picks[:length].T
        picks = picks[length:]
        slots[slot] = sides[0][:, i] * sides[1][:, j] / np.sqrt(length)
    assert len(signs) == len(picks) == 0
    return slots[steps[-1, 4]]


def subsampled(Z, signs, picks, scale):
    """``scale (H diag(signs) z)[picks]`` for each row z, padded with zeros to a power of two."""
    width = Z.shape[1]
    H = hadamard(1 << (width - 1).bit_length())[:, :width]
    return np.array([scale * (H @ (signs * z.astype(np.float64)))[picks] for z in Z])


# streamrf/jit/cosines.py


def cosine_sine(x):
    """``cos x`` and ``sin x``."""
    x = x.astype(np.float64)
    return np.cos(x), np.sin(x)


def waves(products, scales, offsets, amplitude, n_sines):
    """Waves of the phases ``scales * products + offsets``, products (n, n_frequencies) in rows."""
    cosines, sines = cosine_sine(products.astype(np.float64) * scales + offsets)
    return amplitude * np.column_stack((cosines, sines[:, :n_sines]))


fourier = waves  # of every group


def structured_fourier(X, signs, scales, offsets, amplitude, n_sines):
    """Waves of ``H D_1 H D_2 H D_3 x``, every block a dense product."""
    H = hadamard(signs.shape[2])
    V = np.vstack([(H * D_1) @ (H * D_2) @ (H * D_3) for D_3, D_2, D_1 in signs.astype(int)])
    V = V[: len(scales), : X.shape[1]]
    return fourier(X.astype(np.float64) @ V.T, scales, offsets, amplitude, n_sines)


def fastfood(X, signs, permutations, normals, scales, offsets, amplitude, n_sines):
    """Waves of ``H G P H B x``, every block a dense product."""
    n_blocks, padded = normals.shape
    H = hadamard(padded).astype(np.float64)
    P = [np.eye(padded)[permutation] for permutation in permutations]
    blocks = [(H * normals[b]) @ P[b] @ H[:, : X.shape[1]] * signs[b] for b in range(n_blocks)]
    V = np.vstack(blocks)
    return fourier(X.astype(np.float64) @ V[: len(scales)].T, scales, offsets, amplitude, n_sines)


# streamrf/jit/lanes.py


def load(X, shift, inverse_scale, norm, compress=False):
    """``(x - shift) * inverse_scale``, of norm 1 or compressed by asinh where asked."""
    scaled = np.empty(X.shape)
    for i, x in enumerate(X.astype(np.float64)):
        scaled[i] = (x - shift) * inverse_scale
        if norm and scaled[i].any():
            scaled[i] /= np.linalg.norm(scaled[i], norm)
    return np.arcsinh(scaled) if compress else scaled


def stretch(X, factors):
    """The rows, each column times its factor."""
    return X * factors


def project(X, matrix):
    """``X @ matrix.T``, summed column by column in the dtype of the rows."""
    out = np.zeros((len(X), len(matrix)), dtype=X.dtype)
    for k in range(X.shape[1]):
        out += matrix[:, k] * X[:, k : k + 1]
    return out


transform = project  # in place


def store(z, n):
    """The rows that stand in lanes."""
    return rows(z, n)


def store_scaled(Z, shift, inverse_step, root):
    """``root_i (z_ij - shift_j) inverse_step_j``."""
    return np.array(
        [r * ((z.astype(np.float64) - shift) * inverse_step) for z, r in zip(Z, root, strict=True)]
    )


def add_moments(Z, n_before, mean, squares):
    """Means and sums of squared deviations of rows Z and of as many before with those given."""
    Z = Z.astype(np.float64)
    centre, n = Z.mean(axis=0), len(Z)
    apart = centre - mean
    total = squares + ((Z - centre) ** 2).sum(axis=0)
    both = n_before + n
    return mean + apart * n / both, total + apart**2 * n_before * n / both


def moments(Z):
    """Means and deviations of columns."""
    return np.mean(Z, axis=0, dtype=np.float64), np.std(Z, axis=0, dtype=np.float64)


def linear(Z, columns, shift, inverse_step, coef, intercept):
    """``coef^T (z_i - shift) inverse_step + intercept`` of some columns."""
    return store_scaled(Z[:, columns], shift, inverse_step, np.ones(len(Z))) @ coef + intercept


def store_rounded(Z, shift, inverse_step, root, limit):
    """`store_scaled` rounded, halves to even, and what was clipped in each group of 16 rows.

    Returns
    -------
    rounded : (n, width), 0 where it would be infinite or no number
    clipped : (n_groups,), entries that were beyond +-limit, or no number
    invalid : (n_groups,), entries that were infinite or no number
    """
    exact = np.rint(store_scaled(Z, shift, inverse_step, root))
    invalid = ~np.isfinite(exact)
    clipped = invalid | (np.abs(exact) > limit)
    rounded = np.where(invalid, 0, np.clip(exact, -limit, limit))
    starts = np.arange(0, len(Z), LANES)
    counts = (np.add.reduceat(marked.sum(axis=1), starts) for marked in (clipped, invalid))
    return rounded, *counts


def column_squares(Q):
    """``sum_i Q_ij^2`` over every 64 rows."""
    squares = Q.astype(np.float64) ** 2
    return np.array([squares[start : start + 64].sum(axis=0) for start in range(0, len(Q), 64)])


def products(factors, Q):
    """``factors^T Q``, row after row."""
    out = np.zeros((factors.shape[1], Q.shape[1]))
    for factor, q in zip(factors, Q, strict=True):
        out += np.outer(factor, q.astype(np.float64))
    return out


def outputs(Q, coef):
    """``Q coef``, feature after feature."""
    out = np.zeros((len(Q), coef.shape[1]))
    for q, row in zip(Q.T.astype(np.float64), coef, strict=True):
        out += np.outer(q, row)
    return out


def add_rows(Q, groups, factors, out):
    """`out` with ``factors_i Q_i`` added to row ``groups_i``, row after row."""
    out = out.copy()
    for q, group, factor in zip(Q, groups, factors, strict=True):
        out[group] += factor * q.astype(np.float64)
    return out


# streamrf/jit/packed.py


def flush(partial, totals):
    """The new partial sums and totals."""
    return np.zeros_like(partial), totals + partial


def layout(n):
    """Rows and columns of the packed array, and of how many rows the diagonal lies lower."""
    offset = 0 if n % 2 else 1
    return n + offset, n * (n + 1) // 2 // (n + offset), offset


def centred(packed_gram, sums, weight, scale):
    """``diag(scale) (G - sums sums^T / weight) diag(scale)``."""
    gram = full(packed_gram, len(sums))
    gram = (gram - np.outer(sums, sums) / weight) * scale[:, np.newaxis] * scale
    return packed(gram)


def add_diagonal(vector, values):
    """``G + diag(values)``."""
    return packed(full(vector, len(values)) + np.diag(values))


def diagonal(vector, n):
    """``diag(G)``."""
    return np.diag(full(vector, n))


def unpack(vector, n):
    """The whole of G."""
    return full(vector, n)


def column(vector, n, j):
    """Column j of the matrix."""
    return full(vector, n)[:, j]


def add_selected(values, columns, n, vector):
    """The packed vector of G with V added to some of its rows and columns."""
    G = full(vector, n)
    G[np.ix_(columns, columns)] += values
    return packed(G)


def holds(n, rows, columns):
    """Whether a tile has an entry that `add_tile` adds."""
    return any(_beside(n, i, j) for i in range(*rows) for j in range(*columns))


def add_tile(tile, x, y, n, G):
    """Add the entries of a tile that lie beside each other to a whole matrix, and their mirrors."""
    for i, j in np.ndindex(tile.shape):
        if x + i < n and y + j < n and _beside(n, x + i, y + j):
            G[x + i, y + j] += tile[i, j]
            if x + i != y + j:
                G[y + j, x + i] += tile[i, j]


def _beside(n, i, j):
    """Of row i: from the diagonal on in the first half, up to it in the second."""
    middle = n // 2 if n % 2 == 0 else (n + 1) // 2
    return j >= i if i < middle else middle <= j <= i


def select(vector, n, picks):
    """The rows and columns picked, packed."""
    return packed(full(vector, n)[np.ix_(picks, picks)])


# streamrf/jit/patches.py


def gather(X, firsts, offsets):
    """Windows (n_windows, n, n_sites) of rows."""
    return np.array([X[:, first + offsets] for first in firsts])


def add_windows(Z, cells, scales):
    """Scaled sums by cell, next to each other, of features (n_windows, n, width)."""
    sums = np.zeros((len(scales), *Z.shape[1:]))
    for z, cell in zip(Z.astype(np.float64), cells, strict=True):
        sums[cell] += scales[cell] * z
    return np.hstack(list(sums))


# streamrf/jit/gram.py


def pack(Q):
    """Rows in panels of 3 features and groups of 16 rows, zeros beyond.

    Returns
    -------
    (n_panels, n_groups, 3, 16) int16
    """
    n, width = Q.shape
    n_panels, n_groups = -(-width // 3), -(-n // 16)
    whole = np.zeros((16 * n_groups, 3 * n_panels), dtype=np.int16)
    whole[:n, :width] = Q
    return whole.reshape(n_groups, 16, n_panels, 3).transpose(2, 0, 3, 1)


def add_products(panels, width, totals):
    """`totals` with ``Q^T Q`` added, Q the rows in panels."""
    n_panels, n_groups = panels.shape[:2]
    Q = panels.transpose(1, 3, 0, 2).reshape(16 * n_groups, 3 * n_panels)[:, :width]
    Q = Q.astype(np.float64)
    return totals + packed(Q.T @ Q).astype(totals.dtype)


# streamrf/jit/runs.py


def roots_of_greatest(squares, size):
    """Roots of the greatest of every `size` columns, (tiles, parts)."""
    width = squares.shape[1]
    tiles = [squares[:, start : start + size].max(axis=1) for start in range(0, width, size)]
    return np.sqrt(tiles)


def run_end(left, right, start, stop):
    """One past the last part whose sum of ``left * right`` from start on is below 2^31."""
    ends = range(start + 1, stop + 1)
    fits = [end for end in ends if left[start:end] @ right[start:end] < 2**31 * (1 - 1e-12)]
    return max([start + 1, *fits])


# streamrf/jit/words.py


def pack_words(Q, entries):
    """Rows in panels of 48 features and groups of `entries` rows, of 8 bits after a head of sums.

    Returns
    -------
    (n_panels, n_groups, 48) int32, each the entries of two (16 bits) or four rows (8 bits, 128
    more each, and one group more at the head), the first row in the lowest bits; columns past the
    width are those of zeros
    """
    n, width = Q.shape
    n_panels, n_groups, bits = -(-width // 48), -(-n // entries), 32 // entries
    whole = np.zeros((entries * n_groups, 48 * n_panels), dtype=np.int64)
    whole[:n, :width] = Q
    start = np.empty((0, 48 * n_panels), dtype=np.int64)
    if entries == 4:
        start, whole = -128 * whole.sum(axis=0, keepdims=True), whole + 128
    places = (whole.reshape(n_groups, entries, -1) % 2**bits) << bits * np.arange(entries)[:, None]
    words = np.concatenate([start, places.sum(axis=1)])
    return words.astype(np.int32).reshape(-1, n_panels, 48).transpose(1, 0, 2)


def words_pack_shorts(Q):
    """Rows in words of two."""
    return pack_words(Q, 2)


def words_pack_bytes(Q):
    """Rows in words of four."""
    return pack_words(Q, 4)


# streamrf/jit/amx.py


def _tiles(byte, side, n_parts):
    """Bytes (n, width) as int32 (panels, steps, parts, 16 words of four rows, 16 features)."""
    n, width = byte.shape
    n_steps, n_panels = -(-n // 64), -(-width // side)
    whole = np.zeros((64 * n_steps, side * n_panels), dtype=np.uint8)
    whole[:n, :width] = byte
    whole = whole.reshape(n_steps, 16, 4, n_panels, n_parts, 16).transpose(3, 0, 4, 1, 5, 2)
    return np.ascontiguousarray(whole).view("<i4")[..., 0]


def amx_pack_bytes(Q):
    """Rows in tiles: two of 16 features each, four rows in a word."""
    return _tiles(Q.astype(np.int8).view(np.uint8), 32, 2)


def amx_pack_shorts(Q):
    """Rows in tiles of low and of high bytes."""
    whole = Q.astype(np.int64)
    low, high = (_tiles((whole >> shift & 255).astype(np.uint8), 16, 1) for shift in (0, 8))
    return np.concatenate([low, high], axis=2)


# streamrf/jit/deform.py


def mixed(x):
    """The finalizer of SplitMix64, with Python's integers."""
    mask = 2**64 - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 31)


def noise(state, count):
    """Numbers in (-1, 1), four of each hash."""
    words = [mixed((state + (k + 1) * 0x9E3779B97F4A7C15) % 2**64) for k in range(-(-count // 4))]
    bits = [word >> 16 * part & 0xFFFF for word in words for part in range(4)]
    return (np.array(bits[:count]) + 0.5) / 32768 - 1


def deform(images, row, seed, affine, elastic, taps):
    """A row of deformed images, not rounded, by SciPy's warping."""
    image, shape = images[row % len(images)].astype(float), images.shape[1:]
    if row < len(images):
        return image.ravel()
    state = mixed(mixed(seed + 0x9E3779B97F4A7C15) ^ mixed(row))
    draws = noise(state, 8)[:7] * affine
    angle = 2 * np.arctan(draws[0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    A = turn @ [[1 + draws[3], draws[1]], [draws[2], 1 + draws[4]]]
    middle = (np.array(shape) - 1) / 2
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).reshape(2, -1)
    at = A @ (grid - middle[:, None]) + middle[:, None] + draws[5:, None]
    reach = len(taps) // 2
    for axis in range(2):
        padded = tuple(side + 2 * reach for side in shape)
        field = noise(mixed(state + axis + 1), int(np.prod(padded))).reshape(padded)
        for along in range(2):
            field = ndimage.correlate1d(field, taps.astype(float), axis=along)
        inner = tuple(slice(reach, reach + side) for side in shape)
        at[axis] += elastic * field[inner].ravel()
    bordered = np.pad(image, 1)  # SciPy would take pixels half outside for zero
    return ndimage.map_coordinates(bordered, at + 1, order=1, mode="constant")


# streamrf/jit/products.py


def multiply(W, degrees, picks, scales, factor):
    """``Z_i = scales_i prod_j factor W[:, picks]``, the picks level by level."""
    Z = np.tile(scales.astype(np.float64), (len(W), 1))
    next_pick = iter(picks)
    for level in range(max(degrees, default=0)):
        for i in np.flatnonzero(degrees > level):
            Z[:, i] *= factor * W[:, next(next_pick)].astype(np.float64)
    return Z


# streamrf/jit/spaces.py


def phases(X, columns, frequencies):
    """``<omega_i, x>`` of the columns from each of `columns` on."""
    reach = np.arange(frequencies.shape[1])
    parts = X.astype(np.float64)[:, np.add.outer(columns, reach)]
    return np.einsum("nik,ik->ni", parts, frequencies.astype(np.float64))


def directions(X, columns, first, size, scale):
    """Entries over the length of their site, 0 where that is 0."""
    X = X.astype(np.float64)
    starts = first + (columns - first) // size * size
    lengths = np.stack([np.linalg.norm(X[:, a : a + size], axis=1) for a in starts], axis=1)
    return scale * X[:, columns] / np.where(lengths > 0, lengths, 1)


def levels(X, columns, salts):
    """1 or -1 by the first bit of a hash of the number and the salt."""
    out = np.empty((len(X), len(columns)))
    for n, x in enumerate((X + np.float32(0)).view(np.uint32).tolist()):
        for i, (column, salt) in enumerate(zip(columns, salts.tolist(), strict=True)):
            word = mixed((x[column] * 0x9E3779B97F4A7C15 + salt) % 2**64)
            out[n, i] = 1 if mixed((word + salt) % 2**64) >> 63 else -1
    return out


# streamrf/jit/sketch.py


def find_entries(X):
    """Columns that are not zero in every row."""
    return np.flatnonzero((X != 0).any(axis=0))


def count_sketch(X, buckets, signs, scale, constant, n_buckets):
    """``C v`` with ``v = (scale x, constant)`` and C of one sign a column, in row `buckets`."""
    v = np.column_stack((scale * X.astype(np.float64), np.full(len(X), constant)))
    C = np.zeros((n_buckets, v.shape[1]))
    C[buckets, np.arange(v.shape[1])] = signs
    return v @ C.T


def add_entries(values, places, counts, centre, reach, grid):
    """`add_columns` of entries, column by column."""
    columns = [np.repeat(values[places == c], counts[places == c]) for c in range(len(centre))]
    found = [
        add_columns(column[:, None], *(part[c : c + 1] for part in (centre, reach, grid)))
        for c, column in enumerate(columns)
    ]
    return [sums[0] for sums, _ in found], np.array([outside[0] for _, outside in found])


def load_entries(values, places, ends, inverse_scale, norm):
    """`load` of the rows, dense."""
    X = np.zeros((len(ends) - 1, len(inverse_scale)))
    X[np.repeat(np.arange(len(X)), np.diff(ends)), places] = values
    return load(X, np.zeros(X.shape[1]), inverse_scale, norm)


def add_columns(X, centre, reach, grid):
    """``[sum u, sum u^2]`` of each column, fractions, and the rows with ``|u| > reach``.

    u is a value less the centre; a multiple of the grid below 2^20 grids, else rounded to 2^-41 of
    the end of its class, ten orders of magnitude from 2^-120 on; its square then likewise.
    """
    u = X.astype(np.float64) - centre
    sums = []
    for column, step in zip(u.T.tolist(), grid.tolist(), strict=True):
        total, square_total = Fraction(0), Fraction(0)
        for value in column:
            if abs(value) < step * 2**20:
                rounded = round(Fraction(value) / Fraction(step)) * Fraction(step)
                square = rounded**2
            elif abs(value) < 2.0**-120:
                continue
            else:
                value = float(np.clip(value, -(2.0**130 - 2.0**77), 2.0**130 - 2.0**77))
                end = Fraction(2) ** (-120 + 10 * ((math.frexp(value)[1] - 1 + 120) // 10 + 1))
                unit, square_unit = end / 2**41, end**2 / 2**41
                rounded = round(Fraction(value) / unit) * unit
                square = round(Fraction(value * value) / square_unit) * square_unit
            total, square_total = total + rounded, square_total + square
        sums.append([total, square_total])
    return sums, (np.abs(u) > reach).sum(axis=0)


# streamrf/jit/hats.py


def interpolate(X, columns, ends, knots, left_out, terms):
    """Hats by NumPy's interpolation of unit vectors, and their products."""
    grids = []
    for i, (column, skipped) in enumerate(zip(columns, left_out, strict=True)):
        own = knots[ends[i] : ends[i + 1]].astype(np.float64)
        hats = [np.interp(X[:, column], own, unit) for unit in np.eye(len(own))]
        grids.append(np.delete(hats, skipped, axis=0))
    found = []
    for a, b in terms:
        found += list(grids[a]) if b < 0 else [u * v for u in grids[a] for v in grids[b]]
    return np.array(found).T


def replace(X, ends, knots, values):
    """Each column by NumPy's interpolation between its knots."""
    columns = [
        np.interp(column, knots[first:last], values[first:last])
        for column, first, last in zip(X.T, ends[:-1], ends[1:], strict=True)
    ]
    return np.stack(columns, axis=1)


# streamrf/jit/gates.py


def gated(X, directions, offsets, n_tree, width):
    """Each row walks down each tree."""
    out = np.zeros((len(X), X.shape[1] + len(offsets) * (X.shape[1] + 1)))
    for row, z in zip(X.astype(np.float64), out, strict=True):
        z[: len(row)] = row
        for first in range(0, len(offsets), n_tree):
            k = 0
            while k < n_tree and first + k < len(offsets):
                gate = np.tanh(directions[first + k] @ row - offsets[first + k])
                start = len(row) + (first + k) * (len(row) + 1)
                z[start : start + len(row) + 1] = gate * np.append(1, row)
                k = 2 * k + (2 if gate >= 0 else 1)
    return out[:, :width]


# streamrf/jit/csv_quotes.py


def row_ends(data, delimiter):
    """Places of newlines outside fields in quotes, and how it ended: "", "open" or "broken"."""
    rest = b"[^%b\r\n]*+" % delimiter
    quoted, plain = rb'"((?:[^"]|"")*+)("?)', rb'[^"%b\r\n]' % delimiter + rest
    ends, place, end = [], 0, ""
    while place < len(data):
        if match := re.compile(quoted).match(data, place):
            end, place = "" if match[2] else "open", match.end()
            after = re.compile(rest).match(data, place)
            if after[0] and b"\n" in match[1]:
                return ends, "broken"
            place = after.end()
        elif match := re.compile(plain).match(data, place):
            place = match.end()
        if data[place : place + 1] == b"\n":
            ends.append(place)
        place += 1
    return ends, end


# streamrf/jit/lzf.py


def expand(data, out):
    """What LZF `data` holds, in the first bytes of `out`; how many, or -1."""
    codes, found = bytes(data), bytearray()
    while codes:
        control, codes = codes[0], codes[1:]
        if control < 32:
            piece, codes = codes[: control + 1], codes[control + 1 :]
            if len(piece) <= control:
                return -1
        else:
            needed = 2 if control >> 5 == 7 else 1
            if len(codes) < needed:
                return -1
            length = (control >> 5) + 2 + (codes[0] if needed == 2 else 0)
            back = (control % 32) * 256 + codes[needed - 1] + 1
            codes = codes[needed:]
            if back > len(found):
                return -1
            piece = (bytes(found[-back:]) * length)[:length]
        found += piece
        if len(found) > len(out):
            return -1
    out[: len(found)] = np.frombuffer(bytes(found), np.uint8)
    return len(found)
