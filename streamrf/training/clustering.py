"""Kernel k-means: Lloyd's rounds on features, each a pass of exact sums."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.engine import BLOCK_ROWS, Reading, RunOptions, Summary, fold
from streamrf.errors import ConsumedError, DataError, MemoryBudgetError, ParameterError
from streamrf.features import FeatureMap
from streamrf.jit import lanes
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.jit.threads import computing, single_blas_threads
from streamrf.models import Rows as ScoredRows
from streamrf.models import Scorer
from streamrf.preprocessing import Encoder
from streamrf.sources import ArraySource, Block, Source, SparseRows, check_rows, open_source, reread
from streamrf.statistics import ClassSums
from streamrf.training import memory
from streamrf.training.column_moments import column_names
from streamrf.training.odd_columns import warn_of_named_map
from streamrf.training.peeking import peek, weighing

SAMPLE_ROUNDS = 20  # on the peek, before the rows are read


@dataclass(frozen=True)
class Clusters(Scorer):
    """Centres in the space of features, by which rows are assigned.

    Parameters
    ----------
    encoder : raw rows to features
    centres : (n_clusters, n_components) float64, less the calibration's shift, in own units
    weights : (n_clusters,) float64, of the rows of each in the last pass
    """

    encoder: Encoder
    centres: Floats
    weights: Floats

    def __post_init__(self) -> None:
        self.encoder.check_coef(self.centres, self.weights)

    @property
    def n_scores(self) -> int:
        return len(self.centres)

    @property
    def linear(self) -> tuple[Floats, Floats]:
        """Slopes over features in steps, and offsets, of scores: the nearest has the greatest."""
        slope = 2 * self.centres * self.encoder.calibration.step
        return slope, -np.square(self.centres).sum(axis=1)

    def _scores(self, X: Array) -> Floats:
        """Return ``|z|^2`` less the squared distance of rows to each centre, (n, n_clusters)."""
        return self.encoder.linear(X, *self.linear)

    def predict(self, source: ScoredRows, **options: Any) -> Indices:
        """Return the cluster of each row of a source or array, int64 (n_rows,)."""
        parts = [scores.argmax(axis=1) for _, scores in self.scored(source, **options)]
        return np.concatenate(parts)

    def moved(self, sums: ClassSums) -> "Clusters":
        """Return the clusters with the means of their rows for centres; one without rows stays."""
        calibration, weights = self.encoder.calibration, sums.weights[:, np.newaxis]
        means = sums.sums * calibration.root_scale / np.where(weights > 0, weights, 1.0)
        centres = np.where(weights > 0, means * calibration.step, self.centres)
        unit = (calibration.mean_weight or 1.0) / calibration.root_scale**2
        return Clusters(self.encoder, centres, sums.weights * unit)


class ClusterPass(Summary):
    """The sums of the rows nearest to each centre."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        n_clusters, width = clusters.centres.shape
        self.sums = ClassSums.zero(width, range(n_clusters))

    def update(self, block: Block) -> None:
        """Add a block."""
        encoder = self.clusters.encoder
        calibration, n = encoder.calibration, len(block.X)
        if not n:
            return
        encoder.check_width(block.X)
        slope, offset = self.clusters.linear
        with computing():
            roots = calibration.roots(block.weights, n)
            Q, scores = (
                np.empty((n, encoder.n_components), calibration.dtype),
                np.empty((n, len(slope))),
            )
            encoder.encode(block.X, roots, Q)
            lanes.outputs(Q, np.ascontiguousarray(slope.T), scores)
            scaled = np.where(roots > 0, roots / calibration.root_scale, 1.0)
            nearest = (scores / scaled[:, np.newaxis] + offset).argmax(axis=1)
            self.sums.add(Q, roots, nearest)

    def fresh(self) -> "ClusterPass":
        return ClusterPass(self.clusters)

    def sealed(self) -> ClassSums:
        return self.sums

    def absorb(self, total: ClassSums) -> None:
        self.sums += total


