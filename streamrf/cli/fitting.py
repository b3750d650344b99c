"""`streamrf fit`: words to a feature map, target codes and one pass."""

import contextlib
import inspect
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from sklearn.base import BaseEstimator

from streamrf import engine
from streamrf.cli.base import (
    CODES,
    ON_BAD_ROWS,
    Answer,
    Bar,
    Data,
    Json,
    MemoryLimit,
    OnBadRows,
    Scheduler,
    Seed,
    Threads,
    TlsCa,
    TlsCert,
    TlsKey,
    Weights,
    Workers,
    X,
    Y,
    aligned,
    check_room,
    made,
    option_of,
    pick,
    pick_word,
    read_codes,
    read_penalty,
    read_rows,
    read_seconds,
    say,
    telling,
    writing,
    wrong,
)
from streamrf.encoding import CHOICES, PRECISIONS
from streamrf.engine import ClusterAddress, Outlook, RunOptions, connected
from streamrf.errors import ClusterError, ParameterError
from streamrf.features import MEASURES, PROJECTIONS, TABLE, Craft, FeatureMap, FourierMap
from streamrf.jit.threads import computing
from streamrf.kernels import (
    ArcCosine,
    Cauchy,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Polynomial,
    ShiftInvariantKernel,
    VovkInfinite,
    VovkReal,
)
from streamrf.models import DECODINGS, Model
from streamrf.sources import HDF5Source
from streamrf.statistics import TOTALS, Statistics, load_statistics, packed_size
from streamrf.training import Job, Pass, Settings, begin, finish

T = TypeVar("T")


