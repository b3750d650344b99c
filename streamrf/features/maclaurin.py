"""Random Maclaurin features for dot-product kernels, and for dot-product kernels of others."""

from numbers import Real

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError, check_choice
from streamrf.features import degrees
from streamrf.features.base import FeatureMap, check_kernel, clone_with_seed, learn_kernel
from streamrf.features.seeds import Seed, random_signs
from streamrf.jit import dense, hadamard, lanes, products
from streamrf.jit.arrays import F32, F64, I64
from streamrf.kernels import MAX_TERMS, Composed, DotProductKernel, Kernel
from streamrf.storage import Fields

PROJECTIONS = ("hadamard", "permuted", "rademacher", "complex")
H01 = (False, True, "constant")
MEASURES = ("geometric", "proportional", "optimized")


class RandomMaclaurin(FeatureMap):
    """``Z_i(x) = sqrt(a_N / P[N] / D) prod_(j<=N) <w_j, x>``, for kernels ``sum a_n <x,y>^n``.

    Parameters
    ----------
    kernel : a dot-product kernel; None means ``Polynomial()``
    n_components : int, width of the output, exact terms included
    projection : "hadamard", "permuted", "rademacher" or "complex"
        "hadamard" takes rows of sign-flipped Walsh-Hadamard transforms, a factor of a feature never
        from the same transform as another of its factors; "permuted" as few transforms as have a
        row for every factor, in random order: factors of a feature may share a transform, a bias of
        order 1 / (sum of degrees); "rademacher" independent signs (dense);
        "complex" is "hadamard" with signs of {1, -1, i, -i}, the real and the imaginary part of a
        product as two features: less variance at high degrees. Not used with `inner`
    h01 : bool, compute the constant and the linear term of the series exactly (H0/1); they take
        ``(a_0 > 0) + n_features * (a_1 > 0)`` of the components. "constant": the constant alone,
        which takes one, where "geometric" otherwise spends half of them on copies of it
    measure : "geometric", "proportional" or "optimized", how degrees are chosen
        "geometric" draws each with ``P[N=n]`` proportional to ``p^-(n+1)`` over the degrees that
        the series has; "proportional" to ``a_n r^n``, where r is the greatest ``<x, x>`` of the
        sample; "optimized" draws none but gives degree n the number of features that minimises the
        variance of the kernel's estimate, summed over pairs of rows of the sample (by the formula
        for independent signs), at least one to each degree, so that the map stays unbiased
    p : float above 1, base of the geometric distribution
    tolerance : float, the tail at which an infinite series is cut, relative to the kernel's
        greatest value on the sample; finite series are never cut. Products of many factors vary
        as 3^n: with a series that ends slowly (`ArcCosine`) and "optimized", which gives every
        degree a feature, 0.01 has less error than 1e-4 (relative to the kernel 0.02, not 1.06)
    inner : None, or an unfitted map with independent components
        The kernel is then ``sum a_n K(x,y)^n`` with K the kernel of `inner`, and every factor a
        component of `inner`, drawn for it alone; its n_components does not matter. Not with
        `h01`, "optimized" or "complex"
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel
    degrees_ : int64, degree of each product, descending; a product is one feature, or two that
        are next to each other if "complex" (of an odd width the last is a real part alone)
    scales_ : (n_random,) float32, factor of each random feature
    signs_ : float32, shape (n_transforms, n_features) of +-1; (n_transforms, 2, n_features) of the
        real and imaginary parts, +-1 or 0, if "complex"; (sum of degrees, n_features) if dense
    picks_ : int32 of shape (sum of degrees,), row of its transform (of all together, if
        "permuted"), or component of `inner_`, for each factor; empty if dense
    constant_, linear_ : factors of the exact terms; 0 where there is none
    longest_ : greatest ``<x, x>`` that a cut series is right for; only where it is cut
    inner_ : the fitted inner map, of (sum of degrees) components, or None

    Notes
    -----
    Kar and Karnick, Random Feature Maps for Dot Product Kernels, AISTATS 2012: algorithm 1, section
    4.2 (cut series), section 5 (`inner`) and section 6 (H0/1). Structured projections as in Hamid
    et al., ICML 2014, section 3.5: "permuted" is their layout, "hadamard" has sign diagonals of
    their own for every factor, which keeps the product unbiased. "optimized" after Wacker, Kanagawa
    and Filippone, Improved Random Features for Dot Product Kernels; "complex" after Wacker, Ohana
    and Filippone, Complex-to-Real Sketches for Tensor Products.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.RandomMaclaurin(srf.Polynomial(2), 1000, h01=True, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    kernel_: DotProductKernel | Composed

    def __init__(
        self,
        kernel: DotProductKernel | None = None,
        n_components: int = 100,
        *,
        projection: str = "hadamard",
        h01: bool | str = False,
        measure: str = "geometric",
        p: float = 2.0,
        tolerance: float = 1e-4,
        inner: FeatureMap | None = None,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.projection = projection
        self.h01 = h01
        self.measure = measure
        self.p, self.tolerance = p, tolerance
        self.inner = inner
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self._check_settings()
        kernel = learn_kernel(self, DotProductKernel, sample)
        rows = np.ones((1, n_features)) / np.sqrt(n_features) if sample is None else sample
        if self.inner is None:
            self.inner_, self.kernel_ = None, kernel
            squares = np.square(rows, dtype=np.float64).sum(axis=1)
        else:
            self.inner_ = clone_with_seed(self.inner, rng).set_params(n_components=1)
            self.inner_.draw_for(n_features, sample)
            self.kernel_ = Composed(kernel, self.inner_.kernel_)
            squares = self.inner_.kernel_.diagonal(rows)
        self.kernel_.check_domain(squares)
        bound = float(squares.max(initial=0.0)) or min(1.0, kernel.radius / 2)
        series = kernel.maclaurin(bound, self.tolerance)
        self.__dict__.pop("longest_", None)
        if (longest := kernel.longest(series, bound, self.tolerance)) < np.inf:
            self.longest_ = longest
        n_random = self._draw_exact_terms(series, n_features)
        self._draw_degrees(series, bound, n_random, rng, sample)
        self._draw_factors(n_features, rng, sample)

    @property
    def independent(self) -> bool:
        """Whether every component is a draw of its own: dense, and of a random degree."""
        if self.h01 or self.measure == "optimized":
            return False
        return self.projection == "rademacher" if self.inner is None else self.inner.independent

    def _check_settings(self) -> None:
        self._check_choices()
        if not (isinstance(self.p, Real) and float(self.p) > 1):
            raise ParameterError(f"p must be above 1, got {self.p!r}")
        degrees.check_tolerance(self.tolerance)
        if self.inner is None:
            return
        if not isinstance(self.inner, FeatureMap) or not self.inner.independent:
            raise ParameterError(
                "inner must be a map with independent components, such as "
                "RandomMaclaurin(projection='rademacher') without h01 or measure='optimized', or "
                f"RandomFourier(paired=False), got {self.inner!r}"
            )
        if self._n_exact > 1 or self.measure == "optimized" or self.projection == "complex":
            raise ParameterError(
                "inner goes with neither h01=True (its linear term is no finite number of exact "
                "features) nor measure='optimized' (the variance of its features is not known) nor "
                "projection='complex' (it projects by itself)"
            )

    @property
    def _n_exact(self) -> int:
        """Degrees, from 0 on, whose terms are exact."""
        return 1 if self.h01 == "constant" else 2 if self.h01 else 0

    def _check_choices(self) -> None:
        choices = (("projection", PROJECTIONS), ("measure", MEASURES), ("h01", H01))
        for name, known in choices:
            check_choice(name, getattr(self, name), known)

    def _draw_exact_terms(self, series: F64, n_features: int) -> int:
        """Set the factors of the exact terms; return the number of components that are left."""
        self.constant_ = float(np.sqrt(series[0])) if self.h01 else 0.0
        has_linear = self._n_exact > 1 and len(series) > 1
        self.linear_ = float(np.sqrt(series[1])) if has_linear else 0.0
        exact = (self.constant_ > 0) + n_features * (self.linear_ > 0)
        higher = self.h01 and not series[self._n_exact :].any()
        if self.n_components < exact + (not higher) or (higher and self.n_components != exact):
            need = f"exactly {exact}" if higher else f"more than {exact}"
            raise ParameterError(
                f"h01={self.h01!r} keeps {exact} exact terms for rows of {n_features} features, so "
                f"n_components must be {need}, got {self.n_components}; raise n_components, set "
                f"h01=False, or wrap the map: Craft(RandomMaclaurin(..., n_components="
                f"{8 * max(self.n_components, exact)}, h01=True), n_components={self.n_components})"
            )
        return self.n_components - exact

    def _draw_degrees(
        self, series: F64, bound: float, n_random: int, rng: Generator, sample: F32 | None
    ) -> None:
        """Set degrees (descending) and factors of the random features."""
        series = np.where(np.arange(len(series)) < self._n_exact, 0.0, series)
        masses = series * bound ** np.arange(len(series))
        paired = self.projection == "complex"
        n_products = -(-n_random // 2) if paired else n_random
        if n_products == 0:
            found, factors = np.empty(0, dtype=np.int64), np.empty(0)
        elif self.measure == "geometric":
            powers = np.arange(len(series)) - float(np.argmax(series > 0))
            weights = np.power(float(self.p), -powers)
            found, factors = degrees.drawn(series, weights, n_products, rng)
        elif self.measure == "proportional":
            found, factors = degrees.drawn(series, masses, n_products, rng)
        elif sample is None:
            raise ParameterError("measure='optimized' learns from rows, and none were given")
        else:
            signs = "complex" if paired else "real"
            scaled = sample / np.sqrt(bound)
            variances = degrees.product_variances(scaled, len(series), signs)
            found, factors = degrees.optimized(series, masses, variances, n_products)
        if paired:
            factors = np.repeat(np.where(found > 0, factors, factors / np.sqrt(2)), 2)[:n_random]
            if n_random % 2:
                factors[-1] *= np.sqrt(2)  # a real part alone carries its product's whole share
        self.degrees_ = found
        self.scales_ = factors.astype(np.float32)

    def _draw_factors(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        count = int(self.degrees_.sum())
        self.signs_ = np.empty((0, n_features), dtype=np.float32)
        self.picks_ = np.empty(0, dtype=np.int32)
        if self.inner_ is not None:
            # The map may keep its components sorted by degree; in random order each is as good as
            # any other.
            self.picks_ = rng.permutation(count).astype(np.int32)
            self.inner_.set_params(n_components=max(1, count))
            self.inner_.draw_for(n_features, sample)
        elif self.projection == "rademacher":
            self.signs_ = random_signs(rng, (count, n_features))
        else:
            self._draw_transforms(n_features, rng)

    def _draw_transforms(self, n_features: int, rng: Generator) -> None:
        """Set the signs of every level of every block, and the row each factor takes."""
        padded = hadamard.padded_length(n_features)
        if self.projection == "permuted":
            count = int(self.degrees_.sum())
            self.signs_ = random_signs(rng, (-(-count // padded), n_features))
            self.picks_ = rng.permutation(self._n_rows(n_features))[:count].astype(np.int32)
            return
        starts = np.arange(0, np.count_nonzero(self.degrees_), padded)
        shape = int(self.degrees_[starts].sum()), n_features
        self.signs_ = random_signs(rng, shape)
        if self.projection == "complex":
            real = rng.integers(0, 2, size=shape, dtype=np.int8) == 1
            self.signs_ = np.stack((self.signs_ * real, self.signs_ * ~real), axis=1)
        picks = [np.empty(0, dtype=np.int32)]
        for start in starts:
            block = self.degrees_[start : start + padded]
            for level in range(block[0]):
                picks.append(rng.permutation(padded)[: np.count_nonzero(block > level)])
        self.picks_ = np.concatenate(picks).astype(np.int32)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        self._check_choices()
        constant = fitted.number("constant_", minimum=0.0)
        linear = fitted.number("linear_", minimum=0.0)
        n_random = self.n_components - (constant > 0) - n_features * (linear > 0)
        paired = self.projection == "complex" and self.inner_ is None
        n_products = -(-n_random // 2) if paired else n_random
        if n_random < 0:
            raise fitted.wrong("linear_", f"needs more than {self.n_components} components")
        if "longest_" in fitted.keys:
            fitted.number("longest_", above=0.0)
        fitted.array("scales_", np.float32, (n_random,))
        found = fitted.indices("degrees_", np.int64, (n_products,), MAX_TERMS + 1)
        if (found[1:] > found[:-1]).any():
            raise fitted.wrong("degrees_", "is not in descending order")
        count = int(found.sum())
        padded = hadamard.padded_length(n_features)
        starts = np.arange(0, np.count_nonzero(found), padded)
        n_transforms = int(found[starts].sum())
        n_picks, stop = count, padded
        shape: tuple[int, ...] = n_transforms, n_features
        if self.inner_ is not None:
            inner = fitted.kind("inner_", FeatureMap)
            inner.check_fitted(n_features, fitted, "inner_")
            if inner.n_components != max(1, count):
                raise fitted.wrong("inner_", f"does not have the {count} components needed")
            stop, shape = max(1, count), (0, n_features)
        elif self.projection == "rademacher":
            n_picks, shape = 0, (count, n_features)
        elif self.projection == "permuted":
            shape = -(-count // padded), n_features
            stop = shape[0] * padded
        elif self.projection == "complex":
            shape = n_transforms, 2, n_features
        fitted.array("signs_", np.float32, shape)
        fitted.indices("picks_", np.int32, (n_picks,), stop)
        if self.inner_ is None:
            fitted.value("inner_")
        check_kernel(fitted, DotProductKernel if self.inner_ is None else Composed)

    @property
    def blocks(self) -> I64:
        """Degree of each component."""
        paired = self.projection == "complex" and self.inner_ is None
        exact = [0] * (self.constant_ > 0) + [1] * (self.n_features_in_ * (self.linear_ > 0))
        random = np.repeat(self.degrees_, 2 if paired else 1)[: len(self.scales_)]
        return np.append(np.array(exact, dtype=np.int64), random)

    def weights_for(self, kernel: Kernel) -> F64:
        """Return ``b_n / a_n`` by degree, for a dot-product kernel of the series ``sum b_n t^n``.

        With them the draws are those of a map for `kernel`; with `inner`, for `kernel` of its
        kernel. A degree that was not drawn, but might have been, is left out: the estimate over all
        draws is unbiased. An infinite series ends where that of the map does.

        Raises
        ------
        ParameterError
            If `kernel` has terms that the map's own kernel does not have.
        """
        if not isinstance(kernel, DotProductKernel):
            return super().weights_for(kernel)
        own = self.kernel_.outer if isinstance(self.kernel_, Composed) else self.kernel_
        return degrees.weights_of(own, kernel, int(self.blocks.max()) + 1)

    @property
    def grain(self) -> int:
        if self.inner_ is not None:
            return self.inner_.grain
        return dense.TILE_GROUPS if self.projection == "rademacher" else 1

    def _n_rows(self, n_features: int) -> int:
        return len(self.signs_) * hadamard.padded_length(n_features)

    def lane_width(self, n_features: int) -> int:
        more = self._n_rows(n_features) if self.projection == "permuted" else 0
        more += 0 if self.inner_ is None else self.inner_.lane_width(n_features)
        return n_features + self.n_components + more

    def map_lanes(self, x: F32, out: F32) -> None:
        self._check_lanes(x)
        first = 0
        if self.constant_ > 0:
            out[:, 0] = self.constant_
            first = 1
        if self.linear_ > 0:
            d = x.shape[1]
            np.multiply(x, np.float32(self.linear_), out=out[:, first : first + d])
            first += d
        varying = self.degrees_[: np.count_nonzero(self.degrees_)]  # they descend
        if self.inner_ is not None:
            w = np.empty((len(x), self.inner_.n_components, lanes.LANES), dtype=np.float32)
            self.inner_.map_lanes(x, w)
            root = np.float32(np.sqrt(self.inner_.n_components))
            products.multiply(w, varying, self.picks_, self.scales_, root, first, out)
        elif self.projection == "rademacher":
            self._map_dense(x, first, out)
        elif self.projection == "permuted":
            w = np.empty((len(x), self._n_rows(x.shape[1]), lanes.LANES), dtype=np.float32)
            hadamard.transforms(x, self.signs_, w)
            products.multiply(w, varying, self.picks_, self.scales_, np.float32(1), first, out)
        else:
            fill = hadamard.maclaurin if self.signs_.ndim == 2 else hadamard.maclaurin_complex
            fill(x, self.signs_, varying, self.picks_, self.scales_, first, out)
        n_varying = len(varying) * (2 if self.signs_.ndim == 3 else 1)
        out[:, first + n_varying : self.n_components] = self.scales_[n_varying:, np.newaxis]

    def _check_lanes(self, x: F32) -> None:
        if self.kernel_.radius < np.inf:
            self.kernel_.check_domain(self.squares(x))

    @property
    def longest(self) -> float:
        return vars(self).get("longest_", np.inf)

    def squares(self, x: F32) -> F64:
        if self.inner_ is None:
            return super().squares(x)
        rows = x.transpose(0, 2, 1).reshape(-1, x.shape[1])  # a copy, in the order of rows
        return self.inner_.kernel_.diagonal(rows).reshape(len(x), -1)

    def _map_dense(self, x: F32, first: int, out: F32) -> None:
        offset = 0
        for level in range(self.degrees_.max(initial=0)):
            count = int((self.degrees_ > level).sum())
            signs = self.signs_[offset : offset + count]
            offset += count
            scales = np.ones_like(self.scales_[:count]) if level else self.scales_[:count]
            dense.project(signs, scales, x, first, level > 0, out)
