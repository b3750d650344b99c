"""What is decided for the user: the task, weights of classes, the decoder; and what he is told."""

import warnings
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.utils.class_weight import compute_class_weight

import streamrf as srf
from streamrf.errors import DataError, ParameterError, StreamrfWarning
from streamrf.solving import class_finding, penalty_finding, width_finding
from streamrf.training import Job, Settings, begin, decoding, finish, finishing
from streamrf.training.target_type import task_of

pytestmark = pytest.mark.usefixtures("one_thread")

N = 1500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).astype(np.float32)
SIGNAL = X[:, 0] + 0.5 * X[:, 1] + 0.5 * RNG.normal(size=N)
RARE = np.where(SIGNAL > 2.3, "rare", "usual")


def fourier(width=48):
    return srf.StructuredFourier(srf.Gaussian(gamma=0.1), width, random_state=0)


def trained(y, codes=None, alpha="auto", **options):
    settings = Settings(features=fourier(), codes=codes, hold_out=True, random_state=0, **options)
    job = Job.of(srf.ArraySource(X, y), settings)
    return finish(job.fold(begin(job)), alpha, codes)[0]


@pytest.mark.filterwarnings("ignore:.*are taken for classes")
@pytest.mark.parametrize(
    ("y", "task"),
    [
        (SIGNAL, "regression"),
        (np.round(SIGNAL), "classification"),
        (np.stack((SIGNAL, SIGNAL), axis=1).round(), "regression"),
        (RARE, "classification"),
        (np.arange(N) % 1000, "classification"),
        (np.where(SIGNAL > 0, np.nan, 1.0), "classification"),
        (1e19 * (1.0 + np.arange(N)), "regression"),  # of which every float is whole
        (np.arange(N) % 150 + 10_000, "classification"),
    ],
)
def test_the_task_is_that_of_the_numbers(y, task):
    assert task_of(srf.ArraySource(X, y)) == task


@pytest.mark.parametrize(
    ("y", "what"),
    [
        (np.arange(N) % 101 * 1.0, "101 different targets"),
        (np.arange(N), "1,500 different targets"),
        (np.arange(N) % 150 * 20, "150 different targets"),  # prices, say
        (np.arange(N).astype(str), "1,500 different labels"),
    ],
)
def test_a_forgotten_task_is_asked_for(y, what):
    source = srf.ArraySource(X, y)
    with pytest.raises(
        DataError, match=rf"{what}(, from .* to .*,)? in 1,500 rows.*--task regression"
    ):
        srf.accumulate(source, fourier(8))
    assert srf.accumulate(source, fourier(8), task="classification").labels is not None
    if y.dtype.kind != "U":
        assert srf.accumulate(source, fourier(8), task="regression").labels is None


