"""Columns and targets with names are read by them, whatever holds the rows."""

from dataclasses import replace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray
from sklearn.base import clone

import streamrf as srf
from commands import answer, refused
from streamrf import report
from streamrf.errors import FormatError, MergeError, ParameterError, ShapeError, StreamrfWarning

FRAME = pd.DataFrame(
    np.random.default_rng(0).normal(size=(400, 3)) * [1, 3, 0.1] + [0, 5, 0], columns=[*"abc"]
)
TURNED = FRAME[[*"cba"]]
LABELS = (FRAME.a + 0.3 * FRAME.b > 1.5).astype(int).to_numpy()
TARGETS = pd.DataFrame({"p": FRAME.a, "q": 10 - FRAME.b})
SWAPPED = TARGETS[["q", "p"]]
MAP = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
KINDS = {
    "array": srf.ArraySource,
    "iterator": lambda X, y: srf.IteratorSource([(X, y)]),
    "table": lambda X, y: srf.open_source(X, y=y),
}


@pytest.mark.parametrize(
    "estimator",
    [
        srf.RandomFeatureClassifier(MAP, normalize="standard", alpha=0.1),
        srf.RandomFeatureRegressor(MAP, normalize="standard", alpha=0.1),
        srf.KernelRidgeClassifier(srf.Gaussian(0.3)),
    ],
)
def test_estimators_of_frames_read_dask_frames_by_name(estimator):
    estimator.fit(FRAME, LABELS)
    turned = dd.from_pandas(TURNED, npartitions=3)
    assert np.array_equal(estimator.predict(turned), estimator.predict(FRAME))
    assert estimator.score(turned, LABELS) == estimator.score(FRAME, LABELS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [TURNED, FRAME.assign(d=1.0)], ids=["turned", "more"])
def test_rows_read_by_name_are_known_again(kind, other):
    open_ = KINDS[kind]
    first = srf.accumulate(open_(FRAME, LABELS), MAP)
    again = srf.accumulate(open_(other, LABELS), like=first)
    with pytest.raises(MergeError, match="counted twice"):
        first + again
    assert (first - again).n_rows == 0
    model = first.solve(0.1)
    assert model.evaluate(open_(other, LABELS))["n_rows_trained_on"] == 400


def test_rows_that_were_counted_as_given_are_known_again():
    turned = srf.accumulate(srf.ArraySource(TURNED, LABELS), MAP)
    model = turned.solve(0.1)
    assert model.evaluate(srf.ArraySource(TURNED, LABELS))["n_rows_trained_on"] == 400


@pytest.mark.parametrize("kind", KINDS)
def test_several_targets_are_taken_by_name(kind):
    open_ = KINDS[kind]
    head, tail = slice(0, 200), slice(200, 400)
    first = srf.accumulate(open_(FRAME[head], TARGETS[head]), MAP, normalize="standard")
    same = srf.accumulate(open_(FRAME[tail], TARGETS[tail]), like=first)
    swapped = srf.accumulate(open_(FRAME[tail], SWAPPED[tail]), like=first)
    assert np.array_equal((first + swapped).solve(0.1).coef, (first + same).solve(0.1).coef)
    model = (first + same).solve(0.1)
    right = model.evaluate(open_(FRAME, TARGETS))["r2"]
    assert right > 0.9
    assert model.evaluate(open_(FRAME, SWAPPED))["r2"] == right
    with pytest.raises(ShapeError, match=r"targets .* and learnt from were"):
        model.evaluate(open_(FRAME, TARGETS.rename(columns={"q": "z"})))


def test_targets_without_names_are_taken_by_place():
    first = srf.accumulate(srf.open_source(FRAME, y=TARGETS), MAP, normalize="standard")
    model = first.solve(0.1)
    right = model.evaluate(FRAME, TARGETS)["r2"]
    assert model.evaluate(FRAME, TARGETS.to_numpy())["r2"] == right
    assert model.evaluate(FRAME.to_numpy(), TARGETS)["r2"] == right
    unnamed = srf.accumulate(srf.open_source(FRAME, y=TARGETS.to_numpy()), MAP)
    assert unnamed.encoder.table.targets == ()
    assert unnamed.solve(0.1).evaluate(FRAME, TARGETS)["n_rows"] == 400


def test_one_target_may_have_another_name():
    model = srf.accumulate(srf.open_source(FRAME, y=TARGETS[["p"]]), MAP).solve(0.1)
    assert model.evaluate(srf.open_source(FRAME.assign(z=TARGETS.p), x=[*"abc"], y="z"))["r2"] > 0


def test_later_blocks_have_their_targets_by_name():
    blocks = [(FRAME[:200], TARGETS[:200]), (FRAME[200:], SWAPPED[200:])]
    mixed = srf.accumulate(srf.IteratorSource(blocks), MAP, normalize="standard")
    whole = srf.accumulate(srf.IteratorSource([(FRAME, TARGETS)]), MAP, normalize="standard")
    assert np.array_equal(mixed.solve(0.1).coef, whole.solve(0.1).coef)