def _word(name: str) -> str:
    """Give the word of a map.

    Examples
    --------
    >>> _word("RandomFourier"), _word("TensorSketch")
    ('fourier', 'tensor-sketch')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().removeprefix("random-")


# What the words stand for. A row takes the settings that are its constructor's arguments.
KERNELS: dict[str, type[Kernel]] = {
    "polynomial": Polynomial,
    "exponential": Exponential,
    "vovk-real": VovkReal,
    "vovk-infinite": VovkInfinite,
    "arc-cosine": ArcCosine,
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
}
MAPS: dict[str, Callable[..., FeatureMap]] = {
    _word(name): make for name, make in TABLE.items() if make is not Craft
}
NORMALIZE = {"none" if choice is None else choice: choice for choice in CHOICES}

CRAFT = "craft-"  # before a map's word: made wide, then compacted
MAP_WORDS = [prefix + word for word in MAPS for prefix in ("", CRAFT)]

MAP, FOURIER_MAP, COMPONENTS, UP_FACTOR = "craft-maclaurin", "structured-fourier", 4096, 8
LEARNT_GAMMA, LEARNT_SIGMA = ("scale", "median"), ("mean_distance",)


def _option(panel: str, text: str, *names: str, words: Iterable[str] = (), **more: Any) -> Any:
    if words:
        more["metavar"] = "|".join(words)
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


def _feature(text: str, *names: str, **more: Any) -> Any:
    return _option("Features", text, *names, **more)


def _target(text: str, *names: str, **more: Any) -> Any:
    return _option("Targets", text, *names, **more)


def fit(
    data: Data,
    x: X = "X",
    y: Y = "y",
    weights: Weights = None,
    map_: Annotated[
        str | None,
        _feature(
            f"Random feature map; {MAP}, of a gaussian kernel {FOURIER_MAP}.",
            "--map",
            words=MAP_WORDS,
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        _feature("Kernel it approximates; polynomial, of Fourier maps gaussian.", words=KERNELS),
    ] = None,
    degree: Annotated[int | None, _feature("Degree of the kernel; 3.")] = None,
    gamma: Annotated[
        str | None,
        _feature("Scale of the kernel; 1.", metavar="|".join(("NUMBER", *LEARNT_GAMMA))),
    ] = None,
    sigma: Annotated[
        str | None,
        _feature("Width of the kernel; 1.", metavar="|".join(("NUMBER", *LEARNT_SIGMA))),
    ] = None,
    coef0: Annotated[float | None, _feature("Constant of the kernel; 1.")] = None,
    order: Annotated[int | None, _feature("Order of the arc-cosine kernel, 0 or 1; 1.")] = None,
    components: Annotated[int | None, _feature(f"Width of the features; {COMPONENTS}.")] = None,
    up_components: Annotated[
        int | None, _feature(f"Width before a {CRAFT} map compacts; {UP_FACTOR} times as wide.")
    ] = None,
    projection: Annotated[
        str | None, _feature("How its random vectors are made; hadamard.", words=PROJECTIONS)
    ] = None,
    h01: Annotated[
        bool | None, _feature("Constant and linear terms exactly; --h01.", "--h01/--no-h01")
    ] = None,
    p: Annotated[float | None, _feature("Degree n is drawn with probability ~ p^-n; 2.")] = None,
    measure: Annotated[
        str | None, _feature("How degrees are chosen; geometric.", words=MEASURES)
    ] = None,
    tolerance: Annotated[
        float | None, _feature("Share of the kernel that an infinite series may lose; 0.0001.")
    ] = None,
    normalize: Annotated[
        str | None, _feature("Scaling of rows before the map; none.", words=NORMALIZE)
    ] = None,
    precision: Annotated[
        str | None,
        _feature("Features rounded for exact sums, or not; exact.", words=PRECISIONS),
    ] = None,
    like: Annotated[
        str | None,
        _feature("Statistics whose map and scales to take, so that both add.", metavar="FILE"),
    ] = None,
    regression: Annotated[
        bool, _target("Targets are values, not classes.", "--regression")
    ] = False,
    codes: Annotated[str | None, _target("Target codes; one-vs-rest.", words=CODES)] = None,
    bits: Annotated[int | None, _target("Bits of error-correcting codes.")] = None,
    decode: Annotated[
        str | None, _target("How outputs name a class; euclidean.", words=DECODINGS)
    ] = None,
    prune: Annotated[
        int | None,
        _target("Features that the model keeps, the most useful after the pass; all.", metavar="N"),
    ] = None,
    alpha: Annotated[
        str,
        _target("Ridge penalty; auto: best on rows held out of the pass.", metavar="auto|NUMBER"),
    ] = "auto",
    folds: Annotated[
        int | None,
        _target(
            "Folds to keep the sums in, so that solve can cross-validate; none. Each takes as much "
            "memory as the sums.",
            metavar="K",
        ),
    ] = None,
    totals: Annotated[
        str | None,
        _target(
            "Numbers of the sums; float64. int32: half the memory, up to about two million rows.",
            words=TOTALS,
        ),
    ] = None,
    on_bad_rows: OnBadRows = "raise",
    rows: Annotated[
        str | None,
        _option("Data", "Only these rows, counted from 0; all by default.", metavar="START:STOP"),
    ] = None,
    checkpoint: Annotated[
        str | None,
        _option(
            "Run",
            "File that keeps the state of the pass: the same command goes on from it after a kill, "
            "an interruption, or when the data have grown.",
            metavar="FILE",
        ),
    ] = None,
    checkpoint_every: Annotated[
        str,
        _option(
            "Run",
            "Time between two writings of it, longer where they would take over 2 % of the time; "
            "300s. 0: after every block.",
            metavar="TIME",
        ),
    ] = "300s",
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    parts: Annotated[
        int | None, _option("Cluster", "Shards of rows, one task each; what suits.", min=1)
    ] = None,
    spill: Annotated[
        str | None,
        _option(
            "Cluster",
            "Folder that the workers share: finished shards are kept there, and the same command "
            "goes on from them if the scheduler was lost.",
            metavar="FOLDER",
        ),
    ] = None,
    seed: Seed = 0,
    model: Annotated[str | None, _option("Output", "Model file to write.", metavar="OUT")] = None,
    statistics: Annotated[
        str | None, _option("Output", "Statistics file to write.", metavar="OUT")
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Train on HDF5 files in one pass; write a model, its statistics, or both."""
    if model is None and statistics is None:
        raise wrong("--model", "give --model, --statistics or both, or the pass is for nothing")
    if model is None and prune is not None:
        raise wrong("--prune", "is for a model; give --model, or --components to solve")
    pick_word(ON_BAD_ROWS, on_bad_rows, "--on-bad-rows")
    penalty = read_penalty(alpha)
    target_codes = read_codes(codes, regression, n_bits=bits, decode=decode)
    words: dict[str, Any] = {
        "map": map_, "kernel": kernel, "degree": degree, "coef0": coef0, "order": order,
        "gamma": _number(gamma, "--gamma", LEARNT_GAMMA),
        "sigma": _number(sigma, "--sigma", LEARNT_SIGMA), "measure": measure,
        "n_components": components, "up_components": up_components, "projection": projection,
        "h01": h01, "p": p, "tolerance": tolerance, "normalize": normalize,
        "precision": precision,
    }  # fmt: skip
    settings = _settings(**words) if like is None else _no_settings(words, like)
    settings |= {"codes": target_codes, "regression": regression, "random_state": seed}
    if totals is not None:
        pick_word(TOTALS, totals, "--totals")
    settings |= {"folds": folds, "totals": totals}
    settings["hold_out"] = model is not None and penalty == "auto"
    window = read_rows(rows, "--rows")
    settings["rows"] = window
    place = ClusterAddress(scheduler, workers, tls_ca, tls_cert, tls_key)
    for option, value in (("--parts", parts), ("--spill", spill)):
        if value is not None and place.is_here:
            raise wrong(option, "is for a cluster; give --scheduler or --workers, or leave it out")

    cluster = _Cluster()
    began = time.perf_counter()
    inputs = data if like is None else [*data, like]
    outputs = {"--model": model, "--statistics": statistics, "--checkpoint": checkpoint}
    with writing(outputs, inputs), telling():
        source = HDF5Source(data, x=x, y=y, weights=weights)
        if like is not None:
            settings["like"] = _earlier(like, regression)
        with (
            connected(place, threads) as client,
            computing(threads),
            Bar(_count(source, window)) as bar,
        ):
            bar.stage("calibrating")
            settings |= {"on_bad_rows": on_bad_rows}
            options = RunOptions(
                engine=client,
                parts=parts,
                spill=spill,
                checkpoint=checkpoint,
                checkpoint_every=read_seconds(checkpoint_every, "--checkpoint-every"),
                memory_limit=memory_limit,
                n_threads=threads,
                progress=bar.advance,
                outlook=cluster.keep,
            )
            job = Job.of(source, Settings(**settings), options)
            pass_ = begin(job)
            for path in (statistics, checkpoint):
                if path is not None:
                    check_room(path, _gram_bytes(pass_.statistics))
            n_resumed = 0 if job.checkpoint is None else job.checkpoint.n_resumed
            bar.advance(n_resumed)
            bar.stage("reading")
            pass_began = time.perf_counter()
            job.fold(pass_, prune)
            pass_seconds = time.perf_counter() - pass_began
            n_held = 0 if pass_.holdout is None else pass_.holdout.n_rows
            bar.stage("solving")
            trained, sums = _finish(pass_, penalty, target_codes, seed, prune, model, statistics)
            cluster_figures = cluster.figures(client)
    _warn(sums)
    figures = _figures(trained, sums) | {
        "n_rows_held_out": n_held,
        "n_rows_resumed": n_resumed,
        "model": model,
        "statistics": statistics,
        "checkpoint": checkpoint,
        "seconds": time.perf_counter() - began,
        "pass_seconds": pass_seconds,
        "rows_per_second": (sums.n_rows + sums.n_skipped - n_resumed) / pass_seconds,
        "peak_memory_bytes": _peak_memory(),
        "cluster": cluster_figures,
    }
    return Answer(figures, aligned(_story(figures, source.where, sums)), as_json)


