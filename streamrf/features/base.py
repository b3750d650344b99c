"""What a feature map offers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamrf.display import Card, Parametrized, clone
from streamrf.errors import BadRowError, ParameterError, ShapeError, check_readable, check_undated
from streamrf.features.seeds import Seed, as_random_state
from streamrf.jit import lanes
from streamrf.jit.arrays import F32, F64, I64, Unlocked, unlocked
from streamrf.jit.threads import featurising
from streamrf.kernels import TABLE as KERNELS
from streamrf.kernels import Kernel, Polynomial
from streamrf.storage import Fields

PANEL_BYTES = 8 << 20  # what a few groups of rows may occupy while they pass through a map
MAX_COMPONENTS = 2**31 - 1  # indices of components are int32
RAW_DTYPES = (np.float64, np.float32, np.uint8, np.int16)


class FeatureMap(Parametrized, Card, Unlocked, ABC):
    """A random map `Z` with ``E[<Z(x), Z(y)>] = kernel(x, y)``, as a scikit-learn transformer.

    A feature's bits depend on its row alone: never on its position in a block or on the threads.
    scikit-learn itself is imported by the methods that a transformer has, see `Parametrized`.
    """

    default_kernel: ClassVar[type[Kernel]] = Polynomial  # what None for a kernel means
    takes_negative: ClassVar[bool] = True  # whether entries of rows may be negative
    _sklearn_auto_wrap_output_keys: ClassVar[set[str]] = {"transform"}  # what set_output is for
    n_components: int
    kernel_: Kernel  # the exact kernel that the fitted map approximates

    @property
    def independent(self) -> bool:
        """Whether components are independent, each an unbiased estimate when scaled by itself.

        Only then can ``sqrt(n_components) Z_i`` be a factor of a product (`RandomMaclaurin` with
        `inner`). False for structured, paired, exact, hashed and compacted features.
        """
        return False

    @property
    def longest(self) -> float:
        """The greatest ``<x, x>`` that the map is right for.

        An infinite series is cut for the sample's greatest, and loses more and more of the kernel
        at longer rows; see `DotProductKernel.longest`. Infinity for all other maps.
        """
        return np.inf

    @property
    def wants_seed(self) -> bool:
        """Whether there is something to draw that no seed is set for."""
        return getattr(self, "random_state", 0) is None

    def squares(self, x: F32) -> F64:
        """Return ``<x, x>`` of rows x (groups, n_features, 16), float64 (groups, 16)."""
        return np.einsum("gdl,gdl->gl", x, x, dtype=np.float64)

    @abstractmethod
    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        """Set the fitted arrays, and `kernel_`.

        Parameters
        ----------
        n_features : width of the rows
        rng : the source of all randomness
        sample : (n, n_features) float32, rows as the map will see them; only data-dependent maps
            read it, and only they may raise an error for None
        """

    @abstractmethod
    def map_lanes(self, x: F32, out: F32) -> None:
        """Fill ``out[:, :n_components]`` with the features of `x`.

        Parameters
        ----------
        x : (groups, n_features, 16) float32, not changed
        out : (groups, >= n_components, 16) float32
        """

    @abstractmethod
    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        """Raise FormatError if drawn arrays do not belong together: compiled loops trust them.

        Parameters
        ----------
        fitted : what `draw` has set, read from a file; every name must be read
        n_features : width of the rows
        """

    @property
    def code(self) -> list[Any]:
        """What no file holds: functions and transformers of maps of own code, in their order."""
        return []

    def attach(self, code: Iterator[Any]) -> None:
        """Take from `code`, in the order of `code`, what this map, read from a file, only names."""

    def check_values(self, z: F32, n_rows: int) -> None:
        """Raise BadRowError if code of the user's own gave NaN or infinity for the first rows.

        Parameters
        ----------
        z : (groups, >= n_components, 16), what `map_lanes` has filled
        n_rows : rows in the groups; the lanes after them are no rows
        """

    def check_fitted(self, n_features: int, fields: Fields, key: str) -> None:
        """Raise FormatError if a fitted state, read from `fields` at `key`, is not valid."""
        state = {name: value for name, value in vars(self).items() if name.endswith("_")}
        fitted = fields.inside(key, state | {"n_components": getattr(self, "n_components", None)})
        fitted.integer("n_components", minimum=1, maximum=MAX_COMPONENTS)
        fitted.integer("n_features_in_", minimum=n_features, maximum=n_features)
        self.check_drawn(fitted, n_features)
        fitted.end()

    @property
    def blocks(self) -> I64:
        """Block of each component, int64 (n_components,), from 0 on; a solve can weigh blocks."""
        return np.zeros(self.n_components, dtype=np.int64)

    @property
    def spans(self) -> F64:
        """By how much each component can vary, float64 (n_components,); infinite where unknown."""
        return np.full(self.n_components, np.inf)

    def weights_for(self, kernel: Kernel) -> F64:
        """Return weights of the blocks, float64 (n_blocks,), with which the map is for `kernel`.

        Raise ParameterError if there are none.
        """
        raise ParameterError(
            f"block_weights={kernel!r}: only the blocks of RandomMaclaurin, its degrees, can be "
            f"weighed to another kernel, and not those of {type(self).__name__}"
        )

    @property
    def grain(self) -> int:
        """Groups of rows that a thread takes at once; a panel holds as many for every thread."""
        return 1

    def width_for(self, n_features: int) -> int | None:
        """Return `n_components` of the map once it is fitted to rows of `n_features` columns.

        None where only the fit shows it.
        """
        return self.n_components

    def lane_width(self, n_features: int) -> int:
        """Return how many numbers a row occupies at once, for the size of a panel."""
        return n_features + self.n_components

    def draw_bytes(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that `draw` takes beside a sample of rows; 0 where they are few."""
        settings = self.get_params(deep=False).values()
        parts = (part for s in settings for part in (s if isinstance(s, list | tuple) else (s,)))
        inner = [
            part.draw_bytes(n_rows, n_features) for part in parts if isinstance(part, FeatureMap)
        ]
        return max(inner, default=0)

    def check_width(self) -> None:
        """Raise ParameterError unless `n_components` is a width."""
        width = self.n_components
        if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 1:
            raise ParameterError(f"n_components must be an integer above 0, got {width!r}")

    def card(self) -> dict[str, str]:
        """Return the settings."""
        return {name: repr(value) for name, value in self.get_params(deep=False).items()}

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Draw the map for rows as wide as X; only data-dependent maps read its values.

        Raises
        ------
        ParameterError
            A source in place of an array.
        DataError
            Masked entries.
        ShapeError
            Dates and durations.
        """
        from sklearn.utils.validation import validate_data

        _check_array(X)
        rows = validate_data(self, X, dtype=RAW_DTYPES, ensure_non_negative=not self.takes_negative)
        self.draw_for(rows.shape[1], np.asarray(rows, dtype=np.float32))
        return self

    def draw_for(self, n_features: int, sample: F32 | None) -> None:
        """Draw with the generator that `random_state` seeds."""
        self.check_width()
        width = vars(self).get("n_components")  # a property of some maps
        if isinstance(width, np.integer):  # of 8 bits, say, in which sums overflow
            self.n_components = int(width)
        seeds = as_random_state(getattr(self, "random_state", None)).randint(2**31, size=4)
        self.n_features_in_ = n_features
        self.draw(n_features, np.random.default_rng(seeds), sample)

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Any:
        """Draw the map, and return the features of each row as `transform` does."""
        return self.fit(X, y).transform(X)

    def transform(self, X: ArrayLike, out: F32 | None = None) -> Any:
        """Return the features of each row.

        Parameters
        ----------
        X : (n_rows, n_features)
        out : float32 array of shape (n_rows, n_components) to fill, or None

        Returns
        -------
        float32 array of shape (n_rows, n_components), or the table that `set_output` names

        Raises
        ------
        BadRowError
            Rows so large that features are NaN or infinite.
        DataError
            Masked entries.
        ShapeError
            Dates and durations.
        ParameterError
            A source in place of an array.
        """
        from sklearn.utils._set_output import _wrap_data_with_container
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self, "n_features_in_")
        _check_array(X)
        rows = np.ascontiguousarray(validate_data(self, X, dtype=RAW_DTYPES, reset=False))
        n, d = rows.shape
        if out is None:
            out = np.empty((n, self.n_components), dtype=np.float32)
        elif out.shape != (n, self.n_components) or out.dtype != np.float32:
            raise ShapeError(
                f"out must be float32 of shape {(n, self.n_components)}, "
                f"got {out.dtype} of shape {out.shape}"
            )
        shift, scale = np.zeros(d), np.ones(d)
        with featurising():
            for panel, x, z in panels(self, n, d):
                lanes.load(unlocked(rows[panel]), shift, scale, 0, False, x)
                self.map_lanes(x, z)
                self.check_values(z, panel.stop - panel.start)
                lanes.store(z, out[panel])
                _check_stored(out[panel])
        return _wrap_data_with_container("transform", out, X, self)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let `transform` return "default" arrays, or tables of "pandas" or "polars"."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the features, (n_components,): the class's with a number."""
        from sklearn.base import ClassNamePrefixFeaturesOutMixin

        return ClassNamePrefixFeaturesOutMixin.get_feature_names_out(self, input_features)

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(positive_only=not self.takes_negative),
        )


