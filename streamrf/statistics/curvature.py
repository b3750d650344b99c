"""Sums of a loss at given coefficients: its values, slopes and curvatures, for a Newton step.

On rounded features all are sums of integers, so they are the same bytes for any order of the rows.
"""

import copy
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamrf.errors import SolveError
from streamrf.jit.arrays import Features, Floats
from streamrf.preprocessing import ROOT_LEVELS, TARGET_LEVELS, TARGET_LIMIT
from streamrf.solving import Loss, Normal
from streamrf.statistics.gram import ExactGram, FloatGram, IntegerGram
from streamrf.statistics.products import PRODUCTS
from streamrf.statistics.sums import Sums
from streamrf.statistics.values import ValueSums

NEGLIGIBLE = 2.0**-6  # root of a curvature from which on a row counts in a Gram


@dataclass
class LossSums:
    """Sums over rows for each output; a commutative monoid.

    For a row with root r, features q, code t and output f, the margin is ``m = t f``.

    Parameters
    ----------
    slopes : ``sum r t loss'(m) / 2 q`` in units of ``1 / TARGET_LEVELS``, and with r for q
    curvatures : for each output, of rows multiplied by the root of ``loss''(m) / 2`` over its
        greatest: rounded to integers anew, rows whose root is below `NEGLIGIBLE` left out
    values : for each output, ``sum r^2 loss(m)`` in units of ``1 / TARGET_LEVELS``
    weight : ``sum r^2``
    n_unseen : cells of tables unlike those that columns were learnt from
    """

    slopes: ValueSums
    curvatures: list[Sums]
    values: list[float]  # int where exact
    weight: float = 0.0
    n_unseen: int = 0

    @classmethod
    def zero(cls, n_components: int, n_outputs: int, exact: bool) -> Self:
        """Start for `n_outputs` outputs."""
        gram = ExactGram if exact else FloatGram
        curvatures = [
            Sums(gram(n_components), ValueSums.zero(n_components, 0, exact))
            for _ in range(n_outputs)
        ]
        _share_products(curvatures)
        slopes = ValueSums.zero(n_components, n_outputs, exact)
        return cls(slopes, curvatures, [0 if exact else 0.0] * n_outputs)

    @property
    def exact(self) -> bool:
        """Whether all sums are of integers."""
        return self.curvatures[0].exact

    def add(self, Q: Features, roots: Floats, signs: Floats, outputs: Floats, loss: Loss) -> None:
        """Add rows.

        Parameters
        ----------
        Q : (n, n_components) features times their root, as they are summed in a pass
        roots : (n,) above 0, in units of a row of mean weight
        signs : (n, n_outputs) codes of +-1
        outputs : (n, n_outputs) of the features without their root
        loss : the loss
        """
        margins, column = signs * outputs, roots[:, np.newaxis]
        round_ = np.rint if self.exact else np.asarray
        slopes = round_(column * signs * loss.half_slope(margins) * TARGET_LEVELS)
        scaled = round_(roots * ROOT_LEVELS)
        self.slopes.add(Q, scaled, np.clip(slopes, -TARGET_LIMIT, TARGET_LIMIT))
        values = round_(np.square(column) * loss.value(margins) * TARGET_LEVELS)
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            raise SolveError(
                "the loss overflows at these coefficients, which do not suit the rows; refine a "
                "model solved from them"
            )
        for k, (sums, curvature) in enumerate(
            zip(self.curvatures, np.sqrt(loss.curvature(margins)).T, strict=True)
        ):
            self.values[k] += type(self.values[k])(values[:, k].sum())
            which = np.flatnonzero(curvature > NEGLIGIBLE)
            root, part = curvature[which], Q[which]
            if (root < 1).any():
                part *= root[:, np.newaxis].astype(Q.dtype)
                if self.exact:
                    np.rint(part, out=part)
            sums.add(part, round_(root * scaled[which]), np.empty((len(which), 0)))
        self.weight += float(np.square(roots).sum())

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.slopes.combined(other.slopes, 1),
            [a + b for a, b in zip(self.curvatures, other.curvatures, strict=True)],
            [a + b for a, b in zip(self.values, other.values, strict=True)],
            self.weight + other.weight,
            self.n_unseen + other.n_unseen,
        )

    def writable(self) -> Self:
        """Return these sums to be added to: what has come over a network may be read-only."""
        curvatures = [sums.writable() for sums in self.curvatures]
        _share_products(curvatures)
        return replace(self, slopes=copy.deepcopy(self.slopes), curvatures=curvatures)

    def losses(self) -> Floats:
        """Return ``sum r^2 loss(m)`` of each output, float64 (n_outputs,)."""
        return np.array(self.values, dtype=np.float64) / TARGET_LEVELS

    def release(self) -> None:
        """Give the memory of partial sums back."""
        for sums in self.curvatures:
            sums.release()

    def newton(self, k: int, alpha: float, v: Floats, step: Floats, loss: Loss) -> Normal:
        """Return the equations whose ridge solution is the Newton step of an output.

        Solve them with the penalty ``alpha / loss.greatest``; the intercept of the solution is in
        units of ``1 / ROOT_LEVELS``.

        Parameters
        ----------
        k : the output
        alpha : penalty
        v : (n_components,) coefficients at which the sums were taken, in steps
        step : (n_components,) of one unit of each feature, see `Normal`
        loss : the loss
        """
        sums = self.curvatures[k]
        slopes = self.slopes.sums[k] / TARGET_LEVELS + alpha * v / np.square(step)
        return Normal(
            sums.gram.totals,
            sums.targets.feature_totals,
            sums.targets.total,
            -slopes[np.newaxis] / loss.greatest,
            np.array([-self.slopes.totals[k] / TARGET_LEVELS / loss.greatest]),
            step,
        )


def _share_products(curvatures: list[Sums]) -> None:
    """Let all sums use one memory of products, as they are added to one after the other."""
    products = PRODUCTS()
    for sums in curvatures:
        if isinstance(sums.gram, IntegerGram):
            sums.gram.products = products
