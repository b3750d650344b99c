"""Maps of the user's own code, and the columns themselves: exact, named in files, never held."""

import os
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

import streamrf as srf
from cases import Waves, write_hdf5
from commands import refused, told
from integers import assert_same_bytes
from streamrf.engine import base
from streamrf.errors import (
    BadRowError,
    CheckpointError,
    FormatError,
    MergeError,
    ParameterError,
    ShapeError,
)
from streamrf.features import attach_code
from streamrf.kernels import not_held
from streamrf.training import memory

pytestmark = pytest.mark.usefixtures("one_thread")

N, D = 700, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
LABELS = (X[:, 0] * X[:, 1] > 0) + 2 * (X[:, 2] > 0.5)
VALUES = X[:, 0] - 2 * X[:, 1] ** 2 + X[:, 2] * X[:, 3]
SOURCE = srf.ArraySource(X, LABELS)
W = RNG.normal(size=(D, 20)).astype(np.float32)
PCA_4 = PCA(4).fit(X)


def waves(X):
    """A function as users write them."""
    return np.sin(X @ W)


def other_waves(X):
    return np.sin(1.1 * X @ W)


def edges(patches):
    return np.abs(patches @ W[:4, :3])


OWN = {
    "function": (srf.CallableMap(waves, 20), waves),
    "transformer": (srf.TransformerMap(PCA_4), PCA_4),
    "convolution": (srf.Convolution(srf.CallableMap(edges, 3), 9, window=4, cells=3), edges),
    "craft": (srf.Craft(srf.CallableMap(waves, 20), 10), waves),
    "several": (
        srf.Concatenate([srf.CallableMap(waves, 20), srf.Identity(), srf.TransformerMap(PCA_4)]),
        [waves, PCA_4],
    ),
}
every_own = pytest.mark.parametrize(("features", "code"), OWN.values(), ids=OWN)


# The columns themselves.