@pytest.mark.parametrize("text", [False, True], ids=["plain", "mixed"])
def test_estimators_take_targets_by_name(text, tmp_path):
    X = FRAME.assign(d="x") if text else FRAME
    regressor = srf.RandomFeatureRegressor(MAP, normalize="standard", alpha=0.1)
    regressor.partial_fit(X[:200], TARGETS[:200]).partial_fit(X[200:], SWAPPED[200:])
    right = regressor.score(X, TARGETS)
    assert right > 0.9
    assert regressor.score(X, SWAPPED) == right
    assert regressor.evaluate(X, SWAPPED)["r2"] == pytest.approx(right)
    regressor.save(tmp_path / "model.h5")
    assert srf.load_model(tmp_path / "model.h5").score(X, SWAPPED) == right
    array = regressor.fit(FRAME.to_numpy(), TARGETS.to_numpy())  # forgets the names
    assert array.score(FRAME.to_numpy(), SWAPPED) < 0


def test_targets_of_two_passes_side_by_side_have_both_names():
    table = FRAME.assign(p=TARGETS.p, q=TARGETS.q)
    first = srf.accumulate(srf.open_source(table, x=[*"abc"], y="p"), MAP, random_state=0)
    second = srf.accumulate(srf.open_source(table, x=[*"abc"], y="q"), MAP, random_state=0)
    both = first.with_targets(second)
    assert both.encoder.table.targets == ("p", "q")
    model = both.solve(0.1)
    found = [model.evaluate(srf.open_source(table, x=[*"abc"], y=y)) for y in ("p,q", "q,p")]
    assert found[0]["r2"] == found[1]["r2"]


def test_targets_of_one_name_side_by_side_have_none():
    one = srf.accumulate(plain(TARGETS)[0], MAP)
    with pytest.warns(StreamrfWarning, match=r"targets \(p, q\) are not kept, .* one of the"):
        assert one.with_targets(one).encoder.target_names == ()
    alone = srf.accumulate(plain(TARGETS[["p"]])[0], MAP, regression=True)
    with pytest.warns(StreamrfWarning, match="has no names, as one alone: targets go by"):
        assert one.with_targets(alone).encoder.target_names == ()
    rows = srf.open_source(FRAME, y=TARGETS)
    assert (
        srf.accumulate(rows, MAP).with_targets(srf.accumulate(rows, MAP)).encoder.target_names == ()
    )
    others = srf.accumulate(plain(TARGETS.set_axis(["r", "s"], axis=1))[0], MAP)
    assert one.with_targets(others).encoder.target_names == (*"pqrs",)


@pytest.mark.parametrize("estimator", [srf.RandomFeatureRegressor(MAP), srf.KernelRidgeRegressor()])
def test_targets_may_be_called_as_columns_beside_them(estimator):
    X = FRAME.assign(c=pd.Categorical(np.where(FRAME.c > 0, "u", "v")))
    later = FRAME[["b", "a"]].shift(1).fillna(0.0)  # as where all columns are forecast
    estimator = clone(estimator).fit(X, later)
    assert estimator.model_.encoder.target_names == ("b", "a")
    assert estimator.score(X, later[["a", "b"]]) == estimator.score(X, later)
    with pytest.raises(ShapeError, match="targets"):
        estimator.score(X, later.set_axis(["b", "other"], axis=1))


def test_targets_of_later_blocks_may_be_called_as_columns():
    later = FRAME[["b", "a"]].shift(1).fillna(0.0)
    blocks = [(FRAME[:200], later[:200]), (FRAME[200:], later[200:][["a", "b"]])]
    sums = srf.accumulate(srf.open_source(iter(blocks)), MAP)
    assert sums.encoder.target_names == ("b", "a")
    whole = srf.accumulate(srf.open_source(FRAME, y=later), like=sums)
    assert np.array_equal(sums.solve(0.1).coef, whole.solve(0.1).coef)


def test_rows_to_predict_have_no_names_of_targets():
    """Other targets beside rows that are predicted, or transformed, were refused."""
    X = FRAME.to_numpy()
    others = plain(TARGETS.set_axis(["r", "s"], axis=1))[0]
    for kind in (
        srf.RandomFeatureRegressor(MAP, alpha=0.1),
        srf.KernelRidgeRegressor(srf.Gaussian(0.3)),
    ):
        kind.fit(X, TARGETS)
        np.testing.assert_array_equal(kind.predict(others), kind.predict(X))
    model = srf.accumulate(plain(TARGETS)[0], MAP).solve(0.1)
    np.testing.assert_array_equal(model.predict(others), model.predict(X))
    pca = srf.RandomFeaturePCA(2, features=MAP).fit(plain(TARGETS)[0])
    np.testing.assert_array_equal(pca.transform(others), pca.transform(X))
    clusters = srf.RandomFeatureKMeans(2, features=MAP).fit(plain(TARGETS)[0])
    np.testing.assert_array_equal(clusters.predict(others), clusters.predict(X))