@pytest.mark.parametrize(
    ("y", "is_told"),
    [
        (np.arange(N) % 60, True),
        (np.arange(N) % 50, False),
        (np.arange(N) % 50 * 1.0, False),
        (np.arange(N) % 60 * 1.0, True),
        ((np.arange(N) % 60).astype(str), False),
    ],
)
def test_many_classes_that_are_numbers_are_told(y, is_told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert task_of(srf.ArraySource(X, y)) == "classification"
    assert is_told == any("are taken for classes" in str(one.message) for one in caught)


def test_tasks_that_contradict_are_refused():
    with pytest.raises(ParameterError, match="contradicts regression=True"):
        Settings(task="classification", regression=True)
    with pytest.raises(ParameterError, match="is for classes"):
        Settings(task="regression", class_weight="balanced")
    source = srf.ArraySource(X, np.stack((SIGNAL, SIGNAL), axis=1))
    with pytest.raises(DataError, match=r"class_weight .* one a row; y has shape"):
        srf.accumulate(source, fourier(8), class_weight="balanced")


@pytest.mark.parametrize("class_weight", ["balanced", {"rare": 7.0}, {"rare": 0.5, "usual": 2}])
def test_weights_of_classes_are_weights_of_rows(class_weight):
    """The model is scikit-learn's ridge with weights by class, on the same features."""
    statistics = srf.accumulate(
        srf.ArraySource(X, RARE), fourier(), class_weight=class_weight, random_state=0,
        precision="float64",
    )  # fmt: skip
    model = statistics.solve(0.3)
    Z = model.encoder.features.transform(X).astype(np.float64)
    weights = class_weight
    if class_weight == "balanced":
        labels = np.array(["rare", "usual"])
        weights = dict(
            zip(labels, compute_class_weight("balanced", classes=labels, y=RARE), strict=True)
        )
    rows = np.array([weights.get(label, 1.0) for label in RARE])
    plain = Ridge(alpha=0.3).fit(Z, np.where(RARE == "usual", 1.0, -1.0), rows)
    np.testing.assert_allclose(model.outputs(X)[:, 0], plain.predict(Z), rtol=1e-6, atol=1e-7)


def test_rare_classes_of_great_weight_are_not_clipped():
    """Weights of 1 to 1,000 are rounded and summed without a clipped entry."""
    y = np.where(np.arange(N) < 3, 1, 0)
    rounded, exact = (
        srf.accumulate(
            srf.ArraySource(X, y), fourier(), class_weight={1: 1000}, precision=precision,
            random_state=0,
        ).solve(1.0)
        for precision in ("exact", "float64")
    )  # fmt: skip
    np.testing.assert_allclose(rounded.outputs(X), exact.outputs(X), atol=0.02)


def test_balanced_classes_err_alike():
    plain, balanced = (
        srf.RandomFeatureClassifier(
            fourier(), normalize=None, class_weight=class_weight, random_state=0
        ).fit(X, RARE)
        for class_weight in (None, "balanced")
    )
    errors = [fitted.evaluate(X, RARE)["balanced_error"] for fitted in (plain, balanced)]
    assert errors[1] < 0.7 * errors[0]
    with pytest.raises(ParameterError, match="give partial_fit a dict"):
        balanced.__class__(fourier(), class_weight="balanced").partial_fit(X, RARE)


@pytest.mark.parametrize("precision", ["exact", "float64"])
@pytest.mark.parametrize("folds", [None, 2])
def test_other_weights_of_classes_than_those_of_the_sums_are_told(precision, folds):
    """They were added in silence."""
    source = srf.ArraySource(X, RARE)
    given = {"rare": 0.3, "usual": 7.0}
    first = srf.accumulate(
        source, fourier(8), class_weight=given, precision=precision, folds=folds, random_state=0
    )
    srf.accumulate(source, like=first, class_weight=given)
    swapped = {"rare": 7.0, "usual": 0.3}
    for other in (swapped, {"rare": 0.3}, {"usual": 7.0}, {"rare": 0, "usual": 7}):
        with pytest.warns(StreamrfWarning, match=r"\(--like\) were not weighed by this one; give"):
            srf.accumulate(source, like=first, class_weight=other)
    with warnings.catch_warnings():  # rows that have weights of their own may be so weighed
        warnings.simplefilter("error")
        own = srf.ArraySource(X, RARE, np.ones(len(X)))
        srf.accumulate(own, like=first, class_weight={"rare": 2.0})
        srf.accumulate(source, like=first.scale(0.5), class_weight={"rare": 2.0})
    rows = srf.ArraySource(X, RARE, np.where(RARE == "rare", 0.0, 7.0))
    first = srf.accumulate(rows, fourier(8), random_state=0)
    srf.accumulate(source, like=first, class_weight={"rare": 0, "usual": 7})


@pytest.mark.parametrize("class_weight", ["balanced", {"rare": 5.0}])
def test_a_discriminant_takes_weights_after_the_pass(class_weight):
    """Shares of the classes count so many times: offsets move by the logarithms."""
    statistics = srf.accumulate(srf.ArraySource(X, RARE), fourier(), random_state=0)
    codes = srf.OneVsRest("discriminant")
    plain, weighed = (
        statistics.solve(0.3, codes, class_weight=weight).book.decoder
        for weight in (None, class_weight)
    )
    n = np.array([np.sum(RARE == "rare"), np.sum(RARE == "usual")])
    factors = N / (2 * n) if class_weight == "balanced" else np.array([5.0, 1.0])
    np.testing.assert_allclose(weighed.offset - plain.offset, np.log(factors), rtol=1e-9)
    np.testing.assert_array_equal(weighed.slope, plain.slope)
    with pytest.raises(ParameterError, match=r"needs decode='discriminant'.*fit --class-weight"):
        statistics.solve(0.3, class_weight=class_weight)
    with pytest.raises(DataError, match=r"all weights of classes are zero \(class_weight\)"):
        statistics.solve(0.3, codes, class_weight={"rare": 0, "usual": 0})


def test_weights_of_classes_that_are_not_there_are_told():
    """A name with a slip was passed over, and the classes kept their weights."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    source = srf.ArraySource(X, np.arange(200) % 3)
    with pytest.warns(
        StreamrfWarning, match=r"names \[7\], which no label of the 200 rows .* as 0:"
    ):
        srf.accumulate(source, fourier(8), class_weight={7: 2.0})
    with pytest.warns(StreamrfWarning, match=r"names \[7\], which no label of the rows read"):
        srf.accumulate(source, fourier(8), class_weight={0: 2.0, 7: 2.0})
    srf.accumulate(source, fourier(8), class_weight={"1": 2.0})


@pytest.mark.parametrize("weights", [{}, {"a": -1.0}, {"a": np.nan}, "even", 3])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ParameterError, match="class_weight must be None, 'balanced' or a dict"):
        Settings(class_weight=weights)


def test_words_for_numbers_are_read_and_others_refused():
    y = (SIGNAL > 0).astype(int)
    by_word, by_number = (
        srf.accumulate(srf.ArraySource(X, y), fourier(8), class_weight=w, random_state=0).solve()
        for w in ({"1": 2.0}, {1: 2.0})
    )
    np.testing.assert_array_equal(by_word.coef, by_number.coef)
    with pytest.raises(ParameterError, match="class_weight names 'yes'"):
        srf.accumulate(srf.ArraySource(X, y), fourier(8), class_weight={"yes": 2.0})


def test_words_for_labels_that_are_booleans_are_read_and_others_refused():
    source = srf.ArraySource(X, SIGNAL > 0)
    by_label, *by_words = (
        srf.accumulate(source, fourier(8), class_weight=w, random_state=0).solve()
        for w in ({True: 2.0, False: 3.0}, {"True": 2, "False": 3}, {"true": 2, "false": 3})
    )
    for model in by_words:
        np.testing.assert_array_equal(model.coef, by_label.coef)
    assert not np.array_equal(by_label.coef, srf.accumulate(source, fourier(8)).solve().coef)
    with pytest.raises(ParameterError, match="class_weight names 'no', and labels are such as F"):
        srf.accumulate(source, fourier(8), class_weight={"no": 2.0})
    with pytest.raises(ParameterError, match="class_weight names one label twice"):
        srf.accumulate(source, fourier(8), class_weight={"True": 2.0, "true": 9.0})


@pytest.mark.parametrize("alpha", ["auto", 0.1])
@pytest.mark.parametrize(
    "make", [srf.OneVsRest, lambda word: srf.ErrorCorrectingCodes(6, decode=word)]
)
def test_the_decoder_is_a_good_one_on_the_rows_held_out(make, alpha):
    y = np.digitize(SIGNAL, [-0.5, 0.3, 2.0])
    words = [word for word in make("auto").decodings if word != "auto"]
    found = trained(y, make("auto"), alpha)
    assert found.book.decode in words
    alone = {word: trained(y, make(word), alpha) for word in words}
    same = trained(y, make(found.book.decode), found.alpha)
    np.testing.assert_array_equal(found.coef, same.coef)
    if alpha == "auto":
        least = {word: min(f for _, f in model.history) for word, model in alone.items()}
        assert least[found.book.decode] <= least["euclidean"]
        errors = dict(alone[found.book.decode].history)
        assert all(errors.get(a, error) == error for a, error in found.history)
    assert found.probabilities is not None


def in_bands(rng, n_rows=1500):
    """Rows whose class is a band of one column: of largest outputs the middle ones have none."""
    rows = rng.normal(size=(n_rows, 2))
    return rows, np.digitize(rows[:, 0], [-0.7, 0.0, 0.7])


def of_lines(**options):
    """A classifier whose outputs are linear."""
    return srf.RandomFeatureClassifier(srf.Identity(), random_state=0, **options)


def test_classes_that_lie_between_others_are_told_by_discriminants(rng):
    """The default, where rows held out clearly err less by them."""
    rows, bands = in_bands(rng)
    largest = of_lines(codes=srf.OneVsRest()).fit(rows, bands)
    found = of_lines().fit(rows, bands)
    assert (largest.model_.book.decode, found.model_.book.decode) == ("euclidean", "discriminant")
    rows, bands = in_bands(rng)
    errors = [1 - clf.score(rows, bands) for clf in (largest, found)]
    assert errors[0] > 0.3
    assert errors[1] < 0.1
    same = found.statistics_.solve(found.alpha_, srf.OneVsRest("discriminant"))
    assert same.coef.tobytes() == found.model_.coef.tobytes()
    np.testing.assert_array_equal(same.predict(rows), found.predict(rows))
    exact = LinearDiscriminantAnalysis().fit(*in_bands(np.random.default_rng(1), 20_000))
    assert (exact.predict(rows) == found.predict(rows)).mean() > 0.97


def test_a_stream_of_bands_is_told_too(rng):
    rows, bands = in_bands(rng)
    clf = of_lines()
    for part in np.array_split(np.arange(len(rows)), 5):
        clf.partial_fit(rows[part], bands[part], classes=range(4))
    assert clf.model_.book.decode == "discriminant"
    assert clf.score(rows, bands) > 0.9


def in_shells(rng):
    """Rows of classes of which polynomials of low degree are wrong by the largest output alone."""
    rows = rng.normal(size=(2000, 4))
    return rows, np.digitize(np.square(rows).sum(axis=1), [1.9, 3.4, 5.4])


def test_the_features_are_chosen_by_what_discriminants_make_of_them(rng, tmp_path):
    rows, shells = in_shells(rng)
    clf = srf.RandomFeatureClassifier(budget=1, random_state=0).fit(rows[:1500], shells[:1500])
    assert clf.model_.book.decode == "discriminant"
    found = srf.select(srf.ArraySource(rows[:1500], shells[:1500]), budget=1, random_state=0)
    assert (found.decode, found.card()["decode"]) == ("discriminant", "discriminant")
    assert repr(found.features) == repr(clf.features_)
    clf.statistics_.save(tmp_path / "s.h5")
    again = srf.load_statistics(tmp_path / "s.h5").solve(clf.alpha_)  # as it was chosen
    np.testing.assert_array_equal(again.predict(rows), clf.predict(rows))
    plain = srf.load_statistics(tmp_path / "s.h5").solve(clf.alpha_, srf.OneVsRest())
    assert plain.book.decode == "euclidean"
    assert clf.score(rows[1500:], shells[1500:]) > 0.85


def test_where_discriminants_do_not_clearly_help_nothing_changes(rng):
    rows = rng.normal(size=(1500, 5))
    y = np.argmax(rows[:, :3] + 0.5 * rng.normal(size=(1500, 3)), axis=1)
    plain, named = (trained_alike(rows, y, codes) for codes in (None, srf.OneVsRest()))
    assert plain.book.decode == "euclidean"
    assert plain.coef.tobytes() == named.coef.tobytes()
    assert (plain.alpha, plain.history) == (named.alpha, named.history)
    assert plain.notes == named.notes


def trained_alike(rows, y, codes):
    return srf.RandomFeatureClassifier(fourier(), codes=codes, random_state=0).fit(rows, y).model_


@pytest.mark.parametrize("options", [{"loss": "logistic"}, {"codes": srf.OneVsRest()}])
def test_features_are_not_chosen_for_discriminants_that_are_not_taken(rng, options):
    rows, shells = in_shells(rng)
    clf = srf.RandomFeatureClassifier(budget=1, max_passes=2, random_state=0, **options)
    clf.fit(rows[:1500], shells[:1500])
    assert clf.model_.book.decode == "euclidean"
    assert "decode" not in clf.model_.encoder.tried


@pytest.mark.parametrize("case", ["penalty", "loss", "classes"])
def test_discriminants_are_not_looked_for(rng, monkeypatch, case):
    """Of a penalty given no rows are held out; other losses teach none; many classes cost."""
    rows, bands = in_bands(rng)
    options = {"penalty": {"alpha": 1.0}, "loss": {"loss": "logistic"}, "classes": {}}[case]
    if case == "classes":
        monkeypatch.setattr(decoding, "MAX_CLASSES", 3)
    assert of_lines(**options).fit(rows, bands).model_.book.decode == "euclidean"


def test_a_model_of_discriminants_is_refined_as_one_without(rng):
    rows, bands = in_bands(rng)
    source = srf.ArraySource(rows, bands)
    sums = srf.accumulate(source, srf.Identity(), random_state=0)
    with_, without = (sums.solve(1.0, srf.OneVsRest(d)) for d in ("discriminant", "euclidean"))
    refined = [srf.refine(model, source, "logistic") for model in (with_, without)]
    assert refined[0].book.decode == "euclidean"
    assert refined[0].coef.tobytes() == refined[1].coef.tobytes()
    shown = [model.fit_probabilities(rows, bands).predict_proba(rows) for model in refined]
    np.testing.assert_array_equal(*shown)


def test_sums_alone_cannot_choose_a_decoder():
    statistics = srf.accumulate(srf.ArraySource(X, RARE), fourier(8))
    with pytest.raises(ParameterError, match="decode='auto' is chosen on rows held out of a pass"):
        statistics.solve(1.0, srf.OneVsRest("auto"))


def test_penalties_at_the_ends_are_told():
    assert "least penalty tried" in penalty_finding(0.1, [0.1, 1.0, 10.0])
    assert "greatest penalty tried" in penalty_finding(10.0, [0.1, 1.0, 10.0])
    assert penalty_finding(1.0, [0.1, 1.0, 10.0]) is None
    assert penalty_finding(1.0, [1.0]) is None


def test_widths_that_limit_are_told():
    note = width_finding(256, 512, narrow=1.0, error=0.75)
    assert "512 features have a squared error 25 % below that of 256 of them" in note
    assert width_finding(256, 512, narrow=1.0, error=0.95) is None
    assert width_finding(128, 512, narrow=1.0, error=0.85) is None  # less than a tenth a doubling
    assert "20 % below that of 128" in width_finding(128, 512, narrow=1.0, error=0.8)
    assert width_finding(16, 32, narrow=1.0, error=0.5) is None


def fit_notes(X, y, **settings):
    map_ = srf.RandomFourier(srf.Gaussian(0.5), 32, random_state=0)
    estimator = srf.RandomFeatureClassifier if y.dtype.kind in "iU" else srf.RandomFeatureRegressor
    return " ".join(estimator(map_, random_state=0, **settings).fit(X, y).model_.notes)


@pytest.mark.parametrize("kind", ["classes", "values", "pairs"])
def test_a_model_that_does_no_better_than_a_guess_is_told(rng, kind):
    X = rng.normal(size=(1000, 3))
    y = {"classes": (X[:, 0] > -0.3).astype(int), "values": X[:, 0], "pairs": X[:, :2]}[kind]
    assert "guesses" not in fit_notes(X, y)
    assert "the model guesses" in fit_notes(1e6 * X, y)


@pytest.mark.parametrize("kind", ["rare", "pairs"])
def test_a_model_that_tells_something_is_no_guess(rng, kind):
    """Though a rare class is never predicted, or one of two targets is noise of large unit."""
    X = rng.normal(size=(2500, 5))
    score = 1.5 * (X[:, 0] + np.sin(2 * X[:, 1]))
    if kind == "rare":
        y = (rng.uniform(size=2500) < 1 / (1 + np.exp(4.8 - score))).astype(int)
        assert 0.01 < y.mean() < 0.1
    else:
        y = np.stack((score, 1e6 * rng.standard_t(1.5, size=2500)), axis=1)
    assert "guesses" not in fit_notes(X, y)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("settings", [{}, {"codes": srf.ErrorCorrectingCodes(12)}])
def test_rows_of_a_class_each_are_learnt(rng, settings):
    """No row held out is of a class that the others have; the note on guesses raised."""
    X = rng.normal(size=(1000, 3))
    assert "guesses" not in fit_notes(X, np.arange(1000), **settings)


def test_what_the_choice_raises_does_not_cost_the_pass(monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(finishing, "guess_finding", fail)
    features = srf.RandomFourier(srf.Gaussian(gamma=2.0), 16, random_state=0)
    source = srf.ArraySource(X, np.sin(X[:, 0]))
    job = Job.of(source, Settings(features=features, hold_out=True, random_state=0))
    kept = []
    with pytest.raises(ZeroDivisionError):
        finish(job.fold(begin(job)), "auto", keep=kept.append)
    assert kept[0].n_rows == len(X)


def test_classes_never_predicted_are_told():
    labels = np.array(["a", "b", "c"])
    note = class_finding(labels, np.array([80, 12, 8]), np.array([100, 0, 0]))
    assert "classes 'b', 'c' are never predicted, of 20 in 100 rows" in note
    assert class_finding(labels, np.array([80, 3, 8]), np.array([90, 0, 10])) is None


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_no_more_width_is_asked_for_where_no_row_held_out_errs(gap):
    values = np.sin(3 * X[:, 0]) * np.cos(3 * X[:, 1])
    is_kept = np.abs(values) > gap
    features = srf.RandomFourier(srf.Gaussian(gamma=2.0), 64, random_state=0)
    source = srf.ArraySource(X[is_kept][:, :2], values[is_kept] > 0)
    job = Job.of(source, Settings(features=features, hold_out=True, random_state=0))
    model = finish(job.fold(begin(job)), "auto")[0]
    is_asked_for = any("so the width still limits" in note for note in model.notes)
    assert is_asked_for == (gap == 0), model.notes


def test_a_model_keeps_what_was_found_doubtful(tmp_path):
    y = np.sin(3 * X[:, 0]) * np.cos(3 * X[:, 1])
    features = srf.RandomFourier(srf.Gaussian(gamma=2.0), 64, random_state=0)
    source = srf.ArraySource(X[:, :2], y)
    job = Job.of(source, Settings(features=features, hold_out=True, random_state=0))
    model = finish(job.fold(begin(job)), "auto")[0]
    assert any("so the width still limits" in note for note in model.notes)
    model.save(tmp_path / "model.h5")
    assert srf.load_model(tmp_path / "model.h5").notes == model.notes
    rare = trained(np.where(np.arange(N) % 20 == 0, 1, 0))
    assert any("class 1 is never predicted" in note for note in rare.notes)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_probabilities_that_were_not_fitted_are_told(loss):
    y = np.random.default_rng(0).permutation(40) % 2
    features = srf.RandomFourier(srf.Gaussian(gamma=2.0), 16, random_state=0)
    few = srf.RandomFeatureClassifier(features, loss=loss, random_state=0).fit(X[:40], y)
    (note,) = few.model_.notes
    assert few.model_.probabilities.n_rows == 0
    n_held = int(note.partition(" of 40 rows are held out, too few to choose alpha and fit")[0])
    assert 0 < n_held < 10
    assert "alpha is that of the greatest evidence of their sums, and probabilities are" in note
    given = srf.RandomFeatureClassifier(features, alpha=0.1, loss=loss).fit(X[:40], y)
    assert given.model_.notes == ()
    many = srf.RandomFeatureClassifier(features, loss=loss, random_state=0)
    many.fit(X[:400], X[:400, 0] > 0)
    assert not any("too few" in note for note in many.model_.notes)


def test_a_penalty_and_a_decoder_that_were_not_chosen_are_told():
    features = srf.RandomFourier(srf.Gaussian(gamma=2.0), 16, random_state=0)
    values = srf.RandomFeatureRegressor(features, random_state=0).fit(X[:30], X[:30, 0])
    (note,) = values.model_.notes
    assert "too few to choose alpha by, so alpha is that of the greatest evidence" in note
    assert "probabilities" not in note
    codes = srf.OneVsRest(decode="auto")
    classes = srf.RandomFeatureClassifier(features, alpha=0.1, codes=codes, random_state=0)
    (note,) = classes.fit(X[:30], np.arange(30) % 3).model_.notes
    assert "too few to choose the decoder and fit probabilities by, so the first is taken" in note
    assert "evidence" not in note


def test_the_page_says_what_is_doubtful():
    from streamrf.report.measuring import _notes

    confusion = [[90.0, 0.0], [10.0, 0.0]]
    found = SimpleNamespace(
        path=SimpleNamespace(best_alpha=lambda: 1.0, alphas=np.array([1.0, 10.0])),
        widths=SimpleNamespace(widths=np.array([64, 128]), gcvs=np.array([2.0, 1.0])),
        error={"confusion_matrix": confusion, "labels": ["no", "yes"]},
    )
    notes = list(_notes(found))
    assert [("least" in n, "width" in n, "never" in n) for n in notes] == [
        (True, False, False), (False, True, False), (False, False, True)
    ]  # fmt: skip


def rare_rows():
    """Five rows of a class among 200,000: a peek has none of them, as a rule."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 2)).astype(np.float32)
    rare = np.zeros(len(X), dtype=int)
    rare[[7_001, 50_003, 100_005, 150_007, 199_999]] = 1
    X[rare == 1, 0] += 3
    return X, rare


def test_balanced_weights_of_arrays_count_all_rows():
    X, rare = rare_rows()
    sums = srf.accumulate(srf.ArraySource(X, rare), fourier(8), class_weight="balanced")
    weights = sums.sums.targets.weights
    np.testing.assert_allclose(weights / weights.max(), 1.0, rtol=0.01)
    expected = compute_class_weight("balanced", classes=np.array([0, 1]), y=rare)
    assert expected[1] * 5 == pytest.approx(expected[0] * (len(X) - 5))


@pytest.mark.parametrize("as_text", [False, True])
def test_balanced_weights_of_hdf5_files_are_those_of_arrays(tmp_path, as_text):
    X, rare = rare_rows()
    labels = np.where(rare == 1, "rare", "usual") if as_text else rare
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    for number, rows in enumerate((slice(0, 90_000), slice(90_000, None))):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["X"], file["weights"] = X[rows], weights[rows]
            file.create_dataset(
                "y", data=labels[rows].astype("S" if as_text else int), chunks=(777,)
            )
    source = srf.HDF5Source(tmp_path / "*.h5", weights="weights")
    sums, expected = (
        srf.accumulate(one, fourier(8), class_weight="balanced", random_state=0).sums.targets
        for one in (source, srf.ArraySource(X, labels, weights))
    )
    np.testing.assert_allclose(sums.weights, expected.weights, rtol=1e-12)
    np.testing.assert_allclose(sums.weights[0], sums.weights[1], rtol=0.01)


def test_targets_of_many_hdf5_rows_are_not_read_before_the_pass(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, RARE.astype("S")
    source = srf.HDF5Source(tmp_path / "rows.h5")
    assert source.known_targets[0].tolist() == RARE.tolist()
    monkeypatch.setattr("streamrf.sources.hdf5.MAX_KNOWN", N - 1)
    assert source.known_targets is None


def test_targets_are_not_read_before_the_pass_for_weights_that_are_given(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, RARE.astype("S")
    source = srf.HDF5Source(tmp_path / "rows.h5")
    monkeypatch.setattr(srf.HDF5Source, "known_targets", property(lambda self: pytest.fail("read")))
    found, expected = (
        srf.accumulate(one, fourier(8), class_weight={"rare": 5.0}, random_state=0).sums.targets
        for one in (source, srf.ArraySource(X, RARE))
    )
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_a_class_that_cannot_be_balanced_is_told():
    X, rare = rare_rows()
    source = srf.IteratorSource(
        (X[i : i + 4096], rare[i : i + 4096]) for i in range(25_000, 200_000, 4096)
    )
    with pytest.warns(StreamrfWarning, match=r"rows of class 1, .* cannot weigh it by its share"):
        srf.accumulate(source, fourier(8), class_weight="balanced")


@pytest.mark.parametrize("dirt", ["n.a.", "1,5", "y"])
def test_a_target_that_is_no_number_is_no_class(dirt):
    """One of them makes texts of all numbers, and did a classifier of a regression."""
    y = np.round(SIGNAL, 1).astype(str)
    y[700] = dirt
    with pytest.raises(DataError, match=rf"row 700: the target is '{dirt}', and \d+ of \d+"):
        srf.accumulate(srf.ArraySource(X, y), fourier(8))
    assert (
        srf.accumulate(srf.ArraySource(X, y), fourier(8), task="classification").labels is not None
    )
    with pytest.raises(DataError, match=rf"row 700: the target '{dirt}' is a text, not a number"):
        srf.accumulate(srf.ArraySource(X, y), fourier(8), task="regression")


@pytest.mark.parametrize(
    ("n_classes", "first", "n_unknown", "is_told"),
    [(20, 0, 1, True), (8, 0, 1, True), (5, 0.5, 1, True), (8, 0, 100, False), (1, 0, 1, False)],
)
def test_a_label_among_numbers_that_is_none_is_told(n_classes, first, n_unknown, is_told):
    """Of few different numbers if it is rare, be they whole or not."""
    y = (first + np.arange(N) % n_classes).astype(str)
    y[700 : 700 + n_unknown] = "unknown"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sums = srf.accumulate(srf.ArraySource(X, y), fourier(8))
    assert len(sums.labels) == n_classes + 1
    assert any("the target is 'unknown'" in str(one.message) for one in caught) == is_told


@pytest.mark.parametrize(
    ("targets", "is_told"),
    [
        (np.eye(3)[np.arange(90) % 3], True),
        (np.eye(3, dtype=bool)[np.arange(90) % 3], True),
        (np.eye(3)[np.arange(90) % 3] * 2, False),
        (np.arange(180).reshape(90, 2) % 2, True),
        (np.arange(270).reshape(90, 3) % 2, False),
        (np.ones((90, 1)), False),
    ],
)
def test_classes_written_one_hot_are_warned_of(targets, is_told):
    source = srf.ArraySource(np.random.default_rng(0).standard_normal((90, 3)), targets)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        srf.accumulate(source, srf.RandomFourier(n_components=8))
        srf.accumulate(source, srf.RandomFourier(n_components=8), regression=True)
    assert is_told == any("as classes written one-hot have" in str(one.message) for one in caught)
    assert sum("one-hot" in str(one.message) for one in caught) <= 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (srf.Settings(task="regression"), "give them as settings="),
        (srf.Gaussian(), r"got the kernel Gaussian\(.*; take StructuredFourier"),
        (srf.RandomMaclaurin, "must be a feature map such as"),
        ("maclaurin", "must be a feature map or 'auto'"),
    ],
    ids=["settings", "kernel", "class", "word"],
)
def test_what_is_no_map_is_told_before_rows_are_read(features, message):
    class Unread(srf.ArraySource):
        def sample(self, n_rows):
            raise AssertionError("rows were read")

    source = Unread(np.arange(300.0).reshape(-1, 1), np.arange(300.0))
    with pytest.raises(srf.errors.ParameterError, match=message):
        srf.accumulate(source, features)