@pytest.mark.parametrize(
    "kernel",
    [
        srf.Linear(),
        srf.Polynomial(degree=1, coef0=2),
        srf.Polynomial(degree=2, gamma=0.5, coef0=3),
        srf.Polynomial(degree=2, coef0=0),
        srf.DotProduct((0, 2, 1)),
        srf.VovkReal(degree=3, gamma=0.3),
        srf.Columnwise(srf.Polynomial(degree=2)),
        srf.Columnwise(srf.Polynomial(degree=5, coef0=0.5)),
        srf.Columnwise(srf.DotProduct((0, 0, 3))),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_features", [1, 2, D])
def test_products_of_monomials_are_the_kernel(kernel, n_features):
    rows = X[:50, :n_features]
    features = srf.Identity(kernel)
    Z = features.fit_transform(rows).astype(np.float64)
    assert Z.shape[1] == features.width_for(n_features)
    assert (Z != 0).any(axis=0).all()
    K = kernel(rows)
    np.testing.assert_allclose(Z @ Z.T, K, rtol=1e-5, atol=1e-6 * np.abs(K).max())


@pytest.mark.parametrize(
    "kernel", [srf.Polynomial(3), srf.Exponential(), srf.Gaussian(), "linear", 2], ids=repr
)
def test_a_kernel_of_too_many_monomials_is_refused(kernel):
    with pytest.raises(ParameterError, match=r"Identity takes Linear, .* got "):
        srf.Identity(kernel).fit(X)


def test_a_kernel_by_columns_needs_a_series_that_ends():
    with pytest.raises(ParameterError, match=r"the series of Exponential\(\) has no end"):
        srf.Identity(srf.Columnwise(srf.Exponential())).fit(X)


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [
        (None, FunctionTransformer()),
        (srf.Columnwise(srf.DotProduct((0, 1, 1))), FunctionTransformer(lambda X: np.c_[X, X**2])),
        (
            srf.DotProduct((0, 1, 1)),  # a product of two columns weighs twice
            make_pipeline(
                PolynomialFeatures(2, include_bias=False),
                FunctionTransformer(lambda Z: Z * [1] * D if len(Z[0]) == D else Z * SCALES),
            ),
        ),
    ],
)
def test_a_model_is_the_ridge_of_the_monomials(kernel, columns):
    source = srf.ArraySource(X, VALUES)
    options = {"regression": True, "precision": "float64"}
    model = srf.accumulate(source, srf.Identity(kernel), **options).solve(0.7)
    Z = columns.fit_transform(X.astype(np.float64))
    ridge = Ridge(alpha=0.7).fit(Z, VALUES)
    np.testing.assert_allclose(model.predict(X), ridge.predict(Z), rtol=1e-4, atol=1e-5)


POWERS = PolynomialFeatures(2, include_bias=False).fit(X).powers_
SCALES = np.where((POWERS == 1).sum(axis=1) == 2, np.sqrt(2), 1.0)


def test_the_identity_has_a_word_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hdf5(tmp_path / "rows.h5", X, LABELS)
    fit = ("fit", "rows.h5", "--y", "y", "--map", "identity", "--normalize", "standard")
    told(*fit, "--model", "linear.h5")
    told(*fit, "--kernel", "polynomial", "--degree", "2", "--model", "products.h5")
    linear, products = map(srf.load_model, ("linear.h5", "products.h5"))
    assert (linear.encoder.n_components, products.encoder.n_components) == (D, 28)
    assert products.score(X, LABELS) > linear.score(X, LABELS) + 0.1
    assert "Identity" in told("info", "linear.h5")


# Your own code.


def test_a_function_that_returns_the_rows_is_the_identity():
    own = srf.accumulate(SOURCE, srf.CallableMap(lambda X: X, D))
    assert own.gram.tobytes() == srf.accumulate(SOURCE, srf.Identity()).gram.tobytes()


@pytest.mark.parametrize(
    "function",
    [
        lambda X: waves(X).astype(np.float64),
        lambda X: scipy.sparse.csr_matrix(waves(X)),
        lambda X: waves(X).tolist(),
        lambda X: pytest.importorskip("pandas").DataFrame(waves(X)),
        partial(lambda W, X: np.sin(X @ W), W),
        FunctionTransformer(waves).transform,
        lambda X: np.sin(X, out=X) if X.shape[1] != D else np.sin(np.matmul(X, W)),
    ],
)
def test_what_a_function_returns_may_be_of_many_kinds(function):
    Z = srf.CallableMap(function, 20).fit_transform(X)
    assert Z.dtype == np.float32
    assert Z.tobytes() == srf.CallableMap(waves, 20).fit_transform(X).tobytes()


@pytest.mark.parametrize("batch_rows", [16, 48, 4096])
def test_a_function_sees_float32_rows_of_one_shape(batch_rows):
    shapes = set()

    def seen(X):
        shapes.add((X.shape, X.dtype, X.flags.c_contiguous, X.flags.writeable))
        X[:] = 1 - X  # which is its own
        return X

    features = srf.CallableMap(seen, D, batch_rows=batch_rows).fit(X)
    np.testing.assert_array_equal(features.transform(X), 1 - X)
    np.testing.assert_array_equal(features.transform(X[:3]), 1 - X[:3])
    assert shapes == {((batch_rows, D), np.dtype(np.float32), True, True)}


@pytest.mark.parametrize("batch_rows", [0, 8, 100, 16.5, None])
def test_a_batch_is_whole_groups_of_rows(batch_rows):
    with pytest.raises(ParameterError, match=r"batch_rows must be a multiple of 16, got"):
        srf.CallableMap(waves, 20, batch_rows=batch_rows).fit(X)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda X: X[:, :3],
            ShapeError,
            r"returned ndarray of float32 of shape \(128, 3\) for 128",
        ),
        (lambda X: X[:5], ShapeError, r"shape \(5, 6\) for 128 rows; expected .* \(128, 20\)"),
        (lambda X: X.sum(axis=1), ShapeError, r"of shape \(128,\) for 128 rows"),
        (lambda X: None, ShapeError, r"returned NoneType of object of shape \(\)"),
        (lambda X: waves(X).astype(complex), ShapeError, r"of complex64|of complex128"),
        (
            lambda X: waves(X - X.mean(axis=0)),
            ParameterError,
            r"must answer for each row by it",
        ),
        (lambda X: waves(X) + waves(X)[0], ParameterError, r"must answer for each row by it"),
        (lambda X: waves(X) + RNG.normal(size=20), ParameterError, r"and always the same"),
        (lambda X: np.log(waves(X)), BadRowError, r"returned NaN or infinity for \d+ of \d+ rows"),
        (lambda X: 1e60 * np.float64(waves(X)), BadRowError, r"returned NaN or infinity"),
        ("waves", ParameterError, r"features are those of 'waves', code that files name"),
        (3, ParameterError, r"function must be a function of rows, got 3"),
    ],
)
def test_a_function_that_cannot_be_is_told(function, error, message):
    clf = srf.RandomFeatureClassifier(srf.CallableMap(function, 20))
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        clf.fit(X, LABELS)


