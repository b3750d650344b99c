"""`moments`: counts, means and deviations of the columns of a source, by a cheap reading."""

import os
from typing import Any

import numpy as np

from streamrf import storage
from streamrf.engine import Reading, RunOptions, Summary, check_run, fold
from streamrf.errors import DataError, ParameterError, warn
from streamrf.jit.arrays import Array
from streamrf.preprocessing import (
    CALIBRATION_ROWS,
    Moments,
    Sample,
    named_columns,
    scales_for,
)
from streamrf.sources import Block, Source, check_rows, require_source
from streamrf.statistics import Statistics, load_statistics
from streamrf.storage import Fields, loading

MIN_REACH, MAX_REACH = 2.0**-100, 2.0**120  # of values less the centre: what the sums tell apart


class _Summary(Summary):
    """The moments of the rows read so far."""

    def __init__(self, moments: Moments) -> None:
        self.moments = moments

    def update(self, block: Block) -> None:
        """Add a block."""
        self.moments.count(block.X)

    def fresh(self) -> "_Summary":
        return _Summary(self.moments.copy())

    def sealed(self) -> Moments:
        return self.moments.join()

    def absorb(self, total: Moments) -> None:
        self.moments = total


def moments(source: Source, on_bad_rows: str = "raise", run: RunOptions | None = None) -> Moments:
    """Sum the moments of a source's columns, in one reading and without a map.

    They are for ``scale_like=`` of a pass over the same rows, or others of their kind: columns are
    then scaled by all rows, where a pass knows only those that it looked at before. The result is
    the same for any number of threads, workers and block size.

    Parameters
    ----------
    source : with or without targets; an iterator is read to its end
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    run : how it is done; None means in this process

    Returns
    -------
    Moments

    Raises
    ------
    StreamrfError
        Bad rows, or none.
    DataError
        A column of the rows looked at first whose values are beyond 2^120 or vary by less than
        2^-100, which the sums do not hold; values beyond 2^130 that come later are summed as that.
    """
    require_source(source)
    check_run(run)
    sample = check_rows(source.sample(CALIBRATION_ROWS), on_bad_rows)[0]
    if not len(sample.X):
        raise DataError(f"{source.where}: every row looked at first holds NaN or infinity")
    looked_at = Sample.of(sample.X)
    _check_range(looked_at, source.where)
    zero = _Summary(Moments.zero(looked_at, column_names(source)))
    reading = Reading(source, on_bad_rows=on_bad_rows)
    return fold(reading, zero, _Summary.update, run).sealed()


def _check_range(sample: Sample, where: str) -> None:
    """Raise DataError for a column whose values are no numbers of the sums."""
    reach = np.maximum(sample.reach, np.abs(sample.centre))
    odd = (reach > MAX_REACH) | ((sample.reach > 0) & (sample.reach < MIN_REACH))
    if odd.any():
        column = int(odd.argmax())
        raise DataError(
            f"{where}: column {column} has values of about {reach[column]:.3g}; moments are summed "
            f"of values from {MIN_REACH:.0e} to {MAX_REACH:.0e}: multiply the column by a number"
        )


def load_moments(path: str | os.PathLike) -> Moments:
    """Read moments from a file of `Moments.save`, or those in a statistics file."""
    if storage.read_kind(path) == "statistics":
        return as_moments(load_statistics(path), os.fspath(path))
    tree = storage.read(path, "moments")
    with loading(path):
        return Moments.from_tree(Fields(tree, os.fspath(path)))


def as_moments(
    given: Moments | Statistics | str | os.PathLike, name: str = "scale_like"
) -> Moments:
    """Return the moments in what `scale_like` may be."""
    if isinstance(given, str | os.PathLike):
        return load_moments(given)
    found = given.moments if isinstance(given, Statistics) else given
    if not isinstance(found, Moments) or not found.n_rows:
        raise ParameterError(
            f"{name} holds no moments of columns; sum them: streamrf.moments(source), or "
            "streamrf moments DATA -o FILE"
        )
    return found


def scales_of(
    given: Moments | Statistics | str | os.PathLike | None, source: Source
) -> Moments | None:
    """Return the moments that columns of a source are scaled by, or None."""
    if given is None:
        return None
    found = scales_for(as_moments(given), column_names(source), source.n_features, source.where)
    hidden = found.hidden_columns().tolist()
    if hidden:
        which = named_columns(hidden[:1], column_names(source))
        warn(
            f"scale_like takes {which} as constant: it varies by less than "
            f"{found.sample.grid[hidden[0]]:.3g}, the grid that an outlier of the rows looked at "
            f"first made for all summed like them ({len(hidden):,} such columns); sum the moments "
            "of these rows by themselves: streamrf.moments(source) or streamrf moments"
        )
    return found


def column_names(source: Source) -> tuple[str, ...]:
    """Return the names of the columns of X, which those of tables have; else none."""
    return () if source.columns is None else source.columns.outputs


class Variation:
    """Whether columns vary in the rows of a pass, of those whose moments an outlier may hide."""

    def __init__(self, moments: Moments) -> None:
        sample = moments.sample
        self.columns = np.flatnonzero((sample.grid > 0) & sample.is_far)
        self.first: Array | None = None
        self.varies = np.zeros(len(self.columns), dtype=bool)

    def look(self, X: Any) -> None:
        """Look at rows X (n, d); sparse ones are left out."""
        if not isinstance(X, np.ndarray) or self.varies.all():
            return
        values = X[:, self.columns]
        self.first = values[0] if self.first is None else self.first
        self.varies |= (values != self.first).any(axis=0)

    def warn_of_hidden(self, moments: Moments) -> None:
        """Warn of columns that vary, though not by a step of the grid of their moments."""
        found = np.intersect1d(moments.hidden_columns(), self.columns[self.varies])
        if len(found):
            which = named_columns(found[:1].tolist(), moments.names)
            warn(
                f"{which} had an outlier in the rows looked at before the pass, which "
                f"made the grid of its moments {moments.sample.grid[found[0]]:.3g}, wider than it "
                f"varies here, so its mean and deviation are not known ({len(found):,} such "
                "columns): sum the moments of these rows by themselves (streamrf.moments(source), "
                "streamrf moments DATA -o FILE), or train without like= (--like)"
            )