def _check_array(X: Any) -> None:
    """Raise what `FeatureMap.fit` does for a source, or another object here, masks and dates."""
    if isinstance(X, Card):
        raise ParameterError(
            f"X is an object of the class {type(X).__name__}, and a map takes arrays; of a source "
            "give them a block at a time, block.X of each block of X.blocks(), or fit to "
            "X.sample(n_rows).X"
        )
    check_readable(X, "X")
    check_undated(X, "X")


def _check_stored(Z: F32) -> None:
    """Raise BadRowError for NaN or infinity."""
    if not np.isfinite(Z).all():
        raise BadRowError(
            "the features overflow: rows are too large for the kernel; scale them, or lower gamma "
            "or the degree"
        )


class PolynomialMap(FeatureMap):
    """A map for the polynomial kernel, whose only settings are its kernel, width and seed."""

    kernel_: Polynomial

    def __init__(
        self,
        kernel: Polynomial | None = None,
        n_components: int = 100,
        *,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def _roots(self) -> tuple[np.float32, np.float32]:
        """Return ``sqrt(gamma)`` and ``sqrt(coef0)``, the factor of x and the last entry of v."""
        gamma, coef0 = float(self.kernel_.gamma), float(self.kernel_.coef0)
        return np.float32(np.sqrt(gamma)), np.float32(np.sqrt(coef0))


def panels(features: FeatureMap, n_rows: int, n_features: int) -> Iterator[tuple[slice, F32, F32]]:
    """Cut rows into panels that stay in cache; yield each one's slice and buffers for its lanes.

    The buffers, ``(groups, n_features, 16)`` and ``(groups, n_components, 16)`` float32, are the
    same memory at every step.
    """
    n_groups = -(-n_rows // lanes.LANES)
    groups, _ = _panel(features, n_features)
    groups = max(1, min(groups, n_groups))  # no rows: no panels, and a range needs a step
    x = np.empty((groups, n_features, lanes.LANES), dtype=np.float32)
    z = np.empty((groups, features.n_components, lanes.LANES), dtype=np.float32)
    for first in range(0, n_groups, groups):
        count = min(groups, n_groups - first)
        rows = slice(first * lanes.LANES, min((first + count) * lanes.LANES, n_rows))
        yield rows, x[:count], z[:count]


def panel_bytes(features: FeatureMap, n_features: int) -> int:
    """Return the bytes of all lanes of a panel, those between the steps of a map included."""
    groups, per_group = _panel(features, n_features)
    return groups * per_group


def _panel(features: FeatureMap, n_features: int) -> tuple[int, int]:
    """Return the groups of a panel and the bytes of the lanes of each."""
    per_group = 4 * lanes.LANES * features.lane_width(n_features)
    unit = features.grain * numba.get_num_threads()
    return max(unit, PANEL_BYTES // per_group // unit * unit), per_group


def check_kernel(fitted: Fields, kind: type) -> Any:
    """Return the fitted kernel of a class; raise FormatError if its settings are wrong."""
    kernel = fitted.kind("kernel_", kind)
    try:
        with np.errstate(all="ignore"):
            kernel.check_settings()
    except (TypeError, ValueError, ArithmeticError) as error:
        raise fitted.wrong("kernel_", f"has settings that cannot be: {error}") from error
    return kernel


def learn_kernel(features: Any, kind: type[Any], sample: F32 | None) -> Any:
    """Return the kernel of a map with settings as numbers, or raise ParameterError."""
    kernel = features.default_kernel() if features.kernel is None else features.kernel
    if not isinstance(kernel, kind):
        known = [name for name, cls in KERNELS.items() if issubclass(cls, kind)]
        raise ParameterError(
            f"kernel must be a {kind.__name__} kernel, got {kernel!r}: this map takes "
            f"{', '.join(known)}"
        )
    return kernel.learn(sample)


def clone_with_seed(features: FeatureMap, rng: Generator) -> FeatureMap:
    """Return an unfitted copy; a map without a seed of its own takes one from `rng`."""
    copy = clone(features)
    seed = int(rng.integers(2**31))
    if copy.wants_seed:
        copy.set_params(random_state=seed)
    return copy
