"""Add up a source's rows in one pass."""

from collections.abc import Sequence
from typing import Any, overload

from streamrf.display import Run, shown
from streamrf.engine import RunOptions, check_run
from streamrf.errors import ParameterError, check_kind
from streamrf.features import FeatureMap
from streamrf.jit.threads import computing
from streamrf.sources import Source
from streamrf.statistics import Statistics
from streamrf.training.calibration import calibrate
from streamrf.training.foresight import READING
from streamrf.training.job import Job
from streamrf.training.passes import Pass
from streamrf.training.settings import Settings, split_options
from streamrf.training.several import accumulate_each


@overload
def accumulate(
    source: Source,
    features: FeatureMap | None = None,
    settings: Settings | None = None,
    run: RunOptions | None = None,
    **options: Any,
) -> Statistics: ...


@overload
def accumulate(
    source: Source, features: Sequence[FeatureMap], **options: Any
) -> list[Statistics]: ...


def accumulate(
    source: Source,
    features: FeatureMap | Sequence[FeatureMap] | None = None,
    settings: Settings | None = None,
    run: RunOptions | None = None,
    **options: Any,
) -> Statistics | list[Statistics]:
    """Add up a source's rows in one pass.

    The result depends on the source, the map and its calibration alone: the same bytes for any
    block size, thread count, worker or restart (on rounded features).

    Parameters
    ----------
    source : Source with targets
    features : an unfitted feature map; not needed with ``like=``. Of a list of maps the result is a
        list of statistics, each as of a pass with that map, from one reading; without `like`,
        `checkpoint` and `spill`
    settings, run : what to compute and how, whole; or, instead of both,
    options : their fields by name, such as ``normalize="l2"``, ``folds=5``, ``like=earlier``,
        ``engine=client`` or ``checkpoint="pass.checkpoint"``; see `Settings` and `RunOptions`

    Raises
    ------
    ParameterError
        An option that does not exist, is none of its choices or contradicts another.
    StreamrfError
        Bad rows, a source without targets or rows, a memory need above the limit, a checkpoint of
        another job.
    """
    if isinstance(features, Settings):
        raise ParameterError("features must be a feature map, got settings; give them as settings=")
    if settings is None and run is None:
        settings, run = split_options({"features": features, **options})
    elif features is not None or options:
        raise ParameterError("give settings and run whole, or their fields by name, not both")
    check_kind("settings", settings, Settings | None, "Settings or None")
    check_run(run)
    if settings is not None and isinstance(settings.features, list | tuple):
        return accumulate_each(source, settings.features, settings, run or RunOptions())
    job = Job.of(source, settings or Settings(), run)
    with shown(Run(expected=[READING]), job.run.verbose):
        pass_ = job.fold(begin(job))
        with computing(job.run.n_threads):
            return pass_.join()


def begin(job: Job) -> Pass:
    """Return the pass that an earlier run of the job left, or a new one, calibrated."""
    pass_ = job.restored()
    if pass_ is None:
        job.plan()  # before the calibration rows are mapped and room for the sums is made
        pass_ = calibrate(job)
    return pass_