def test_tables_to_predict_may_have_other_targets(tmp_path):
    """They were refused, though nothing reads them."""
    table = FRAME.assign(c=pd.Categorical(np.where(FRAME.c > 0, "u", "v")))
    other = pd.DataFrame({"r": ["x"] * 400, "s": FRAME.b})
    other[["q", "p"]] = SWAPPED
    other.join(table).to_parquet(tmp_path / "rows.parquet")
    model = srf.accumulate(srf.open_source(table, y=TARGETS), MAP).solve(0.1, uncertainty=True)
    wanted = model.predict(table)
    for names in ("r", "q,s", "q,p", None):
        rows = srf.open_source(tmp_path / "rows.parquet", x="a,b,c", y=names)
        np.testing.assert_array_equal(model.predict(rows), wanted)
        np.testing.assert_array_equal(model.predict(rows, return_std=True)[0], wanted)
        np.testing.assert_array_equal(model.novelty(rows), model.novelty(table))
    with pytest.raises(ShapeError, match="has the targets"):
        model.evaluate(srf.open_source(tmp_path / "rows.parquet", x="a,b,c", y="q,s"))
    rows = srf.open_source(tmp_path / "rows.parquet", x="a,b,c", y="q,p")
    assert model.evaluate(rows)["r2"] == pytest.approx(model.evaluate(table, TARGETS)["r2"])


@pytest.mark.parametrize("names", [("p",), (*"pqr",), ("p", "p")])
def test_files_of_other_names_than_targets_are_refused(names, tmp_path):
    sums = srf.accumulate(plain(TARGETS)[0], MAP)
    replace(sums, encoder=replace(sums.encoder, targets=names)).save(tmp_path / "s.h5")
    with pytest.raises(FormatError, match="targets"):
        srf.load_statistics(tmp_path / "s.h5")


def test_targets_of_files_are_taken_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(y_p=TARGETS.p, y_q=TARGETS.q)[:200].to_csv("mon.csv", index=False)
    TURNED.assign(y_q=TARGETS.q, y_p=TARGETS.p)[200:].to_csv("tue.csv", index=False)
    options = "--regression --map fourier --kernel gaussian --gamma 0.3 --components 64"
    answer("fit", "mon.csv", "--y", "y_*", *options.split(), "--statistics", "mon.h5")
    answer("fit", "tue.csv", "--y", "y_*", "--like", "mon.h5", "--statistics", "tue.h5")
    answer("stats", "merge", "mon.h5", "tue.h5", "-o", "both.h5")
    answer("solve", "both.h5", "--alpha", "0.1", "--model", "model.h5")
    model = srf.load_model("model.h5")
    assert model.evaluate(srf.open_source("tue.csv", y="y_*"))["r2"] > 0.5


def test_columns_of_a_frame_of_numbers_may_be_named_as_targets():
    table = FRAME.assign(y=LABELS)
    by_name = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(table, "y")
    apart = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(FRAME, LABELS)
    assert np.array_equal(by_name.predict(FRAME), apart.predict(FRAME))
    assert by_name.score(table, "y") == apart.score(FRAME, LABELS)
    assert by_name.evaluate(table, "y")["n_rows_trained_on"] == 400
    assert apart.score(table, "y") == apart.score(FRAME, LABELS)
    later = srf.RandomFeatureRegressor(MAP, alpha=0.1).partial_fit(table[:200], "y")
    assert later.partial_fit(table[200:], "y").score(table, "y") > 0
    assert later.statistics_.n_rows == 400


@pytest.mark.parametrize("shape", [(400,), (400, 1)])
def test_targets_beside_a_table_may_be_a_column(shape):
    mixed = FRAME.assign(d="x")
    source = srf.open_source(mixed, y=LABELS.reshape(shape), weights=np.ones(shape))
    assert np.array_equal(next(source.blocks()).y, LABELS[: len(next(source.blocks()).y)])
    frames = srf.open_source(mixed, y=pd.DataFrame(LABELS.reshape(-1, 1), columns=["label"]))
    assert np.array_equal(next(frames.blocks()).y, next(source.blocks()).y)


@pytest.mark.parametrize("y", ["y*", "y*.npy"])
@pytest.mark.parametrize("x", ["X*", "X*.npy"])
def test_files_pair_with_and_without_their_ending(x, y, tmp_path):
    for number in (1, 2, 10):
        np.save(tmp_path / f"X{number}.npy", np.full((5, 2), float(number)))
        np.save(tmp_path / f"y{number}.npy", np.full(5, number))
    for source in (
        srf.open_source(tmp_path, x=x, y=y),
        srf.open_source(f"{tmp_path}/X*.npy", y=y),
    ):
        for block in source.blocks():
            assert np.array_equal(block.X[:, 0], block.y)


