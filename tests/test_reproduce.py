"""The reproductions: what they share, and small cells of the CRAFTMaps scripts on made-up rows."""

import importlib
import json
import math

import h5py
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.preprocessing import normalize

pytest.importorskip("matplotlib", reason="the reproductions draw with the extra 'plots'")

import streamrf as srf

KERNEL = srf.Polynomial(degree=3, coef0=1.0)
CIRCUMSTANCES = {
    "commit": "abc",
    "python": "3",
    "versions": {"numpy": "2", "sklearn": "1"},
    "cpu": "a cpu",
    "cores": 1,
}

pytestmark = pytest.mark.usefixtures("one_thread", "reproduction")


@pytest.fixture
def harness():
    import harness

    return harness


@pytest.fixture
def maps():
    import craftmaps_maps

    return craftmaps_maps


@pytest.fixture
def exact():
    import craftmaps_exact

    return craftmaps_exact


@pytest.fixture
def data(harness, tmp_path, monkeypatch):
    """Ten noisy classes in 16 columns, 400 rows to learn from and 200 to test, as two data sets."""
    import craftmaps_reconstruction

    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 100, (10, 16))
    y = rng.integers(0, 10, 600)
    X = np.clip(centres[y] + 15 * rng.standard_normal((600, 16)), 0, 255).astype(np.uint8)
    for name in ("pendigits", "mnist"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["train/X"], file["train/y"] = X[:400], y[:400]
            file["test/X"], file["test/y"] = X[400:], y[400:]
    monkeypatch.setenv("STREAMRF_DATA", str(tmp_path))
    harness.load.cache_clear()
    craftmaps_reconstruction.sample.cache_clear()
    yield harness.load("pendigits")
    harness.load.cache_clear()
    craftmaps_reconstruction.sample.cache_clear()


def test_a_run_goes_on_after_the_last_whole_line(harness, tmp_path):
    path = tmp_path / "folder" / "cells.jsonl"
    cells = [{"width": width, "seed": seed} for width in (1, 2) for seed in range(2)]
    seen = []

    def work(cell):
        seen.append(cell)
        return {"figure": cell["width"] + 0.5 * cell["seed"]}

    harness.Results(path).run(cells[:3], work)
    whole = path.read_text()
    path.write_text(whole[:-9])  # killed while it wrote the third
    results = harness.Results(path)
    assert [record["seed"] for record in results.records] == [0, 1]
    results.run(cells, work)
    assert seen == [*cells[:3], *cells[2:]]
    again = harness.Results(path)
    assert all(again.is_finished(cell) for cell in cells)
    assert [record["figure"] for record in again.records] == [1, 1.5, 2, 2.5]
    assert all(
        json.loads(line)["circumstances"]["cores"] >= 1 for line in path.read_text().splitlines()
    )


def test_no_cell_starts_after_the_time_given(harness, tmp_path):
    results = harness.Results(tmp_path / "cells.jsonl")
    results.run([{"seed": 0}], lambda cell: {}, minutes=-1)
    assert results.records == []


def test_summaries_are_means_and_deviations_over_seeds(harness, rng):
    values = rng.standard_normal((2, 5))
    records = [
        {"map": name, "seed": seed, "error": values[i, seed], "seconds": 2.0}
        for seed in range(5)
        for i, name in enumerate("ab")
    ]
    rows = harness.summary([*records, {"map": "c", "error": 1.0, "seconds": 0.0}], ["map"], "error")
    for row, row_values in zip(rows[:2], values, strict=True):
        assert row["mean"] == pytest.approx(row_values.mean())
        assert row["std"] == pytest.approx(row_values.std(ddof=1))
        assert (row["n"], row["seconds"]) == (5, 2.0)
    assert rows[2]["mean"] == 1
    assert math.isnan(rows[2]["std"])
    (beside, _, alone) = harness.beside(rows, [{"map": "a", "theirs": 2.0}], ["map"], "theirs")
    assert beside["paper"] == 2
    assert beside["ratio"] == pytest.approx(values[0].mean() / 2)
    assert "paper" not in alone


def test_rows_survive_a_csv(harness, tmp_path):
    rows = [{"map": "CM RFM", "width": 300, "error": 2.25, "up": None}, {"map": "TS", "more": 1}]
    harness.write_csv(tmp_path / "new" / "rows.csv", rows)
    first, second = harness.read_csv(tmp_path / "new" / "rows.csv")
    assert first == {**rows[0], "more": None}
    assert second == {"map": "TS", "width": None, "error": None, "up": None, "more": 1}


def test_a_table_shows_the_columns_asked_for(harness):
    rows = [{"map": "TS", "error": 2.345, "n": 5}, {"map": "RFM", "error": math.nan}]
    table = harness.table(rows, {"map": "", "error": ".1f"})
    assert table.splitlines() == [
        "| map | error |",
        "|-----|-------|",
        "| TS  | 2.3   |",
        "| RFM |       |",
    ]


def test_publishing_changes_nothing_but_its_own_part(harness, tmp_path, monkeypatch):
    page, other = tmp_path / "page.md", tmp_path / "docs" / "other.md"
    other.parent.mkdir()
    page.write_text("a\n<!-- begin one -->\nold\n<!-- end one -->\nb\n")
    other.write_text("<!-- begin two -->\n<!-- end two -->\n")
    monkeypatch.setattr(harness, "PAGE", page)
    monkeypatch.setattr(harness, "DOCS", other.parent)
    harness.publish("one", "new")
    harness.publish("one", "newer")
    harness.publish("two", "text")
    assert page.read_text() == "a\n<!-- begin one -->\n\nnewer\n\n<!-- end one -->\nb\n"
    assert other.read_text() == "<!-- begin two -->\n\ntext\n\n<!-- end two -->\n"
    with pytest.raises(SystemExit, match="three"):
        harness.publish("three", "text")


def test_rows_and_provenance_of_earlier_runs_stay(harness, tmp_path, monkeypatch):
    path, page = tmp_path / "rows.csv", tmp_path / "page.md"
    earlier = [{"a": 1, "b": "x", "n": 5}, {"a": 2, "b": "y", "n": 1}]
    assert harness.with_earlier(path, earlier, ("a",)) == earlier
    harness.write_csv(path, earlier)
    fewer, more, other = ({"a": a, "b": "new", "n": n} for a, n in ((1, 3), (2, 3), (3, 1)))
    found = harness.with_earlier(path, [fewer, more, other], ("a",), "n")
    assert found == [earlier[0], more, other]
    assert harness.with_earlier(path, [fewer], ("a",)) == [fewer, earlier[1]]

    monkeypatch.setattr(harness, "PAGE", page)
    monkeypatch.setattr(harness, "DOCS", tmp_path)
    versions = {"numpy": "2", "sklearn": "1"}
    made = {"commit": "c1", "cores": 2, "cpu": "one", "python": "3", "versions": versions}
    records = [{"circumstances": made}]
    line = harness.provenance(records)
    page.write_text("<!-- begin it -->\n\ntext\n\nMade at c0 on none.\n\n<!-- end it -->")
    for _ in range(2):  # the same line is there once
        harness.publish("it", harness.with_earlier_provenance("it", records))
    assert page.read_text().count("Made at") == 2
    assert f"Made at c0 on none.\n\n{line}" in page.read_text()


def test_a_figure_is_near_the_papers_within_a_factor_either_way(harness):
    ratios = (0.9, 0.91, 1.0, 1.0999, 1.11)
    assert harness.count_sides({"ratio": ratio} for ratio in ratios) == {
        "cells": 5,
        "near": 3,
        "lower": 1,
        "higher": 1,
    }


def test_the_counts_of_the_page_are_those_of_the_csv_files(harness, monkeypatch):
    import counts

    written = {}
    monkeypatch.setattr(harness, "publish", written.__setitem__)
    monkeypatch.setattr("sys.argv", ["counts", "--docs"])
    counts.main()
    for name, text in written.items():
        part = f"<!-- begin {name} -->\n\n{text}\n\n<!-- end {name} -->"
        assert part in harness.PAGE.read_text()


def test_counts_are_of_cells_of_the_paper(harness):
    import counts

    rows = counts.read("craftmaps_table1")
    total = len(harness.read_csv(harness.PAPER / "hamid-2014-table1.csv"))
    left = sum(row["cells"] for row in counts.never_run(rows))
    (reading, *_) = counts.verdict(counts.tables_of(rows))
    assert reading["cells"] + left == total
    only = [row for row in rows if row["method"] == "CM TS" and row["part"] == "pendigits"]
    only += [{**row, "method": "TS", "mean": row["mean"] + 1, "paper": 0.0} for row in only]
    (wins,) = counts.compact_wins(only, [("CM TS", "TS")])
    assert (wins["cells"], wins["here"], wins["in the paper"]) == (5, 5, 0)


def test_filters_choose_cells(harness):
    cells = [{"map": name, "width": width} for name in "ab" for width in (1, 2, 3)]
    assert harness.chosen(cells, ["map=b", "width=1,3"]) == [cells[3], cells[5]]
    assert harness.chosen(cells, []) == cells
    assert harness.chosen([], []) == []


def test_a_filter_may_name_a_value_that_holds_a_comma(harness):
    cells = [{"part": part} for part in ("mnist", "mnist, E < d", "usps")]
    assert harness.chosen(cells, ["part=mnist, E < d"]) == [cells[1]]
    assert harness.chosen(cells, ["part=mnist,usps"]) == [cells[0], cells[2]]


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (["map=c"], "no cell has map 'c'; there are 'a', 'b'$"),
        (["width=1,4"], "no cell has width '4'; there are '1', '2'$"),
        (["maps=a"], "no setting 'maps', but map, width, up$"),
        (["a"], "no setting 'a'"),
        (["up=None"], "no cell has up 'None'; there are '8'$"),
        (["map=a", "up=8"], "no cell agrees with all of --only 'map=a', 'up=8'$"),
    ],
)
def test_a_filter_that_chooses_nothing_is_told(harness, only, message):
    cells = [{"map": "a", "width": 1}, {"map": "b", "width": 2, "up": 8}]
    with pytest.raises(SystemExit, match=message):
        harness.chosen(cells, only)


