"""Skeletons: their recursion, the draws, their cost; convolutions of maps by patches."""

import numpy as np
import pytest

import streamrf as srf
from draws import errors_over_draws
from streamrf.errors import BadRowError, DataError, ParameterError
from streamrf.storage import describe
from test_maps import greatest_z_score, z_bound

N_FEATURES = 16


def image(kind, **settings):
    return srf.BaseSpace(kind, shape=(4, 4), **settings)


def columns(kind, first, stop, **settings):
    return srf.BaseSpace(kind, columns=(first, stop), **settings)


def deep():
    """Two convolutional layers, and a dense one that also sees the pixels."""
    pixels = image("circle", gamma=1.5)
    layer = srf.Skeleton("relu", srf.Skeleton("relu", pixels, window=2), window=2)
    return srf.Skeleton("exponential", [layer, pixels])


def mixed():
    spaces = [columns("categorical", 0, 6), columns("binary", 6, 12), columns("sphere", 12, 14)]
    return srf.Skeleton(srf.Polynomial(3), [*spaces, columns("gaussian", 14, 16, size=2)])


def strided():
    lines = [columns("gaussian", 0, 8, gamma=0.5), columns("circle", 8, 16)]
    return srf.Skeleton("step", srf.Skeleton("exponential", lines, window=3, stride=2))


def series():
    return srf.Skeleton(
        srf.DotProduct((0.2, 0.0, 1.0, 0.0, 0.3)), srf.BaseSpace("sphere", (4, 2), size=2)
    )


SKELETONS = {"dense": srf.Skeleton, "deep": deep, "mixed": mixed, "strided": strided,
             "series": series}  # fmt: skip
every_skeleton = pytest.mark.parametrize("make", SKELETONS.values(), ids=SKELETONS)


@pytest.fixture
def rows(rng):
    """Rows that all skeletons take: levels, then signs, then numbers."""
    X = rng.standard_normal((5, N_FEATURES))
    X[:, :6], X[:, 6:12] = np.rint(X[:, :6]), np.sign(X[:, 6:12])
    return X


def of_site(space, x, y):
    """A base space's kernel of the entries of two sites."""
    if space.kind == "gaussian":
        return np.exp(-space.gamma * np.sum((x - y) ** 2))
    if space.kind == "circle":
        return np.cos(space.gamma * (x[0] - y[0]))
    if space.kind == "categorical":
        return float(x[0] == y[0])
    lengths = np.linalg.norm(x) * np.linalg.norm(y) if space.kind == "sphere" else 1.0
    return x @ y / (lengths or 1.0)


def by_nodes(layer, x, y):
    """The kernels of all nodes of a layer, on its grid, one node at a time."""
    if isinstance(layer, srf.BaseSpace):
        first, stop = layer.columns or (0, len(x))
        size = layer.size or (stop - first if layer.kind == "sphere" else 1)
        starts = range(first, stop, size)
        found = [of_site(layer, x[j : j + size], y[j : j + size]) for j in starts]
        return np.reshape(found, layer.shape or -1)
    below = [by_nodes(part, x, y) for part in layer.below]
    f, unit = layer.dual.function, layer.dual.function(np.ones(1))
    if layer.window is None:
        return f(np.mean(np.concatenate([part.ravel() for part in below]))) / unit
    ends = [range(0, n - layer.window + 1, layer.stride) for n in below[0].shape]
    found = []
    for corner in np.ndindex(*map(len, ends)):
        at = tuple(
            slice(end[i], end[i] + layer.window) for end, i in zip(ends, corner, strict=True)
        )
        found.append(f(np.mean([part[at] for part in below])) / unit)
    return np.reshape(found, tuple(map(len, ends)))


@every_skeleton
def test_the_kernel_is_the_recursion_over_nodes(make, rows):
    kernel = make()
    expected = [[by_nodes(kernel, x, y).mean() for y in rows] for x in rows]
    np.testing.assert_allclose(kernel(rows), expected, rtol=1e-12, atol=1e-12)


