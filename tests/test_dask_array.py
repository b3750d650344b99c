"""Dask arrays as rows: chunk by chunk, here and on a cluster."""

import re

import dask
import dask.array as da
import numpy as np
import pytest

import integers
import streamrf as srf
from integers import assert_same_bytes
from streamrf import engine
from streamrf.errors import DataError, ParameterError, ShapeError

N, WIDTH, CHUNK = 5000, 6, 500


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, WIDTH)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def test_the_sums_are_those_of_the_arrays(arrays, two_workers):
    X, y = arrays
    lazy = srf.DaskArraySource(da.from_array(X, (CHUNK, 4)), da.from_array(y, 700))
    accumulate = {"features": integers.features(), "random_state": 0}
    alone = srf.accumulate(srf.ArraySource(X, y), like=srf.accumulate(lazy, **accumulate))
    for options in ({}, {"engine": two_workers, "parts": 1}, {"engine": two_workers, "parts": 7}):
        together = srf.accumulate(lazy, **accumulate, **options)
        assert_same_bytes(together.sums.to_tree(), alone.sums.to_tree())


@pytest.mark.parametrize("chunk", [77, 4096, N])
def test_the_statistics_are_the_same_for_any_chunks(arrays, chunk):
    X, y = arrays
    lazy = srf.DaskArraySource(da.from_array(X, (chunk, WIDTH)), da.from_array(y, chunk))
    ours, theirs = (
        srf.accumulate(source, integers.features(), random_state=0)
        for source in (lazy, srf.ArraySource(X, y))
    )
    assert ours.encoder.digests == theirs.encoder.digests
    assert_same_bytes(ours.sums.to_tree(), theirs.sums.to_tree())


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_large_arrays_behind_a_dask_array_stay_at_home(two_workers, monkeypatch):
    monkeypatch.setattr(engine.shards, "MAX_ARRAY_BYTES", 1 << 20)
    X, y = np.zeros((1 << 18, 8), np.uint8), np.arange(1 << 18) % 2
    source = srf.DaskArraySource(da.from_array(X, 1 << 14), da.from_array(y, 1 << 14))
    with pytest.raises(ParameterError, match=r"holds 4 MiB in memory.*write the rows to HDF5"):
        srf.accumulate(source, integers.features(), engine=two_workers)


def test_an_estimator_takes_dask_arrays(arrays, two_workers):
    X, y = (da.from_array(a, CHUNK) if a.ndim == 1 else da.from_array(a, (CHUNK, WIDTH))
            for a in arrays)  # fmt: skip
    model = srf.RandomFeatureClassifier(integers.features(64), random_state=0).fit(X, y)
    again = srf.RandomFeatureClassifier(integers.features(64), random_state=0)
    again.fit(X, y, engine=two_workers)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert model.evaluate(X, y) == model.evaluate(*arrays)
    np.testing.assert_array_equal(model.predict(X), model.predict(arrays[0]))


def test_no_more_than_a_chunk_is_computed_at_a_time(arrays):
    X, y = arrays
    sizes = []

    def seen(block):
        sizes.append(len(block))
        return block

    lazy = da.from_array(X, (CHUNK, WIDTH)).map_blocks(seen, dtype=X.dtype, meta=X[:0])
    source = srf.DaskArraySource(lazy, y)
    assert sum(sizes) == CHUNK  # the fingerprint
    srf.accumulate(source, integers.features())
    assert max(sizes) == CHUNK


def test_chunks_of_unknown_size_are_refused(arrays):
    X, y = (da.from_array(a, CHUNK) for a in arrays)
    some = X[X[:, 0] > 0]
    with pytest.raises(ShapeError, match=re.escape("X.compute_chunk_sizes()")):
        srf.RandomFeatureClassifier().fit(some, y)
    with pytest.raises(ShapeError, match=r"y has chunks of unknown size"):
        srf.DaskArraySource(X, y[y > 0])
    with pytest.raises(ShapeError, match="y has 4999 rows and X has 5000"):
        srf.DaskArraySource(X, y[1:])


def test_frames_that_live_on_a_cluster_are_refused(arrays, two_workers):
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pandas.DataFrame(arrays[0][:200, :2], columns=["a", "b"]), 3)
    with pytest.raises(ParameterError, match=r"X is persisted on a cluster.*before persist"):
        srf.open_source(two_workers.persist(frame))
    with two_workers.as_current(), pytest.raises(DataError, match=r"X is shuffled .*'tasks'"):
        srf.open_source(frame.set_index("a"))


def test_what_is_made_of_futures_is_refused(arrays, two_workers):
    """Dask's own errors named a missing dependency."""
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(arrays[0][:200, :2], columns=["a", "b"])
    with two_workers.as_current():
        future = two_workers.scatter(arrays[0])
        whole = two_workers.submit(lambda: table)
        doubled = dask.delayed(lambda X: 2 * X)(future)
        for data in (
            frames.from_delayed([whole]),
            da.from_delayed(doubled, arrays[0].shape, float),
        ):
            with pytest.raises(ParameterError, match=r"made of results there; .*dask\.delayed"):
                srf.open_source(data)
    functions = frames.from_delayed([dask.delayed(lambda: table)()])
    assert srf.open_source(functions).n_rows == 200


def test_arrays_persisted_on_a_cluster_are_refused(arrays, two_workers):
    X = two_workers.persist(da.from_array(arrays[0], CHUNK))
    with pytest.raises(ParameterError, match=r"X is persisted on a cluster.*before persist"):
        srf.DaskArraySource(X, arrays[1])


def test_what_is_no_dask_array_is_refused():
    with pytest.raises(ParameterError, match="X is a ndarray; expected a dask"):
        srf.DaskArraySource(np.eye(3))


@pytest.mark.parametrize("role", range(3))
def test_masked_entries_of_a_chunk_are_refused(arrays, role):
    """What was hidden was read; also where it is not in the first rows."""
    parts = [*arrays, np.ones(N)]
    hidden = np.ma.masked_array(parts[role], mask=False)
    hidden[-1] = np.ma.masked
    parts[role] = hidden
    lazy = [da.from_array(part, (CHUNK, *part.shape[1:])) for part in parts]
    source = srf.DaskArraySource(*lazy)
    with pytest.raises(DataError, match="masked entries; leave their rows out, or fill them"):
        srf.accumulate(source, integers.features(), random_state=0, on_bad_rows="skip")
    if role:
        with pytest.raises(DataError, match=f"{('y', 'weights')[role - 1]} is an array with 1"):
            srf.DaskArraySource(lazy[0], *parts[1:])


def test_masked_entries_have_no_prediction(arrays):
    X, y = arrays
    model = srf.accumulate(srf.ArraySource(X, y), integers.features(), random_state=0).solve(1.0)
    with pytest.raises(DataError, match="X is an array with 1 masked entries"):
        model.predict(da.from_array(np.ma.masked_equal(X, X[-1, -1]), (CHUNK, WIDTH)))
