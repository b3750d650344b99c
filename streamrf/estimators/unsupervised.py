"""Estimators that need no labels: kernel principal components and kernel k-means of a stream."""

from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from streamrf.engine import RunOptions
from streamrf.errors import check_flag
from streamrf.estimators.batches import whole
from streamrf.estimators.settings import keep_columns, rows_alone
from streamrf.features import FeatureMap, StructuredFourier, as_random_state
from streamrf.jit.arrays import Floats, Indices
from streamrf.kernels import Gaussian
from streamrf.preprocessing import Encoder
from streamrf.sources import (
    Source,
    Unlabelled,
    as_source,
    check_each_once,
    is_for_source,
    named,
)
from streamrf.training import accumulate, cluster

if TYPE_CHECKING:
    from distributed import Client

WIDTH = 512  # of the default map


class _Unsupervised(BaseEstimator):
    """What the estimators share."""

    features: FeatureMap | None
    memory_limit: int | str | None
    n_threads: int | None

    def _source(self, X: Any, sample_weight: ArrayLike | None) -> Source:
        if is_for_source(X):
            source = as_source(X, None, sample_weight)
            keep_columns(self, source)
            return source
        rows = rows_alone(self, X, reset=True, accept_sparse="csr")
        source = as_source(rows, None, sample_weight)
        return named(source, getattr(self, "feature_names_in_", None))

    def _rows(self, X: Any, encoder: Encoder) -> Any:
        """Return rows as a fitted encoder takes them: those of tables by the names of columns."""
        if is_for_source(X) or encoder.is_of_table:
            return X
        return rows_alone(self, X, accept_sparse="csr")

    def _map(self) -> FeatureMap:
        return (
            StructuredFourier(Gaussian("median"), WIDTH) if self.features is None else self.features
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RandomFeaturePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Unsupervised):
    """Kernel principal components in one pass: those of random features.

    The pass sums the Gram of the features, so rows need not fit into memory, and `transform` reads
    them in a stream. `Statistics.principal_components` returns the same of sums that are merged.

    Parameters
    ----------
    n_components : int, components kept
    features : a feature map, unfitted; None means ``StructuredFourier(Gaussian("median"), 512)``
    whiten : whether coordinates are divided by their deviations
    normalize : scaling of rows before the map, see `RandomFeatureClassifier`
    precision : of the sums, see there
    memory_limit, n_threads : see `RunOptions`
    random_state : int, RandomState or None

    Attributes
    ----------
    components_ : (n_components, width) float64, axes in the space of features
    explained_variance_, explained_variance_ratio_ : (n_components,) float64
    mean_ : (width,) float64, of the features
    principal_ : PrincipalComponents
    statistics_ : Statistics, of targets that are all 0
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> pca = srf.RandomFeaturePCA(2, srf.RandomFourier(n_components=64), random_state=0).fit(X)
    >>> pca.transform(X).shape
    (300, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        features: FeatureMap | None = None,
        *,
        whiten: bool = False,
        normalize: str | None = None,
        precision: str = "exact",
        memory_limit: int | str | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.features = features
        self.whiten = whiten
        self.normalize = normalize
        self.precision = precision
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.random_state = random_state

    @whole
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        engine: "Client | None" = None,
    ) -> Self:
        """Sum an array, CSR or a Source in one pass, here or on the workers of `engine`."""
        source = Unlabelled(self._source(X, sample_weight))
        self.statistics_ = accumulate(
            source,
            self._map(),
            normalize=self.normalize,
            precision=self.precision,
            regression=True,
            random_state=self.random_state,
            engine=engine,
            memory_limit=self.memory_limit,
            n_threads=self.n_threads,
        )
        check_flag("whiten", self.whiten)
        found = self.statistics_.principal_components(self.n_components)
        self.principal_ = found.whitened() if self.whiten else found
        self.components_, self.mean_ = found.components, found.mean
        self.explained_variance_ = found.explained_variance
        self.explained_variance_ratio_ = found.explained_variance_ratio
        return self

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of rows, as `fit` takes them, float64 (n, n_components)."""
        check_is_fitted(self)
        rows = self._rows(X, self.statistics_.encoder)
        return self.principal_.transform(rows)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class RandomFeatureKMeans(_Unsupervised):
    """Kernel k-means of rows that need not fit into memory: Lloyd's rounds on random features.

    Each round is a pass that sums, exactly, the features of the rows nearest to each centre.

    Parameters
    ----------
    n_clusters : int
    features : a feature map, unfitted; None means ``StructuredFourier(Gaussian("median"), 512)``
    max_passes : passes at most; fewer where no centre moves
    normalize : scaling of rows before the map, see `RandomFeatureClassifier`
    memory_limit, n_threads : see `RunOptions`
    random_state : int, RandomState or None

    Attributes
    ----------
    clusters_ : Clusters, the centres
    n_passes_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.1, (50, 2)) for m in (0, 1)])
    >>> found = srf.RandomFeatureKMeans(2, random_state=0).fit(X).predict(X)
    >>> len(set(found[:50])), len(set(found[50:]))
    (1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        features: FeatureMap | None = None,
        *,
        max_passes: int = 10,
        normalize: str | None = None,
        memory_limit: int | str | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.features = features
        self.max_passes = max_passes
        self.normalize = normalize
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.random_state = random_state

    @whole
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        engine: "Client | None" = None,
    ) -> Self:
        """Find the centres of an array, CSR or a Source, here or on the workers of `engine`."""
        source = self._source(X, sample_weight)
        check_each_once(source)
        run = RunOptions(engine=engine, memory_limit=self.memory_limit, n_threads=self.n_threads)
        seed = int(as_random_state(self.random_state).randint(2**31))
        self.clusters_, self.n_passes_ = cluster(
            source,
            self._map(),
            self.n_clusters,
            max_passes=self.max_passes,
            normalize=self.normalize,
            random_state=seed,
            run=run,
        )
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Indices:
        """Return the cluster of each row fitted, read once more; `options` are those of `fit`."""
        return self.fit(X, y, **options).predict(X)

    def predict(self, X: Any) -> Indices:
        """Return the cluster of each row of what `fit` takes, int64 (n_rows,)."""
        check_is_fitted(self)
        rows = self._rows(X, self.clusters_.encoder)
        return self.clusters_.predict(rows)
