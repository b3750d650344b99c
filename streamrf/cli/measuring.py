"""`streamrf moments`: counts, means and deviations of the columns, by a cheap reading."""

from typing import Annotated

from streamrf.cli.base import Answer, aligned, warn_skipped
from streamrf.cli.files import writing
from streamrf.cli.groups import ClusterOptions, Data, Threads, WeightedRowOptions
from streamrf.cli.options import parameter
from streamrf.cli.progress import working
from streamrf.engine import RunOptions
from streamrf.report import facts
from streamrf.sources import check_each_once, open_files
from streamrf.training import moments


def measure(
    data: Data,
    rows: WeightedRowOptions,
    out: Annotated[
        str, parameter("Moments file to write.", "Output", "--output", "-o", "--out", metavar="OUT")
    ],
    *,
    threads: Threads = None,
    cluster: ClusterOptions,
) -> Answer:
    """Sum count, mean and deviation of every column of rows, for fit --scale-like.

    Columns of tables named by --y and --weights are none of them.
    """
    with writing({"--output": out}, data, "moments") as check:
        source = open_files(data, rows.x, rows.y, rows.weights, **rows.trust())
        check(source)
        check_each_once(source)
        with working(cluster, threads, source.n_rows) as (client, bar):
            bar.stage("reading")
            run = RunOptions(engine=client, n_threads=threads, progress=bar.advance)
            found = moments(source, rows.on_bad_rows, run)
        found.save(out)
    warn_skipped(source.n_rows - found.n_rows)
    figures = {"moments": out, **facts.of_moments(found)}
    return Answer(figures, aligned([*facts.moments_summary(figures), ("written", out)]))