def test_a_function_that_fails_in_its_own_way_is_heard():
    def failing(X):
        raise OSError("no such network")

    with pytest.raises(OSError, match="no such network"):
        srf.CallableMap(failing, 3).fit(X)


def test_nan_for_a_row_to_predict_is_an_error():
    """Also of the only row, and of none that is not there: groups are filled up with zeros."""

    def scaled(X):
        with np.errstate(invalid="ignore"):
            return X / np.linalg.norm(X, axis=1, keepdims=True)

    clf = srf.RandomFeatureClassifier(srf.CallableMap(scaled, D)).fit(X, LABELS)
    assert clf.predict(X[:3]).tolist() == clf.predict(X)[:3].tolist()
    for rows in (np.zeros((1, D)), np.concatenate((X[:20], np.zeros((1, D)), X[:5]))):
        with pytest.raises(BadRowError, match=r"'.*scaled' returned NaN or infinity for 1 of"):
            clf.predict(rows)


@pytest.mark.parametrize("features", [waves, PCA_4])
def test_bare_code_is_told_how_to_be_a_map(features):
    with pytest.raises(ParameterError, match=r"CallableMap\(function, n_components\) and Transf"):
        srf.RandomFeatureClassifier(features).fit(X, LABELS)


@pytest.mark.parametrize(
    "kernel",
    [
        srf.FeatureProduct(np.sqrt),
        srf.KernelSum([srf.Gaussian(1.0), srf.FeatureProduct(np.sqrt)]),
        srf.Convolved(srf.FeatureProduct(np.sqrt), window=2),
    ],
    ids=["product", "sum", "convolved"],
)
def test_landmarks_refuse_code_that_their_file_could_not_take_again(kernel):
    with pytest.raises(ParameterError, match=r"kernel: .*'sqrt'.* CallableMap\(function, n_comp"):
        srf.Nystroem(kernel, 8).fit(np.abs(X))


# Transformers.


def test_a_fitted_transformer_is_used_as_it_is():
    features = srf.TransformerMap(PCA_4)
    assert clone(features).fit(X[:9]).transformer_ is PCA_4
    np.testing.assert_allclose(features.fit_transform(X), PCA_4.transform(X), rtol=1e-4, atol=1e-5)


def test_a_copy_puts_out_the_same_tables():
    for features in (srf.CallableMap(waves, 20), srf.TransformerMap(PCA(3))):
        copy = clone(features.set_output(transform="pandas")).fit(X)
        assert list(copy.transform(X[:2]).columns) == copy.get_feature_names_out().tolist()


def test_an_unfitted_transformer_is_fitted_to_the_rows_looked_at():
    pipeline = make_pipeline(StandardScaler(), PCA(3, svd_solver="randomized"))
    clf, again = (
        srf.RandomFeatureClassifier(srf.TransformerMap(pipeline), random_state=0).fit(X, LABELS)
        for _ in range(2)
    )
    assert clf.features_.transformer_ is not pipeline
    assert clf.statistics_.gram.tobytes() == again.statistics_.gram.tobytes()
    expected = pipeline.set_params(pca__random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.abs(clf.features_.transform(X)), np.abs(expected), atol=1e-3)


