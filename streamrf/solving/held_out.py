"""Rows held out of the sums, and what models answer on them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamrf.jit import lanes
from streamrf.jit.arrays import F32, Floats
from streamrf.jit.threads import featurising
from streamrf.models import Decoder, Model
from streamrf.preprocessing import Encoder, as_columns
from streamrf.solving.path import target_shares
from streamrf.sources import Rows, as_labels, find_labels

Answers = list[tuple[Rows, Floats]]  # rows held out, each part with a model's outputs

SCORED_ROWS = 1024  # a multiple of 16, the lanes of a group
MAX_TOGETHER = 128  # outputs of models that are computed at once
JOINED_ROWS = 2 * SCORED_ROWS  # whose features are there at once when they join the sums
MIN_KEPT = 128 << 20  # of features held out, at least: about as much as a block takes
MAX_KEPT = 512 << 20  # of so many features that to map them again takes longer


def max_kept(n_components: int) -> int:
    """Return the most bytes of features held out that are kept.

    Half of what their Gram takes, but between `MIN_KEPT` and `MAX_KEPT`.
    """
    return min(max(MIN_KEPT, 2 * n_components**2), MAX_KEPT)


class HeldOut:
    """Rows held out that weigh, and their features, encoded once as far as `max_kept` reaches.

    Parameters
    ----------
    rows : as they came; those whose weights a pass rounds to 0 are left out here too
    encoder : of all features that models have some of
    n_distinct : of the rows, those that are no copies of others; None means all
    decoders : that outputs are read by before the models' own; the first leads the search
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        encoder: Encoder,
        n_distinct: int | None = None,
        decoders: Sequence[Decoder] = (),
    ) -> None:
        self._encoder, self._decoders = encoder, decoders
        self._parts: list[Rows] = []
        self._places: list[slice] = []  # of the parts of each of the rows given, if all weigh
        for some in rows:
            weighing, first = _weighing(some, encoder), len(self._parts)
            self._parts += weighing.pieces(SCORED_ROWS)
            is_whole = len(weighing.X) == len(some.X)
            self._places.append(slice(first, len(self._parts) if is_whole else first))
        self._kept: list[F32] = []
        self.n_all = sum(len(part.X) for part in self._parts)  # copies, too
        self.n_rows = self.n_all if n_distinct is None else min(self.n_all, n_distinct)

    def surrender(self) -> list[Iterator[F32]]:
        """Give away what is kept of the features of each of the rows given, for `Encoder.encode`.

        Each part is gone as soon as it has been used, and none is kept here any longer.
        """
        kept, self._kept = self._kept, []
        return [_used_up(kept[place]) for place in self._places]

    def products(
        self, encoder: Encoder, coefs: Sequence[Floats]
    ) -> Iterator[tuple[Rows, list[Floats]]]:
        """Yield a few rows at a time with ``Z coef^T``, Z the scaled features of an encoder.

        Parameters
        ----------
        coefs : of models, (n_outputs, n_components) each; those of many outputs are never copied
            all at once
        """
        order = np.argsort(self._encoder.columns)
        columns = order[np.searchsorted(self._encoder.columns, encoder.columns, sorter=order)]
        shift, inverse_step = encoder.calibration.shift, 1 / encoder.calibration.step
        together = max(1, MAX_TOGETHER // len(coefs[0]))
        groups = [coefs[i : i + together] for i in range(0, len(coefs), together)]
        one = np.concatenate(groups[0]).T.copy() if len(groups) == 1 else None
        for number, part in enumerate(self._parts):
            z, found = self._features(number), []
            for some in groups:
                coef = np.concatenate(some).T.copy() if one is None else one
                out, none = np.empty((len(part.X), coef.shape[1])), np.zeros(coef.shape[1])
                with featurising():
                    lanes.linear(z, columns, shift, inverse_step, coef, none, out)
                found += np.split(out, len(some), axis=1)
            yield part, found

    def readings(self, model: Model) -> list[Model]:
        """Return the model by each decoder, its own last."""
        book = model.book
        if book is None:
            return [model]
        books = (book.read_by(decoder) for decoder in self._decoders)
        return [*(replace(model, book=book) for book in books), model]

    def answers(self, model: Model) -> Answers:
        """Return the rows, in parts, each with a model's outputs (n, n_outputs)."""
        found = self.products(model.encoder, [model.coef])
        return [(part, products + model.intercept) for part, (products,) in found]

    @cached_property
    def shares(self) -> Floats:
        """What squared errors of each target count times here, (n_targets,)."""
        y = np.concatenate([as_columns(part.y) for part in self._parts])
        size = np.maximum(np.abs(y).max(axis=0), np.finfo(np.float64).tiny)
        return target_shares((y / size).std(axis=0) * size)

    @property
    def is_of_one_class(self) -> bool:
        """Whether all labels are the same."""
        labels = [np.unique(as_labels(part.y)) for part in self._parts]
        return len(np.unique(np.concatenate(labels))) < 2 if labels else True

    def _features(self, number: int) -> F32:
        if number < len(self._kept):
            return self._kept[number]
        z = self._encoder.mapped(self._parts[number].X)
        n_bytes = sum(z.nbytes for z in self._kept) + z.nbytes
        if number == len(self._kept) and n_bytes <= max_kept(self._encoder.n_components):
            self._kept.append(z)
        return z


def _used_up(arrays: list[F32]) -> Iterator[F32]:
    """Yield arrays, and hold none of them any longer."""
    while arrays:
        yield arrays.pop(0)


def _weighing(rows: Rows, encoder: Encoder) -> Rows:
    if rows.weights is None:
        return rows
    return rows.where(encoder.calibration.roots(rows.weights, len(rows.X)) > 0)


def weights_of(rows: Rows) -> NDArray[np.float64]:
    """Return the weights of rows, 1 where they carry none, (n,)."""
    return np.ones(len(rows.X)) if rows.weights is None else rows.weights


def held_scores(model: Model, answers: Answers) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return scores (n, n_classes), indices of true classes (n,) and weights of rows held out.

    Scores are in units of the margin. Rows of classes that the model does not know, or had no rows
    of, are left out.
    """
    book = model.book
    assert book is not None
    scores = np.empty((sum(len(part.X) for part, _ in answers), book.n_classes))
    found, n = [], 0
    for part, outputs in answers:
        index, unknown = find_labels(model.labels, as_labels(part.y))
        known = ~unknown & ~book.is_absent[index]
        index = index[known]
        scores[n : n + len(index)] = book.scores(outputs)[known] / book.margin
        found.append((index, weights_of(part)[known]))
        n += len(index)
    index, weights = (np.concatenate(column) for column in zip(*found, strict=True))
    return scores[:n], index, weights