@pytest.mark.parametrize(
    "name",
    [
        *("craftmaps_best", "craftmaps_figure2", "craftmaps_figure5", "craftmaps_figure6"),
        *("craftmaps_figure7a", "craftmaps_table1", "kar_karnick_figures", "kar_karnick_table1"),
        *("craftmaps_layout", "craftmaps_costs", "craftmaps_coil20", "craftmaps_figure7c"),
        *("kar_karnick_why", "kar_karnick_hinge"),
    ],
)
def test_docs_are_left_alone_while_no_cell_is_finished(harness, name, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("old")
    monkeypatch.setattr(harness, "PAGE", page)
    monkeypatch.setattr(harness, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(harness.Results, "run", lambda *_: None)
    monkeypatch.setattr("sys.argv", [name, "--docs", "--results", str(tmp_path / "results")])
    with pytest.raises(SystemExit, match="--docs has nothing to write: no cell is finished in"):
        importlib.import_module(name).main()
    assert not (tmp_path / "docs").exists()
    assert page.read_text() == "old"


def test_every_cell_of_the_papers_table_that_is_run_has_a_figure_beside(data):
    import craftmaps_table1 as table1

    known = {(row["part"], row["method"], row["n_components"]) for row in table1.paper()}
    cells = table1.cells()
    methods = {cell["method"] for cell in cells}
    assert methods == set(table1.METHODS)
    for cell in cells:
        method = "Exact" if cell["method"] in table1.EXACT else cell["method"]
        assert (cell["part"], method, cell["n_components"]) in known
    by_decoding = len(table1.METHODS), len(table1.MAPS)  # the exact rows have one only
    for decode, n_methods in zip(table1.WORDS, by_decoding, strict=True):
        here = [cell for cell in cells if cell["decode"] == decode]
        assert sum(cell["part"] == "pendigits" for cell in here) == 5 * 5 * n_methods


def targets_of(data):
    return 2.0 * (data.y[:, np.newaxis] == np.arange(10)) - 1


def ridge_by_hand(data, rows, alpha, X, y):
    """Error on X of scikit-learn's kernel ridge regression on some training rows."""
    unit = normalize(data.X[rows].astype(float))
    ridge = KernelRidge(alpha=alpha, kernel="poly", degree=3, gamma=1, coef0=1)
    ridge.fit(unit, targets_of(data)[rows])
    return 100 * np.mean(ridge.predict(normalize(X.astype(float))).argmax(axis=1) != y)


def figures_by_hand(data, exact, rows, held):
    """Penalty, error on the rows held out and on the test rows of ridge on `rows` alone."""
    unit = normalize(data.X[rows].astype(float))
    scale = KERNEL(unit).trace() / len(rows)
    alphas = exact.RELATIVE_ALPHAS[exact.RELATIVE_ALPHAS >= 1e-6] * scale  # well conditioned
    X, y = data.X[held], data.y[held]
    error, alpha = min((ridge_by_hand(data, rows, alpha, X, y), alpha) for alpha in alphas)
    return error, alpha, ridge_by_hand(data, rows, alpha, data.X_test, data.y_test)


@pytest.fixture
def conditioned(exact, monkeypatch):
    monkeypatch.setattr(exact, "RELATIVE_ALPHAS", 10.0 ** np.arange(-6, 1))
    return exact


def assert_figures(found, expected):
    error, alpha, test_error = expected
    assert found["alpha"] == pytest.approx(alpha)
    assert (found["held_out_percent"], found["error_percent"]) == pytest.approx((error, test_error))
    assert test_error < 60  # chance errs by 90


@pytest.mark.parametrize("n_rows", [40, 100])
def test_random_rows_are_learnt_from_and_others_choose_the_penalty(data, conditioned, n_rows):
    found = conditioned.random_ridge(data, KERNEL, n_rows, seed=3)
    order = np.random.default_rng(3).permutation(400)
    assert_figures(found, figures_by_hand(data, conditioned, order[:n_rows], order[n_rows:]))


@pytest.mark.parametrize("n_rows", [10, 14])
def test_rows_are_chosen_among_those_that_the_penalty_is_not_chosen_on(
    data, conditioned, monkeypatch, n_rows
):
    chosen = []
    choose_rows = conditioned.choose_rows

    def choose(X, y, *others):
        chosen.append((len(X), choose_rows(X, y, *others)))
        return chosen[-1][1]

    monkeypatch.setattr(conditioned, "choose_rows", choose)
    found = conditioned.chosen_ridge(data, KERNEL, n_rows, seed=3)
    ((n_pool, places),) = chosen
    order = np.random.default_rng(3).permutation(400)
    assert n_pool == 320
    rows = order[80:][places]
    assert_figures(found, figures_by_hand(data, conditioned, rows, order[:80]))


@pytest.mark.parametrize("n_rows", [2, 7, 40, 300])
def test_rows_chosen_are_as_many_as_asked_for(data, exact, maps, n_rows):
    X = maps.unit_rows(data.X)
    rows = exact.choose_rows(X, data.y, KERNEL, n_rows, seed=0)
    assert len(np.unique(rows)) == len(rows) == n_rows


def test_prototypes_are_the_rows_nearest_to_the_centres(exact, rng):
    X, y = rng.standard_normal((300, 4)), np.arange(300) % 3
    rows = exact._prototypes(X, y, np.arange(300), 3, seed=0)
    for label, row in enumerate(rows):
        own = np.flatnonzero(y == label)
        distances = np.linalg.norm(X[own] - X[own].mean(axis=0), axis=1)
        assert row == own[distances.argmin()]


def test_rows_are_added_from_the_hardest(data, exact, maps):
    X = maps.unit_rows(data.X)
    rows = exact.choose_rows(X, data.y, KERNEL, 80, seed=0)
    first, more = rows[:40], rows[40:50]
    alpha = exact.ROUND_ALPHA * KERNEL(X[first]).trace() / 40
    ridge = KernelRidge(alpha=alpha, kernel="poly", degree=3, gamma=1, coef0=1)
    outputs = ridge.fit(X[first], targets_of(data)[first]).predict(X)
    of_class = outputs[np.arange(400), data.y]
    margins = of_class - np.where(targets_of(data) > 0, -np.inf, outputs).max(axis=1)
    margins[first] = np.inf
    n_hard = max(20, (margins < 0).sum())
    assert n_hard < 100
    assert set(more) <= set(np.argsort(margins)[:n_hard])


def test_ridge_errs_less_on_rows_chosen_than_at_random(data, exact):
    errors = [
        [ridge(data, KERNEL, 30, seed)["error_percent"] for seed in range(8)]
        for ridge in (exact.chosen_ridge, exact.random_ridge)
    ]
    assert np.mean(errors[0]) < 0.8 * np.mean(errors[1])


def test_spanned_is_ridge_regression_of_all_rows_on_the_columns_of_some(data, conditioned):
    found = conditioned.spanned_ridge(data, KERNEL, 25, seed=0)
    order = np.random.default_rng(0).permutation(400)
    X, X_test = (normalize(X.astype(float)) for X in (data.X, data.X_test))
    centres = X[order[:25]]
    columns, norm = KERNEL(X, centres), KERNEL(centres)
    w = np.linalg.solve(columns.T @ columns + found["alpha"] * norm, columns.T @ targets_of(data))
    wrong = (KERNEL(X_test, centres) @ w).argmax(axis=1) != data.y_test
    assert found["error_percent"] == pytest.approx(100 * wrong.mean())
    rest, held = order[:-80], order[-80:]
    scale = (columns[rest] ** 2).sum() / norm.trace()
    assert found["alpha"] / scale == pytest.approx(10 ** np.rint(np.log10(found["alpha"] / scale)))
    part = columns[rest].T @ columns[rest] + found["alpha"] * norm
    w = np.linalg.solve(part, columns[rest].T @ targets_of(data)[rest])
    wrong = (columns[held] @ w).argmax(axis=1) != data.y[held]
    assert found["held_out_percent"] == pytest.approx(100 * wrong.mean())


@pytest.mark.parametrize("decode", ["euclidean", "discriminant"])
@pytest.mark.parametrize("method", ["Fastfood", "RKS", "RFM", "TS", "CM RFM", "CM TS"])
def test_a_cell_of_table_1_is_a_fit_of_its_map(data, maps, method, decode):
    import craftmaps_table1 as table1

    features = maps.feature_map(method, srf.Polynomial(degree=9, coef0=1.0), 2.0, 64, 16)
    model = srf.RandomFeatureClassifier(
        features, alpha="auto", normalize="l2", codes=srf.OneVsRest(decode), random_state=1
    )
    error = 100 * model.fit(data.X, data.y).evaluate(data.X_test, data.y_test)["error"]
    cell = {"decode": decode, "part": "pendigits", "method": method, "n_components": 64, "seed": 1}
    cell = table1.with_gamma(cell, {("pendigits", 64): 2.0})
    found = table1.work(cell, [])
    assert found["error_percent"] == pytest.approx(error)
    assert found["alpha"] == model.alpha_
    if method == "RFM":
        assert features.h01
        assert not maps.feature_map(method, KERNEL, 0, 17, 16).h01
    if method.startswith("CM "):
        assert features.up.n_components == 8 * 64


def test_wide_cells_take_the_penalty_of_the_widest_that_chose_one(data, maps, monkeypatch):
    import craftmaps_table1 as table1

    monkeypatch.setattr(table1, "WIDEST_CHOSEN", 32)
    cell = {"part": "pendigits", "method": "TS", "n_components": 64, "seed": 0}
    cells = [{**cell, "decode": decode} for decode in table1.WORDS]
    records = [
        {**one, "n_components": 32, "alpha": factor * scale}
        for one, scale in zip(cells, (0.1, 1.0), strict=True)
        for factor in (1.0, 100.0)
    ]
    table1._last.clear()
    passes = []
    monkeypatch.setattr(
        table1.srf,
        "accumulate",
        lambda *a, own=srf.accumulate, **k: passes.append(a) or own(*a, **k),
    )
    for one, alpha in zip(cells, (1.0, 10.0), strict=True):
        features = maps.feature_map("TS", srf.Polynomial(degree=9), 0, 64, 16)
        model = srf.RandomFeatureClassifier(
            features,
            alpha=alpha,
            normalize="l2",
            codes=srf.OneVsRest(one["decode"]),
            random_state=0,
        )
        model.fit(data.X, data.y)
        found = table1.work(one, records)
        assert found["alpha"] == pytest.approx(alpha)
        error = 100 * model.evaluate(data.X_test, data.y_test)["error"]
        assert found["error_percent"] == pytest.approx(error)
    assert len(passes) == 1
    with pytest.raises(SystemExit, match="32"):
        table1.work({**cells[0], "method": "RFM"}, records)


def test_a_penalty_is_carried_from_the_records_with_all_settings_wanted(maps):
    records = [
        {"map": "a", "decode": "x", "alpha": 1.0, "circumstances": {}},
        {"map": "a", "decode": "x", "alpha": 100.0, "circumstances": {}},
        {"map": "a", "decode": "y", "alpha": 7.0, "circumstances": {}},
        {"map": "a", "alpha": 9.0, "circumstances": {}},
    ]
    assert maps.carry_penalty(records, {"map": "a", "decode": "x"}) == pytest.approx(10)
    with pytest.raises(SystemExit, match="'map': 'b'"):
        maps.carry_penalty(records, {"map": "b"})


def test_gamma_is_chosen_by_the_rows_held_out():
    import craftmaps_table1 as table1

    records = [
        {"part": "mnist", "n_components": width, "gamma": gamma, "held_out_percent": held}
        | {"seconds": 1.0, "error_percent": test}
        for width, gamma, held, test in (
            (300, 1.0, 3.0, 1.0),
            (300, 2.0, 2.0, 9.0),
            (300, 1.0, 2.5, 1.0),
            (400, 1.0, 1.9, 9.0),
        )
    ]
    assert table1.best_gammas(records) == {("mnist", 300): 2.0, ("mnist", 400): 1.0}


def test_gamma_is_chosen_where_a_map_takes_one():
    import craftmaps_table1 as table1

    wanted = [
        {"part": "pendigits", "method": method, "n_components": 64} for method in ("RKS", "TS")
    ]
    wanted += [
        {"part": "usps", "method": "Fastfood", "n_components": width} for width in (2048, 16384)
    ]
    wanted.append({"part": "mnist", "method": "CM TS", "n_components": 4096})
    columns = {(cell["part"], cell["n_components"]) for cell in table1.gamma_cells(wanted)}
    assert columns == {("pendigits", 64), ("usps", 1024)}


def test_the_best_map_is_chosen_by_the_rows_held_out_or_as_the_papers_is():
    import craftmaps_best as best

    cell = {"part": "pendigits", "n_components": 64, "setting": 1.0, "seed": 0, "seconds": 1.0}
    cell |= {"decode": "euclidean", "normalize": "l2"}
    records = [
        {**cell, "map": "a", "up_components": None, "held_out_percent": 2, "error_percent": 7},
        {**cell, "map": "b", "up_components": None, "held_out_percent": 3, "error_percent": 5},
        {**cell, "map": "a", "up_components": 512, "held_out_percent": 1, "error_percent": 4},
    ]
    drawn, pruned, any_ = best.chosen(best.compared(records))
    assert (drawn["mean"], drawn["beaten"], drawn["paper"]) == (7, "no", 5.83)
    assert (pruned["mean"], pruned["beaten"]) == (4, "yes")
    assert (any_["mean"], any_["family"]) == (4, best.ANY)
    assert [row["candidates"] for row in (drawn, pruned, any_)] == [2, 1, 3]
    turned = [{**record, "error_percent": 9 - record["error_percent"]} for record in records]
    _, _, any_ = best.chosen(best.compared(turned))
    assert (any_["mean"], any_["map"], any_["up_components"]) == (2, "a", None)


def best_records():
    """Records of two maps, one of which has one seed of two by discriminants, on MNIST."""
    cell = {"part": "mnist", "n_components": 4096, "normalize": "l2", "up_components": None}
    return [
        {**cell, "map": "StructuredFourier", "setting": gamma, "decode": decode, "seed": seed}
        | {"held_out_percent": held, "error_percent": error + seed, "seconds": 1.0}
        | {"circumstances": CIRCUMSTANCES}
        for gamma, decode, held, error, n_seeds in (
            (0.5, "euclidean", 3.0, 2.0, 2),
            (0.75, "euclidean", 2.0, 2.5, 2),
            (0.5, "discriminant", 3.0, 4.0, 2),
            (0.75, "discriminant", 1.0, 1.0, 1),
        )
        for seed in range(n_seeds)
    ]


def test_only_candidates_with_as_many_seeds_as_any_of_their_column_compete():
    import craftmaps_best as best

    rows = best.compared(best_records())
    assert [(row["setting"], row["decode"], row["n"]) for row in rows] == [
        (0.5, "euclidean", 2),
        (0.75, "euclidean", 2),
        (0.5, "discriminant", 2),
    ]
    drawn, any_ = best.chosen(rows)
    assert (drawn["mean"], drawn["candidates"]) == (3.0, 3)
    assert (any_["mean"], any_["candidates"]) == (2.5, 3)


def test_the_page_of_the_best_tells_its_candidates(harness, tmp_path, monkeypatch):
    import craftmaps_best as best

    rows = best.compared(best_records())
    text = best.page(best.chosen(rows), rows, best_records())
    assert (
        "- Any map, the best on the test rows: below the paper's best at 0 of 1 widths on mnist."
    ) in text.splitlines()
    assert (
        "- StructuredFourier as drawn, MNIST, 4096 components: "
        "3.00 % by largest outputs, 4.50 % by discriminants."
    ) in text.splitlines()
    assert "- mnist: StructuredFourier, gamma 0.5, 0.75." in text.splitlines()
    assert "the least of 3 to 3 mean test errors" in text
    monkeypatch.setattr(harness, "DOCS", tmp_path)
    best.draw(best.chosen(rows))
    assert (tmp_path / "craftmaps_best.png").stat().st_size > 1000


def test_log_axes_have_plain_numbers_and_ticks_that_were_set(harness, tmp_path):
    with harness.plot(tmp_path / "plot.png", 4) as panels:
        for axes, top in zip(panels, (2.8, 9.0, 500.0, 1e9), strict=True):
            axes.plot([300, 400, 700], [2.3, 2.4, top])
            axes.set(yscale="log")
            harness.mark_widths(axes, [300, 400, 700])
    for axes in panels:
        assert [text.get_text() for text in axes.get_xticklabels()] == ["300", "400", "700"]
    shown = [
        [text.get_text() for text in axes.get_yticklabels() if text.get_text()] for axes in panels
    ]
    assert {"2.4", "2.6"} <= set(shown[0])
    assert {"2", "5"} <= set(shown[1]) or {"2", "4", "6"} <= set(shown[1])
    assert {"10", "100"} <= set(shown[2])
    assert any("10^" in text for text in shown[3])


@pytest.mark.parametrize("up", [None, 256])
@pytest.mark.parametrize(
    ("name", "setting", "normalize"),
    [
        ("StructuredFourier", 1.0, "l2"),
        ("StructuredFourier", 2.0, "max"),
        ("RandomFourier, Laplacian", 0.3, "l2"),
        ("TreeSketch", 4, "l2"),
    ],
)
def test_a_cell_of_the_best_learns_more_than_chance(data, name, setting, normalize, up):
    import craftmaps_best as best

    best.accumulate_split.cache_clear()
    best.accumulate_pruned.cache_clear()
    cell = {"part": "pendigits", "n_components": 64, "up_components": up, "seed": 0}
    cell |= {"map": name, "setting": setting, "normalize": normalize}
    for decode in ("euclidean", "discriminant"):
        found = best.work({**cell, "decode": decode}, [])
        assert found["error_percent"] < 40
        assert found["held_out_percent"] < 40
    assert best.accumulate_pruned.cache_info().misses == 1


def test_reconstruction_errors_are_relative_to_the_deviation_of_the_kernel(data):
    from craftmaps_reconstruction import nrmse, sample

    X = sample("mnist", 0)
    assert X.shape == (400, 16)
    features = srf.TensorSketch(KERNEL, 64, random_state=0)
    Z = features.fit(X).transform(X)
    exact = polynomial_kernel(X, degree=3, gamma=1, coef0=1)
    expected = np.sqrt(np.mean((Z @ Z.T - exact) ** 2)) / exact.std()
    assert nrmse(srf.TensorSketch(KERNEL, 64, random_state=0), X) == pytest.approx(expected, 1e-4)


def test_cells_of_figure_5_are_errors_of_their_maps(data):
    import craftmaps_figure5 as figure5
    from craftmaps_reconstruction import nrmse, sample

    cell = {"map": "RFM", "n_components": 256, "up_components": None, "seed": 2}
    kernel = srf.Polynomial(degree=7, coef0=1.0)
    for measure in figure5.MEASURES:
        plain = srf.RandomMaclaurin(kernel, 256, measure=measure, random_state=2)
        found = figure5.work({**cell, "measure": measure})
        assert found == {"nrmse": nrmse(plain, sample("mnist", 0))}
    compact = figure5.work(
        {**cell, "map": figure5.COMPACT, "up_components": 4096, "measure": "geometric"}
    )
    assert 0 < compact["nrmse"] < figure5.work({**cell, "measure": "geometric"})["nrmse"]


def test_figure_5_draws_the_widest_less_often():
    import craftmaps_figure5 as figure5

    cells = figure5.cells()
    assert len({str(cell) for cell in cells}) == len(cells)
    draws = {}
    for cell in cells:
        key = cell["map"], cell["n_components"], cell["up_components"], cell["measure"]
        draws.setdefault(key, []).append(cell["seed"])
    plain = {key for key in draws if key[2] is None}
    assert len(plain) == len(figure5.WIDTHS) + 2 * 2 * 3 - 2  # the plain map's "geometric" is there
    assert len(draws) - len(plain) == 3 * 4
    for (_, _, up, _), seeds in draws.items():
        assert seeds == list(range(3 if up in (2**16, 2**17) else 4))


def test_cells_of_figures_6_and_7_compact_the_plain_map(data, monkeypatch):
    import craftmaps_figure6 as figure6
    import craftmaps_figure7a as figure7a

    monkeypatch.setattr(figure6, "UP", 1024)
    for script, cell in (
        (figure6.work, {"dataset": "mnist", "n_components": 64, "seed": 0}),
        (lambda cell: figure7a.work(cell, up=1024, down=64), {"degree": 7, "seed": 0}),
    ):
        plain, compact = (script({**cell, "map": name})["nrmse"] for name in ("RFM", "CM RFM"))
        assert 0 < compact < plain


def test_figure_7c_times_each_map_and_lays_the_papers_seconds_beside(
    harness, data, tmp_path, monkeypatch
):
    import craftmaps_figure7c as figure7c

    cells = figure7c.cells()
    assert len({str(cell) for cell in cells}) == len(cells)
    widest = [cell for cell in cells if cell["n_components"] == 2**16]
    assert [(cell["map"], cell["precision"]) for cell in widest] == [("CM RFM", "coarse")]
    monkeypatch.setattr(figure7c, "FIRST_ROWS", 100)
    monkeypatch.setattr(figure7c, "MOST", 63)
    circumstances = {"circumstances": harness.circumstances()}
    records = []
    for cell in ({**cells[0], "n_components": 32}, {**widest[0], "n_components": 64}):
        found = figure7c.work(cell)
        assert 0 < found["gram_s"] + found["features_s"] < found["pass_s"]
        wide = {"n_components": 128 * cell["n_components"], "seconds": 1.0} | circumstances
        records.append(cell | found | wide)
    records.append(records[0] | {"run": 1, "gram_s": 2.0 + records[0]["gram_s"]})
    rows = figure7c.compared(records)
    assert rows[0]["n"] == 2
    assert rows[0]["gram_s"] == pytest.approx(records[0]["gram_s"] + 1)
    assert "paper_gram_s" not in rows[0]
    assert (rows[1]["paper_features_s"], rows[1]["paper_gram_s"]) == (36.3, 26.2)
    assert "error_percent" in rows[0]


def test_cells_of_coil20_learn_from_one_half_and_are_tested_by_the_other(
    harness, data, tmp_path, monkeypatch
):
    import craftmaps_coil20 as coil20

    with h5py.File(tmp_path / "coil20.h5", "w") as file:
        file["X"], file["y"] = data.X, data.y
    halves = coil20.halves(1)
    assert len(halves.X) == len(halves.X_test) == 200
    rows = {row.tobytes() for row in (*halves.X, *halves.X_test)}
    assert rows == {row.tobytes() for row in data.X}
    monkeypatch.setattr(coil20, "KERNEL", KERNEL)
    exact = coil20.work({"method": coil20.EXACT, "n_components": 0, "seed": 1})["error_percent"]
    alphas = 10.0 ** np.arange(-9, 4)
    every = np.arange(200)
    by_hand = [ridge_by_hand(halves, every, a, halves.X_test, halves.y_test) for a in alphas]
    assert min(by_hand) <= exact <= min(by_hand) + 5
    monkeypatch.setattr(coil20, "WIDEST_CHOSEN", 64)  # wider ones take its penalty
    monkeypatch.setattr(coil20, "GAMMA_WIDTH", 32)
    for method in coil20.MAPS:
        narrow, wide = (
            coil20.work({"method": method, "n_components": width, "seed": 1}) for width in (64, 128)
        )
        assert wide["alpha"] == narrow["alpha"]
        assert wide["error_percent"] < 60
        assert narrow.get("gamma") in (coil20.GAMMAS if method in coil20.GAUSSIAN else (None,))
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("<!-- begin craftmaps coil20 -->\n<!-- end craftmaps coil20 -->\n")
    monkeypatch.setattr(harness, "DOCS", page.parent)
    cells = [
        {"method": method, "n_components": width, "seed": seed}
        for method, widths in ((coil20.EXACT, [0]), ("RFM", [64, 512]), ("TS", [64, 512]))
        for width in widths
        for seed in range(1 if width == 512 else 2)
    ]
    results = harness.Results(tmp_path / "cells.jsonl")
    results.run(cells, lambda cell: {"error_percent": 1.0 + cell["seed"]})
    coil20.write(coil20.compared(results.records), results.records)
    lines = page.read_text().splitlines()
    shown = [[field.strip() for field in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert shown[0] == ["method", "64", "512", "all"]
    assert shown[2:] == [
        ["Exact, all rows", "", "", "1.50 ± 0.71"],
        ["RFM", "1.50 ± 0.71", "1.00", ""],
        ["TS", "1.50 ± 0.71", "1.00", ""],
    ]
    assert (page.parent / "craftmaps_coil20.png").stat().st_size > 1000


def test_cells_of_figure_2_are_spectra_and_weights(data, monkeypatch):
    import craftmaps_figure2 as figure2
    from craftmaps_reconstruction import sample

    monkeypatch.setattr(figure2, "SAMPLE", 400)
    monkeypatch.setattr(figure2, "RANKS", [1, 2, 400])
    gram = polynomial_kernel(sample("mnist", 0).astype(float), degree=7, gamma=1, coef0=1)
    values = np.linalg.eigvalsh(gram)[::-1]
    found = figure2.spectrum("exact")
    assert found["eigenvalues"] == pytest.approx(values[[0, 1, 399]], abs=1e-9 * values[0])
    assert found["trace"] == pytest.approx(400 * 2**7)

    def small(name):
        return figure2.feature_map(name, width=64, up=256)

    low_rank = figure2.spectrum("CM TS", small)["eigenvalues"]
    assert low_rank[0] == pytest.approx(values[0], rel=0.5)
    assert low_rank[2] < 1e-9 * values[0]
    cell = {"panel": "weights", "map": "RFM", "division": "even or odd"}
    learnt = figure2.weights(cell, small)
    assert sum(learnt["histogram"]) == 64
    assert 0 <= learnt["small_percent"] < 100


def test_sums_of_deformed_rows_go_on_from_the_last_file(data, tmp_path, monkeypatch):
    import mnist8m

    monkeypatch.setattr(mnist8m, "CHOICE_ROWS", 600)
    monkeypatch.setattr(mnist8m, "HELD", 100)
    monkeypatch.setattr(mnist8m, "PREFIXES", (400, 800, 1200))
    mnist8m.images.cache_clear()
    widest = [one for one in mnist8m.cells() if one["n_components"] == 8192]
    first, *rest = mnist8m.with_choices([one for one in widest if one["map"] == "convolution"])
    assert (first["map"], first["setting"], first["n_components"]) == ("convolution", 7, 4096)
    assert [one["n_components"] for one in rest] == [8192] * 6
    trial = {"map": "structured", "n_components": 64, "setting": 0.6, "amount": 0.5}
    chosen = {**trial, **mnist8m.choice(trial)}
    assert chosen["error_percent"] < 60  # of ten classes

    for name in "ab":
        (tmp_path / name).mkdir()

    def cell(n_rows):
        return {"map": "structured", "n_components": 64, "precision": "exact", "n_rows": n_rows}

    found = [mnist8m.prefix(cell(n), tmp_path / "a", chosen) for n in (400, 800, 1200)]
    at_once = mnist8m.prefix(cell(1200), tmp_path / "b", chosen)
    assert found[-1] == at_once
    a, b = (srf.load_statistics(tmp_path / x / "structured-64-exact.stats.h5") for x in "ab")
    assert a.n_rows == b.n_rows == 1200
    assert np.array_equal(a.gram, b.gram)
    mnist8m.images.cache_clear()