class _Cluster:
    """What the workers are to hold, and what they have held."""

    def __init__(self) -> None:
        self._outlook: Outlook | None = None

    def keep(self, outlook: Outlook) -> None:
        """Keep what is known before the first read; the library's log tells it."""
        self._outlook = outlook

    def figures(self, client: Any) -> dict[str, Any] | None:
        """Give what `--json` prints; None without a cluster."""
        if self._outlook is None:
            return None
        workers = self._outlook.workers.values()
        peaks = []
        with contextlib.suppress(ClusterError):  # what was asked for is written by now
            peaks = [worker.peak_bytes for worker in engine.workers(client).values()]
        return {
            "workers": len(workers),
            "threads": sum(worker.n_threads for worker in workers),
            "shards": len(self._outlook.shards),
            "worker_memory_bytes_planned": self._outlook.worker_bytes,
            "worker_memory_bytes_peak": max(peaks, default=None),
        }


def _number(text: str | None, option: str, words: tuple[str, ...]) -> float | str | None:
    """Read a number, or one of the words for numbers that are learnt from rows."""
    if text is None or text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise wrong(option, f"{text!r} is neither a number nor one of {words}") from None


def _count(source: HDF5Source, rows: tuple[int, int | None] | None) -> int:
    """Give the number of rows to read."""
    start, stop = (0, None) if rows is None else rows
    stop = source.n_rows if stop is None else min(stop, source.n_rows)
    return max(0, stop - start)