def test_a_weight_of_a_label_that_no_row_has_is_told():
    words = np.where(LABELS > 0, "yes", "no")
    classifier = srf.RandomFeatureClassifier(MAP, alpha=0.1, class_weight={"YES": 5, "no": 1})
    with pytest.warns(StreamrfWarning, match=r"names \['YES'\], which no label of the rows read"):
        classifier.fit(FRAME, words)
    classifier.set_params(class_weight={"yes": 5, "no": 1}).fit(FRAME, words)  # which would raise


def test_an_array_has_no_columns_to_name():
    with pytest.raises(ParameterError, match="targets: y="):
        srf.open_source(np.eye(3), [0, 1, 1])


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_a_warp_used_again_finds_its_columns_by_name(kind, tmp_path):
    values = np.sin(3 * FRAME.a).to_numpy()
    like = {"normalize": "standard", "task": "regression", "random_state": 0}
    first = srf.accumulate(srf.ArraySource(FRAME, values), MAP, warp=kind, **like)
    first.save(tmp_path / "sums.h5")
    for warp in (
        first.encoder.preprocessing.warp,
        srf.load_statistics(tmp_path / "sums.h5").encoder.preprocessing.warp,
    ):
        found = [
            srf.accumulate(source, MAP, warp=warp, **like).solve(1e-3).evaluate(source)["r2"]
            for source in (srf.ArraySource(FRAME, values), srf.open_source(TURNED, y=values))
        ]
        assert found[0] > 0.9
        assert found[1] == pytest.approx(found[0], abs=0.05 if kind == "diagonal" else 1e-6)
        other = FRAME.rename(columns={"a": "z"})
        with pytest.raises(ShapeError, match=r"warp was learnt of the columns .* learn another"):
            srf.accumulate(srf.ArraySource(other, values), MAP, warp=warp, **like)
        by_place = srf.ArraySource(FRAME.to_numpy(), values)
        assert srf.accumulate(by_place, MAP, warp=warp, **like).solve(1e-3).alpha == 1e-3


def test_a_warp_that_was_chosen_knows_its_columns():
    values = np.sin(3 * FRAME.a).to_numpy()
    chosen = srf.select(
        srf.ArraySource(FRAME, values), warp="diagonal", n_components=64, budget=0.5, random_state=0
    )
    assert chosen.warp.names == ("a", "b", "c")


def test_another_target_is_told_and_one_of_the_columns_is_refused():
    table = FRAME.assign(y=LABELS, z=1 - LABELS)
    first = srf.accumulate(srf.open_source(table, x=[*"abc"], y="y"), MAP)
    with pytest.warns(StreamrfWarning, match="target of DataFrame is 'z', and that .* is 'y'"):
        srf.accumulate(srf.open_source(table, x=[*"abc"], y="z"), like=first)
    with pytest.raises(ParameterError, match="target 'a' is one of the columns learnt from"):
        srf.accumulate(srf.open_source(table, y="a"), like=first)
    unnamed = srf.accumulate(srf.open_source(FRAME, y=LABELS), MAP)
    srf.accumulate(srf.open_source(table, x=[*"abc"], y="y"), like=unnamed)


@pytest.mark.parametrize("of_dask", [False, True])
def test_labels_of_a_data_array_are_names(of_dask):
    X = xarray.DataArray(FRAME.to_numpy(), dims=["row", "col"], coords={"col": [*"abc"]})
    X = X.chunk(row=10) if of_dask else X
    turned = X.sel(col=[*"cba"])
    for rows in (FRAME, X):
        classifier = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(rows, LABELS)
        right = classifier.predict(FRAME)
        assert np.array_equal(classifier.predict(X), right)
        assert np.array_equal(classifier.predict(turned), right)
        assert classifier.evaluate(turned, LABELS)["n_rows_trained_on"] == 400
    other = X.assign_coords(col=[*"xyz"])
    with pytest.raises(ShapeError, match="lacks"):
        classifier.predict(other)
    first = srf.accumulate(srf.open_source(X, y=LABELS), MAP)
    again = srf.accumulate(srf.open_source(turned, y=LABELS), like=first)
    assert (first - again).n_rows == 0


