"""Estimators fitted on a frame read as a table read later frames by the names of columns."""

import numpy as np
import pytest

import streamrf as srf
from streamrf.errors import DataError, ShapeError

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


HOLED = pandas.DataFrame(
    {"a": np.arange(60.0), "b": [None, 1.0, 2.0] * 20, "c": np.arange(60.0) % 7}
)


@pytest.mark.parametrize("width", [3, 4])  # of the table, and of what its columns became
@pytest.mark.parametrize("method", ["predict", "score", "partial_fit"])
@pytest.mark.parametrize(
    ("column", "shown"), [("b", ["a", "b", "c"]), ("d", ["a", "d", "c"])], ids=["hole", "level"]
)
def test_arrays_in_the_place_of_a_table_whose_columns_became_others_are_refused(
    width, method, column, shown
):
    """By places the fourth, such as the target, was the indicator of a hole: R2 0.99 to -197."""
    frame = HOLED if column == "b" else HOLED.drop(columns="b").assign(d=["u", "v"] * 30)
    frame, y = frame[shown], np.sin(HOLED.a)
    features = srf.RandomFourier(n_components=32, random_state=0)
    model = srf.RandomFeatureRegressor(features, normalize="standard", random_state=0).fit(frame, y)
    assert model.model_.encoder.n_features == 4
    X = np.ones((60, width))
    given = (X,) if method == "predict" else (X, y)
    with pytest.raises(ShapeError, match="X is read as numbers alone") as found:
        getattr(model, method)(*given)
    assert str(found.value).endswith(f"give a table with the columns {shown}")
    with pytest.raises(ShapeError, match="give a table"):
        model.model_.predict(srf.IteratorSource([X]))


def test_a_model_of_a_table_of_numbers_without_holes_takes_arrays_by_places():
    frame, y = HOLED[["a", "c"]], np.sin(HOLED.a)
    source = srf.open_source(frame.assign(y=y), y="y")
    features = srf.RandomFourier(n_components=32, random_state=0)
    model = srf.RandomFeatureRegressor(features, normalize="standard", random_state=0).fit(source)
    assert model.model_.encoder.is_of_table
    np.testing.assert_array_equal(model.predict(frame.to_numpy()), model.predict(frame))


@pytest.mark.parametrize("others", [{}, {"t": ["u", "v"] * 30}], ids=["numbers", "text"])
def test_nan_in_a_frame_of_polars_is_missing_whatever_the_other_columns(others):
    polars = pytest.importorskip("polars")
    values = np.where(np.arange(60) % 2, np.nan, np.arange(60.0))
    frame = polars.DataFrame({"a": np.arange(60.0), "b": values, **others})
    reg = srf.RandomFeatureRegressor(MAP, on_bad_rows="skip", random_state=0)
    reg.fit(frame, np.arange(60.0))
    assert (reg.statistics_.n_rows, reg.statistics_.n_skipped) == (60, 0)
    assert len(reg.predict(frame)) == 60


@pytest.mark.parametrize(
    "beside", [["u", "v"] * 30, [1.0, None] * 30, pandas.date_range("2020-01-01", periods=60)]
)
@pytest.mark.parametrize("odd", [[1, "a"] * 30, pandas.arrays.SparseArray([0, 1] * 30)])
def test_the_column_that_no_table_may_have_is_blamed(beside, odd):
    """And not those beside it, which tables may have."""
    frame = pandas.DataFrame({"x": np.arange(60.0), "beside": beside, "odd": odd})
    with pytest.raises(DataError, match=r"or of one that Arrow lacks .* odd"):
        srf.RandomFeatureRegressor(MAP, random_state=0).fit(frame, np.arange(60.0))
