"""Complex products, trees, products of another map's features and count sketches: their twins."""

import numpy as np
import pytest

import naive
from streamrf.jit import hadamard, products, sketch
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import computing


def whole_numbers(rng, shape, limit):
    """Float32 whole numbers, so that sums and products below 2^24 are exact in any order."""
    return rng.integers(-limit, limit + 1, size=shape).astype(np.float32)


def signs_of(rng, shape):
    return rng.choice(np.float32([-1, 1]), size=shape)


def complex_draw(rng, d, degrees, width):
    """Settings of `maclaurin_complex`: signs, degrees, picks and powers of two as scales."""
    padded = 1 << (d - 1).bit_length()
    degrees = np.sort(np.asarray(degrees, dtype=np.int64))[::-1].copy()
    n_transforms = int(degrees[::padded].sum())
    turns = rng.integers(0, 4, size=(n_transforms, d))
    signs = np.stack((np.cos(turns * np.pi / 2), np.sin(turns * np.pi / 2)), axis=1)
    picks = rng.integers(0, padded, size=degrees.sum()).astype(np.int32)
    scales = np.repeat(2.0 ** rng.integers(-3, 4, size=len(degrees)), 2)[:width]
    return np.rint(signs).astype(np.float32), degrees, picks, scales.astype(np.float32)


def complex_products(X, draw, first, width):
    """The rows' features by the kernel, in an array filled with -7."""
    out = np.full((-(-len(X) // LANES), width, LANES), -7, dtype=np.float32)
    hadamard.maclaurin_complex(naive.lanes(X), *draw, first, out)
    return naive.rows(out, len(X))


@pytest.mark.parametrize("odd", [0, 1], ids=["whole", "last-part-left-out"])
@pytest.mark.parametrize("n", [1, 33])
@pytest.mark.parametrize(
    ("d", "degrees"),
    [
        (1, [3, 2, 1]),
        (3, [1]),
        (5, [3, 3, 2, 2, 2, 1, 1, 1]),
        (5, [4, 3, *[1] * 9]),
        (17, [2] * 40),
    ],
)
def test_complex_products_are_those_of_the_definition(rng, n, d, degrees, odd):
    width = 2 * len(degrees) - odd
    draw = complex_draw(rng, d, degrees, width)
    X = whole_numbers(rng, (n, d), 2)
    Z = complex_products(X, draw, 2, width + 3)
    np.testing.assert_array_equal(Z[:, 2:-1], naive.maclaurin_complex(X, *draw))
    assert (Z[:, :2] == -7).all()
    assert (Z[:, -1] == -7).all()


@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("n", [1, 33])
@pytest.mark.parametrize(
    "shape",
    [
        [(-1, -1, "row", "row", 0, 4)],
        [(-1, -1, "row", "row", 0, 16), (0, -1, 16, "row", 0, 5)],
        [(-1, -1, "row", "row", 0, 16), (-1, -1, "row", "row", 1, 4), (0, 1, 16, 4, 0, 60)],
    ],
    ids=["pair", "three", "four"],
)
def test_trees_of_tensor_sketches_are_those_of_the_definition(rng, n, constant, shape):
    d = 3
    row = d + (constant > 0)
    steps = [[row if value == "row" else value for value in step] for step in shape]
    signs = signs_of(rng, sum(a + b for _, _, a, b, _, _ in steps))
    picks = [
        np.stack([rng.integers(0, 1 << (a - 1).bit_length(), size=count) for a in lengths], axis=1)
        for _, _, *lengths, _, count in steps
    ]
    settings = signs, np.array(steps), np.concatenate(picks).astype(np.int32)
    X = whole_numbers(rng, (n, d), 2)
    width = steps[-1][-1]
    out = np.full((-(-n // LANES), width + 1, LANES), -7, dtype=np.float32)
    hadamard.tensor_tree(naive.lanes(X), np.float32(2), np.float32(constant), *settings, out)
    Z = naive.rows(out, n)
    expected = naive.tensor_tree(X, 2, constant, *settings)
    # Whole numbers up to the last node, whose length has a root that rounds.
    np.testing.assert_allclose(Z[:, :-1], expected, rtol=4e-7)
    assert (Z[:, -1] == -7).all()


@pytest.mark.parametrize("n", [1, 33])
@pytest.mark.parametrize("degrees", [[], [1], [3, 3, 1], [2] * 20])
def test_products_of_features_are_those_of_the_definition(rng, n, degrees):
    degrees = np.array(degrees, dtype=np.int64)
    W = whole_numbers(rng, (n, 7), 3)
    picks = rng.integers(0, 7, size=degrees.sum()).astype(np.int32)
    scales = (2.0 ** rng.integers(-3, 4, size=len(degrees))).astype(np.float32)
    out = np.full((-(-n // LANES), len(degrees) + 2, LANES), -7, dtype=np.float32)
    products.multiply(naive.lanes(W), degrees, picks, scales, np.float32(2), 1, out)
    Z = naive.rows(out, n)
    np.testing.assert_array_equal(Z[:, 1:-1], naive.multiply(W, degrees, picks, scales, 2))
    assert (Z[:, [0, -1]] == -7).all()


@pytest.mark.parametrize("n_buckets", [1, 5, 40])
@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
def test_count_sketches_are_those_of_the_definition(rng, n_buckets, density):
    d = 20
    X = whole_numbers(rng, (LANES, d), 9) * (rng.random((LANES, d)) < density)
    buckets = rng.integers(0, n_buckets, size=d + 1).astype(np.int32)
    signs = signs_of(rng, d + 1)
    x = naive.lanes(X)[0]
    entries = np.empty(d, dtype=np.int64)
    entries = entries[: sketch.find_entries(x, entries)]
    np.testing.assert_array_equal(entries, naive.find_entries(X))
    out = np.full((n_buckets, LANES), -7, dtype=np.float32)
    sketch.count_sketch(x, entries, buckets, signs, np.float32(2), np.float32(3), out)
    expected = naive.count_sketch(X, buckets, signs, 2, 3, n_buckets)
    np.testing.assert_array_equal(naive.rows(out[np.newaxis], LANES), expected)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_rows_bits_do_not_depend_on_its_place_or_the_threads(rng, n_threads):
    X = rng.standard_normal((53, 21)).astype(np.float32)
    draw = complex_draw(rng, 21, rng.integers(1, 5, size=45), 90)
    alone = np.concatenate([complex_products(x[np.newaxis], draw, 0, 90) for x in X])
    order = rng.permutation(len(X))
    with computing(n_threads):
        together = complex_products(X[order], draw, 0, 90)
    assert together.tobytes() == alone[order].tobytes()