def _no_settings(words: dict[str, Any], like: str) -> dict[str, Any]:
    """Give no settings for `begin`: it takes those of earlier statistics."""
    given = [option_of(name) for name, value in words.items() if value is not None]
    if given:
        raise wrong("--like", f"takes map and scales from {like}; leave out {', '.join(given)}")
    return {"features": None}


def _settings(*, normalize: str | None, precision: str | None, **words: Any) -> dict[str, Any]:
    """Give the settings of `begin` that the words describe."""
    return {
        "features": _features(**words),
        "normalize": pick(NORMALIZE, normalize or "none", "--normalize"),
        "precision": pick_word(PRECISIONS, precision or "exact", "--precision"),
    }


def _features(
    *,
    map: str | None,
    kernel: str | None,
    degree: int | None,
    gamma: float | str | None,
    sigma: float | str | None,
    coef0: float | None,
    order: int | None,
    n_components: int | None,
    up_components: int | None,
    h01: bool | None,
    **settings: Any,
) -> FeatureMap:
    map = pick_word(MAP_WORDS, map or _usual_map(kernel), "--map")
    make = MAPS[map.removeprefix(CRAFT)]
    if settings["projection"] is not None:
        pick_word(PROJECTIONS, settings["projection"], "--projection")
    if settings["measure"] is not None:
        pick_word(MEASURES, settings["measure"], "--measure")
    is_fourier = inspect.isclass(make) and issubclass(make, FourierMap)
    kernel = kernel or ("gaussian" if is_fourier else "polynomial")
    exact = made(
        pick(KERNELS, kernel, "--kernel"),
        f"--kernel {kernel}",
        {"degree": degree, "gamma": gamma, "sigma": sigma, "coef0": coef0, "order": order},
    )
    if h01 is None and "h01" in inspect.signature(make).parameters:
        h01 = True
    settings |= {"kernel": exact, "h01": h01}
    width = COMPONENTS if n_components is None else n_components
    if not map.startswith(CRAFT):
        if up_components is not None:
            raise wrong("--up-components", f"is for --map {CRAFT}{map}; leave it out")
        return made(make, f"--map {map}", settings | {"n_components": width})
    wide = UP_FACTOR * width if up_components is None else up_components
    return Craft(made(make, f"--map {map}", settings | {"n_components": wide}), width)


def _usual_map(kernel: str | None) -> str:
    """Give the word of the fast map of a kernel; of none, or none that is known, the usual one."""
    kind = KERNELS.get(kernel or "")
    if kind is None or not issubclass(kind, ShiftInvariantKernel):
        return MAP
    return FOURIER_MAP if kind is Gaussian else "fourier"


def _earlier(path: str, regression: bool) -> Statistics:
    statistics = load_statistics(path)
    if regression and statistics.labels is not None:
        raise ParameterError(
            f"--like {path} holds sums of classes, not of values; leave out --regression, or make "
            "statistics of values first"
        )
    return statistics