@pytest.mark.parametrize("kind", ["frame", "dask", "parquet", "text"])
def test_the_index_of_a_frame_is_no_column(kind, tmp_path, caplog):
    table = FRAME.assign(y=LABELS, **({"d": "x"} if kind == "text" else {}))
    table.index = pd.Index(LABELS, name="id")
    shuffled = FRAME.assign(y=LABELS).sample(frac=1.0, random_state=0)
    if kind == "dask":
        sources = [srf.open_source(dd.from_pandas(table, npartitions=2), y="y")]
    elif kind == "parquet":
        table.to_parquet(tmp_path / "named.parquet")
        shuffled.to_parquet(tmp_path / "shuffled.parquet")
        sources = [
            srf.open_source(tmp_path / f"{name}.parquet", y="y") for name in ("named", "shuffled")
        ]
        assert "id, the index of pandas, is left out unless a model has it; to" in caplog.text
        taken = srf.open_source(tmp_path / "named.parquet", x="id,a", y="y")
        assert taken.columns.outputs == ("id", "a")
        assert srf.open_source(tmp_path / "named.parquet", x="a", y="id").n_features == 1
    else:
        sources = [srf.open_source(table, y="y"), srf.open_source(shuffled, y="y")]
    for source in sources:
        assert {column.name for column in source.columns.columns} - {"d"} == {*"abc"}
    assert srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(sources[0]).n_features_in_ < 5


def test_scores_take_names_and_targets_by_name():
    table = pd.concat([FRAME, TARGETS, pd.Series(LABELS, name="y")], axis=1)
    for kind in (
        srf.RandomFeatureRegressor(MAP, alpha=0.1),
        srf.KernelRidgeRegressor(srf.Gaussian(0.3)),
    ):
        right = kind.fit(FRAME, TARGETS).score(FRAME, TARGETS)
        assert right > 0.5
        assert kind.score(FRAME, SWAPPED) == pytest.approx(right)
        named = kind.fit(table[[*"abcpq"]], ["p", "q"])
        assert named.score(table[[*"abcpq"]], ["q", "p"]) == pytest.approx(right)
        assert named.score(FRAME, SWAPPED) == pytest.approx(right)
    exact = srf.KernelRidgeClassifier(srf.Gaussian(0.3)).fit(table[[*"abcy"]], "y")
    assert exact.score(table[[*"abcy"]], "y") == exact.score(FRAME, LABELS)
    assert exact.score(srf.open_source(TURNED, y=LABELS)) == exact.score(FRAME, LABELS)


def plain(y, first=0):
    """Rows from one on, without names, beside targets with them, as an array and as a stream."""
    X, y = FRAME.to_numpy()[first:], y[first:]
    blocks = [(X[i : i + 40], y[i : i + 40]) for i in range(0, len(X), 40)]
    return [srf.open_source(X, y=y), srf.IteratorSource(blocks)]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    "kind",
    [srf.RandomFeatureRegressor(MAP, alpha=0.1), srf.KernelRidgeRegressor(srf.Gaussian(0.3))],
)
def test_targets_of_sources_without_other_names_are_taken_by_name(kind, place, tmp_path):
    """They were taken by place, in silence."""
    X = FRAME.to_numpy()
    kind = clone(kind).fit(plain(TARGETS)[place])
    right = kind.score(X, TARGETS)
    assert right > 0.5
    for source in (*plain(SWAPPED), srf.open_source(FRAME, y=SWAPPED)):
        assert kind.score(source) == pytest.approx(right)
    renamed = TARGETS.rename(columns={"q": "r"})
    for source in plain(renamed):
        with pytest.raises(ShapeError, match=r"has the targets \['p', 'r'\], and learnt from were"):
            kind.score(source)
    named = clone(kind).fit(FRAME, TARGETS)  # also where columns have names, in frames
    for source in (*plain(SWAPPED), srf.open_source(FRAME, y=SWAPPED)):
        assert named.score(source) == pytest.approx(right)
    if isinstance(kind, srf.RandomFeatureRegressor):
        rows = plain(SWAPPED)[place]
        assert kind.evaluate(rows)["r2"] == pytest.approx(right)
        pytest.importorskip("matplotlib")
        told = report.write(tmp_path / "r.html", model=kind, data=plain(SWAPPED)[place])
        assert told["error"]["r2"] == pytest.approx(right)
        told = report.write(tmp_path / "r.html", model=kind.model_, data=plain(SWAPPED)[place])
        assert told["error"]["r2"] == pytest.approx(right)


@pytest.mark.parametrize(
    "first",
    [plain(TARGETS)[0], srf.open_source(FRAME.assign(p=TARGETS.p, q=TARGETS.q), y=["p", "q"])],
    ids=["plain", "table"],
)
def test_targets_of_sources_are_added_by_name(first):
    found = []
    for y in (TARGETS, SWAPPED):
        kind = srf.RandomFeatureRegressor(MAP, alpha=0.1).partial_fit(first)
        for source in (plain(y, 100)[1], plain(y, 50)[0]):
            kind.partial_fit(source)
        found.append(kind.coef_)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("first", "is_told"),
    [("5,,1", True), ("5,NA,1", True), (",0,1", False), ("a,,1", False), ("0,1,2", False)],
)
def test_a_first_line_of_numbers_and_holes_is_told(first, is_told, tmp_path, caplog):
    path = tmp_path / "rows.csv"
    path.write_text(first + "\n1,2,1\n3,4,0\n")
    assert srf.open_source(path).n_rows == 2
    assert ("is taken for names" in caplog.text) is is_told


