"""Sparse rows of many columns: the same bits as the dense rows, in memory for a few at a time."""

import itertools
import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file

import naive
import streamrf as srf
from integers import assert_same_bytes
from streamrf.engine import Reading
from streamrf.errors import BadRowError, DataError, ParameterError
from streamrf.jit import columns, lanes
from streamrf.preprocessing import Moments, Sample
from streamrf.sources import SparseRows
from streamrf.training import Job, Pass, Settings, begin, peeking

N, D = 300, 5000
RNG = np.random.default_rng(0)
X = scipy.sparse.random_array((N, D), density=0.004, rng=RNG, format="csr")
X.data = np.round(X.data, 3)
X = scipy.sparse.hstack(
    [3.0 + np.arange(N)[:, None] % 7, X[:, 1:]], format="csr"
)  # a column without zeros
DENSE = X.toarray()
Y = (DENSE[:, :2500].sum(axis=1) > DENSE[:, 2500:].sum(axis=1)).astype(np.int64)
MAPS = [
    srf.TensorSketch(srf.Polynomial(2), 48, random_state=0),
    srf.RandomMaclaurin(srf.Polynomial(2), 48, random_state=0),
    srf.RandomMaclaurin(srf.Exponential("mean_distance"), 48, random_state=0),
    srf.RandomFourier(srf.Gaussian("median"), 48, random_state=0),
    srf.StructuredFourier(srf.Gaussian(0.1), 48, random_state=0),
    srf.Craft(srf.RandomMaclaurin(srf.Polynomial(2), 96), 48, random_state=0),
]


def sparse(y=Y, weights=None):
    return srf.open_source(X, y=y, weights=weights)


def dense(y=Y, weights=None):
    return srf.ArraySource(DENSE, y, weights)


def test_blocks_are_sparse_and_their_keys_those_of_dense_rows():
    source = sparse()
    blocks = list(source.blocks(block_rows=128))
    assert [len(block.X) for block in blocks] == [128, 128, 44]
    assert all(isinstance(block.X, SparseRows) for block in blocks)
    assert source.stores[0].key == dense().stores[0].key
    assert source.row_values < 60
    np.testing.assert_array_equal(np.concatenate([block.X.dense() for block in blocks]), DENSE)
    assert not srf.open_source(X[:, :4000], y=Y).is_sparse


def test_entries_are_laid_out_and_counted_as_their_twins_do():
    few = X[:40, :4100].tocsr()
    values, places, ends = SparseRows(few).entries
    scale = RNG.uniform(0.5, 2, 4100)
    for norm in (0, 1, 2):
        out = np.full((3, 4100, 16), np.nan, dtype=np.float32)
        lanes.load_entries(values, places, ends, scale, norm, out)
        expected = naive.load_entries(values, places, ends, scale, norm)
        np.testing.assert_allclose(naive.rows(out, 40), expected, rtol=2**-23, atol=0)
    values = np.array([0.5, -3.0, 1e9, 1e-50, 2.5, 0.0])
    places, counts = np.array([0, 0, 1, 1, 2, 2]), np.array([3, 1, 2, 1, 4, 5])
    scales = np.array([0.1, 0.0, 2.0]), np.array([1.0, 5.0, 0.6]), np.array([2.0**-16, 0, 2.0**-3])
    found = Moments.zero(Sample(1, *scales[:1], scales[0], scales[1]))
    found._partial = tuple(np.zeros((3, k), dtype=np.int64) for k in (2, 25, 25))
    columns.add_entries(values, places, counts, *scales, *found._partial, found.outside)
    sums, outside = naive.add_entries(values, places, counts, *scales)
    assert found.outside.tolist() == outside.tolist()
    fine, coarse, squares = found._partial
    for j, (total, square_total) in enumerate(sums):
        ends = [Fraction(2) ** (-120 + 10 * (k + 1)) for k in range(25)]
        step = Fraction(scales[2][j])
        coarse_sum = sum(int(c) * end / 2**41 for c, end in zip(coarse[j], ends, strict=True))
        square_sum = sum(int(c) * end**2 / 2**41 for c, end in zip(squares[j], ends, strict=True))
        assert int(fine[j, 0]) * step + coarse_sum == total
        assert int(fine[j, 1]) * step**2 + square_sum == square_total


@pytest.mark.parametrize("features", MAPS, ids=lambda features: type(features).__name__)
def test_every_map_sums_the_same_bytes_as_of_dense_rows(features):
    a, b = (srf.accumulate(s, features, random_state=0) for s in (sparse(), dense()))
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})
    assert a.ledger.same_rows(b.ledger)