@every_skeleton
def test_features_are_unbiased_and_cost_what_was_told(make, rows):
    kernel, costs = make(), []

    def cost(features):
        shares = features.scales_.astype(np.float64) ** 2
        np.testing.assert_allclose(shares.sum(), 1, rtol=1e-6)
        costs.append(shares @ features.degrees_)

    features = srf.SkeletonFeatures(kernel, 24)
    errors = errors_over_draws(features, rows, 150, diagonal=1, change=cost)
    assert greatest_z_score(errors) < z_bound(errors.shape[1])
    error = np.std(costs, ddof=1) / np.sqrt(len(costs))
    assert abs(np.mean(costs) - kernel.expected_cost(N_FEATURES)) < 3 * error


def test_expected_costs_are_those_of_the_derivatives():
    """``f'(1) / f(1)`` a layer: 1 of rectifiers but for the tail that is cut."""
    relu = srf.Skeleton("relu", image("circle"), window=2)
    assert 0.99 < relu.expected_cost(N_FEATURES) < 1
    cubic = srf.Skeleton(srf.Polynomial(3, gamma=2.0), srf.Skeleton("exponential"))
    assert cubic.expected_cost(N_FEATURES) == pytest.approx(2.0)  # 3 * 2 * 9 / 27
    both = srf.Skeleton("linear", [cubic, image("circle")])  # one node, and 16 sites
    assert both.expected_cost(N_FEATURES) == pytest.approx((2 + 16) / 17)


def test_equal_features_are_merged():
    """Three entries are all there is: each is one feature, of the share of its draws."""
    features = srf.SkeletonFeatures(srf.BaseSpace("binary"), 5, random_state=0)
    X = np.array([[1.0, -0.5, 0.25], [0.0, 1.0, 0.5]])
    Z = features.fit_transform(X)
    assert (Z[:, 3:] == 0).all()
    shares = np.square(features.scales_[:3], dtype=np.float64) * 16 * 5
    np.testing.assert_allclose(shares, np.rint(shares), atol=1e-4)
    assert sorted(features.columns_[features.picks_]) == [0, 1, 2]
    expected = np.sqrt(shares / 80) * X[:, features.columns_[features.picks_]]
    np.testing.assert_allclose(Z[:, :3], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["sphere", "circle"])
def test_products_of_a_thousand_factors_stay_finite(rng, kind):
    """Though those of equal factors alone, 1.4 or 3 each, are past the greatest float32."""
    X = rng.standard_normal((20, 2 if kind == "circle" else 10))
    kernel = srf.Skeleton("step", srf.BaseSpace(kind))
    for seed in range(3):
        features = srf.SkeletonFeatures(kernel, 500, random_state=seed).fit(X)
        assert features.degrees_[0] > 900
        assert np.isfinite(features.transform(X)).all()


def test_the_draw_that_does_not_fit_is_dropped():
    """Of a constant, drawn three times of five, and three entries there is room for two.

    If the draw that fills the room ended a run, entries would have more than their share.
    """
    kernel = srf.Skeleton(srf.DotProduct((0.6, 0.4)), srf.BaseSpace("binary"))
    shares = []
    for seed in range(400):
        features = srf.SkeletonFeatures(kernel, 2, random_state=seed).fit(np.eye(3))
        shares.append(np.square(features.scales_[features.degrees_ == 0]).sum())
    assert abs(np.mean(shares) - 0.6) < 3 * np.std(shares) / np.sqrt(400)


def test_the_median_is_that_of_sites(rng):
    X = rng.standard_normal((200, 4)) * [1, 1, 3, 3]
    found = srf.Skeleton(inputs=srf.BaseSpace(size=2, gamma="median")).learn(X)
    (space,) = found.spaces()
    pairs = [np.square(X[:, None, j : j + 2] - X[:, j : j + 2]).sum(axis=2) for j in (0, 2)]
    apart = np.concatenate([pair[np.triu_indices(200, 1)] for pair in pairs])
    assert space.gamma == pytest.approx(1 / np.median(apart))
    with pytest.raises(DataError, match=r"are alike at every site .* set gamma to a number"):
        srf.BaseSpace(gamma="median").learn(np.ones((9, 3)))
    with pytest.raises(ParameterError, match=r"gamma='median' is learnt from rows: call learn"):
        srf.BaseSpace(gamma="median")(X)


