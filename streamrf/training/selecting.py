"""`select`: what a pass with features="auto" would choose, without the pass."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamrf.errors import DataError
from streamrf.preprocessing import Moments
from streamrf.sources import Source, check_rows, require_source
from streamrf.statistics import Statistics
from streamrf.training.column_moments import column_names, scales_of
from streamrf.training.feature_choice import Selection, choose
from streamrf.training.peeking import peek, suited
from streamrf.training.second_look import more_rows
from streamrf.training.settings import AUTO, WARP_ROUNDS, Settings
from streamrf.training.target_type import settled


def select(
    source: Source,
    *,
    n_components: int | None = None,
    kernels: str | Sequence[str] | None = None,
    normalize: str | None = AUTO,
    warp: str | None = AUTO,
    warp_rounds: int = WARP_ROUNDS,
    scale_like: Moments | Statistics | str | os.PathLike | None = None,
    task: str = AUTO,
    regression: bool = False,
    on_bad_rows: str = "raise",
    budget: float | None = None,
    random_state: Any = None,
) -> Selection:
    """Choose scaling, kernel, setting, width and warp by a tournament on a peek at the rows.

    The peek is 20,000 rows at most, spread over a source that can seek, or the first rows of an
    iterator; the source is not consumed. A quarter of them is held out, and the library's own maps
    are tried on the others, most of them narrow and on few rows, the best at full width. Where a
    source that can seek has 200,000 rows or more, the best are compared again on up to 160,000.

    Parameters
    ----------
    source : with targets
    n_components : width of the features; None means the least of 512 to 8,192 that the widest one
        does not beat by a twentieth (of 200,000 rows or more, a hundredth), as far as the rows and
        a pass of two minutes of one core allow
    kernels : names of what to choose from, in a sequence or with commas between them; "default" for
        those of None: "gaussian", "laplacian", "polynomial", "linear", "piecewise-linear",
        "gaussian-piecewise" (half of the features each) and "arc-cosine". The others: "cauchy",
        "nystroem" (Gaussian), "taylor-sketch" (polynomials), "tree-gated", "skeleton"; for rows
        without negative entries "chi2", "intersection", "jensen-shannon", "hellinger", whose maps
        have widths of their own, "exp-chi2", "exp-jensen-shannon", "exp-hellinger" and
        "skewed-chi2"; "convolution" of images, which None tries too where rows are some, and which
        takes rows of no known shape for square ones
    normalize : a scaling that must be kept, or "auto"
    warp : None, "diagonal" or "full", which is then taken, or "auto": taken where it helps
    warp_rounds : least rounds of learning a warp
    scale_like : moments of all rows to scale columns by, see `Settings`
    task : "classification", "regression" or "auto", as of a pass
    regression : True means task="regression"
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    budget : planned seconds of one core; None means 24, or a quarter of the pass if that is more.
        Trials are planned by their operations, not by the clock, so that the same rows and seed
        give the same choice on every machine. A pass leaves out widths that memory has no room for
    random_state : int, RandomState or None; the seed of rows held out and of the maps

    Returns
    -------
    Selection

    Raises
    ------
    StreamrfError
        Bad rows, no rows, no targets, or those that could be of either task; a kernel that does not
        exist, or does not take such rows or scaling.
    """
    require_source(source)
    if not source.has_targets:
        raise DataError(f"{source.where} has no targets to learn from; name the dataset: y=")
    settings = Settings(
        features=AUTO,
        n_components=n_components,
        kernels=kernels,
        budget=budget,
        normalize=normalize,
        warp=warp,
        warp_rounds=warp_rounds,
        scale_like=scale_like,
        task=task,
        regression=regression,
        on_bad_rows=on_bad_rows,
        random_state=random_state,
    )
    source, settings = settled(source, settings, None)
    settings = suited(source, settings)
    sample = check_rows(peek(source), on_bad_rows)[0]
    if not len(sample.X):
        raise DataError(f"{source.where}: every row of the peek holds NaN or infinity")
    moments = scales_of(scale_like, source)
    selection = choose(
        sample,
        source.n_rows,
        settings,
        more=more_rows(source, source.n_rows, on_bad_rows),
        moments=moments,
        row_shape=source.row_shape,
    )
    if selection.warp is None:
        return selection
    return replace(selection, warp=replace(selection.warp, names=column_names(source)))
