"""Words to feature maps and kernels."""

import re
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from streamrf.cli.groups import number_or, several
from streamrf.cli.options import construct, misused, option, option_from, option_name, wrong
from streamrf.errors import ParameterError
from streamrf.features import (
    LANDMARKS,
    MEASURES,
    PROJECTIONS,
    TABLE,
    Concatenate,
    Convolution,
    Craft,
    FeatureMap,
    OwnMap,
    usual_map,
)
from streamrf.kernels import TABLE as ALL_KERNELS
from streamrf.kernels import Kernel, Polynomial, ShiftInvariantKernel
from streamrf.preprocessing import CHOICES, PRECISIONS, WARPS
from streamrf.statistics import Statistics, load_statistics
from streamrf.training import AUTO, Settings


def _word(name: str) -> str:
    """Return the word of a map or kernel.

    Examples
    --------
    >>> _word("RandomFourier"), _word("TensorSketch"), _word("ExpChi2")
    ('fourier', 'tensor-sketch', 'exp-chi2')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().removeprefix("random-")


# What the words stand for. A row takes the settings that are its constructor's arguments.
KERNELS: dict[str, type[Kernel]] = {
    _word(name): ALL_KERNELS[name]
    for name in (
        *("Linear", "Polynomial", "Exponential", "VovkReal", "VovkInfinite", "ArcCosine"),
        *("Gaussian", "Laplacian", "Cauchy"),
        *("Intersection", "Chi2", "JensenShannon", "Hellinger"),
        *("ExpChi2", "ExpJensenShannon", "ExpHellinger", "SkewedChi2", "Skeleton"),
    )
}
MAPS: dict[str, type[FeatureMap]] = {
    _word(name): make
    for name, make in TABLE.items()
    if not issubclass(make, Concatenate | Convolution | Craft | OwnMap)
}
NORMALIZE = {"none" if choice is None else choice: choice for choice in CHOICES}

WARP_WORDS = ("none", *WARPS)

CRAFT = "craft-"  # before a map's word: made wide, then compacted
UNSIZED = {word for word, make in MAPS.items() if "n_components" not in signature(make).parameters}
MAP_WORDS = [p + word for word in MAPS for p in ("", *(() if word in UNSIZED else (CRAFT,)))]

MAP, FOURIER_MAP, COMPONENTS, UP_FACTOR = "craft-maclaurin", "structured-fourier", 4096, 8
# Any of these names a map; without them one is chosen.
MAP_OPTIONS = (
    *("map_", "kernel", "degree", "gamma", "sigma", "coef0", "order"),
    *("up_components", "projection", "h01", "p", "measure", "tolerance"),
    *("sample_steps", "landmarks"),
)
OF_CHOICE = ("kernels", "budget")  # for features that are chosen
LEARNT_GAMMA, LEARNT_SIGMA = ("scale", "median"), ("mean_distance",)


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The feature map and the scaling of rows before it, or earlier statistics that have them."""

    panel: ClassVar = "Features"
    map_: str | None = option(
        "Random feature map (default: chosen from a peek at the rows, unless a kernel is named). "
        f"Of a kernel its fast one: {FOURIER_MAP} of a gaussian, {MAP} of a polynomial.",
        "--map",
        words=MAP_WORDS,
    )
    kernel: str | None = option(
        "Kernel to approximate, such as gaussian or chi2; a wrong name lists all (default: "
        "polynomial, or the map's own).",
        words=KERNELS,
        metavar="KERNEL",
    )
    degree: int | None = option("Degree of the kernel (default: 3).")
    gamma: Any = option(
        "Scale of the kernel (default: median for gaussian, laplacian and cauchy, else 1); of "
        "several, with commas, each has a block of the features.",
        metavar="|".join(("NUMBER", *LEARNT_GAMMA)),
        read=several(number_or(LEARNT_GAMMA)),
    )
    sigma: float | str | None = option(
        "Width of the kernel (default: 1).",
        metavar="|".join(("NUMBER", *LEARNT_SIGMA)),
        read=number_or(LEARNT_SIGMA),
    )
    coef0: float | None = option("Constant of the kernel (default: 1).")
    order: int | None = option("Order of the arc-cosine kernel, 0 or 1 (default: 1).")
    components: int | None = option(
        f"Number of features (default: chosen; {COMPONENTS} where a map is named)."
    )
    kernels: str | None = option_from(Settings, "kernels", metavar="NAME,...")
    budget: float | None = option_from(Settings, "budget", metavar="SECONDS")
    up_components: int | None = option(
        f"Width before a {CRAFT} map compacts; {UP_FACTOR} times as wide."
    )
    projection: str | None = option(
        "How its random vectors are made (default: hadamard).", words=PROJECTIONS
    )
    h01: bool | None = option(
        "Constant and linear terms exactly (default: --h01).", "--h01/--no-h01"
    )
    p: float | None = option("Degree n is drawn with probability ~ p^-n (default: 2).")
    measure: str | None = option("How degrees are chosen (default: geometric).", words=MEASURES)
    tolerance: float | None = option(
        "Share of the kernel that an infinite series may lose (default: 0.0001)."
    )
    sample_steps: int | None = option(
        "Samples of the spectrum of an additive kernel (default: 2).", min=1
    )
    landmarks: str | None = option(
        "How Nystroem chooses landmarks (default: kmeans).", words=LANDMARKS
    )
    normalize: str | None = option_from(Settings, "normalize", default=None, words=NORMALIZE)
    warp: str | None = option_from(Settings, "warp", default=None, words=WARP_WORDS)
    warp_rounds: int | None = option_from(Settings, "warp_rounds", default=None, min=1)
    scale_like: str | None = option_from(Settings, "scale_like", metavar="FILE")
    precision: str | None = option_from(Settings, "precision", default=None, words=PRECISIONS)
    like: str | None = option_from(Settings, "like", metavar="FILE")

    def settings(self) -> dict[str, Any]:
        """Return the settings of a pass that the words describe.

        Raises
        ------
        typer.BadParameter
            If a setting is none of the map's, or stands next to --like.
        """
        if self.like is None:
            scaling = AUTO if self.normalize is None else NORMALIZE[self.normalize]
            found = {
                "normalize": scaling,
                "scale_like": self.scale_like,
                "precision": self.precision or "exact",
            }
            is_auto = all(getattr(self, name) is None for name in MAP_OPTIONS)
            if not is_auto and self.warp is None and self.warp_rounds is not None:
                raise misused("--warp-rounds", "is for a warp, which a map named needs --warp for")
            found |= warp_settings(self.warp, self.warp_rounds)
            if is_auto:
                chosen = {name: getattr(self, name) for name in OF_CHOICE}
                return found | {"features": AUTO, "n_components": self.components} | chosen
            for name in OF_CHOICE:
                if getattr(self, name) is not None:
                    problem = "is for features that are chosen, and a map or a kernel is named"
                    raise misused(f"--{name}", problem)
            return found | {"features": self._features()}
        given = [option_name(item) for item in fields(self) if getattr(self, item.name) is not None]
        given.remove("--like")
        if given:
            left_out = ", ".join(given)
            raise misused("--like", f"takes map and scales from {self.like}; leave out {left_out}")
        return {"features": None}

    def earlier(self, regression: bool) -> Statistics | None:
        """Return the statistics whose map and scales to take."""
        if self.like is None:
            return None
        statistics = load_statistics(self.like)
        if regression and statistics.labels is not None:
            raise ParameterError(
                f"--like {self.like} holds sums of classes, not of values; leave out --regression "
                "or --task, or make statistics of values first"
            )
        return statistics

    def _features(self) -> FeatureMap:
        """Return the map, or a block of the width for each of several gammas."""
        width = COMPONENTS if self.components is None else self.components
        if not isinstance(self.gamma, tuple):
            return self._map(self.gamma, width)
        if width < len(self.gamma):
            n = len(self.gamma)
            raise wrong("--components", f"{width} do not part among the {n} of --gamma; give {n}")
        shares = np.diff(np.linspace(0, width, len(self.gamma) + 1).astype(int)).tolist()
        maps = [self._map(*each) for each in zip(self.gamma, shares, strict=True)]
        return Concatenate(maps)

    def _map(self, gamma: float | str | None, width: int) -> FeatureMap:
        word = self.map_ or _default_map(self.kernel)
        make = MAPS[word.removeprefix(CRAFT)]
        given = {name: getattr(self, name) for name in ("degree", "sigma", "coef0", "order")}
        given["gamma"] = gamma
        names = ("projection", "h01", "p", "measure", "tolerance", "sample_steps", "landmarks")
        settings = {name: getattr(self, name) for name in names}
        if "kernel" in signature(make).parameters:
            kernel = self.kernel or _kernel_word(make.default_kernel)
            if gamma is None and issubclass(KERNELS[kernel], ShiftInvariantKernel):
                given["gamma"] = "median"
            settings["kernel"] = construct(KERNELS[kernel], f"--kernel {kernel}", given)
        else:  # they are its own settings, or none
            settings |= given | {"kernel": self.kernel}
        if self.h01 is None and "h01" in signature(make).parameters:
            settings["h01"] = True
        if not word.startswith(CRAFT):
            if self.up_components is not None:
                known = CRAFT + (word if CRAFT + word in MAP_WORDS else "maclaurin")
                raise misused("--up-components", f"is for --map {known}; leave it out")
            settings["n_components"] = self.components if word in UNSIZED else width
            return construct(make, f"--map {word}", settings)
        wide = UP_FACTOR * width if self.up_components is None else self.up_components
        up = construct(make, f"--map {word}", settings | {"n_components": wide})
        return Craft(up, width)


def warp_settings(word: str | None, n_rounds: int | None) -> dict[str, Any]:
    """Return the settings of a warp, by its word and rounds as given."""
    if word == "none" and n_rounds is not None:
        raise misused("--warp-rounds", "is for a warp, and --warp none is none; leave it out")
    found: dict[str, Any] = {} if word is None else {"warp": None if word == "none" else word}
    return found if n_rounds is None else found | {"warp_rounds": n_rounds}


def _default_map(kernel: str | None) -> str:
    """Return the word of the fast map of a kernel; without a kernel, the default one."""
    word = _word(usual_map(KERNELS[kernel] if kernel else Polynomial).__name__)
    return MAP if CRAFT + word == MAP else word


def _kernel_word(kind: type[Kernel]) -> str:
    return next(word for word, each in KERNELS.items() if each is kind)
