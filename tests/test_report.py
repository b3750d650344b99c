"""The report: one page, whole in itself, with the figures that the library gives."""

import base64
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import roc_auc_score, roc_curve
from typer.testing import CliRunner

import streamrf as srf
from streamrf import report
from streamrf.cli import app
from streamrf.errors import MissingPackageError, ParameterError, StorageError
from streamrf.solving.tridiagonal import Tridiagonal

pytest.importorskip("matplotlib")

HOSTILE = ['<script>alert("1")</script>', "$\\frac{1$ & 'x'", "a\x01b\u202e", "plain"]
VOID = {"meta", "link", "img"}
HOMES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, never fetched


class Page(HTMLParser):
    """Elements in order, cells of text, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.cells, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def drawings(self):
        found = [image["src"].partition("base64,")[2] for image in self.all("img")]
        return [base64.b64decode(data).decode() for data in found]


def features(n_components=40):
    return srf.RandomMaclaurin(
        srf.Polynomial(degree=2), n_components=n_components, projection="rademacher", random_state=0
    )


def accumulated(X, y, **settings):
    return srf.accumulate(srf.ArraySource(X, y), features(), random_state=0, **settings)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600], X[600:900], y[600:900]


@pytest.fixture(scope="module")
def sums(digits):
    return accumulated(*digits[:2], normalize="l2")


@pytest.fixture(scope="module")
def tested(tmp_path_factory, digits, sums):
    """The figures and the page of statistics and data."""
    path = tmp_path_factory.mktemp("tested") / "r.html"
    return written(path, statistics=sums, data=digits[2], y=digits[3])


def written(path, **parts) -> tuple[dict, Page]:
    figures = report.write(path, **parts)
    return figures, Page(path.read_text())


def test_the_page_needs_nothing_but_itself(tested):
    _, page = tested
    assert page.all("script") == []
    for tag, attrs in page.elements:
        for name in ("src", "href"):
            assert attrs.get(name, "data:").startswith("data:"), tag
        assert not any(name.startswith("on") for name in attrs)
    assert "url(" not in "".join(page.words)
    assert len(page.drawings) == 7
    assert page.words.index("Errors on the data") < page.words.index("What the files hold")
    for drawing in page.drawings:
        addresses = set(re.findall(r"https?://[^\"'<> ]+", drawing))
        assert addresses <= HOMES
        links = re.findall(r"(?:href=\"|url\()([^\")]*)", drawing)
        assert all(link.startswith("#") for link in links)
        assert "currentColor" in drawing
        assert report.pictures.INK not in drawing


def test_estimators_are_reported_as_their_models(tmp_path, rng):
    X = rng.normal(size=(300, 3))
    features = srf.RandomFourier(srf.Gaussian(0.5), 16, random_state=0)
    clf = srf.RandomFeatureClassifier(features, random_state=0).fit(X, X[:, 0] > 0)
    figures = [report.write(tmp_path / "a.html", model=m)["alpha"] for m in (clf, clf.model_)]
    assert figures[0] == figures[1]
    for wrong in ("a.h5", srf.RandomFeatureClassifier()):
        with pytest.raises(
            ParameterError, match="model must be a model, RandomFeatureClassifier or"
        ):
            report.write(tmp_path / "a.html", model=wrong)


@pytest.mark.parametrize("uncertainty", [False, True])
@pytest.mark.parametrize("kind", ["table", "sparse"])
def test_values_of_rows_that_are_no_matrix_are_reported(tmp_path, rng, kind, uncertainty):
    numbers, values = rng.normal(size=(300, 2)), rng.normal(size=300)
    table = pd.DataFrame({"a": numbers[:, 0], "b": np.resize(["x", "y", "z"], 300)})
    X = table if kind == "table" else scipy.sparse.csr_array(np.maximum(numbers, 0))
    source = srf.open_source(X, y=values)
    features = srf.RandomFourier(srf.Gaussian(0.5), 16, random_state=0)
    reg = srf.RandomFeatureRegressor(features, uncertainty=uncertainty, random_state=0)
    figures, page = written(tmp_path / "a.html", model=reg.fit(source), data=source)
    assert figures["error"]["rmse"] == pytest.approx(reg.evaluate(source)["rmse"])
    assert any("300 rows: residuals have mean" in image["alt"] for image in page.all("img"))


def test_every_picture_is_told_in_words_beside_a_table(tested):
    _, page = tested
    assert all(len(image["alt"]) > 30 for image in page.all("img"))
    sections = "".join(
        {"section": "[", "img": "i", "table": "t"}.get(tag, "") for tag, _ in page.elements
    ).split("[")
    assert all("t" in section for section in sections if "i" in section)


def test_penalties_are_those_of_the_path_and_of_evaluate(tested, digits, sums):
    figures, page = tested
    path = sums.path()
    assert figures["alpha"] == figures["gcv_alpha"] == path.best_alpha()
    for values in (path.gcv, path.log_evidence, path.dof):
        assert {f"{value:.5g}" for value in values} <= set(page.cells)
    for alpha in path.alphas:
        error = sums.solve(alpha).evaluate(*digits[2:])["error"]
        place = page.cells.index(f"{alpha:.5g}")
        assert page.cells[place + 1] == f"{100 * error:.2f} %"
    assert figures["error"] == path.model().evaluate(*digits[2:])


def test_a_confusion_matrix_is_that_of_evaluate(tested, digits, sums):
    figures, page = tested
    confusion = sums.path().model().evaluate(*digits[2:])["confusion_matrix"]
    assert figures["error"]["confusion_matrix"] == confusion
    text = "".join(page.words)
    start = page.cells.index("true") + 11  # the names of the columns
    shown = page.cells[start:]
    # Empty cells hold no text, so rows are their name and the entries above 0.
    expected = [
        word
        for label, row in enumerate(confusion)
        for word in (str(label), *(f"{n:g}" for n in row if n))
    ]
    assert shown[: len(expected)] == expected
    assert "Confusion matrix" in text


def test_many_classes_are_drawn(tmp_path, rng):
    X = rng.normal(size=(400, 12))
    y = np.arange(400) % 40
    model = accumulated(X, y).solve(1.0)
    _, page = written(tmp_path / "r.html", model=model, data=X, y=y)
    assert len(page.drawings) == 1
    assert "Confusion matrix of 40 classes" in page.all("img")[0]["alt"]


def test_two_classes_have_their_curves(tmp_path, digits):
    X, y, rows, labels = digits
    model = srf.RandomFeatureClassifier(features(), alpha="auto", normalize="l2", random_state=0)
    model = model.fit(X, y > 4).model_
    _, page = written(tmp_path / "r.html", model=model, data=rows, y=labels > 4)
    alts = " ".join(image["alt"] for image in page.all("img"))
    scores = model.decision_function(rows)
    area = float(re.search(r"area below is ([\d.]+)\.", alts)[1])
    assert area == pytest.approx(roc_auc_score(labels > 4, scores), abs=1e-3)  # bins
    errors = model.no_errors()
    errors.add(labels > 4, model.scores(np.asarray(rows)))
    wrong, recall, precision = errors.curve()
    expected = np.interp(wrong, *roc_curve(labels > 4, scores, drop_intermediate=False)[:2])
    assert np.abs(np.interp(wrong, wrong, recall) - expected).max() < 0.05
    assert (wrong[-1], recall[-1], precision[-1]) == (1.0, 1.0, (labels > 4).mean())


def test_the_spectrum_is_that_of_the_gram(sums):
    eigenvalues = report.measuring._spectrum(sums)
    gram = sums.normal(np.ones((10, 1))).full()
    np.testing.assert_allclose(
        eigenvalues, np.linalg.eigvalsh(gram)[::-1], rtol=0, atol=1e-12 * eigenvalues[0]
    )
    path = sums.path()
    dof = (eigenvalues / (eigenvalues + path.alphas[:, np.newaxis])).sum(axis=1) + 1
    np.testing.assert_allclose(path.dof, dof, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 150])
def test_eigenvalues_of_a_reduced_matrix_are_its_own(rng, n):
    A = rng.normal(size=(n, n))
    A = A + A.T
    expected = np.linalg.eigvalsh(A)
    found = Tridiagonal(A.copy()).eigenvalues()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max() * n)


def test_widths_are_nested_choices_solved_by_themselves(tested, digits, sums):
    _, page = tested
    picks = [np.sort(report.measuring.nested(40)[:n]) for n in (16, 32)]
    assert set(picks[0]) < set(picks[1])
    for chosen in picks:
        path = sums.select(chosen).path()
        error = path.model().evaluate(*digits[2:])["error"]
        row = [str(len(chosen)), f"{path.best_alpha():.5g}", f"{path.gcv.min():.5g}"]
        places = [i for i in range(len(page.cells)) if page.cells[i : i + 3] == row]
        assert len(places) == 1
        assert page.cells[places[0] + 4] == f"{100 * error:.2f} %"


def test_folds_are_told_with_their_standard_errors(tmp_path, digits):
    folded = accumulated(*digits[:2], normalize="l2", folds=3)
    _, page = written(tmp_path / "r.html", statistics=folded)
    validated = folded.cross_validate()
    pairs = zip(validated.mse, validated.standard_error, strict=True)
    assert {f"{mse:.5g} ± {error:.5g}" for mse, error in pairs} <= set(page.cells)
    assert f"err least at alpha = {validated.best_alpha():.5g}" in "".join(page.words)


def test_values_are_told_in_their_own_units(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    sums = accumulated(X[:300], y[:300], regression=True)
    figures, page = written(tmp_path / "r.html", statistics=sums, data=X[300:], y=y[300:])
    error = sums.path().model().evaluate(X[300:], y[300:])
    assert figures["error"].pop("columns_drifted") == error.pop("columns_drifted") == []
    assert figures["error"] == pytest.approx(error, rel=1e-12)  # products of other shapes
    shown = {f"{error['rmse']:.5g}", f"{error['mae']:.5g}", f"{error['r2']:.4f}"}
    assert shown <= set(page.cells)
    assert f"{y[300:].std():.5g}" in page.cells
    model = srf.accumulate(
        srf.ArraySource(X[:300], y[:300]), features(), regression=True, random_state=0
    ).solve(1.0, uncertainty=True)
    _, page = written(tmp_path / "r.html", model=model, data=X[300:], y=y[300:])
    error = model.evaluate(X[300:], y[300:], return_std=True)
    place = page.cells.index("80 %")
    assert page.cells[place + 1] == f"{100 * error['coverage']['0.8']:.1f} %"
    assert len(page.drawings) == 3


def test_the_head_says_what_a_colleague_would(tmp_path, digits, sums, tested):
    figures, page = tested
    text = " ".join("".join(page.words).split())
    percent = f"{100 * figures['error']['error']:.2f} %"
    assert f"10 classes, {percent} wrong" in text
    assert f"10 classes: {percent} wrong of 300 rows (X). Learnt from 600 rows" in text
    _, page = written(tmp_path / "r.html", statistics=sums, title="Ziffern", names=["a.h5"])
    assert "Ziffern" in page.words
    assert "a.h5" in page.cells


def test_what_was_tried_has_a_table(tmp_path, digits):
    model = srf.RandomFeatureClassifier(random_state=0).fit(*digits[:2]).model_
    _, page = written(tmp_path / "r.html", model=model)
    assert set(model.encoder.tried["candidate"][:20]) <= set(page.cells)
    assert f"{100 * model.encoder.tried['error'][0]:.2f} %" in page.cells


def test_a_model_alone_tells_what_was_held_out(tmp_path, digits):
    model = srf.RandomFeatureClassifier(features(), alpha="auto", random_state=0)
    model = model.fit(*digits[:2]).model_
    figures, page = written(tmp_path / "r.html", model=model)
    assert {f"{alpha:.5g}" for alpha, _ in model.history} <= set(page.cells)
    assert {f"{100 * error:.2f} %" for _, error in model.history} <= set(page.cells)
    assert (figures["gcv_alpha"], figures["error"]) == (None, None)


def test_a_model_with_its_statistics_keeps_its_code(tmp_path, digits, sums):
    codes = srf.ErrorCorrectingCodes(n_bits=15)
    model = sums.solve(0.5, codes)
    figures, page = written(tmp_path / "r.html", model=model, statistics=sums)
    assert figures["alpha"] == 0.5
    assert {f"{gcv:.5g}" for gcv in sums.path(codes=codes).gcv} <= set(page.cells)
    other = accumulated(digits[0] + 1.0, digits[1], normalize="l2")
    with pytest.raises(ParameterError, match="different calibrations"):
        report.write(tmp_path / "no.html", model=model, statistics=other)
    assert not (tmp_path / "no.html").exists()


def test_hostile_labels_and_titles_are_text(tmp_path, digits):
    names = np.array(HOSTILE)[digits[1] % 4]
    sums = accumulated(digits[0], names)
    path = tmp_path / "r.html"
    _, page = written(path, statistics=sums, data=digits[0], y=names, title=f"</title>{HOSTILE[0]}")
    assert page.all("script") == []
    assert HOSTILE[0] in page.cells
    assert HOSTILE[1] in page.cells
    assert "a\\x01b\\u202e" in page.cells
    assert "<script" not in path.read_text()


def test_sums_of_one_class_have_their_page(tmp_path, digits):
    rows = digits[1] == 3
    _, page = written(tmp_path / "r.html", statistics=accumulated(digits[0][rows], digits[1][rows]))
    assert "a classifier needs at least two classes" in "".join(page.words)
    assert page.drawings == []


def test_sums_with_an_empty_fold_have_their_page(tmp_path, rng):
    sums = accumulated(rng.normal(size=(8, 3)), np.arange(8) % 2, folds=5)
    _, page = written(tmp_path / "r.html", statistics=sums)
    text = "".join(page.words)
    assert "of the 5 folds, number" in text
    assert "Generalised cross-validation is least" in text


@pytest.mark.parametrize("given", [False, True], ids=["sums", "model"])
def test_sums_of_three_rows_that_weigh_have_their_page(tmp_path, rng, given):
    """With more features no penalty leaves a degree of freedom."""
    X, y, w = rng.normal(size=(40, 3)), np.arange(40) % 2, (np.arange(40) < 3) * 1.0
    for folds in (None, 3):
        source = srf.ArraySource(X, y, w)
        sums = srf.accumulate(source, features(), folds=folds, random_state=0)
        model = sums.solve(1.0) if given else None
        written(tmp_path / "r.html", statistics=sums, model=model)


def test_a_pruned_model_has_a_page_with_all_statistics(tmp_path, digits, sums):
    pruned = sums.prune(16)
    model = pruned.solve(0.5)
    figures, page = written(tmp_path / "r.html", model=model, statistics=sums)
    assert figures["gcv_alpha"] == pruned.path().best_alpha()
    assert {f"{gcv:.5g}" for gcv in pruned.path().gcv} <= set(page.cells)
    assert "in 16 features, kept of 40" in " ".join("".join(page.words).split())
    other = sums.select(np.setdiff1d(np.arange(40), pruned.columns))
    with pytest.raises(ParameterError, match="different feature maps"):
        report.write(tmp_path / "no.html", model=model, statistics=other)


def test_a_better_penalty_is_told_before_the_width(tmp_path):
    r = np.random.default_rng(0)
    X = r.normal(size=(900, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * r.normal(size=900)
    labels = np.where(y > 0, "up", "down")
    map_ = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
    for targets, figure in ((y, "rmse"), (labels, "error")):
        sums = srf.accumulate(srf.ArraySource(X[:600], targets[:600]), map_)
        test = {"data": X[600:], "y": targets[600:]}
        models = {alpha: sums.solve(alpha) for alpha in sums.path().alphas}
        errors = {a: m.evaluate(X[600:], targets[600:])[figure] for a, m in models.items()}
        best = min((a for a in errors if a > sums.rounding_alpha), key=errors.get)
        told = f"The penalty is what limits: alpha={best:.3g} has an "
        for given, is_told in ((sums.solve(50.0), True), (models[best], False)):
            _, page = written(tmp_path / "r.html", statistics=sums, model=given, **test)
            text = " ".join("".join(page.words).split())
            assert (told in text) == is_told
            assert ("The width is what limits" in text) != is_told
            assert ("lies well inside" in text) != is_told
            _, page = written(tmp_path / "r.html", statistics=sums, model=given)
            found = "less error by generalised cross-validation than" in "".join(page.words)
            assert found == is_told


def test_a_missing_package_is_told_before_the_work(tmp_path, sums, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'streamrf\[plots\]'"):
        report.write(tmp_path / "r.html", statistics=sums)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, sums, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"make room for \d+,\d+ bytes; any earlier file"):
        report.write(path, statistics=sums)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.html", "old")]


def test_the_command_reads_files_and_refuses_others(tmp_path, digits, sums, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sums.save("s.h5")
    sums.solve(1.0).save("m.h5")
    with h5py.File("data.h5", "w") as file:
        file["X"], file["labels"] = digits[2], digits[3]
        file["spoilt"] = np.where(np.arange(300)[:, np.newaxis] == 7, np.nan, digits[2])

    def run(*arguments):
        return CliRunner().invoke(app, ["report", *arguments])

    done = run("m.h5", "s.h5", "--data", "data.h5", "--y", "labels", "-o", "r.html", "--json")
    figures = json.loads(done.stdout)
    assert figures["error"] == sums.solve(1.0).evaluate(*digits[2:])
    assert figures["bytes"] == Path("r.html").stat().st_size
    Page(Path("r.html").read_text())

    options = ("--data", "data.h5", "--x", "spoilt", "--y", "labels", "-o", "r.html")
    assert "row 7: column 0 is NaN" in run("m.h5", *options).stderr
    assert "1 rows were left out" in run("m.h5", *options, "--on-bad-rows", "skip").stderr

    assert "is read from too" in run("m.h5", "-o", "m.h5").stderr
    assert "second file of model" in run("m.h5", "m.h5", "-o", "x.html").stderr
    assert "if it has rows, give it in the place of data" in run("data.h5", "-o", "x.html").stderr
    assert "has no dataset 'y'" in run("m.h5", "--data", "data.h5", "-o", "x.html").stderr
    assert not Path("x.html").exists()


def test_the_command_line_starts_without_what_draws():
    program = "import sys, streamrf.cli; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_figures_are_those_of_the_weights_of_blocks_and_of_rows():
    r = np.random.default_rng(0)
    X = r.normal(size=(300, 3))
    y, w = (X[:, 0] > 0).astype(int), np.where(np.arange(300) % 2, 0.001, 10.0)
    parts = [srf.RandomFourier(srf.Gaussian(g), 16, random_state=0) for g in (0.1, 1.0)]
    sums = srf.accumulate(srf.ArraySource(X, y, w), srf.Concatenate(parts), folds=3)
    model = sums.solve(0.01, block_weights=[1e-4, 1e-3])
    found = report.measuring.measure(model, sums, srf.ArraySource(X, y, w), stage=lambda name: None)
    weighed = sums.problem().weighted([1e-4, 1e-3])
    np.testing.assert_allclose(found.path.gcv, weighed.path().gcv, rtol=1e-9)
    np.testing.assert_allclose(found.folds.mse, weighed.cross_validate().mse, rtol=1e-9)
    gram = weighed.normal().full()
    np.testing.assert_allclose(found.spectrum, np.linalg.eigvalsh(gram)[::-1], atol=1e-9)
    np.testing.assert_allclose(found.widths.gcvs[-1], weighed.path().gcv.min(), rtol=1e-9)
    shown = [text for section in report.sections.sections(found, "rows") for text in section.text]
    assert any("of the weight of 300 rows is given" in text for text in shown)


def test_figures_next_to_a_refined_model_say_that_they_are_not_its():
    r = np.random.default_rng(0)
    X = r.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    one = srf.RandomFeatureClassifier(
        srf.RandomFourier(srf.Gaussian(0.1), 16, random_state=0), alpha=0.1, loss="logistic"
    ).fit(X, y)
    found = report.measuring.measure(one.model_, one.statistics_, None, stage=lambda name: None)
    shown = {part.title: " ".join(part.text) for part in report.sections.sections(found, "rows")}
    for title in ("Error and penalty", "Error and width", "Spectrum"):
        assert "dashed line" not in shown.get(title, "")
        assert "the penalty of the model." not in shown.get(title, "")
    assert "minimises the logistic loss" in shown["Error and penalty"]