def cluster(
    source: Source,
    features: FeatureMap,
    n_clusters: int,
    *,
    max_passes: int,
    normalize: str | None,
    random_state: int | np.random.RandomState | None,
    run: RunOptions,
) -> tuple[Clusters, int]:
    """Return clusters, and the passes that they took.

    The first centres are rows of a peek by k-means++, and Lloyd's rounds on the peek; then each
    pass moves every centre to the mean of its rows, until none moves. On rounded features the sums
    are exact: the same bytes for any blocks, threads and workers.

    Parameters
    ----------
    source : with or without targets
    features : an unfitted map
    n_clusters : int above 0
    max_passes : readings of the rows at most
    normalize : scaling of rows before the map
    random_state : seed of the map and the first centres
    run : how it is done

    Raises
    ------
    MemoryBudgetError
        If the features of the rows looked at first do not fit.
    """
    if not isinstance(max_passes, int | np.integer) or max_passes < 1:
        raise ParameterError(f"max_passes must be an integer of at least 1, got {max_passes!r}")
    if max_passes > 1 and not source.is_rereadable:
        raise ConsumedError(
            f"{source.where} can be read once, and k-means reads the rows up to {max_passes} "
            "times; write them to a file, give IteratorSource a function that makes an iterator, "
            "or set max_passes=1"
        )
    sample = weighing(check_rows(peek(source, run.memory_limit), "raise")[0])
    if not isinstance(n_clusters, int | np.integer) or not 0 < n_clusters <= len(sample.X):
        raise ParameterError(
            f"n_clusters must be an integer from 1 to the {len(sample.X):,} rows looked at first "
            f"that weigh, got {n_clusters!r}"
        )
    encoder = Encoder.calibrate(features, sample, normalize=normalize, random_state=random_state)
    warn_of_named_map(encoder, sample.X, column_names(source))
    encoder = encoder.of_table(source.columns)
    block_rows = _block_rows(encoder, len(sample.X), n_clusters, source, run)
    first = _first(encoder, sample, n_clusters, random_state)
    looked_at = Reading(_source(sample))
    clusters, _ = _lloyd(looked_at, first, SAMPLE_ROUNDS, RunOptions(n_threads=run.n_threads))
    reading = Reading(reread(source), block_rows=block_rows)
    return _lloyd(reading, clusters, max_passes, run)


def _block_rows(
    encoder: Encoder, n_peeked: int, n_clusters: int, source: Source, run: RunOptions
) -> int:
    """Return how many rows of a block there is memory for; raise MemoryBudgetError if too few."""
    width, limit = encoder.n_components, memory.parse_bytes(run.memory_limit)
    fixed_bytes = memory.INTERPRETER_BYTES + encoder.n_bytes + 4 * 8 * n_clusters * width
    held_bytes = source.buffer_bytes + memory.SPARSE_BYTES * source.is_sparse
    fixed_bytes += max(memory.BUFFER_BYTES, held_bytes)
    row_bytes = 8 * (width + n_clusters) + 4 * 8 * source.row_values
    peeked_bytes = n_peeked * (8 * width + memory.SAMPLE_VALUE_BYTES * source.row_values)
    needed = fixed_bytes + max(peeked_bytes, memory.MIN_ROWS * row_bytes)
    if needed > limit:
        raise MemoryBudgetError(
            f"k-means with {width} components needs about {memory.shown(needed)}, above the memory "
            f"limit of {memory.shown(limit)}; take fewer components, or raise memory_limit"
        )
    return min(BLOCK_ROWS, (limit - fixed_bytes) // row_bytes)


def _source(sample: Block) -> Source:
    """Return the rows of a sample as a source."""
    if not isinstance(sample.X, SparseRows):
        return ArraySource(sample.X, None, sample.weights)
    import scipy.sparse  # loaded by what made the rows

    rows = scipy.sparse.csr_array(sample.X.entries, shape=sample.X.shape)
    return open_source(rows, weights=sample.weights)


def _first(encoder: Encoder, sample: Block, n_clusters: int, seed: Any) -> Clusters:
    """Return centres that are rows of a sample, far apart."""
    if sample.weights is not None and not sample.weights.any():
        raise DataError(f"{sample.where}: the weights of all rows looked at first are zero")
    Z = np.empty((len(sample.X), encoder.n_components))
    encoder.scale(sample.X, Z)
    Z *= encoder.calibration.step
    from sklearn.cluster import kmeans_plusplus  # half a second, for this alone

    with single_blas_threads():
        centres, _ = kmeans_plusplus(Z, n_clusters, random_state=seed, sample_weight=sample.weights)
    return Clusters(encoder, centres, np.zeros(n_clusters))


def _lloyd(
    reading: Reading, clusters: Clusters, max_passes: int, run: RunOptions
) -> tuple[Clusters, int]:
    """Return clusters after Lloyd's rounds, and how many there were."""
    n_passes, settled = 0, False
    while n_passes < max_passes and not settled:
        pass_ = fold(reading, ClusterPass(clusters), ClusterPass.update, run)
        moved = clusters.moved(pass_.sums)
        settled = np.array_equal(moved.centres, clusters.centres)
        clusters, n_passes = moved, n_passes + 1
    return clusters, n_passes