@pytest.mark.parametrize("normalize", [None, "l2", "l1", "max", "standard", "asinh", "quantile"])
def test_every_scaling_keeps_the_bytes(normalize):
    weights = RNG.uniform(0.5, 2, N)
    options = {"normalize": normalize, "hold_out": True, "random_state": 0}
    a, b = (srf.accumulate(s(Y, weights), MAPS[0], **options) for s in (sparse, dense))
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})


def test_estimators_take_sparse_matrices():
    a, b = (srf.RandomFeatureClassifier(MAPS[0], random_state=0).fit(x, Y) for x in (X, DENSE))
    assert a.alpha_ == b.alpha_
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(DENSE))
    assert a.score(X, Y) == b.score(DENSE, Y)
    assert a.evaluate(X, Y)["auc"] == b.evaluate(DENSE, Y)["auc"]
    again = pickle.loads(pickle.dumps(a)).partial_fit(X[:100].tocsc() * 1.1, Y[:100])
    assert again.statistics_.n_rows == N + 100
    scores = [srf.cross_val_score(s, a, cv=3).tolist() for s in (sparse(), dense())]
    assert scores[0] == scores[1]


def test_narrow_sparse_matrices_are_dense_rows():
    narrow, y = X[:, :40], Y
    clf = srf.RandomFeatureClassifier(random_state=0).fit(narrow, y)
    assert clf.score(narrow, y) == clf.score(narrow.toarray(), y)
    assert clf.partial_fit(narrow, 1 - y).statistics_.n_rows == 2 * N


def test_a_libsvm_file_is_read_as_the_matrix(tmp_path):
    dump_svmlight_file(X, Y, str(tmp_path / "rows.svm"), zero_based=False)
    scipy.sparse.save_npz(tmp_path / "rows.npz", X)
    np.save(tmp_path / "labels.npy", Y)
    text = srf.open_source(tmp_path / "rows.svm", x=str(D), y="label")
    file = srf.open_source(tmp_path / "rows.npz", y=str(tmp_path / "labels.npy"))
    grams = [srf.accumulate(s, MAPS[0]).gram.tobytes() for s in (text, file, sparse())]
    assert text.is_sparse
    assert grams[0] == grams[1] == grams[2]


def test_rows_held_out_survive_a_checkpoint(tmp_path):
    job = Job.of(sparse(), Settings(features=MAPS[0], hold_out=True, random_state=0))
    pass_ = begin(job)
    for block in Reading(sparse(), 0, 200).blocks():
        pass_.update(block)
    again = Pass.from_tree(pass_.to_tree())
    for one in (pass_, again):
        for block in Reading(sparse(), 200, None).blocks():
            one.update(block)
    assert_same_bytes(again.join().sums.to_tree(), pass_.join().sums.to_tree())
    path = tmp_path / "c.checkpoint"
    options = {"checkpoint": path, "hold_out": True, "random_state": 0}
    first = srf.accumulate(sparse(), MAPS[0], **options)
    assert srf.accumulate(sparse(), MAPS[0], **options).gram.tobytes() == first.gram.tobytes()


def test_bad_rows_are_named_and_skipped():
    bad = X.tolil()
    bad[17, 4321] = np.nan
    bad[200, 7] = np.inf
    source = srf.open_source(bad.tocsr(), y=Y)
    with pytest.raises(BadRowError, match="row 17: column 4321 is NaN"):
        srf.accumulate(source, MAPS[0])
    skipped = srf.accumulate(source, MAPS[0], on_bad_rows="skip")
    assert (skipped.n_rows, skipped.n_skipped) == (N - 2, 2)


@pytest.mark.parametrize("width", [None, 64])
def test_features_are_chosen_by_sparse_rows_as_by_dense_ones(width):
    options = {"features": "auto", "n_components": width, "budget": 2, "random_state": 0}
    a, b = srf.accumulate(sparse(), **options), srf.accumulate(dense(), warp=None, **options)
    assert a.encoder.tried is not None
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})
    found = srf.select(sparse(), n_components=width, budget=2, random_state=0)
    assert found.table() == a.encoder.tried
    streamed = srf.IteratorSource([(X[:200], Y[:200]), (X[200:], Y[200:])])
    assert srf.accumulate(streamed, **options).encoder.tried == a.encoder.tried


