"""`streamrf solve`: models out of statistics files, as `Statistics.solve` and `path` give them."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import streamrf as srf
from cases import write_hdf5
from commands import answer, misused, refused, streamrf, told
from integers import assert_same_bytes, features

N, D = 900, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
LABELS = (X[:, 0] > 0).astype(np.int64) + 2 * (X[:, 1] > 0.3)
WORDS = np.array(["red", "green, light", "blue", "grey"])[LABELS]
VALUES = np.stack((X[:, 0] * X[:, 1], 100 + RNG.normal(size=N)), axis=1)
CODES = srf.ErrorCorrectingCodes(5, "hamming")


@pytest.fixture(scope="module")
def statistics():
    """Statistics by the name of their file."""
    made = {"classes.h5": (LABELS, {}), "folds.h5": (LABELS, {"folds": 4}), "words.h5": (WORDS, {})}
    made["values.h5"] = VALUES, {"regression": True, "folds": 3}
    made["bits.h5"] = LABELS, {"codes": srf.ErrorCorrectingCodes(3), "classes": range(4)}
    return {
        name: srf.accumulate(srf.ArraySource(X, y), features(40), random_state=0, **settings)
        for name, (y, settings) in made.items()
    }


@pytest.fixture(autouse=True)
def files(statistics, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, sums in statistics.items():
        sums.save(name)


def model_of(*arguments):
    """The figures told, and the model written."""
    figures = answer("solve", *arguments, "--model", "m.h5")
    return figures, srf.load_model("m.h5")


def assert_same_model(found, expected):
    assert_same_bytes(found.to_tree(), expected.to_tree())


def test_one_penalty_and_code(statistics):
    figures, model = model_of("classes.h5", "--alpha", "0.5")
    assert_same_model(model, statistics["classes.h5"].solve(0.5))
    assert (figures["alpha"], figures["criterion"], figures["alphas"]) == (0.5, None, [])
    assert (figures["n_rows"], figures["labels"], figures["n_outputs"]) == (N, [0, 1, 2, 3], 4)
    words = ("--codes", "error-correcting", "--bits", "5", "--decode", "hamming", "--seed", "3")
    figures, model = model_of("classes.h5", "--alpha", "0.5", *words)
    assert_same_model(model, statistics["classes.h5"].solve(0.5, CODES, random_state=3))
    assert figures["n_outputs"] == 5


@pytest.mark.parametrize(
    ("name", "criterion", "best"),
    [
        ("classes.h5", None, lambda sums, alphas: sums.path(alphas).best_alpha()),
        ("classes.h5", "evidence", lambda sums, alphas: sums.path(alphas).best_alpha("evidence")),
        ("folds.h5", None, lambda sums, alphas: sums.cross_validate(alphas).best_alpha()),
        ("folds.h5", "folds", lambda sums, alphas: sums.cross_validate(alphas).best_alpha()),
        ("folds.h5", "gcv", lambda sums, alphas: sums.path(alphas).best_alpha()),
        ("values.h5", None, lambda sums, alphas: sums.cross_validate(alphas).best_alpha()),
    ],
)
@pytest.mark.parametrize("alpha", ["auto", "0.01,1, 100,10000,1e9"])
def test_the_best_penalty(name, criterion, best, alpha, statistics):
    sums = statistics[name]
    chosen = () if criterion is None else ("--criterion", criterion)
    figures, model = model_of(name, "--alpha", alpha, *chosen)
    alphas = sums.alpha_grid() if alpha == "auto" else [0.01, 1, 100, 10_000, 1e9]
    assert model.alpha == figures["alpha"] == best(sums, alphas)
    assert [row["alpha"] for row in figures["alphas"]] == pytest.approx(list(alphas))
    assert figures["criterion"] == (criterion or ("folds" if sums.n_folds else "gcv"))


def test_a_penalty_for_each_target(statistics):
    sums = statistics["values.h5"]
    figures, model = model_of("values.h5", "--per-output", "--alpha", "0.1,1e6")
    expected = sums.cross_validate([0.1, 1e6]).best_alphas()
    np.testing.assert_array_equal(model.alpha, expected)
    assert figures["alpha"] == expected.tolist() == [0.1, 1e6]  # the second target is noise
    assert answer("info", "m.h5")["alpha"] == [0.1, 1e6]
    assert re.search(r"alpha +0.1, 1e\+06, one for each output\n", told("info", "m.h5"))
    assert "alpha     0.1, 1e+06, the best of 2" in told(
        "solve", "values.h5", "--per-output", "--alpha", "0.1,1e6", "--model", "m.h5"
    )


def test_weights_of_blocks(statistics):
    """The blocks of these statistics are the degrees of a Maclaurin map."""
    for name in ("values.h5", "classes.h5"):
        sums = statistics[name]
        n = int(sums.encoder.blocks.max()) + 1
        weights = [0.0, *[2.0] * (n - 1)]
        words = ",".join(map(str, weights))
        figures, model = model_of(name, "--alpha", "0.5", "--block-weights", words)
        assert_same_model(model, sums.solve(0.5, block_weights=weights))
        assert figures["block_weights"] == weights
        _, model = model_of(name, "--alpha", "0.5", "--block-weights", "auto")
        assert_same_model(model, sums.solve(0.5, block_weights="auto"))
        figures, model = model_of(name, "--block-weights", "auto")
        assert max(figures["block_weights"]) == 1
        again = sums.solve(figures["alpha"], block_weights=figures["block_weights"])
        np.testing.assert_array_equal(model.coef, again.coef)
    text = told("solve", "values.h5", "--block-weights", words, "--model", "m.h5")
    assert re.search(r"blocks +weights 0, 2, 2", text)
    said = misused("solve", "values.h5", "--block-weights", "1,x", "--model", "m.h5")
    assert "'x' is no number" in said
    said = refused("solve", "values.h5", "--block-weights", "1", "--model", "m.h5")
    assert "--block-weights must be" in said


def test_the_path_is_a_table(statistics):
    sums = statistics["folds.h5"]
    rows = answer("solve", "folds.h5", "--path", "--alpha", "0.1,10")["alphas"]
    path, folds = sums.path([0.1, 10]), sums.cross_validate([0.1, 10])
    expected = {
        "alpha": path.alphas,
        "dof": path.dof,
        "gcv": path.gcv,
        "log_evidence": path.log_evidence,
        "mse": folds.mse,
        "standard_error": folds.standard_error,
    }
    assert {name: [row[name] for row in rows] for name in rows[0]} == {
        name: column.tolist() for name, column in expected.items()
    }
    said = told("solve", "folds.h5", "--path", "--alpha", "0.1,10").splitlines()
    *_, names, first, second, _, mark = said
    assert names.split() == ["alpha", "dof", "gcv", "log", "evidence", "mse", "standard", "error"]
    assert len(names) == len(first) == len(second)
    assert [float(word.strip("*")) for word in first.split()] == pytest.approx(
        [column[0] for column in expected.values()], rel=1e-5
    )
    marked = [[word.endswith("*") for word in line.split()] for line in (first, second)]
    best = [path.gcv.argmin(), path.log_evidence.argmax(), folds.mse.argmin()]
    for number, line in enumerate(marked):
        assert line == [False, False, *(column == number for column in best), False]
    assert mark == "* the best by this column"


def test_a_path_writes_no_model_unless_asked():
    before = set(Path().iterdir())
    figures = answer("solve", "classes.h5", "--path")
    assert (figures["model"], figures["alpha"], len(figures["alphas"])) == (None, None, 17)
    assert set(Path().iterdir()) == before
    figures, model = model_of("classes.h5", "--path", "--alpha", "3")
    assert (figures["alpha"], figures["criterion"], len(figures["alphas"])) == (3, None, 1)
    assert model.alpha == 3


@pytest.mark.parametrize("alpha", ["auto", "0.5"])
def test_the_most_useful_features(alpha, statistics):
    sums = statistics["classes.h5"]
    figures, model = model_of("classes.h5", "--components", "12", "--alpha", alpha)
    pruned = sums.prune(12, None if alpha == "auto" else 0.5)
    expected = pruned.path().model() if alpha == "auto" else pruned.solve(0.5)
    assert_same_model(model, expected)
    assert figures["n_components"] == answer("info", "m.h5")["n_components"] == 12


def test_some_classes(statistics):
    figures, model = model_of("classes.h5", "--alpha", "1", "--classes", "3,1")
    assert figures["labels"] == [1, 3]
    assert_same_model(model, statistics["classes.h5"].solve(1.0).restrict_classes([1, 3]))
    figures, model = model_of("words.h5", "--alpha", "1", "--classes", 'red, "green, light"')
    assert figures["labels"] == ["green, light", "red"]
    assert set(model.predict(X)) == {"green, light", "red"}


def test_uncertainty(statistics):
    _, model = model_of("values.h5", "--alpha", "1", "--uncertainty")
    _, found = model.predict(X[:10], return_std=True)
    _, expected = (
        statistics["values.h5"].solve(1.0, uncertainty=True).predict(X[:10], return_std=True)
    )
    np.testing.assert_array_equal(found, expected)
    assert answer("info", "m.h5")["has_deviations"]
    assert "values and deviations" in told("info", "m.h5")


def test_bits_agreed_before_the_pass(statistics):
    _, model = model_of("bits.h5", "--alpha", "1")
    assert_same_model(model, statistics["bits.h5"].solve(1.0))
    line = refused("solve", "bits.h5", "--codes", "error-correcting", "--bits", "5", "--model", "n")
    assert "sums of the 3 bits of a code agreed before the pass, not of 5" in line
    line = refused("solve", "bits.h5", "--codes", "one-vs-rest", "--model", "n")
    assert "3 bits of a code agreed before the pass, not of one class against the rest" in line


def test_in_words():
    text = told("solve", "classes.h5", "--model", "m.h5")
    assert re.fullmatch(
        r"rows +900 of 6 columns, summed before\nfeatures +40\nclasses +4\n"
        r"alpha +\S+, the best of 17 by generalised cross-validation\n"
        r"time +\S+ m?s\nwritten +m\.h5\n",
        text,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.h5",), "there is no file none.h5"),
        (("classes.h5", "--alpha", "-1"), "alpha must be 'auto' or a number of at least 0"),
        (("classes.h5", "--alpha", "1,nan"), "alpha must be 'auto' or a number of at least 0"),
        (
            ("classes.h5", "--criterion", "folds"),
            "classes.h5 keeps no folds to leave out; use --cr",
        ),
        (
            ("classes.h5", "--classes", "1,7"),
            "there is no class '7'; there are ['0', '1', '2', '3'",
        ),
        *(
            (
                ("classes.h5", "--classes", one),
                f"--classes: a choice takes two classes or more, {got}",
            )
            for one, got in (("1", "got '1'"), ("1,1", "got '1,1'"), ("", "got ''"))
        ),
        (("values.h5", "--classes", "1"), "--classes is for classes; these statistics hold target"),
        (("values.h5", "--codes", "one-vs-rest"), "codes are for classes; these statistics hold"),
        (("classes.h5", "--components", "41"), "--components must be an integer from 1 to 40"),
        (("classes.h5", "--memory-limit", "1 KiB"), "holding statistics of "),
        (("nowhere.h5", "--memory-limit", "1 KiB"), "nowhere.h5"),
        (("classes.h5", "--model", "classes.h5"), "is read from too; choose another name"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    srf.load_statistics("classes.h5").solve(1.0).save("m.h5")
    before = Path("m.h5").read_bytes()
    line = refused("solve", "--model", "m.h5", *arguments)
    assert message in line, line
    assert Path("m.h5").read_bytes() == before


@pytest.mark.parametrize("option", [(), ("--alpha", "1"), ("--path",)])
def test_a_memory_limit_counts_what_is_held(monkeypatch, option):
    """It took 748 MiB at a limit of 500 MiB."""
    from streamrf.cli import solving
    from streamrf.training import solve_memory

    held = [0]
    monkeypatch.setattr(solve_memory, "resident_bytes", lambda: held[-1])
    command = ("solve", "classes.h5", "--model", "m.h5", *option, "--memory-limit", "64 MiB")
    told(*command)
    held.append(1 << 30)
    monkeypatch.setattr(solving, "_loaded", lambda path, limit: srf.load_statistics(path))
    line = refused(*command)
    told_held = "4 outputs beside 1.00 GiB of sums and Python takes about 1.02 GiB, above"
    assert f"{told_held} the memory limit of 64" in line, line


@pytest.mark.parametrize(
    ("option", "least"),
    [
        (("--alpha", "1"), 10 * 400**2 + 8 * 400 * 64),
        (("--alpha", "1", "--decode", "discriminant"), 80 * 400**2),
        ((), 20 * 8 * 400 * 64),  # coefficients of each penalty
    ],
)
def test_a_memory_limit_counts_classes(option, least, monkeypatch, tmp_path):
    """It had the features alone, and took some times as much with thousands of classes."""
    from streamrf.training import solve_memory

    X = np.random.default_rng(0).normal(size=(4000, 3))
    features = srf.StructuredFourier(srf.Gaussian(0.1), 64, random_state=0)
    source = srf.ArraySource(X, np.arange(4000) % 400)
    srf.accumulate(source, features, folds=4, task="classification").save(tmp_path / "s.h5")
    asked = []
    monkeypatch.setattr(solve_memory, "held_bytes", lambda limit: 0)
    monkeypatch.setattr(
        solve_memory, "check_memory", lambda what, n_bytes, limit: asked.append(n_bytes)
    )
    told("solve", str(tmp_path / "s.h5"), "--model", "m.h5", *option)
    fixed = solve_memory.FIXED_BYTES
    assert least + fixed < asked[-1] < 3 * least + fixed


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((), ["--model", "give --model, --path or both"]),
        (("--path", "--classes", "1,2"), ["--classes", "is for a model; give --model"]),
        (("--path", "--uncertainty"), ["--uncertainty", "is for a model; give --model"]),
        (("--path", "--alpha", "1,auto"), ["--alpha", "auto stands alone"]),
        (("--path", "--alpha", "1,x"), ["--alpha", "'x' is neither auto nor a number"]),
        (("--path", "--criterion", "aic"), ["'aic' is not one of folds, gcv, evidence"]),
        (("--path", "--bits", "5"), ["--bits", "is no setting of --codes one-vs-rest"]),
        (("--model", "m", "--alpha", "1", "--per-output"), ["--per-output", "give several, or au"]),
    ],
)
def test_wrong_usage(arguments, parts):
    text = misused("solve", "classes.h5", *arguments)
    assert re.search(".*".join(map(re.escape, parts)), text), text


# ---- what goes with it --------------------------------------------------------------------------


def test_fit_keeps_folds(statistics):
    write_hdf5(Path("data.h5"), X, LABELS)
    small = ("--map", "maclaurin", "--components", "40", "--statistics", "s.h5")
    assert answer("fit", "data.h5", *small, "--folds", "4")["n_folds"] == 4
    found = srf.load_statistics("s.h5")
    source = srf.HDF5Source("data.h5")
    expected = srf.accumulate(source, like=found, folds=4)
    assert_same_bytes(found.to_tree(), expected.to_tree())
    assert answer("fit", "data.h5", "--like", "s.h5", "--statistics", "t.h5")["n_folds"] == 4
    assert "folds must be None or an integer" in refused("fit", "data.h5", *small, "--folds", "1")


def test_probabilities_are_written_beside_the_labels():
    write_hdf5(Path("data.h5"), X, WORDS)
    told("fit", "data.h5", "--map", "maclaurin", "--components", "40", "--model", "m.h5")
    told("predict", "m.h5", "data.h5", "-o", "p.h5", "--probabilities")
    model = srf.load_model("m.h5")
    with h5py.File("p.h5") as file:
        assert sorted(file) == ["labels", "probabilities", "y"]
        np.testing.assert_array_equal(file["probabilities"], model.predict_proba(X))
        labels, y = file["labels"].asstr()[:], file["y"].asstr()[:]
        np.testing.assert_array_equal(labels, model.labels)
        np.testing.assert_array_equal(labels[file["probabilities"][:].argmax(axis=1)], y)
    told("predict", "m.h5", "data.h5", "-o", "p.h5", "--probabilities", "--scores")
    with h5py.File("p.h5") as file:
        assert sorted(file) == ["labels", "probabilities", "scores", "y"]
    assert "labels, scores and probabilities" in told("info", "m.h5")


def test_a_model_without_probabilities_says_how_to_get_them():
    write_hdf5(Path("data.h5"), X, LABELS)
    model_of("classes.h5", "--alpha", "1")
    predict = ("predict", "m.h5", "data.h5", "-o", "p.h5", "--probabilities")
    line = refused(*predict)
    assert "m.h5 has no probabilities, which are fitted on rows held out: make it by fit" in line
    assert "also after solve: load_model(FILE).fit_probabilities(X, y).save(FILE)" in line
    srf.load_model("m.h5").fit_probabilities(X, LABELS).save("p.h5")
    told("predict", "p.h5", "data.h5", "-o", "found.h5", "--probabilities")
    Path("p.h5").unlink()
    model_of("values.h5", "--alpha", "1")
    assert "m.h5 gives values, not classes, and has no --probabilities" in refused(*predict)
    assert not Path("p.h5").exists()


def test_a_penalty_at_the_end_of_those_given_is_told():
    done = streamrf("solve", "classes.h5", "--alpha", "1e6,1e9", "--model", "e.h5")
    assert done.exit_code == 0
    assert "alpha=1e+06 is the least penalty tried" in done.stderr
