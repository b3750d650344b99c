"""Arguments of the wrong kind: each public name says so itself, or takes them; none fails inside.

An error must be one of the library's own, or a TypeError or ValueError that names the parameter.
"""

import inspect
import traceback
import warnings
from functools import partial

import dask.array
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import streamrf as srf
from streamrf.errors import DataError, ParameterError, ShapeError, StreamrfError
from streamrf.features import TABLE as MAPS
from streamrf.kernels import TABLE as KERNELS

WRONG = [None, [], {}, "", "nonsense", -1, 0, float("nan"), np.ones(3), object()]
ROWS = np.random.default_rng(0).uniform(0, 0.5, (40, 3)).astype(np.float32)
LABELS, VALUES = (ROWS[:, 0] > 0.25).astype(int), ROWS[:, 1]
MADE = {  # what other names return, or what takes objects of the library's inside
    *("Model", "Moments", "PrincipalComponents", "Selection", "Statistics", "TwoSample", "Warp"),
    *("MatrixSource", "TableSource", "StreamrfWarning"),
}
MAP = srf.RandomFourier(srf.Gaussian(0.1), 8, random_state=0)
OF_MAPS = {
    "CallableMap": {"function": np.tanh, "n_components": 3},
    "Concatenate": {"maps": [MAP]},
    "Convolution": {"patches": MAP, "shape": (3, 1), "window": 1, "n_components": 24},
    "Craft": {"up": srf.TensorSketch(n_components=16)},
    "TransformerMap": {"transformer": StandardScaler().fit(ROWS)},
}
OF_KERNELS = {
    "Columnwise": {"outer": srf.Polynomial()},
    "Composed": {"outer": srf.Polynomial(), "inner": srf.Gaussian(0.1)},
    "Convolved": {"patch": srf.Gaussian(0.1), "shape": (3, 1), "window": 1},
    "DotProduct": {"coefficients": [1.0, 1.0]},
    "FeatureProduct": {"transform": np.tanh},
    "KernelSum": {"kernels": [srf.Gaussian(0.1)]},
}


def fitted(name, **settings):
    MAPS[name](**settings).fit(ROWS).transform(ROWS[:2])


def of_rows(name, **settings):
    kernel = KERNELS[name](**settings).learn(ROWS)
    kernel.check_settings()
    kernel(ROWS[:2], ROWS[:3])