def test_a_skeleton_from_a_file_is_the_same(rows):
    """Where tuples have become lists."""
    tree = describe.to_tree(srf.SkeletonFeatures(deep(), 20, random_state=0).fit(rows))
    again = describe.from_tree(tree, srf.features.DESCRIBED)
    assert again.kernel_.spaces()[0].key == deep().spaces()[0].key
    again.kernel_.inputs[1].shape = [4, 4]
    assert len(again.kernel_.spaces()) == 1


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (srf.BaseSpace("line"), r"kind must be one of .*'gaussian'.* got 'line'"),
        (srf.BaseSpace("circle", size=2), r"of kind='circle' is one column, got size=2"),
        (srf.BaseSpace(size=3), r"size=3 does not divide the 16 columns"),
        (srf.BaseSpace("sphere", size=0), r"size must be an integer above 0, got 0$"),
        (srf.BaseSpace(size=[2]), r"size must be an integer above 0, got \[2\]$"),
        (srf.BaseSpace(columns=(5, 5)), r"columns must be .* of the 16 columns, got \(5, 5\)"),
        (srf.BaseSpace(gamma=-1.0), r"gamma must be a positive number or 'median', got -1\.0"),
        (srf.BaseSpace("circle", gamma="median"), r"must be a positive number, got 'median'"),
        (srf.BaseSpace(columns=(3, 17)), r"columns must be .* of the 16 columns, got \(3, 17\)"),
        (srf.BaseSpace(shape=(3, 5)), r"shape=\(3, 5\) has 15 sites, but rows have 16"),
        (srf.BaseSpace(shape=(4, 0)), r"shape must be one to three integers above 0, got \(4, 0\)"),
        (srf.Skeleton("tanh"), r"activation must be .*'relu'.* got 'tanh'"),
        (srf.Skeleton(srf.VovkInfinite(1.0)), r"must converge at 1, got .*; lower its gamma"),
        (srf.Skeleton(srf.Exponential(1e-3)), r"is no number at 1"),
        (srf.Skeleton(inputs=srf.Gaussian()), r"inputs must be a BaseSpace, .* got Gaussian"),
        (srf.Skeleton(inputs=[]), r"inputs must be a BaseSpace"),
        (srf.Skeleton(window=0), r"window must be an integer above 0, or one an axis, got 0"),
        (srf.Skeleton(window=(2, 2)), r"of \(2, 2\) does not fit a grid of \(16,\)"),
        (srf.Skeleton(inputs=[srf.BaseSpace(), image("circle")], window=2), r"on equal grids"),
        (srf.Convolved(srf.Gaussian(), cells=(2, 2)), r"cells must be an integer above 0, got"),
        (srf.Convolved(srf.Gaussian(), cells=0), r"cells must be an integer above 0, got 0$"),
        (srf.Convolved("gaussian"), r"patch must be a kernel, got 'gaussian'"),
    ],
)
def test_what_cannot_be_is_named(rows, kernel, message):
    with pytest.raises(ParameterError, match=message):
        kernel(rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, r"window must be an integer above 0"),
        ({"window": "3"}, r"window must be an integer above 0"),
        ({"stride": 0}, r"stride must be an integer above 0"),
        ({"cells": 0}, r"cells must be an integer above 0"),
        ({"patch": "gaussian"}, r"patch must be a kernel, got 'gaussian'"),
    ],
)
def test_windows_are_checked_before_settings_are_learnt(rows, settings, message):
    with pytest.raises(ParameterError, match=message):
        srf.Convolved(**{"patch": srf.Gaussian("median")} | settings).learn(rows)


@pytest.mark.parametrize(
    "settings", [{"size": 0}, {"size": 3}, {"size": [2]}, {"columns": 5}, {"shape": 16}], ids=repr
)
@pytest.mark.parametrize("gamma", [1.0, "median"])
def test_sites_are_checked_before_they_are_used(rows, settings, gamma):
    with pytest.raises(ParameterError, match=next(iter(settings))):
        srf.SkeletonFeatures(srf.BaseSpace(**settings, gamma=gamma), 8).fit(rows)


def test_entries_of_a_binary_space_are_small(rows):
    features = srf.SkeletonFeatures(srf.BaseSpace("binary"), 8, random_state=0).fit(rows)
    for use in (features.transform, features.kernel_):
        with pytest.raises(BadRowError, match=r"an entry of a row is 3 in size, .* -1 to 1"):
            use(np.full((1, N_FEATURES), 3.0))