def test_columns_that_drift_are_told_by_their_names():
    first = srf.accumulate(srf.ArraySource(FRAME, LABELS), MAP)
    with pytest.warns(StreamrfWarning, match="column 'b' drifted"):
        srf.accumulate(srf.ArraySource(FRAME.assign(b=FRAME.b + 100), LABELS), like=first)


def test_classes_said_with_earlier_sums_are_known():
    first = srf.accumulate(srf.ArraySource(FRAME, LABELS), MAP)
    later = srf.ArraySource(FRAME * 1.1, LABELS)
    assert srf.accumulate(later, like=first, classes=[0, 1, 2]).labels.tolist() == [0, 1, 2]


def test_weights_by_the_shares_of_each_day_are_told():
    first = srf.accumulate(srf.ArraySource(FRAME, LABELS), MAP, class_weight={0: 1, 1: 2})
    with pytest.warns(StreamrfWarning, match="weighs these rows by their own shares"):
        srf.accumulate(srf.ArraySource(FRAME * 1.1, LABELS), like=first, class_weight="balanced")


def test_scores_of_a_model_of_codes_are_those_of_its_file(tmp_path):
    labels = np.random.default_rng(1).integers(0, 7, len(FRAME))
    codes = srf.ErrorCorrectingCodes(9)
    model = srf.accumulate(srf.ArraySource(FRAME, labels), MAP, codes=codes).solve(0.1, codes)
    model.save(tmp_path / "model.h5")
    again = srf.load_model(tmp_path / "model.h5")
    X = FRAME.to_numpy()
    assert np.array_equal(again.scores(X), model.scores(X))


@pytest.mark.parametrize("name", ["sold.xlsx", "sold.JSON", "sold.txt"])
def test_predictions_are_not_written_under_endings_of_other_formats(name, tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    srf.accumulate(srf.ArraySource(FRAME, LABELS), MAP).solve(0.1).save(tmp_path / "model.h5")
    output = tmp_path / name
    said = refused("predict", tmp_path / "model.h5", tmp_path / "rows.csv", "-o", output)
    assert "not written in the format of this ending; use .h5, .hdf5" in said
    assert not output.exists()


def words_of(labels):
    return ["x" if label > 1 else str(label) for label in labels]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (words_of, str),  # 1, 2 and x on one day, numbers alone on the next
        (str, float),  # 0, 1 and 0.0, 1.0
        (float, str),
    ],
)
def test_labels_of_a_later_file_are_read_as_those_learnt(first, later, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = LABELS.copy()
    labels[:200:3] = 2 if first is words_of else labels[:200:3]
    texts = (
        [first(label) for label in labels[:200]]
        if first is not words_of
        else words_of(labels[:200])
    )
    FRAME[:200].assign(y=texts).to_csv("mon.csv", index=False)
    FRAME[200:].assign(y=[later(label) for label in LABELS[200:]]).to_csv("tue.csv", index=False)
    options = "--map fourier --kernel gaussian --gamma 0.3 --components 64 --alpha 0.1"
    answer("fit", "mon.csv", "--y", "y", *options.split(), "--statistics", "mon.h5", "--model", "m")
    answer("fit", "tue.csv", "--y", "y", "--like", "mon.h5", "--statistics", "tue.h5")
    answer("stats", "merge", "mon.h5", "tue.h5", "-o", "both.h5")
    known = srf.load_statistics("mon.h5").labels
    assert srf.load_statistics("both.h5").labels.tolist() == known.tolist()
    assert answer("evaluate", "m", "tue.csv", "--y", "y")["n_rows"] == 200
    estimator = srf.RandomFeatureClassifier(MAP, alpha=0.1)
    for day in ("mon", "tue"):
        estimator.partial_fit(srf.open_source(f"{day}.csv", y="y"))
    assert estimator.classes_.tolist() == known.tolist()


class Exporter:
    """A table of a library that scikit-learn does not know."""

    def __init__(self, frame):
        self._table = pa.table(frame)
        self.shape = self._table.shape

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [Exporter, pa.RecordBatch.from_pandas])
def test_tables_that_scikit_learn_does_not_know_have_names(kind):
    classifier = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(kind(FRAME), LABELS)
    assert classifier.feature_names_in_.tolist() == [*"abc"]
    right = classifier.predict(FRAME)
    assert np.array_equal(classifier.predict(kind(FRAME)), right)
    assert np.array_equal(classifier.model_.predict(kind(TURNED)), right)
    for estimator in (classifier, srf.KernelRidgeClassifier(srf.Gaussian(0.3)).fit(FRAME, LABELS)):
        with pytest.raises(ValueError, match="feature names should match"):
            estimator.predict(kind(TURNED))
    components = srf.RandomFeaturePCA(2, MAP).fit(kind(FRAME))
    assert np.array_equal(components.transform(kind(FRAME)), components.transform(FRAME))