def test_what_looks_at_dense_rows_is_refused(monkeypatch):
    with pytest.raises(ParameterError, match=r"5,000 columns of sparse rows, and warp= looks at"):
        srf.accumulate(sparse(), MAPS[0], warp="diagonal")
    with pytest.raises(ParameterError, match=r"5,000 columns of sparse rows, and warp= looks at"):
        srf.select(sparse(), warp="diagonal")
    monkeypatch.setattr(peeking, "MAX_SPARSE", 4999)
    with pytest.raises(ParameterError, match=r"at most 4,999: name a feature map"):
        srf.accumulate(sparse(), "auto")
    with pytest.raises(ParameterError, match=r"at most 4,999: name a feature map"):
        srf.select(sparse())


def test_a_hundred_thousand_columns_stay_within_the_plan():
    wide = scipy.sparse.random_array((200, 100_000), density=1e-4, rng=RNG, format="csr")
    source = srf.open_source(wide, y=np.arange(200) % 2)
    settings = Settings(features=MAPS[0], normalize="max", random_state=0)
    planned = Job.of(source, settings).plan()
    assert planned is not None
    tracemalloc.start()
    try:
        srf.accumulate(source, settings=settings)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < planned.total_bytes < 1 << 30  # 4,096 dense rows would be 3.3 GB


@pytest.mark.parametrize("first", ["sparse", "dense"])
def test_a_stream_of_sparse_blocks_has_the_bytes_of_dense_rows(first):
    """Also where some blocks are dense; what comes first decides how they wait."""
    kinds = [scipy.sparse.csr_array, scipy.sparse.csc_matrix, np.asarray, scipy.sparse.coo_array]
    kinds = kinds if first == "sparse" else [np.asarray, *kinds]
    pieces = np.array_split(np.arange(len(DENSE)), 7)
    blocks = [
        (make(DENSE[rows]), Y[rows])
        for make, rows in zip(itertools.cycle(kinds), pieces, strict=False)
    ]
    stream = srf.IteratorSource(blocks)
    assert stream.is_sparse == (first == "sparse")
    assert (stream.row_values < DENSE.shape[1]) == stream.is_sparse
    options = {"normalize": "l2", "random_state": 0}
    here = srf.accumulate(stream, MAPS[0], **options)
    there = srf.accumulate(srf.IteratorSource([(DENSE, Y)]), MAPS[0], **options)
    assert here.gram.tobytes() == there.gram.tobytes()
    assert here.ledger.ranges.keys() == there.ledger.ranges.keys()


def test_a_stream_leaves_its_sparse_blocks_alone():
    block = scipy.sparse.csr_array(([1.0, 2.0, 4.0], [5, 3, 3], [0, 3]), shape=(1, 9000))
    stream = srf.IteratorSource([(block, [0])])
    X = stream.sample(1).X.dense()
    assert (X[0, 3], X[0, 5]) == (6, 1)
    assert block.data.tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("columns", "ends"),
    [([10**6, 0], [0, 1, 2, 2]), ([-7, 0], [0, 1, 2, 2]), ([0, 1], [0, 10**6, 2, 2])],
    ids=["beyond", "negative", "ends"],
)
@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("n_columns", [3, 5000])
def test_entries_outside_of_the_matrix_are_refused(kind, columns, ends, n_columns, tmp_path):
    """SciPy does not look, and writes them beyond the end of its memory."""
    shape = (3, n_columns) if kind == "csr" else (n_columns, 3)
    matrix = scipy.sparse.csr_array(shape) if kind == "csr" else scipy.sparse.csc_array(shape)
    matrix.data = np.ones(2)
    matrix.indices, matrix.indptr = np.array(columns, np.int32), np.array(ends, np.int32)
    with pytest.raises(DataError, match="X is a sparse matrix with entries outside of it"):
        srf.open_source(matrix, y=np.arange(shape[0]))
    scipy.sparse.save_npz(tmp_path / "X.npz", matrix)
    np.save(tmp_path / "y.npy", np.arange(shape[0]))
    with pytest.raises(DataError, match=r"X\.npz is a sparse matrix with entries outside of it"):
        srf.open_source(tmp_path / "X.npz", y="y.npy")


def test_the_key_of_very_wide_rows_needs_one_of_them_at_a_time():
    """All 64 were made dense: a file of some hundred bytes took 51 GB at 1e8 columns."""
    wide = scipy.sparse.csr_array((np.ones(64), (range(64), range(64))), shape=(64, 1 << 20))
    tracemalloc.start()
    source = srf.open_source(wide, y=np.arange(64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert source.stores[0].key
    assert peak < 8 * 8 * wide.shape[1]
