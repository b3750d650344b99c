"""Tree-gated features: their twin, and the trees that are learnt."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import naive
import streamrf as srf
from streamrf.errors import FormatError, ParameterError
from streamrf.features import TreeGated
from streamrf.jit import gates
from streamrf.jit.lanes import LANES
from streamrf.storage import describe
from streamrf.storage.fields import Fields

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(("n_nodes", "n_tree"), [(3, 3), (7, 3), (10, 7), (1, 1)])
def test_gates_are_those_of_the_definition(rng, n_nodes, n_tree):
    X = rng.normal(size=(2 * LANES, 3)).astype(np.float32)
    directions = rng.normal(size=(n_nodes, 3)).astype(np.float32)
    offsets = rng.normal(size=n_nodes).astype(np.float32)
    for width in (2, 3, 4, 3 + 4 * n_nodes - 2, 3 + 4 * n_nodes):
        expected = naive.gated(X, directions, offsets, n_tree, width)
        out = np.full((2, expected.shape[1], LANES), np.nan, dtype=np.float32)
        gates.gated(naive.lanes(X), directions, offsets, n_tree, out)
        np.testing.assert_allclose(naive.rows(out, len(X)), expected, atol=2e-6)


def test_every_node_halves_the_rows_that_reach_it(rng):
    X = rng.normal(size=(512, 4)).astype(np.float32)
    Z = TreeGated(4 + 7 * 5, depth=3, random_state=0).fit_transform(X)
    gate = Z[:, 4::5]
    reached = np.count_nonzero(gate, axis=0)
    np.testing.assert_array_equal(reached, [512, 256, 256, 128, 128, 128, 128])
    assert np.abs(gate).max() < 1
    np.testing.assert_allclose(Z[:, 5:9], gate[:, :1] * X, rtol=1e-6)


def test_functions_that_are_linear_by_region_are_learnt(rng):
    X = rng.normal(size=(2000, 2))
    y = np.abs(X[:, 0]) + np.maximum(X[:, 1], 0) * X[:, 0]
    Z = TreeGated(200, random_state=0).fit_transform(X)
    scores = [Ridge(0.1).fit(rows[:1500], y[:1500]).score(rows[1500:], y[1500:]) for rows in (X, Z)]
    assert scores[0] < 0.4
    assert scores[1] > 0.95


def test_a_pass_learns_trees_from_the_rows_looked_at_first(rng, tmp_path):
    X = rng.normal(size=(800, 3))
    y = X[:, 0] * X[:, 1] > 0
    clf = srf.RandomFeatureClassifier(TreeGated(128), normalize="standard", random_state=0)
    clf.fit(X[:600], y[:600]).save(tmp_path / "model.h5")
    assert clf.score(X[600:], y[600:]) > 0.9
    again = srf.load_model(tmp_path / "model.h5")
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


def test_equal_rows_and_few_rows_have_trees(rng):
    for rows in (np.ones((5, 3)), rng.normal(size=(1, 3)), rng.normal(size=(3, 3))):
        Z = TreeGated(60, depth=4, random_state=0).fit_transform(rows)
        assert np.isfinite(Z).all()


def test_a_slope_may_be_any_number():
    rows = np.eye(3)
    for sigma in (np.float32(2), np.int8(2)):
        Z = TreeGated(8, sigma=sigma, random_state=0).fit_transform(rows)
        assert Z.tobytes() == TreeGated(8, sigma=2.0, random_state=0).fit_transform(rows).tobytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth must be an integer of 1 to 30, got 0"),
        ({"depth": 2.5}, "depth must be an integer of 1 to 30, got 2.5"),
        ({"sigma": 0.0}, "sigma must be a positive number, got 0.0"),
        ({"sigma": "scale"}, "sigma must be a positive number, got 'scale'"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ParameterError, match=message):
        TreeGated(8, **settings).fit(np.eye(3))


@pytest.mark.parametrize("change", [{"depth": 31}, {"depth": 1.5}, {"n_components": 99}])
def test_trees_of_another_shape_are_refused(rng, change):
    tree = describe.to_tree(TreeGated(40, random_state=0).fit(rng.normal(size=(50, 3))))
    tree["params"] |= change
    again = describe.from_tree(tree, {"TreeGated": TreeGated})
    with pytest.raises(FormatError, match=r"offsets_|directions_"):
        again.check_fitted(3, Fields({}), "features")