def pair(classes, **options):
    source = srf.ArraySource(ROWS, LABELS if classes else VALUES)
    return srf.accumulate(source, MAP, task="auto", **options)


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """What is called, by its name: a function of keywords, those that are right, all parameters."""
    folder = tmp_path_factory.mktemp("wrong")
    labelled, valued = srf.ArraySource(ROWS, LABELS), srf.ArraySource(ROWS, VALUES)
    classes, values = pair(True, folds=3), pair(False)
    model, regression = classes.solve(0.1), values.solve(0.1, uncertainty=True)
    for name, saved in (("classes", classes), ("model", model)):
        saved.save(folder / name)
    rows = {}

    def row(name, function, given=None, of=None, left_out=()):
        names = inspect.signature(function if of is None else of).parameters.values()
        plain = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names = [p.name for p in names if p.kind not in plain and p.name not in ("self", *left_out)]
        rows[name] = function, given or {}, names

    for name, kind in MAPS.items():
        takes = inspect.signature(kind).parameters
        given = {"n_components": 8, "random_state": 0} | OF_MAPS.get(name, {})
        given = {key: value for key, value in given.items() if key in takes}
        row(name, partial(fitted, name), given, kind)
    for name, kind in KERNELS.items():
        row(name, partial(of_rows, name), OF_KERNELS.get(name), kind)

    small = {"features": MAP, "random_state": 0}
    for name, targets, given in (
        ("RandomFeatureClassifier", LABELS, small),
        ("RandomFeatureRegressor", VALUES, small),
        ("KernelRidgeClassifier", LABELS, {"kernel": srf.Gaussian(0.1)}),
        ("KernelRidgeRegressor", VALUES, {"kernel": srf.Gaussian(0.1)}),
        ("RandomFeatureKMeans", None, {"n_clusters": 2, **small}),
        ("RandomFeaturePCA", None, small),
    ):
        kind = getattr(srf, name)

        def fit(kind=kind, targets=targets, **settings):
            kind(**settings).fit(ROWS, targets).__sklearn_tags__()

        row(name, fit, given, kind)
        estimator = kind(**given).fit(ROWS, targets)
        asked = getattr(estimator, "predict", None) or estimator.transform
        row(f"{name}.{asked.__name__}", asked, {"X": ROWS})
        fresh = partial(getattr, kind(**given))
        row(f"{name}.fit", fresh("fit"), {"X": ROWS, "y": targets}, left_out=("engine",))
        for method in ("partial_fit", "score", "evaluate", "save", "fit_probabilities"):
            if hasattr(estimator, method):
                given_rows = {} if method == "save" else {"X": ROWS, "y": targets}
                takes = inspect.signature(getattr(estimator, method)).parameters
                given_rows = {key: v for key, v in given_rows.items() if key in takes}
                row(f"{name}.{method}", getattr(estimator, method), given_rows)

    def coded(kind, **settings):
        classes.solve(0.1, kind(**settings))

    for name in ("OneVsRest", "ErrorCorrectingCodes"):
        kind = getattr(srf, name)
        row(name, partial(coded, kind), {"n_bits": 4} if name[0] == "E" else {}, kind)

    row("ArraySource", srf.ArraySource, {"X": ROWS})
    row("Unlabelled", srf.Unlabelled, {"source": ROWS})
    row("DaskArraySource", srf.DaskArraySource, {"X": dask.array.from_array(ROWS)})
    row("HDF5Source", srf.HDF5Source, {"path": folder / "classes"})
    row("open_source", srf.open_source, {"data": ROWS})
    row("Deformation", srf.Deformation)
    images = srf.ArraySource(np.zeros((4, 49), np.uint8), np.arange(4))
    row("deformed_mnist", srf.deformed_mnist, {"images": images, "n_rows": 9})
    row(
        "IteratorSource",
        lambda **given: srf.accumulate(srf.IteratorSource(**given), MAP),
        {"blocks": [(ROWS, LABELS)]},
        srf.IteratorSource,
    )
    row("RunOptions", srf.RunOptions)
    row("Settings", partial(_run_settings, labelled), {"features": MAP}, srf.Settings)
    row("accumulate", srf.accumulate, {"source": labelled, "features": MAP})
    row("moments", srf.moments, {"source": labelled})
    row("mmd", srf.mmd, {"a": classes, "b": classes})
    row("refine", srf.refine, {"model": model, "source": labelled, "max_passes": 1})
    quick = {"source": labelled, "n_components": 8, "warp": None, "normalize": None, "budget": 1e-3}
    # what is right here is tried, which takes long: the task, and a width to be chosen
    row("select", srf.select, quick, left_out=("random_state", "regression"))
    ridge = srf.RandomFeatureClassifier(MAP, alpha=0.1)
    row("cross_val_score", srf.cross_val_score, {"source": labelled, "estimator": ridge, "cv": 2})
    for name, file in (
        ("load_model", "model"),
        ("load_statistics", "classes"),
        ("load_moments", "classes"),
    ):
        row(name, getattr(srf, name), {"path": folder / file})

    for where, held in (("classes", classes), ("values", values)):
        for name, given in {
            "scale": {},
            "relabel": {},
            "with_targets": {},
            "select": {},
            "with_totals": {},
            "prune": {"n_components": 4},
            "solve": {"alpha": 0.1},
            "path": {},
            "cross_validate": {},
            "principal_components": {},
            "rounding_advice": {"alpha": 0.1},
            "problem": {},
            "normal": {},
            "save": {},
        }.items():
            row(f"Statistics.{name} of {where}", getattr(held, name), given, left_out=["overwrite"])
    for where, held, targets in (("classes", model, LABELS), ("values", regression, VALUES)):
        for name, given in {
            "predict": {"source": ROWS},
            "predict_proba": {},
            "decision_function": {},
            "evaluate": {"source": ROWS, "y": targets},
            "score": {"source": ROWS, "y": targets},
            "fit_probabilities": {"source": ROWS, "y": targets},
            "novelty": {"source": ROWS},
            "restrict_classes": {},
            "save": {},
        }.items():
            row(f"Model.{name} of {where}", getattr(held, name), given)
    moved = srf.moments(valued)
    row("Moments.save", moved.save)
    row("Moments.drifted_columns", moved.drifted_columns)
    row("PrincipalComponents.transform", values.principal_components(2).transform)
    return rows


def _run_settings(source, **settings):
    srf.accumulate(source, settings=srf.Settings(**settings))


def is_clear(error, parameter):
    """Whether an error that is not our own names the parameter, or scikit-learn says it of rows."""
    if not isinstance(error, TypeError | ValueError):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    of_rows = parameter in ("X", "y", "sample_weight") and "sklearn" in frame.f_code.co_filename
    return of_rows or parameter in str(error)


