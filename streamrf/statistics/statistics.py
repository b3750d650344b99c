"""The statistics of a pass: sums, where they came from, and what can be asked of them."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf import storage
from streamrf.display import Card
from streamrf.errors import MergeError, ParameterError, check_kind, warn
from streamrf.models import Codes, Seed, targets_card
from streamrf.preprocessing import Encoder, combined_moments, known_moments
from streamrf.sources import Ledger
from streamrf.statistics.kfold import read_sums
from streamrf.statistics.questions import Questions
from streamrf.storage import Fields, loading

KIND = "statistics"
MAX_SCALED = 1e100  # weight of all rows, whose sums of squares are far greater


@dataclass(frozen=True, repr=False)
class Statistics(Card, Questions):
    """Everything a ridge solve needs of the rows counted, and nothing of the rows themselves.

    A commutative monoid: ``a + b`` is the statistics of both sets of rows, ``a + b - b`` is ``a``
    to the last byte (on rounded features).

    Parameters
    ----------
    encoder : how raw rows became features
    sums : the sums, in folds or not
    ledger : the row ranges counted
    n_skipped : rows left out for NaN or infinity
    moments : of the columns of the raw rows summed; None where they are not known, as in files of
        earlier versions, and of sums of rows calibrated elsewhere
    n_too_long : rows summed for which the map's series, cut for the sample's longest row, is wrong
    n_unseen : cells of tables unlike the calibration rows: of a level that those did not have, or
        missing where none of theirs was
    """

    def card(self) -> dict[str, str]:
        """Return what a prompt shows: what was summed."""
        stores = len(self.ledger.names)
        folds = f" in {self.n_folds} folds" if self.n_folds else ""
        return {
            **self.encoder.card(),
            **targets_card(self.labels, len(self.class_sums)),
            "rows": f"{self.n_rows:,} of {stores:,} store{'s' * (stores != 1)}",
            "sums": f"{self.sums.gram_class.__name__}{folds}",
        }

    def __add__(self, other: "Statistics") -> "Statistics":
        return self._combined(other, 1)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return self._combined(other, -1)

    def absorb(self, other: "Statistics", sign: int = 1) -> "Statistics":
        """Return ``self + other``, or ``self - other`` for a `sign` of -1, in our sums' memory.

        So two Grams are held where the operators hold three. Ours are lost, even if it raises.
        ParameterError for another sign, before anything is changed.
        """
        if not isinstance(sign, Integral) or isinstance(sign, bool) or abs(int(sign)) != 1:
            raise ParameterError(f"sign must be 1, to add, or -1, to subtract, got {sign!r}")
        return self._combined(other, int(sign), in_place=True)

    def _combined(self, other: "Statistics", sign: int, in_place: bool = False) -> "Statistics":
        self.check_alike(other)
        names, theirs = self.encoder.target_names, other.encoder.target_names
        if min(len(names), len(theirs)) > 1 and names != theirs:
            raise MergeError(
                f"the two sides are of other targets, or in another order: {[*names]} and "
                f"{[*theirs]}; start the second run from the first one's file: like= or --like"
            )
        if sign < 0 and (self.is_scaled or other.is_scaled):
            raise MergeError(
                f"{'the left' if self.is_scaled else 'the right'} side was scaled, so the share of "
                "its rows in the sums is not known and they cannot be removed; subtract first, "
                "then scale"
            )
        # First the ledger: it may refuse, and costs little.
        ledger = self.ledger + other.ledger if sign > 0 else self.ledger - other.ledger
        n_skipped = self.n_skipped + sign * other.n_skipped
        n_unseen = self.n_unseen + sign * other.n_unseen
        if min(n_skipped, n_unseen, self.n_rows + sign * other.n_rows) < 0:
            raise MergeError(
                f"the right side has {other.n_rows} rows and left out {other.n_skipped} of those "
                f"it counted, the left side only {self.n_rows} and {self.n_skipped}: they were not "
                "summed from the same data"
            )
        sums = self.sums.combined(other.sums, sign, in_place)
        sums.check_exact()
        n_too_long = self.n_too_long + sign * other.n_too_long
        moments = combined_moments(self.moments, other.moments, sign)
        return Statistics(self.encoder, sums, ledger, n_skipped, moments, n_too_long, n_unseen)

    def scale(self, factor: float) -> "Statistics":
        """Return the statistics with every weight multiplied by `factor`: below 1, old rows fade.

        The sums are no longer of integers, so they are marked (`is_scaled`), and so is whatever
        they are added to: from here on they are exact to rounding only. The ledger still counts the
        rows: they cannot be added again, nor removed any more, since how much of them is left is
        not known. Deviations and criteria count faded rows as far as they are left: 100 rows
        scaled by 0.5 are 50. `alpha` keeps its size and so weighs more against smaller sums.
        ParameterError unless `factor` is above 0 and leaves sums that floats hold.
        """
        if not isinstance(factor, Real) or isinstance(factor, bool):
            raise ParameterError(f"factor must be a number above 0, got {factor!r}")
        number = np.inf  # of a huge integer
        with suppress(OverflowError):
            number = float(factor)
        if not 0 < number < np.inf:
            raise ParameterError(f"factor must be a float above 0, got {number:g}")
        factor = number
        weight = self.weight * factor
        if self.weight and not 1 / MAX_SCALED < weight < MAX_SCALED:
            raise ParameterError(
                f"factor={factor:g} makes the rows weigh {weight:.3g} together, and sums of "
                f"floats are for {1 / MAX_SCALED:g} to {MAX_SCALED:g}"
            )
        return replace(self, sums=self.sums.scaled(factor))

    def check_alike(
        self,
        other: "Statistics",
        advice: str = "start the second run from the first one's file: like= or --like",
    ) -> None:
        if not isinstance(other, Statistics):
            raise MergeError(f"expected statistics to merge with, got {type(other).__name__}")
        ours, theirs = self.encoder.digests, other.encoder.digests
        for name in ours | theirs:
            if ours.get(name) != theirs.get(name):
                if name == "feature maps" and self.encoder.has_map_of(other.encoder):
                    raise MergeError(
                        "the two sides hold other features of one map; select or prune the same "
                        "of both, or add them before"
                    )
                raise MergeError(f"the two sides were summed with different {name}; {advice}")
        if self.n_folds != other.n_folds:
            raise MergeError(
                f"one side keeps its sums in {self.n_folds or 'no'} folds, the other in "
                f"{other.n_folds or 'none'}; without_folds() joins them"
            )

    def without_folds(self) -> "Statistics":
        """Return the same statistics with the folds added up, as small as without folds."""
        return replace(self, sums=self.sums.without_folds())

    def relabel(self, names: Mapping[Any, Any]) -> "Statistics":
        """Return the statistics with other labels; classes given the same label become one.

        Class sums add up, so the result is that of a pass over rows labelled so. What the sums
        cannot do is leave a class out: the Gram is over all rows (design/0004-pruning.md); see
        `Model.restrict_classes` for a choice among some classes.

        `names` are the new labels by old ones; labels that are not named stay as they are.
        ParameterError if there are no classes, if the sums are by bit, for an unknown label, and
        for a new one that is neither a string nor a finite number; DataError for integers beyond
        int64, or beyond 2^53 next to floats.
        """
        check_kind("names", names, Mapping, "a dict of new labels by old ones")
        self.sums.targets.check_names(names)
        labels = [] if self.labels is None else self.labels.tolist()
        all_names = {label: names.get(label, label) for label in labels}
        sums = self.sums.retargeted(lambda targets: targets.relabelled(all_names))
        return replace(self, sums=sums, ledger=self.ledger.without_checksums())

    def with_targets(self, other: "Statistics") -> "Statistics":
        """Return the statistics of our targets and then those of `other`, of the same rows.

        Targets that were forgotten, or come later, take a pass of their own over the same rows with
        the same map and seed; one solve then serves all targets. Names of several targets are kept
        where both sides have them; else targets go by their places, which a warning says.

        Raises
        ------
        MergeError
            Unless both hold values of the same rows, summed with the same map and steps.
        """
        check_kind("other", other, Statistics, "Statistics")
        ours, theirs = self.encoder.calibration, other.encoder.calibration
        alike = replace(
            other.encoder,
            calibration=replace(
                theirs, target_shift=ours.target_shift, target_step=ours.target_step
            ),
        )
        self.check_alike(
            replace(other, encoder=alike), "sum the same source with the same map and seed"
        )
        if not self.ledger.same_rows(other.ledger):
            raise MergeError("the two sides have counted different rows, so they cannot be joined")
        both = replace(
            ours,
            target_shift=np.concatenate((ours.target_shift, theirs.target_shift)),
            target_step=np.concatenate((ours.target_step, theirs.target_step)),
        )
        table = self.encoder.table
        table = None if table is None else table.with_targets(other.encoder.table)
        first, second = self.encoder.targets, other.encoder.targets
        names = first + second if first and second and not {*first} & {*second} else ()
        if (first or second) and not names:
            known = ", ".join(first or second)
            why = "has one of the same name" if first and second else "has no names, as one alone"
            warn(
                f"the names of targets ({known}) are not kept, as the other side {why}: targets "
                "go by their places now, so judge and predict them in the order of the two sides"
            )
        encoder = replace(self.encoder, calibration=both, table=table, targets=names)
        sums, ledger = self.sums.stack_targets(other.sums), self.ledger.without_checksums()
        return replace(self, encoder=encoder, sums=sums, ledger=ledger)

    def select(self, columns: ArrayLike) -> "Statistics":
        """Return the statistics of some features alone, as if the map had no others.

        ``(a + b).select(c)`` is ``a.select(c) + b.select(c)``, to the last byte. `columns` are the
        indices of the features to keep; ParameterError if there is no such feature, or one is
        named twice.
        """
        kept = np.asarray(columns)
        width = self.sums.n_components
        right = kept.ndim == 1 and kept.dtype.kind in "iu" and kept.size > 0
        if not right or kept.min() < 0 or kept.max() >= width:
            raise ParameterError(f"columns must be indices of features from 0 to {width - 1}")
        if len(np.unique(kept)) < len(kept):
            raise ParameterError("columns names a feature twice")
        kept = kept.astype(np.int64)
        return replace(self, encoder=self.encoder.select(kept), sums=self.sums.select(kept))

    def with_totals(self, totals: str) -> "Statistics":
        """Return the same sums in "float64" or "int32" totals, see `accumulate`.

        ParameterError if they are not integers below 2^31, or in folds.
        """
        return replace(self, sums=self.sums.with_totals(totals))

    def prune(
        self,
        n_components: int,
        alpha: float | None = None,
        codes: Codes = None,
        *,
        random_state: Seed = 0,
    ) -> "Statistics":
        """Return the statistics of the most useful features alone.

        From none, the feature is added that lowers the penalised training loss, summed over the
        outputs, the most (forward selection; `streamrf.solving.pruning`). Others prune alike by
        ``other.select(pruned.columns)``, so that they can be added.

        Parameters
        ----------
        n_components : features to keep
        alpha : penalty of the loss; None means the best by generalised cross-validation, `path`
        codes, random_state : outputs that the loss is over, see `solve`
        """
        kept = self.problem(codes, random_state).prune(n_components, alpha)
        return replace(self, encoder=kept.encoder, sums=kept.sums)

    def save(self, path: str | os.PathLike) -> None:
        """Write the statistics to an HDF5 file, atomically."""
        storage.write(path, KIND, self.to_tree())

    def to_tree(self) -> dict:
        """Return the statistics as a tree."""
        tree = {
            "encoder": self.encoder.to_tree(),
            "sums": self.sums.to_tree(),
            "ledger": self.ledger.to_tree(),
            "n_skipped": self.n_skipped,
        }
        if self.moments is not None:
            unnamed = replace(self.moments, names=())  # the encoder's table has the names
            tree |= {"moments": unnamed.to_tree(), "n_too_long": self.n_too_long}
        return tree if not self.n_unseen else tree | {"n_unseen": self.n_unseen}

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Statistics":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        encoder = Encoder.from_tree(fields.tree("encoder"))
        calibration = encoder.calibration
        sums = read_sums(fields.tree("sums"), encoder.n_components, calibration.exact)
        ledger = Ledger.from_tree(fields.tree("ledger"))
        n_skipped = fields.integer("n_skipped")
        moments, n_too_long = None, 0
        if fields.is_tree("moments"):
            moments = known_moments(fields, encoder)
            n_too_long = fields.integer("n_too_long", maximum=sums.n_rows)
            if moments.n_rows != sums.n_rows:
                raise fields.wrong("moments", "and the sums are not of the same rows")
        n_unseen = fields.integer("n_unseen") if "n_unseen" in fields.keys else 0
        fields.end()
        n_targets = 0 if sums.targets.labels is not None else len(sums.targets.sums)
        if n_targets != len(calibration.target_shift):
            raise fields.wrong("sums", "and the calibration are for different targets")
        if sums.n_rows + n_skipped > ledger.n_rows:
            raise fields.wrong("ledger", f"has fewer rows than the {sums.n_rows} summed")
        return cls(encoder, sums, ledger, n_skipped, moments, n_too_long, n_unseen)


def load_statistics(path: str | os.PathLike, features: Any = None) -> Statistics:
    """Read statistics that `Statistics.save` wrote; raise FormatError if the file holds none.

    `features` is the code that the file names, if any, see `load_model`: to go on by ``like=``, or
    to predict with what is solved for. The sums answer without it.
    """
    tree = storage.read(path, KIND)
    with loading(path):
        statistics = Statistics.from_tree(Fields(tree, os.fspath(path)))
    statistics.encoder.attach(features)
    return statistics