def test_settings_of_an_unfitted_transformer_can_be_searched():
    clf = srf.RandomFeatureClassifier(srf.TransformerMap(PCA()), alpha=0.1)
    search = GridSearchCV(clf, {"features__transformer__n_components": [1, D]}, cv=2)
    search.fit(X, X[:, 0] - X[:, 5] > 0)
    assert search.best_params_ == {"features__transformer__n_components": D}
    with pytest.raises(ParameterError, match=r"transformer__n_components: the transformer is fit"):
        srf.TransformerMap(PCA_4).set_params(transformer__n_components=2)
    other = srf.TransformerMap(PCA_4).set_params(transformer=PCA(), transformer__n_components=2)
    assert other.fit(X).n_components == 2


def test_a_transformer_fitted_to_names_gets_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.astype(np.float64), columns=[*"abcdef"])
    pca = PCA(4).fit(frame).set_output(transform="pandas")
    clf = srf.RandomFeatureClassifier(srf.TransformerMap(pca)).fit(frame, LABELS)
    plain = srf.RandomFeatureClassifier(srf.TransformerMap(PCA(4).fit(X))).fit(X, LABELS)
    assert clf.score(frame, LABELS) == plain.score(X, LABELS)  # and no warning, which is an error
    other = frame[[*"fedcba"]]
    for use in (
        lambda: clf.fit(other, LABELS),
        lambda: srf.accumulate(srf.open_source(other, y=LABELS), srf.TransformerMap(pca)),
    ):
        with pytest.raises(ParameterError, match=r"the transformer .* fitted to the columns .*'a'"):
            use()


