"""Estimators fitted on a frame read as a table read later frames by the names of columns."""

import numpy as np
import pytest

import streamrf as srf

pandas = pytest.importorskip("pandas")
MAP = srf.StructuredFourier(srf.Gaussian(0.3), 32, random_state=0)


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (srf.RandomFeaturePCA(2, MAP), "transform"),
        (srf.RandomFeatureKMeans(3, MAP, random_state=0), "predict"),
        (srf.KernelRidgeRegressor(), "predict"),
        (srf.RandomFeatureRegressor(MAP, random_state=0), "predict"),
    ],
    ids=["pca", "kmeans", "kernel ridge", "random features"],
)
def test_a_frame_without_holes_is_read_by_names_too(rng, estimator, method):
    frame = pandas.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = frame["a"].to_numpy() + frame["b"].to_numpy() ** 2
    with_hole = frame.copy()
    with_hole.iloc[3, 1] = np.nan
    estimator.fit(with_hole, y)
    assert estimator.n_features_in_ == 3
    assert estimator.feature_names_in_.tolist() == list("abc")
    ask = getattr(estimator, method)
    expected = np.delete(ask(with_hole), 3, axis=0)
    whole = frame.drop(index=3)
    for rows in (whole, whole.assign(z=100.0)[["z", "c", "b", "a"]]):
        np.testing.assert_allclose(ask(rows), expected, rtol=1e-9, atol=1e-9)