def test_an_output_that_the_pattern_of_the_data_would_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    srf.accumulate(srf.ArraySource(FRAME, LABELS), MAP).solve(0.1).save("model.h5")
    said = refused("predict", "model.h5", "*.csv", "-o", "out.csv")
    assert "would be one of the files read from *.csv the next time" in said
    answer("predict", "model.h5", "r*.csv", "-o", "out.csv")
    (tmp_path / "d1").mkdir()
    FRAME.to_csv("d1/rows.csv", index=False)
    for pattern in ("d*/*.csv", "**/*.csv", "d1/**/*.csv"):
        assert "would be one of" in refused("predict", "model.h5", pattern, "-o", "d1/new.csv")
    answer("predict", "model.h5", "d*/*.csv", "-o", "new.csv")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_durations_of_a_frame_are_seconds_wherever_they_are(library, tmp_path):
    table = FRAME[["a", "b"]].assign(wait=pd.to_timedelta(np.arange(400) % 60, unit="min"))
    table.assign(y=LABELS).to_parquet(tmp_path / "rows.parquet")
    frame = pl.from_pandas(table) if library == "polars" else table
    classifier = srf.RandomFeatureClassifier(MAP, normalize="standard", alpha=0.1)
    right = classifier.fit(frame, LABELS).score(frame, LABELS)
    assert classifier.score(srf.open_source(tmp_path / "rows.parquet", y="y")) == right
    exact = srf.KernelRidgeClassifier(srf.Gaussian(0.3), normalize="standard").fit(frame, LABELS)
    assert exact.score(frame, LABELS) > 0.9


@pytest.mark.parametrize(
    ("X", "cure"),
    [
        (iter([FRAME]), r"X is a list_iterator; use open_source\(X\)"),
        (pa.table(FRAME).to_reader(), r"X is a RecordBatchReader; use open_source\(X\)"),
        ("rows.csv", r"X is the path 'rows.csv'; use open_source\('rows.csv', y=...\)"),
    ],
)
def test_what_only_sources_read_is_refused_with_the_cure(X, cure):
    for estimator in (srf.RandomFeatureClassifier(MAP), srf.KernelRidgeClassifier()):
        with pytest.raises(ParameterError, match=cure):
            estimator.fit(X, LABELS)
    fitted = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(FRAME, LABELS)
    with pytest.raises(ParameterError, match=cure):
        fitted.evaluate(X, LABELS)


def test_messages_of_commands_name_options_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(y=LABELS).to_csv("rows.csv", index=False)
    fit = ["fit", "rows.csv", "--y", "y", "--map", "fourier", "--kernel", "gaussian"]
    fit += ["--statistics", "s.h5"]
    assert refused(*fit, "--gamma", "0").startswith("--gamma must be a positive number")
    answer(*fit, "--gamma", "0.3", "--components", "64")
    said = refused("evaluate", "s.h5", "rows.csv", "--y", "y")
    cure = "; give the file of streamrf fit or solve --model"  # and no function of Python
    assert said == "s.h5 holds statistics, not a model" + cure


def test_brackets_in_a_pattern_stand_for_the_characters_in_them(tmp_path):
    for number in (1, 2, 3):
        np.save(tmp_path / f"X{number}.npy", np.full((5, 2), float(number)))
        np.save(tmp_path / f"y{number}.npy", np.full(5, number))
    for x, numbers in (("X[12]", [1, 2]), ("X[!12].npy", [3])):
        source = srf.open_source(tmp_path, x=x, y=x.replace("X", "y"))
        assert sorted({int(label) for block in source.blocks() for label in block.y}) == numbers
        assert source.n_rows == 5 * len(numbers)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("is_saved", [False, True])
def test_sums_know_the_names_of_targets_beside_rows_without(place, is_saved, tmp_path):
    """They were taken by place, in silence, by `like=` and by models."""
    first = srf.accumulate(plain(TARGETS)[place], MAP)
    if is_saved:
        first.save(tmp_path / "s.h5")
        first = srf.load_statistics(tmp_path / "s.h5")
    assert first.encoder.target_names == ("p", "q")
    X = FRAME.to_numpy()[:100] + 0.1
    right, turned, by_place = (
        (first + srf.accumulate(srf.open_source(X, y=y[:100]), like=first)).solve(0.1).coef
        for y in (TARGETS, SWAPPED, SWAPPED.to_numpy())
    )
    assert np.array_equal(right, turned)
    assert not np.array_equal(right, by_place)
    with pytest.raises(ShapeError, match=r"has the targets \['p', 'r'\]"):
        srf.accumulate(plain(TARGETS.rename(columns={"q": "r"}))[place], like=first)
    model = first.solve(0.1)
    if is_saved:
        model.save(tmp_path / "m.h5")
        model = srf.load_model(tmp_path / "m.h5")
    figures = [model.evaluate(source)["r2"] for y in (TARGETS, SWAPPED) for source in plain(y)]
    assert figures == pytest.approx([figures[0]] * 4)


