"""Features by code of the user's own: a function, or a transformer of scikit-learn."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from streamrf.errors import BadRowError, ParameterError, ShapeError
from streamrf.features.base import FeatureMap
from streamrf.features.code import apart, is_code, is_ready, unseeded
from streamrf.features.seeds import Seed
from streamrf.jit.arrays import F32
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import single_blas_threads
from streamrf.kernels import FeatureProduct, name_of, not_held
from streamrf.storage import Fields

BATCH_ROWS = 128
PROBE_ROWS, ORDERED_ROWS = 4, 64


class OwnMap(FeatureMap):
    """Features ``f(x)`` by code that files name and do not hold.

    The code is called with always as many rows, filled up with zeros, and on one BLAS thread, as
    the bits of a product depend on its shape: so those of a row depend on no other row.

    Attributes
    ----------
    kernel_ : `FeatureProduct`
    name_ : str, name of the code
    probe_rows_ : (4, n_features) float32, columns in order: minima to maxima of some rows
    probe_ : (4, n_components) float32, their features, by which code is known again
    """

    setting: ClassVar[str]  # name of the setting that is the code
    batch_rows: int
    name_: str
    probe_rows_: F32
    probe_: F32
    _code: Any = None  # what is called

    @property
    def kernel_(self) -> FeatureProduct:  # type: ignore[override] # an attribute of others
        """The exact kernel."""
        return FeatureProduct(self)

    @property
    def code(self) -> list[Any]:
        return [getattr(self, self.setting) if self._code is None else self._code]

    @property
    def code_names(self) -> dict[str, str]:
        """The setting that is code, by the name that files have for it."""
        return {self.setting: getattr(self, "name_", None) or name_of(*self.code)}

    @abstractmethod
    def _prepared(self, rng: Generator, sample: F32) -> Any:
        """Return the code to call."""

    @abstractmethod
    def _called(self, rows: F32) -> Any:
        """Return what the code makes of rows (batch_rows, n_features)."""

    def __sklearn_clone__(self) -> Self:
        # Code is shared: it may be a large network.
        copy = type(self)(**self.get_params(deep=False))
        return copy.set_output(**vars(self).get("_sklearn_output_config", {}))

    def check_width(self) -> None:
        code = getattr(self, self.setting)
        if isinstance(code, str):
            raise ParameterError(not_held(code))
        self._check_batch()

    def _check_batch(self) -> None:
        n = self.batch_rows
        if not isinstance(n, int | np.integer) or n < 1 or n % LANES:
            raise ParameterError(f"batch_rows must be a multiple of {LANES}, got {n!r}")

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        if sample is None or not len(sample):
            raise ParameterError(f"{type(self).__name__} is tried on rows, and none were given")
        self._code = self._prepared(rng, sample)
        self.name_ = name_of(self._code)
        ordered = np.sort(sample[:: -(-len(sample) // ORDERED_ROWS)], axis=0)
        self.probe_rows_ = ordered[np.linspace(0, len(ordered) - 1, PROBE_ROWS).astype(int)]
        self.probe_ = self._mapped(self.probe_rows_)
        rows = sample[: self.batch_rows]
        found = self._mapped(rows)
        halves = [slice(first, None, 2) for first in range(min(2, len(rows)))]
        if any(apart(found[half], self._mapped(rows[half])).any() for half in halves):
            raise ParameterError(
                f"{self.name_!r} has other features for the same rows among others: it must "
                "answer for each row by itself, and always the same (no dropout, no batch means)"
            )

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        self._check_batch()
        fitted.text("name_")
        n = len(fitted.array("probe_rows_", np.float32, (None, n_features)))
        fitted.array("probe_", np.float32, (n, self.n_components), finite=False)

    def attach(self, code: Iterator[Any]) -> None:
        """Take the next code; ParameterError unless it answers as the one trained with."""
        found = next(code)
        if "name_" not in vars(self):  # settings alone
            setattr(self, self.setting, found)
            return
        if not is_code(found):
            raise ParameterError(
                f"features={found!r} is no code; pass the function or the fitted transformer itself"
            )
        if not is_ready(found):
            raise ParameterError(
                f"features={name_of(found)!r} is not fitted; pass what the model was trained with, "
                "which is its features_.transformer_"
            )
        self._code = found
        differs = apart(self.probe_, self._mapped(self.probe_rows_))
        if differs.any():
            self._code = None
            raise ParameterError(
                f"features={name_of(found)!r} is not the {self.name_!r} of the file: "
                f"{np.count_nonzero(differs):,} of {differs.size:,} features that the file keeps "
                "for comparison differ; pass the code that was trained with"
            )
        setattr(self, self.setting, found)

    @property
    def grain(self) -> int:
        return self.batch_rows // LANES

    def lane_width(self, n_features: int) -> int:
        return 2 * n_features + 3 * self.n_components

    def map_lanes(self, x: F32, out: F32) -> None:
        with single_blas_threads():
            for start in range(0, len(x), self.grain):
                part = x[start : start + self.grain]
                rows = part.transpose(0, 2, 1).reshape(-1, x.shape[1])
                z = self._batch(rows).reshape(len(part), LANES, -1)
                out[start : start + self.grain, : self.n_components] = z.transpose(0, 2, 1)

    def _mapped(self, rows: F32) -> F32:
        """Return the features of rows (n, n_features), float32 (n, n_components)."""
        with single_blas_threads():
            starts = range(0, len(rows), self.batch_rows)
            return np.concatenate([self._batch(rows[i : i + self.batch_rows]) for i in starts])

    def _batch(self, rows: F32) -> F32:
        """Return the features of at most `batch_rows` rows."""
        if self._code is None:
            raise ParameterError(not_held(self.name_))
        filled = np.zeros((self.batch_rows, rows.shape[1]), dtype=np.float32)
        filled[: len(rows)] = rows
        return self._checked(self._called(filled))[: len(rows)]

    def _checked(self, found: Any) -> F32:
        """Return what the code has answered as float32; ShapeError unless it is a feature a row."""
        Z: NDArray[Any] = np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)
        width = getattr(self, "n_components", Z.shape[-1] if Z.ndim else 0)
        if Z.shape != (self.batch_rows, width) or Z.dtype.kind not in "biuf" or not width:
            raise ShapeError(
                f"{name_of(self._code)!r} returned {type(found).__name__} of {Z.dtype} of shape "
                f"{Z.shape} for {self.batch_rows} rows; expected numbers of shape "
                f"{(self.batch_rows, width or 'n_components')}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            return Z.astype(np.float32)

    def check_values(self, z: F32, n_rows: int) -> None:
        finite = np.isfinite(z[:, : self.n_components]).all(axis=1).ravel()[:n_rows]
        if not finite.all():
            raise BadRowError(
                f"{self.name_!r} returned NaN or infinity for {np.count_nonzero(~finite)} of "
                f"{n_rows} rows, the first after {np.argmin(finite)} others; it must return finite "
                "numbers for every row"
            )


class CallableMap(OwnMap):
    """Features of a function of your own, such as the embedding of a network.

    Parameters
    ----------
    function : takes rows, float32 (batch_rows, n_features), after any scaling (`normalize`), and
        returns (batch_rows, n_components) numbers, dense or SciPy sparse. It must answer for each
        row by itself, also for a row of zeros
    n_components : int, features that it returns for a row
    batch_rows : int, rows of each call, always as many, see `OwnMap`; a multiple of 16. Few suit
        slow functions, of which single rows are predicted

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> def waves(X):
    ...     return np.concatenate([np.sin(X), np.cos(X)], axis=1)
    >>> srf.CallableMap(waves, 2).fit_transform([[0.0], [np.pi]]).round(3)
    array([[ 0.,  1.],
           [-0., -1.]], dtype=float32)
    """

    setting = "function"

    def __init__(self, function: Any, n_components: int, *, batch_rows: int = BATCH_ROWS) -> None:
        self.function = function
        self.n_components = n_components
        self.batch_rows = batch_rows

    def check_width(self) -> None:
        super().check_width()
        FeatureMap.check_width(self)
        if not is_code(self.function):
            raise ParameterError(f"function must be a function of rows, got {self.function!r}")

    def _prepared(self, rng: Generator, sample: F32) -> Any:
        return self.function

    def _called(self, rows: F32) -> Any:
        return (self._code if callable(self._code) else self._code.transform)(rows)


class TransformerMap(OwnMap):
    """Features of a transformer with scikit-learn's manners, or of a pipeline of them.

    Parameters
    ----------
    transformer : fitted, and then used as it is; or unfitted, to be fitted to the rows that are
        looked at before the pass (`transformer_`). It takes rows of float32, after any scaling
        (`normalize`); as a pandas data frame where it was fitted to columns with names
    batch_rows : int, see `CallableMap`
    random_state : int, RandomState or None; seeds an unfitted transformer that has no seed

    Attributes
    ----------
    n_components : int, known once fitted
    transformer_ : the fitted transformer

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> from sklearn.decomposition import PCA
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> srf.TransformerMap(PCA(2)).fit(X).transform(X).shape
    (100, 2)
    """

    setting = "transformer"

    def __init__(
        self, transformer: Any, *, batch_rows: int = BATCH_ROWS, random_state: Seed = None
    ) -> None:
        self.transformer = transformer
        self.batch_rows = batch_rows
        self.random_state = random_state

    @property
    def n_components(self) -> int:  # type: ignore[override] # a setting of other maps
        """Width of the features; AttributeError before the map is fitted."""
        return self.n_components_

    @property
    def transformer_(self) -> Any:
        """The fitted transformer; AttributeError where a file has left its name only."""
        if self._code is None:
            raise AttributeError("transformer_ is known once the map is fitted")
        return self._code

    def width_for(self, n_features: int) -> None:
        return None

    def __sklearn_clone__(self) -> Self:
        copy = super().__sklearn_clone__()
        if not isinstance(self.transformer, str) and not is_ready(self.transformer):
            from sklearn.base import clone

            copy.transformer = clone(self.transformer)
        return copy

    def set_params(self, **params: Any) -> Self:
        """Set settings; ParameterError for those of a fitted transformer, without effect."""
        code = params.get("transformer", self.transformer)
        if any(name.startswith("transformer__") for name in params) and is_ready(code):
            raise ParameterError(
                f"{', '.join(params)}: the transformer is fitted, so its settings have no effect; "
                "give it unfitted, TransformerMap(clone(transformer))"
            )
        return super().set_params(**params)

    def check_width(self) -> None:
        super().check_width()
        code = self.transformer
        if isinstance(code, type) or not callable(getattr(code, "transform", None)):
            raise ParameterError(
                f"transformer must have a transform of rows, got {code!r}; CallableMap(function, "
                "n_components) takes functions"
            )

    def _prepared(self, rng: Generator, sample: F32) -> Any:
        self.__dict__.pop("n_components_", None)
        self._code = self.transformer
        if not is_ready(self.transformer):
            from sklearn.base import clone

            self._code = clone(self.transformer)
            seeds = {name: int(rng.integers(2**31)) for name in unseeded(self._code)}
            try:
                self._code.set_params(**seeds).fit(sample)
            except TypeError as error:  # of one that needs targets
                raise ParameterError(
                    f"{name_of(self._code)} cannot be fitted to rows alone ({error}); fit it "
                    "yourself, and pass it fitted"
                ) from error
            except ValueError as error:
                if "columns using strings" not in str(error):
                    raise
                raise ParameterError(
                    f"{name_of(self._code)} picks columns by name, and rows come to it without "
                    "names: pick them by place, or fit it to a data frame, and pass it fitted"
                ) from error
        self.n_components_ = self._mapped(sample[:1]).shape[1]
        return self._code

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        fitted.integer("n_components_", minimum=1)
        super().check_drawn(fitted, n_features)

    def _called(self, rows: F32) -> Any:
        transform = getattr(self._code, "transform", self._code)
        names = getattr(self._code, "feature_names_in_", ())
        if len(names) != rows.shape[1]:
            return transform(rows)
        import pandas  # optional, but then the transformer was fitted with it

        return transform(pandas.DataFrame(rows, columns=names))
