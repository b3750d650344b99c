"""Images moved a little: affine maps and smooth random fields, made from a row's number alone."""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32, Numbers

LANES = 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True, inline="always")
def _mixed(x: np.uint64) -> np.uint64:
    """Return the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def _draw(state: np.uint64, lane: int, out: F32) -> None:
    """Fill a lane of `out` (4 m, 16) with numbers in (-1, 1), four of each hash."""
    for k in range(len(out) // 4):
        word = _mixed(state + np.uint64(k + 1) * _GOLDEN)
        for part in range(4):
            bits = np.int64((word >> np.uint64(16 * part)) & np.uint64(0xFFFF))
            share = (np.float32(bits) + np.float32(0.5)) / np.float32(32768)
            out[4 * k + part, lane] = share - np.float32(1)


@njit(nogil=True, cache=True)
def _smooth(noise: F32, taps: F32, halfway: F32, out: F32) -> None:
    """``out[i, j] = sum_kl taps[k] taps[l] noise[i + k, j + l]``, lane by lane, in a fixed order.

    noise : (h + taps.size - 1, 16 (w + taps.size - 1)), the lanes side by side
    halfway : (16 (w + taps.size - 1),)
    out : (h, 16 w)
    """
    reach = taps.size // 2
    for i in range(out.shape[0]):
        for j in range(halfway.size):
            halfway[j] = taps[reach] * noise[i + reach, j]
        for k in range(reach):  # the weights are symmetric
            for j in range(halfway.size):
                halfway[j] += taps[k] * (noise[i + k, j] + noise[i + 2 * reach - k, j])
        for j in range(out.shape[1]):
            out[i, j] = taps[reach] * halfway[j + LANES * reach]
        for k in range(reach):
            left, right = LANES * k, LANES * (2 * reach - k)
            for j in range(out.shape[1]):
                out[i, j] += taps[k] * (halfway[j + left] + halfway[j + right])


@njit(nogil=True, cache=True)
def _pixel(image: Numbers, y: float, x: float) -> float:
    """Return the value between four pixels; there are zeros around the image."""
    height, width = image.shape
    top, left = int(np.floor(y)), int(np.floor(x))
    value = 0.0
    for i in range(top, top + 2):
        share = 1.0 - abs(y - i)
        if 0 <= i < height:
            for j in range(left, left + 2):
                if 0 <= j < width:
                    value += share * (1.0 - abs(x - j)) * image[i, j]
    return value


@njit(nogil=True, cache=True, parallel=True)
def deform(
    images: Numbers, first: int, seed: int, affine: F32, elastic: float, taps: F32, out: Numbers
) -> None:
    """Make the rows ``first ..`` of a set that goes over the images again and again.

    Row r is image ``r % n``, as it is where r < n, else moved: pixel p of the row is the image at
    ``A (p - c) + c + shift + elastic * field(p)``, between pixels by bilinear interpolation, with
    ``A = rotation @ [[1 + scale_y, shear_y], [shear_x, 1 + scale_x]]``. Every number depends on the
    seed and r alone, by operations that IEEE 754 rounds, so any row has the same bytes anywhere.

    Parameters
    ----------
    images : (n, height, width) uint8
    first : number of the first row
    seed : of the draws
    affine : (7,) float32, the greatest rotation (tangent of half the angle), shears along y and x,
        changes of scale along y and x, and shifts in pixels along y and x
    elastic : factor of the smoothed fields, in pixels; their noise is uniform in (-1, 1)
    taps : (odd,) float32, the weights that smooth the noise along an axis
    out : (rows, height, width) uint8
    """
    n, height, width = images.shape
    n_tall, n_wide = height + taps.size - 1, width + taps.size - 1
    n_noise = -(-n_tall * n_wide // 4) * 4
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    start = _mixed(np.uint64(seed) + _GOLDEN)
    for task in prange((len(out) + LANES - 1) // LANES):
        draws = np.empty((8, LANES), np.float32)
        noise = np.empty((n_noise, LANES), np.float32)
        halfway = np.empty(LANES * n_wide, np.float32)
        fields = np.empty((2, height, width * LANES), np.float32)
        begin = np.int64(task) * LANES
        count = min(LANES, len(out) - begin)
        states = np.empty(LANES, np.uint64)
        for lane in range(LANES):
            states[lane] = _mixed(start ^ _mixed(np.uint64(first + begin + lane)))
            _draw(states[lane], lane, draws)
        for axis in range(2):
            for lane in range(LANES):
                _draw(_mixed(states[lane] + np.uint64(axis + 1)), lane, noise)
            shaped = noise[: n_tall * n_wide].reshape(n_tall, n_wide * LANES)
            _smooth(shaped, taps, halfway, fields[axis])
        for lane in range(count):  # type: ignore[call-overload]
            row = first + begin + lane
            image = images[row % n]
            if row < n:
                for i in range(height):  # an assignment of slices takes seconds to compile
                    for j in range(width):
                        out[begin + lane, i, j] = image[i, j]
                continue
            t = np.float64(draws[0, lane] * affine[0])
            cosine, sine = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
            shear_y, shear_x = draws[1, lane] * affine[1], draws[2, lane] * affine[2]
            scale_y, scale_x = 1 + draws[3, lane] * affine[3], 1 + draws[4, lane] * affine[4]
            yy, yx = cosine * scale_y - sine * shear_x, cosine * shear_y - sine * scale_x
            xy, xx = sine * scale_y + cosine * shear_x, sine * shear_y + cosine * scale_x
            shift_y, shift_x = draws[5, lane] * affine[5], draws[6, lane] * affine[6]
            for i in range(height):
                for j in range(width):
                    v, u, k = i - middle_y, j - middle_x, LANES * j + lane
                    y = yy * v + yx * u + middle_y + shift_y + elastic * fields[0, i, k]
                    x = xy * v + xx * u + middle_x + shift_x + elastic * fields[1, i, k]
                    out[begin + lane, i, j] = np.uint8(np.rint(_pixel(image, y, x)))
