"""Estimators go on, load, score on sources and travel through scikit-learn's tools."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamrf as srf
from integers import assert_same_bytes
from streamrf.errors import FormatError, MergeError, ParameterError, UnknownLabelError
from streamrf.statistics import kfold_index

X, Y = load_digits(return_X_y=True)
VALUES = load_diabetes(return_X_y=True)


def features(n=64, gamma=0.001):
    return srf.RandomFourier(srf.Gaussian(gamma), n, random_state=0)


def classifier(**settings):
    return srf.RandomFeatureClassifier(**{"features": features(), "random_state": 0, **settings})


# partial_fit after fit


@pytest.mark.parametrize("settings", [{"alpha": 0.1}, {"alpha": "auto"}])
def test_partial_fit_after_fit_adds_to_its_sums(settings):
    fitted = classifier(**settings).fit(X[:1000], Y[:1000])
    before = fitted.statistics_
    bytes_before = before.gram.tobytes()
    batches = classifier(**settings).partial_fit(X[:1000], Y[:1000])
    assert batches.statistics_.gram.tobytes() == bytes_before
    for model in (fitted, batches):
        for start in (1000, 1400):
            model.partial_fit(X[start : start + 400], Y[start : start + 400])
    trees = [model.statistics_.sums.to_tree() for model in (fitted, batches)]
    assert_same_bytes(*trees)
    assert fitted.statistics_.n_rows == len(X)
    assert fitted.statistics_.moments.n_rows == len(X)
    assert before.gram.tobytes() == bytes_before  # what was handed out stays as it was
    np.testing.assert_allclose(fitted.model_.coef, batches.model_.coef, rtol=1e-6, atol=1e-9)


def test_partial_fit_after_fit_counts_the_same_rows_as_often_as_they_come():
    model = classifier(alpha=0.1).fit(X, Y).partial_fit(X, Y).partial_fit(X, Y)
    assert model.statistics_.n_rows == 3 * len(X)


def test_partial_fit_takes_sources_and_batches_in_turn():
    model = classifier(alpha=0.1).partial_fit(srf.ArraySource(X[:900], Y[:900]))
    model.partial_fit(X[900:1200], Y[900:1200]).partial_fit(srf.ArraySource(X[1200:], Y[1200:]))
    whole = classifier(alpha=0.1).fit(X[:900], Y[:900]).partial_fit(X[900:], Y[900:])
    assert model.statistics_.gram.tobytes() == whole.statistics_.gram.tobytes()
    with pytest.raises(MergeError, match="counted twice"):
        model.partial_fit(srf.ArraySource(X[:900], Y[:900]))


def test_partial_fit_of_tables_reads_columns_as_fit_did():
    frame = people(900)
    parts = [(frame[i : i + 300], frame["buys"][i : i + 300]) for i in range(0, 900, 300)]
    model = classifier(alpha=0.1)
    for part, buys in parts:
        model.partial_fit(part.drop(columns="buys"), buys)
    assert model.statistics_.n_rows == 900
    assert model.feature_names_in_.tolist() == ["age", "city"]
    assert model.n_features_in_ == 2
    assert model.score(frame.drop(columns="buys"), frame["buys"]) > 0.8


def test_partial_fit_refuses_what_has_no_sums(tmp_path):
    classifier().fit(X, Y).save(tmp_path / "m.h5")
    with pytest.raises(ParameterError, match="a model file has no sums"):
        srf.load_model(tmp_path / "m.h5").partial_fit(X, Y)
    with pytest.raises(ParameterError, match="give partial_fit a dict"):
        classifier(class_weight="balanced").fit(X, Y).partial_fit(X, Y)


def test_weights_of_blocks_chosen_on_rows_held_out_leave_the_moments_alone():
    both = srf.Concatenate([features(24), features(24, 0.01)])
    model = srf.RandomFeatureClassifier(both, block_weights="auto", random_state=0).fit(X, Y)
    assert model.statistics_.moments.n_rows == len(X)


# load_model gives back what was saved

SETTINGS = [
    {},
    {"features": srf.RandomMaclaurin(srf.Polynomial(3), 40), "normalize": "l2", "prune": 20},
    {"codes": srf.ErrorCorrectingCodes(15), "class_weight": dict.fromkeys(range(10), 1.5)},
    {"warp": "diagonal", "normalize": "standard", "random_state": np.random.RandomState(0)},
    {"scale_like": srf.moments(srf.ArraySource(X)), "normalize": "standard"},
    {"features": srf.Concatenate([features(24), features(24, 0.01)]), "block_weights": [1, 2]},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_loaded_estimator_is_the_one_that_was_saved(settings, tmp_path):
    model = classifier(**settings).fit(X[:600], Y[:600])
    model.save(tmp_path / "m.h5")
    again = srf.load_model(tmp_path / "m.h5")
    assert type(again) is srf.RandomFeatureClassifier
    assert is_classifier(again)
    assert repr(clone(again)) == repr(clone(model).set_params(random_state=again.random_state))
    assert again.classes_.tolist() == list(range(10))
    assert again.score(X, Y) == model.score(X, Y) == get_scorer("accuracy")(again, X, Y)
    assert get_scorer("neg_log_loss")(again, X, Y) == get_scorer("neg_log_loss")(model, X, Y)
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert clone(again).fit(X[:600], Y[:600]).score(X, Y) > 0.6
    with pytest.raises(AttributeError, match="a model file has no statistics"):
        again.statistics_  # noqa: B018


def test_a_loaded_regressor_keeps_its_deviations_and_the_names_of_columns(tmp_path):
    frame = load_diabetes(as_frame=True).data
    model = srf.RandomFeatureRegressor(features(), uncertainty=True, alpha=1.0, random_state=0)
    model.fit(frame, VALUES[1]).save(tmp_path / "m.h5")
    again = srf.load_model(tmp_path / "m.h5")
    np.testing.assert_array_equal(
        again.predict(frame, return_std=True), model.predict(frame, return_std=True)
    )
    assert again.score(frame, VALUES[1]) == model.score(frame, VALUES[1])
    assert again.feature_names_in_.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"age": "years"}))


def test_a_model_alone_is_loaded_as_one(tmp_path):
    model = classifier(alpha=0.1).fit(X, Y).statistics_.solve(0.1)
    model.save(tmp_path / "m.h5")
    again = srf.load_model(tmp_path / "m.h5")
    assert type(again) is srf.Model
    assert again.score(X, Y) == model.evaluate(X, Y)["accuracy"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "RandomFeatureRegressor"}, "another task"),
        ({"class": "Ridge"}, "class"),
        ({"settings": {"depth": 3}}, "no setting of RandomFeatureClassifier"),
        ({"feature_names_in_": ["a"]}, "feature_names_in_"),
        ({"more": 1}, "not known"),
    ],
)
def test_false_estimators_in_files_are_refused(change, message, tmp_path):
    classifier(alpha=0.1).fit(X, Y).save(tmp_path / "m.h5")
    model = srf.load_model(tmp_path / "m.h5").model_
    model.estimator.update(change)
    model.save(tmp_path / "m.h5")
    with pytest.raises(FormatError, match=message):
        srf.load_model(tmp_path / "m.h5")


# Scores by fold


def test_scores_by_fold_are_those_of_models_of_the_other_rows():
    source = srf.ArraySource(X, Y)
    scores = srf.cross_val_score(source, classifier(alpha=0.3), cv=4)
    whole = srf.accumulate(source, features(), folds=4, random_state=0)
    folds = kfold_index(np.arange(len(X)), 4)
    for k, score in enumerate(scores):
        rest = srf.accumulate(
            srf.ArraySource(X[folds != k], Y[folds != k]), like=whole.without_folds()
        )
        assert score == rest.solve(0.3).score(X[folds == k], Y[folds == k])


def test_scores_of_values_weights_and_other_figures():
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    regressor = srf.RandomFeatureRegressor(features(gamma=1.0), alpha=0.1, random_state=0)
    r2 = srf.cross_val_score(VALUES[0], regressor, VALUES[1], cv=3)
    rmse = srf.cross_val_score(VALUES[0], regressor, VALUES[1], cv=3, scoring="rmse")
    assert r2.shape == rmse.shape == (3,)
    assert (r2 > 0.3).all()
    assert (rmse > 40).all()
    scores = srf.cross_val_score(X, classifier(alpha=0.1), Y, weights, scoring="auc")
    assert (scores > 0.9).all()
    turned = srf.cross_val_score(classifier(alpha=0.1), X, Y, weights, scoring="auc")
    np.testing.assert_array_equal(turned, scores)


@pytest.mark.parametrize("scoring", ["log_loss", "brier", "reliability"])
def test_scores_by_fold_offer_no_figure_that_they_lack(scoring):
    with pytest.raises(ParameterError, match=r"no fold has it; there are .*balanced_error") as told:
        srf.cross_val_score(X, classifier(alpha=0.1), Y, scoring=scoring)
    assert "brier" not in str(told.value).split("there are")[1]


def test_scores_by_fold_choose_penalties_and_features_by_fold():
    for settings in ({"alpha": "auto"}, {"alpha": "auto", "prune": 40}):
        scores = srf.cross_val_score(X, classifier(**settings), Y, cv=3)
        assert (scores > 0.8).all()
    poor = srf.cross_val_score(X, classifier(alpha=1e6), Y, cv=3)
    assert poor.max() < scores.min()


@pytest.mark.parametrize(
    ("source", "settings", "options", "message"),
    [
        (srf.IteratorSource(iter([(X, Y)])), {}, {}, "gives its rows in order alone"),
        (srf.ArraySource(X, Y), {}, {"cv": 2}, "alpha='auto' needs cv=3"),
        (srf.ArraySource(X, Y), {}, {"cv": 1}, "cv must be an integer from 2 to 100, got 1"),
        (srf.ArraySource(X, Y), {"alpha": 1.0}, {"scoring": "f1"}, "scoring must be one of"),
    ],
)
def test_scores_that_cannot_be_are_refused(source, settings, options, message):
    with pytest.raises(ParameterError, match=message):
        srf.cross_val_score(source, classifier(**settings), **options)


# scikit-learn's tools


def people(n):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 80, n), "city": rng.choice(["Oslo", "Rome"], n)})
    frame["buys"] = np.where(frame["age"] + 30 * (frame["city"] == "Rome") > 60, "yes", "no")
    frame["age"] = frame["age"].where(frame["age"] % 7 > 0)
    return frame


def test_a_grid_over_gamma_through_a_pipeline_and_joblib():
    pipeline = make_pipeline(StandardScaler(), classifier(alpha=0.1))
    name = "randomfeatureclassifier__features__kernel__gamma"
    search = GridSearchCV(pipeline, {name: [1e-5, 1e-2]}, cv=2).fit(X[:500], Y[:500])
    assert search.best_params_ == {name: 1e-2}
    assert search.best_estimator_[-1].features_.kernel_.gamma == 1e-2
    assert "RandomFeatureClassifier" in search._repr_html_()
    assert search.score(X, Y) == pickle.loads(pickle.dumps(search)).score(X, Y)


@pytest.mark.parametrize("mode", [None, "r", "c"])
@pytest.mark.parametrize("began", ["fit", "partial_fit"])
def test_joblib_keeps_an_estimator_that_goes_on(tmp_path, mode, began):
    model = getattr(classifier(), began)(X[:900], Y[:900])
    model.predict(X[:5])
    joblib.dump(model, tmp_path / "m.joblib")
    again = joblib.load(tmp_path / "m.joblib", mmap_mode=mode)
    for one in (model, again):
        one.partial_fit(X[900:], Y[900:])
    assert again.statistics_.gram.tobytes() == model.statistics_.gram.tobytes()
    assert again.alpha_ == model.alpha_


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_maps_put_out_tables_with_names(container):
    Z = features(6).fit(X).set_output(transform=container).transform(X[:5])
    assert type(Z).__module__.partition(".")[0] == container
    names = [f"randomfourier{i}" for i in range(6)]
    assert list(Z.columns) == names == features(6).fit(X).get_feature_names_out().tolist()
    pipeline = make_pipeline(features(6), classifier(alpha=0.1)).set_output(transform=container)
    assert pipeline.fit(X, Y)[-1].feature_names_in_.tolist() == names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("width", r"RandomFourier has no setting 'width'; it has \['kernel', "),
        ("kernel__width", r"Gaussian has no setting 'width'; it has \['gamma'\]"),
        ("kernel__", r"Gaussian has no setting ''"),
        ("paired__width", r"RandomFourier has paired=True, which has no settings"),
    ],
)
def test_settings_that_are_none_are_named(name, message):
    for model, prefix in ((features(), ""), (classifier(), "features__")):
        with pytest.raises(ValueError, match=message):
            model.set_params(**{prefix + name: 1})
    with pytest.raises(ValueError, match=r"RandomFourier has kernel=None, which has no settings"):
        srf.RandomFourier().set_params(kernel__gamma=1.0)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame])
def test_tables_of_numbers_have_their_names_checked(table):
    frame = table({f"c{i}": X[:, i] for i in range(1, 9)})
    model = classifier(alpha=0.1).fit(frame, Y)
    assert model.feature_names_in_.tolist() == [f"c{i}" for i in range(1, 9)]
    assert model.predict(frame).tolist() == model.predict(frame).tolist()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table({f"d{i}": X[:, i] for i in range(1, 9)}))


@pytest.mark.parametrize("table", [pd.DataFrame, pl.from_pandas])
def test_tables_with_holes_are_filled_in(table):
    frame = people(400).drop(columns=["city", "buys"])
    model = classifier(alpha=0.1).fit(table(frame), people(400)["buys"].to_numpy())
    assert model.n_features_in_ == 1
    assert model.model_.encoder.table.outputs == ("age", "age missing")
    assert model.score(table(frame), people(400)["buys"].to_numpy()) > 0.6


def test_sample_weights_are_routed():
    weights = np.where(Y == 3, 5.0, 1.0)
    with config_context(enable_metadata_routing=True):
        model = classifier(alpha=0.1).set_fit_request(sample_weight=True)
        model = model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"alpha": [0.1]}, cv=2).fit(X, Y, sample_weight=weights)
        found = cross_validate(model, X, Y, cv=2, params={"sample_weight": weights})
    plain = classifier(alpha=0.1).fit(X, Y, weights).statistics_
    assert search.best_estimator_.statistics_.gram.tobytes() == plain.gram.tobytes()
    assert len(found["test_score"]) == 2


def test_a_class_in_one_fold_alone_is_told_with_its_fold(rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "a", "c")
    y[7] = "b"
    clf = srf.RandomFeatureClassifier(srf.TreeSketch(n_components=16), random_state=0)
    with pytest.raises(UnknownLabelError, match=r"fold \d has all rows of a class: .*'b'.*cv="):
        srf.cross_val_score(X, clf, y)