@pytest.mark.parametrize(
    "kind",
    [srf.RandomFeatureRegressor(MAP, alpha=0.1), srf.KernelRidgeRegressor(srf.Gaussian(0.3))],
)
def test_labels_of_a_data_array_are_names_of_targets(kind):
    X, (y, swapped) = FRAME.to_numpy(), map(labelled, (TARGETS, SWAPPED))
    kind = clone(kind).fit(X, y)
    assert kind.score(X, swapped) == pytest.approx(kind.score(X, TARGETS))
    assert kind.score(srf.open_source(X, y=swapped)) == pytest.approx(kind.score(X, TARGETS))


@pytest.mark.parametrize(
    "convert",
    [
        FRAME.copy,
        lambda: pl.from_pandas(FRAME),
        lambda: FRAME.assign(k=pd.Categorical(["u", "v"] * 200)),
    ],
)
def test_a_data_array_stands_beside_a_table(convert):
    rows = convert()
    for y in (labelled(TARGETS), labelled(TARGETS).chunk()):
        source = srf.open_source(rows, y=y)
        assert source.columns.targets == ("p", "q")
        right = srf.accumulate(srf.open_source(rows, y=TARGETS), MAP).solve(0.1).coef
        np.testing.assert_array_equal(srf.accumulate(source, MAP).solve(0.1).coef, right)
        kind = srf.RandomFeatureRegressor(MAP, alpha=0.1).fit(rows, y)
        assert kind.score(rows, labelled(SWAPPED)) == pytest.approx(kind.score(rows, TARGETS))
    one = labelled(TARGETS)[:, 0]
    y = next(iter(srf.open_source(rows, y=one).blocks())).y
    np.testing.assert_array_equal(y, TARGETS.p)


def labelled(frame):
    coordinates = {"target": list(frame.columns)}
    return xarray.DataArray(frame.to_numpy(), dims=("row", "target"), coords=coordinates)


def test_sums_of_targets_in_another_order_are_not_merged():
    first = srf.accumulate(plain(TARGETS)[0], MAP)
    second = srf.accumulate(plain(TARGETS, 100)[0], like=first)
    second = replace(second, encoder=replace(second.encoder, targets=("q", "p")))
    with pytest.raises(MergeError, match="other targets, or in another order"):
        first + second


@pytest.mark.parametrize("is_source", [False, True])
def test_estimators_keep_names_of_targets_in_their_sums(is_source, tmp_path):
    X = FRAME.to_numpy()
    rows = (srf.open_source(X, y=TARGETS),) if is_source else (X, TARGETS)
    for kind in (
        srf.RandomFeatureRegressor(MAP, alpha=0.1).fit(*rows),
        srf.RandomFeatureRegressor(MAP, alpha=0.1).partial_fit(*rows),
    ):
        assert kind.statistics_.encoder.target_names == ("p", "q")
        kind.save(tmp_path / "m.h5")
        kept = srf.load_model(tmp_path / "m.h5")
        assert kept.score(plain(SWAPPED)[0]) == pytest.approx(kind.score(X, TARGETS))
        assert kept.score(X, SWAPPED) == pytest.approx(kind.score(X, TARGETS))


@pytest.mark.parametrize("beside", ["array of Dask", "frame"])
@pytest.mark.parametrize("kind", ["frame", "series", "array", "labelled"])
def test_targets_of_dask_stand_beside_other_rows(kind, beside):
    """They ended in errors of Dask, pandas and Arrow."""
    rows = {"array of Dask": da.from_array(FRAME.to_numpy(), chunks=(100, 3)), "frame": FRAME}
    y = {
        "frame": dd.from_pandas(TARGETS, npartitions=3),
        "series": dd.from_pandas(TARGETS.p, npartitions=3),
        "array": da.from_array(TARGETS.to_numpy(), chunks=(130, 2)),
        "labelled": labelled(TARGETS).chunk(),
    }[kind]
    source = srf.open_source(rows[beside], y=y)
    found = np.concatenate([block.y for block in source.blocks()])
    np.testing.assert_array_equal(found, TARGETS.p if kind == "series" else TARGETS)


def test_targets_of_dask_may_have_chunks_of_unknown_size_beside_a_frame():
    unknown = dd.from_pandas(TARGETS, npartitions=3).to_dask_array()
    found = srf.accumulate(srf.open_source(FRAME, y=unknown), MAP)
    known = srf.accumulate(srf.open_source(FRAME, y=TARGETS.to_numpy()), MAP)
    assert np.array_equal(found.solve(0.1).coef, known.solve(0.1).coef)