def _gram_bytes(statistics: Statistics) -> int:
    """Give what the Grams take in a file, which is nearly all of it."""
    number_bytes = np.dtype(statistics.sums.gram_class.dtype).itemsize
    size = number_bytes * packed_size(statistics.encoder.n_components)
    return size * max(1, statistics.n_folds)


def _finish(
    pass_: Pass,
    alpha: float | str,
    codes: BaseEstimator | None,
    seed: int,
    prune: int | None,
    model: str | None,
    statistics: str | None,
) -> tuple[Model | None, Statistics]:
    """Solve where a model is wanted, and write; the sums are kept even if there is no solution."""

    def keep(sums: Statistics) -> None:
        if statistics is not None:
            sums.save(statistics)

    if model is None:
        sums = pass_.join()
        keep(sums)
        return None, sums
    # The solve may take the place of a Gram that nobody asks for again; folds have none to give.
    overwrite = alpha != "auto" and not pass_.statistics.n_folds
    trained, sums = finish(pass_, alpha, codes, seed, prune=prune, overwrite=overwrite, keep=keep)
    trained.save(model)
    return trained, sums


def _warn(sums: Statistics) -> None:
    """Tell what was left out or cut off on the way, and what that means."""
    if sums.n_skipped:
        say(f"warning: {sums.n_skipped:,} rows were left out, because they hold NaN or infinity")
    if sums.n_clipped:
        share = 100 * sums.n_clipped / (sums.n_rows * sums.encoder.n_components)
        say(
            f"warning: {sums.n_clipped:,} entries of features ({share:.2g} %) were clipped: some "
            "rows are unlike the rows looked at before the pass; scale the rows (--normalize), "
            "shuffle the file, or calibrate on a fair sample and give its statistics by --like"
        )


def _figures(trained: Model | None, sums: Statistics) -> dict[str, Any]:
    labels = sums.labels
    return {
        "n_rows": sums.n_rows,
        "n_rows_skipped": sums.n_skipped,
        "n_entries_clipped": sums.n_clipped,
        "n_features": sums.encoder.n_features,
        "n_components": sums.encoder.n_components,
        "n_components_kept": None if trained is None else trained.encoder.n_components,
        "n_folds": sums.n_folds,
        "labels": None if labels is None else labels.tolist(),
        "n_targets": len(sums.class_sums) if labels is None else None,
        "alpha": None if trained is None else trained.alpha,
        "alphas": [] if trained is None else [list(tried) for tried in trained.history],
    }


def _story(figures: dict[str, Any], where: str, sums: Statistics) -> Iterator[tuple[str, str]]:
    """Tell the figures to a person."""
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns ({where})"
    drawn, kept = figures["n_components"], figures["n_components_kept"]
    pruned = "" if kept in (None, drawn) else f", pruned to {kept:,}"
    yield "features", f"{drawn:,}, {type(sums.encoder.features).__name__}{pruned}"
    if sums.labels is None:
        yield "targets", f"{figures['n_targets']:,}"
    else:
        yield "classes", f"{len(sums.labels):,}"
    if figures["alpha"] is not None:
        chosen = ""
        if figures["alphas"]:
            best = min(figure for _, figure in figures["alphas"])
            n_held = f"{figures['n_rows_held_out']:,} rows held out"
            error = f"error {100 * best:.2f} %" if sums.labels is not None else f"MSE {best:.4g}"
            chosen = f", the best of {len(figures['alphas'])} on {n_held}: {error}"
        yield "alpha", f"{figures['alpha']:.3g}{chosen}"
    yield (
        "time",
        f"{figures['seconds']:.1f} s; the pass {figures['pass_seconds']:.1f} s, "
        f"{figures['rows_per_second']:,.0f} rows/s",
    )
    yield "written", ", ".join(path for path in (figures["model"], figures["statistics"]) if path)


def _peak_memory() -> int:
    """Give the most memory that this process has had in use, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