# Convolutions.


def patches(X, window):
    """All patches of images 4 x 4 with channels, (rows, windows, entries)."""
    images = X.reshape(len(X), 4, 4, -1)
    n = 5 - window
    corners = [(i, j) for i in range(n) for j in range(n)]
    parts = [images[:, i : i + window, j : j + window].reshape(len(X), -1) for i, j in corners]
    return np.stack(parts, axis=1)


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize(("window", "cells"), [(1, 1), (2, 1), (3, 2)])
def test_a_convolution_is_its_map_on_patches(rng, n_channels, window, cells):
    """The features of each patch, averaged."""
    X = rng.standard_normal((20, 16 * n_channels)).astype(np.float32)
    shape = (4, 4) if n_channels == 1 else (4, 4, n_channels)
    map_ = srf.Convolution(
        srf.RandomFourier(), 10, shape=shape, window=window, cells=cells, random_state=0
    )
    Z = map_.fit_transform(X)
    parts = patches(X, window)
    width = 10 // cells**2
    each = np.stack([map_.patches_.transform(parts[:, p]) for p in range(parts.shape[1])], axis=1)
    expected = each.mean(axis=1) if cells == 1 else each.reshape(20, -1) / 2
    np.testing.assert_allclose(Z[:, : width * cells**2], expected, rtol=1e-4, atol=1e-5)
    assert (Z[:, width * cells**2 :] == 0).all()


@pytest.mark.parametrize("shape", [None, (4, 4), (2, 4, 2)])
def test_without_pooling_it_is_a_layer_of_a_skeleton(rows, shape):
    signs = np.sign(rows)
    layer = srf.Skeleton(srf.Polynomial(3, coef0=0.5), srf.BaseSpace("binary", shape), window=2)
    size = layer.children(N_FEATURES).shape[1]
    patch = srf.Polynomial(3, gamma=1 / size, coef0=0.5)
    whole = srf.Convolved(patch, shape, window=2, cells=N_FEATURES)
    np.testing.assert_allclose(whole(signs), layer(signs) * 1.5**3, rtol=1e-12)


def test_a_convolution_with_no_rows_is_empty(rows):
    kernel = srf.Convolved(srf.Gaussian(1.0), window=2)
    assert kernel(rows, rows[:0]).shape == (5, 0)
    assert kernel(rows[:0], rows).shape == (0, 5)


def test_pooling_lets_patches_move():
    X = np.zeros((3, 16))
    X[0, 5], X[1, 6], X[2, 15] = 1, 1, 1
    kernel = srf.Convolved(srf.Gaussian(5.0), (4, 4), window=2, cells=1)
    K = kernel(X)
    assert K[0, 1] == pytest.approx(K[0, 0], rel=1e-12)  # all four windows, moved by one
    assert srf.Convolved(srf.Gaussian(5.0), (4, 4), window=2, cells=3)(X)[0, 1] < 0.8


def test_settings_of_patches_are_learnt_from_patches(rng):
    X = rng.standard_normal((300, 16)) * np.repeat([1.0, 0.1], 8)
    map_ = srf.Convolution(srf.StructuredFourier(srf.Gaussian("median")), 64, window=2, cells=1)
    gamma = map_.fit(X).patches_.kernel_.gamma
    exact = srf.Convolved(srf.Gaussian("median"), window=2).learn(X).patch.gamma
    assert gamma == pytest.approx(exact, rel=0.3)
    landmarks = srf.Convolution(srf.Nystroem(), 64, shape=(4, 4), window=3, random_state=0)
    assert landmarks.fit(X).patches_.landmarks_.shape == (16, 9)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (srf.Convolution(n_components=3, shape=(4, 4), window=2), r"at least the 4 cells .* got 3"),
        (srf.Convolution(srf.AdditiveSampler()), r"patches must be a map with n_components, got"),
        (srf.Convolution(srf.Gaussian()), r"patches must be a map with n_components, got Gaussian"),
        (srf.Convolution(stride=0), r"stride must be an integer above 0"),
    ],
)
def test_what_a_convolution_cannot_do_is_named(rows, features, message):
    with pytest.raises(ParameterError, match=message):
        features.fit(rows)