def test_no_argument_of_a_wrong_kind_fails_inside(calls, tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)  # "nonsense" is a right name of a file to write
    failed = []
    for name, (function, given, parameters) in calls.items():
        for parameter in parameters:
            for value in WRONG:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        function(**given | {parameter: value})
                    except StreamrfError:
                        pass
                    except Exception as error:
                        if not is_clear(error, parameter):
                            failed.append(f"{name}({parameter}={value!r}): {error!r}"[:300])
    assert not failed, f"{len(failed)} fail:\n" + "\n".join(failed)


def test_every_public_name_has_a_row(calls):
    assert set(srf.__all__) - MADE <= set(calls)


@pytest.mark.parametrize("call", ["fit", "transform", "fit_transform"])
def test_a_map_says_that_it_takes_arrays_and_no_source(call):
    match = r"class ArraySource, and a map takes arrays; .*block\.X of each block of X\.blocks\(\)"
    with pytest.raises(srf.errors.ParameterError, match=match):
        getattr(srf.RandomFourier().fit(ROWS), call)(srf.ArraySource(ROWS, LABELS))


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]"])
@pytest.mark.parametrize("estimator", [srf.RandomFeatureClassifier, srf.KernelRidgeClassifier])
def test_dates_in_arrays_are_refused_by_estimators_too(kind, estimator):
    """Missing ones were taken for -9e18 in silence."""
    X, y = np.arange(40).reshape(20, 2).astype(kind), np.arange(20) % 2
    fitted = estimator().fit(X.astype(float), y)
    for use in (lambda: estimator().fit(X, y), lambda: fitted.predict(X)):
        with pytest.raises(ShapeError, match=r"X has dtype .*64.*expected numbers"):
            use()


def dated(kind):
    """Two columns of dates, one missing, that no dtype of an array tells."""
    days = np.arange("2020-01-01", "2020-01-09", dtype="M8[D]").reshape(4, 2).astype("M8[us]")
    days[0, 0] = np.datetime64("NaT")
    if kind == "list":
        return [list(row) for row in days]
    if kind == "objects":
        return np.array([list(row) for row in days], object)
    if kind == "arrow":
        return pytest.importorskip("pyarrow").table({"a": days[:, 0], "b": days[:, 1]})
    if kind == "column of objects":
        columns = {"a": list(days[:, 0]), "b": list(days[:, 1])}
        return pytest.importorskip("pandas").DataFrame(columns, dtype=object)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame({"a": days[:, 0], "b": days[:, 1]})
    frame = pytest.importorskip("pandas").DataFrame(days, columns=["a", "b"])
    return frame.apply(lambda day: day.dt.tz_localize("UTC")) if kind == "zone" else frame


@pytest.mark.parametrize(
    "kind", ["list", "objects", "pandas", "zone", "polars", "arrow", "column of objects"]
)
def test_dates_that_no_array_tells_are_refused_too(kind):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    clf = srf.RandomFeatureClassifier(srf.RandomFourier(n_components=8)).fit(X, y)
    pca = srf.RandomFeaturePCA(2, srf.RandomFourier(n_components=8)).fit(X)
    map_ = srf.RandomFourier().fit(X)
    for use in (clf.predict, pca.transform, map_.transform, map_.fit):
        told = r"column 'a' is a date|^X(: column 'a')? has dtype .*expected numbers"
        with pytest.raises((DataError, ShapeError), match=told):
            use(dated(kind))
    if kind in ("list", "objects"):
        with pytest.raises(ShapeError, match=r"X has dtype datetime64.*; expected numbers"):
            srf.ArraySource(dated(kind))


def test_dates_in_dask_arrays_of_objects_are_refused_by_maps():
    array = pytest.importorskip("dask.array").from_array(dated("objects"), chunks=2)
    map_ = srf.RandomFourier().fit(np.arange(40.0).reshape(20, 2))
    for use in (map_.fit, map_.transform):
        with pytest.raises(ShapeError, match=r"X has dtype datetime64.*; expected numbers"):
            use(array)


def test_texts_are_no_values_to_kernel_ridge():
    X, y = np.arange(40.0).reshape(20, 2), np.array(["no", "yes"])[np.arange(20) % 2]
    with pytest.raises(DataError, match=r"the targets are no numbers .*no"):
        srf.KernelRidgeRegressor().fit(srf.ArraySource(X, y))


@pytest.mark.parametrize("name", ["normalize", "warp"])
def test_the_word_none_of_the_commands_is_told_to_be_none_in_python(name):
    cure = f"{name} must be one of .*, got 'none'; in Python None is written without quotes$"
    with pytest.raises(ParameterError, match=cure):
        srf.accumulate(srf.ArraySource(ROWS, np.arange(len(ROWS)) % 2), **{name: "none"})
    with pytest.raises(ParameterError, match=r"got 'l3'$"):
        srf.accumulate(srf.ArraySource(ROWS, np.arange(len(ROWS)) % 2), **{name: "l3"})