def test_a_transformer_that_picks_columns_by_name_is_to_be_fitted_before():
    """It ended in an error of scikit-learn, that data frames are needed where one was given."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=[*"abc"])
    picks = ColumnTransformer([("s", StandardScaler(), ["a", "c"])])
    regressor = srf.RandomFeatureRegressor(srf.TransformerMap(picks), alpha=0.1)
    with pytest.raises(ParameterError, match=r"picks columns by name, .* fit it to a data frame"):
        regressor.fit(frame, frame.a)
    regressor.set_params(features=srf.TransformerMap(picks.fit(frame)))
    assert regressor.fit(frame, frame.a).score(frame, frame.a) > 0.99
    places = ColumnTransformer([("s", StandardScaler(), [0, 2])])
    regressor.set_params(features=srf.TransformerMap(places))
    assert regressor.fit(frame, frame.a).score(frame, frame.a) > 0.99


def test_a_transformer_that_needs_targets_is_to_be_fitted_before():
    lda = LinearDiscriminantAnalysis()
    with pytest.raises(ParameterError, match=r"LinearDiscriminantAnalysis cannot be fitted to r"):
        srf.RandomFeatureClassifier(srf.TransformerMap(lda)).fit(X, LABELS)
    features = srf.TransformerMap(lda.fit(X, LABELS))
    assert srf.RandomFeatureClassifier(features).fit(X, LABELS).features_.n_components == 3


@pytest.mark.parametrize("transformer", [PCA, 3, Ridge()])
def test_what_does_not_transform_is_refused(transformer):
    with pytest.raises(ParameterError, match="transformer must have a transform of rows, got"):
        srf.TransformerMap(transformer).fit(X)


# Files.


@every_own
def test_a_file_names_the_code_and_takes_it_on_loading(tmp_path, features, code):
    clf = srf.RandomFeatureClassifier(features, random_state=0).fit(X, LABELS)
    clf.save(tmp_path / "model.h5")
    clf.statistics_.save(tmp_path / "sums.h5")
    expected = clf.predict_proba(X)
    for given in (code, features, clf.features_):
        again = srf.load_model(tmp_path / "model.h5", features=given)
        assert again.predict_proba(X).tobytes() == expected.tobytes()
        assert again.fit(X, LABELS).predict_proba(X).tobytes() == expected.tobytes()
        sums = srf.load_statistics(tmp_path / "sums.h5", features=given)
        both = sums + srf.accumulate(srf.ArraySource(-X, LABELS), like=sums)
        assert both.n_rows == 2 * N
        assert both.encoder.digests == clf.statistics_.encoder.digests
    again.save(tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "model.h5").read_bytes()
    X_few = X[:5]
    np.testing.assert_allclose(
        again.features_.kernel_(X_few), clf.features_.kernel_(X_few), rtol=1e-6
    )


@every_own
def test_without_its_code_a_file_does_all_that_needs_no_features(tmp_path, features, code):
    a, b = (srf.ArraySource(X[rows], LABELS[rows]) for rows in (slice(300), slice(300, N)))
    whole = srf.accumulate(SOURCE, features, folds=3, random_state=0)
    for name, source in (("a", a), ("b", b)):
        srf.accumulate(source, like=whole).save(tmp_path / f"{name}.h5")
    a, b = (srf.load_statistics(tmp_path / f"{name}.h5") for name in "ab")
    both = a + b
    assert both.gram.tobytes() == whole.gram.tobytes()
    assert_same_bytes((both - b).to_tree(), a.to_tree())
    model = both.solve(0.1)
    assert model.coef.tobytes() == whole.solve(0.1).coef.tobytes()
    both.path(), both.cross_validate(), both.prune(3).solve(0.1)
    assert "CallableMap" in repr(both.encoder.features) or "TransformerMap" in repr(features)
    repr(model)
    for use in (
        lambda: model.predict(X),
        lambda: model.evaluate(SOURCE),
        lambda: srf.accumulate(SOURCE, like=both),
        lambda: both.encoder.features.kernel_(X),
    ):
        with pytest.raises(ParameterError, match=r"code that files name and do not hold; "):
            use()
    attach_code(both.encoder.features, code)
    assert model.predict(X).tolist() == whole.solve(0.1).predict(X).tolist()


def test_other_code_than_that_of_the_training_is_refused(tmp_path):
    srf.RandomFeatureClassifier(OWN["function"][0], random_state=0).fit(X, LABELS).save(
        tmp_path / "model.h5"
    )
    srf.accumulate(SOURCE, srf.Identity()).save(tmp_path / "plain.h5")
    load = partial(srf.load_model, tmp_path / "model.h5")
    for given, message in (
        (other_waves, r"features='other_waves' is not the 'waves' of the file: \d+ of 80 features"),
        (lambda X: waves(X)[:, :19], r"of shape \(128, 19\) for 128 rows"),
        (lambda X: waves(X) + 0.1 * (np.arange(20) == 7), r"4 of 80 features"),
        ([waves, waves], r"has 2 functions or transformers, and the file names 1: waves"),
        (srf.Identity(), r"has 0 functions or transformers"),
        (PCA(20), r"features='PCA' is not fitted"),
        ("waves.joblib", r"features='waves.joblib' is no code; pass the function or the fitted"),
    ):
        with pytest.raises((ParameterError, ShapeError), match=message):
            load(features=given)
    again = load(features=FunctionTransformer(waves))  # a transform will do
    assert again.predict(X).tolist() == again.fit(X, LABELS).predict(X).tolist()
    with pytest.raises(ParameterError, match=r"features= is for maps of your own code, and this"):
        srf.load_statistics(tmp_path / "plain.h5", features=waves)
    renamed = load(features=lambda X: np.sin(X @ W) * np.float32(1 + 1e-6))  # as other machines do
    assert renamed.model_.encoder.digests == load().model_.encoder.digests


def test_code_that_answers_otherwise_does_not_merge():
    ours, theirs = (srf.accumulate(SOURCE, srf.CallableMap(f, 20)) for f in (waves, other_waves))
    with pytest.raises(MergeError, match="summed with different feature maps"):
        ours + theirs

    def renamed(X):
        return waves(X)

    theirs = srf.accumulate(srf.ArraySource(X + 1, LABELS), srf.CallableMap(renamed, 20))
    with pytest.raises(MergeError, match="summed with different feature maps"):
        ours + theirs


def test_a_file_of_tampered_code_is_refused(tmp_path):
    tree = srf.accumulate(SOURCE, srf.CallableMap(waves, 20)).to_tree()
    assert tree["encoder"]["features"]["params"]["function"] == "waves"
    fitted = tree["encoder"]["features"]["fitted"]
    for name, value in (("name_", 3), ("probe_", np.zeros((4, 19), np.float32)), ("probe_", None)):
        wrong = {**tree["encoder"]["features"], "fitted": {**fitted, name: value}}
        with pytest.raises(FormatError, match=name):
            srf.Statistics.from_tree({**tree, "encoder": {**tree["encoder"], "features": wrong}})


def test_commands_show_the_name_and_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hdf5(tmp_path / "rows.h5", X, LABELS)
    clf = srf.RandomFeatureClassifier(srf.CallableMap(waves, 20), random_state=0).fit(X, LABELS)
    clf.save("model.h5")
    clf.statistics_.save("sums.h5")
    for name in ("model.h5", "sums.h5"):
        assert re.search(r"map +CallableMap\(.*function='waves', n_comp", told("info", name))
    told("solve", "sums.h5", "--alpha", "0.1", "--model", "solved.h5")
    for words in (
        ("evaluate", "model.h5", "rows.h5", "--y", "y"),
        ("predict", "solved.h5", "rows.h5", "-o", "out.h5"),
    ):
        assert refused(*words).endswith(not_held("waves"))
    assert not (tmp_path / "out.h5").exists()
    assert "waves" in repr(srf.load_model("model.h5"))


# Restarts and workers.


class Killed(Exception):
    """Stands for the end of the process."""


def killed(X, calls):
    """The waves, until the pass has begun."""
    calls.append(len(X))
    if len(calls) == 15:  # of them three for the probe, and one for each block
        raise Killed
    return waves(X)


def named_waves(function):
    """A function of the same name."""
    function = partial(function)
    function.name_ = "waves"
    return function


@pytest.mark.parametrize("hold_out", [False, True])
def test_a_restart_takes_the_code_of_the_program(tmp_path, monkeypatch, hold_out):
    monkeypatch.setattr(memory, "MIN_ROWS", 100)
    monkeypatch.setattr(base, "MAX_ROWS", 100)
    path = tmp_path / "pass.checkpoint"

    def run(function, **options):
        features = srf.CallableMap(function, 20)
        return srf.accumulate(SOURCE, features, hold_out=hold_out, random_state=0, **options)

    options = {"checkpoint": path, "checkpoint_every": 0}
    with pytest.raises(Killed):
        run(named_waves(partial(killed, calls=[])), **options)
    assert path.exists()
    with pytest.raises(CheckpointError, match=r"function was 'waves' and is 'other_waves'"):
        run(other_waves, **options)
    with pytest.raises(ParameterError, match=r"features='waves' is not the 'waves' of the file"):
        run(named_waves(other_waves), **options)
    assert_same_bytes(run(waves, **options).to_tree(), run(waves).to_tree())


def test_what_a_restart_could_not_fit_again_is_refused(tmp_path):
    features = srf.Concatenate([srf.Identity(), srf.TransformerMap(PCA(2))])
    with pytest.raises(ParameterError, match=r"PCA would be fitted to rows of this run, and no fi"):
        srf.accumulate(SOURCE, features, checkpoint=tmp_path / "pass.checkpoint")


def test_workers_have_the_code_of_scripts_and_closures(tmp_path, two_workers):
    source = srf.HDF5Source(write_hdf5(tmp_path / "rows.h5", X, LABELS, chunks=(50, D)), y="y")
    scale = np.float32(0.5)
    for features in (
        srf.CallableMap(lambda X: waves(scale * X), 20),
        srf.TransformerMap(make_pipeline(FunctionTransformer(lambda X: X * scale), PCA(3))),
        srf.CallableMap(Waves(20), 20),
    ):
        options = {"random_state": 0, "folds": 2}
        here = srf.accumulate(source, features, **options)
        there = srf.accumulate(source, features, engine=two_workers, **options)
        assert_same_bytes(there.to_tree(), here.to_tree())
        if "n_components" in features.get_params():
            options |= {"engine": two_workers, "spill": tmp_path / f"spill {features.function}"}
            os.mkdir(options["spill"])
            for _ in range(2):  # the second time from the shards that are kept
                kept = srf.accumulate(source, features, parts=3, **options)
                assert_same_bytes(kept.to_tree(), here.to_tree())
        model = here.solve(0.1)
        assert model.predict(source, engine=two_workers).tolist() == model.predict(source).tolist()
