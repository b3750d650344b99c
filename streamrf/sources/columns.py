"""Columns of tables as numbers: what each one became, learnt from a peek and kept without code."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.display import brief
from streamrf.errors import DataError, ShapeError
from streamrf.sources.arrow_types import kind_of
from streamrf.sources.arrow_values import (
    as_strings,
    coded,
    filled,
    floats_of,
    hashed_text,
    n_known,
    one_array,
    vectors_of,
    width_of_lists,
)
from streamrf.sources.cycles import CYCLES, seen_in, waves
from streamrf.storage import Fields, digest

KINDS = ("number", "boolean", "category", "date", "vector", "empty")
MAX_LEVELS = 64  # more are hashed, into as many columns
_AS_TEXT = ("date", "category")  # kinds of a column of dates, learnt and as some read CSV


@dataclass(frozen=True)
class Column:
    """What one column of a table becomes.

    Parameters
    ----------
    name : of the column
    kind : "number", "boolean" (0 and 1), "category", "date", "vector" of lists of numbers, or
        "empty", which was missing in all rows learnt from and is always 0
    fill : what a missing value becomes: the median, of all numbers of a vector, the most frequent
        level, or NaN for none
    has_indicator : whether a last column of 0 and 1 says which values were missing
    levels : of a category, sorted, each of which is a column of 0 and 1; a level that is not among
        them has 0 in all
    n_buckets : columns that a category of more levels is hashed into, with +1 or -1, else 0
    cycles : of a date, in addition to its days since 1970: "year", "week", "day", of which each
        becomes a sine and a cosine
    width : of a vector, numbers of each list, else 0
    """

    name: str
    kind: str
    fill: float | str = math.nan
    has_indicator: bool = False
    levels: tuple[str, ...] = ()
    n_buckets: int = 0
    cycles: tuple[str, ...] = ()
    width: int = 0

    @functools.cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        name = self.name
        if self.kind == "vector":
            shown = [f"{name}_{place}" for place in range(self.width)]
        elif self.kind == "category":
            shown = [f"{name}={level}" for level in self.levels]
            shown += [f"{name}#{bucket}" for bucket in range(self.n_buckets)]
        else:
            waves = [f"{wave} of {cycle}" for cycle in self.cycles for wave in ("sine", "cosine")]
            shown = [name, *(f"{name}, {wave}" for wave in waves)]
        return (*shown, *([f"{name} missing"] if self.has_indicator else []))

    @property
    def words(self) -> str:
        """What it becomes, in scikit-learn's names."""
        plain = {
            "number": "passthrough",
            "vector": f"{self.width} numbers",
            "boolean": "0 and 1",
            "empty": "constant",
        }
        encoder = plain.get(self.kind, "")
        if self.kind == "date":
            encoder = " and ".join(["days", *(f"cycle of the {cycle}" for cycle in self.cycles)])
        if self.levels:
            encoder = f"OneHotEncoder({len(self.levels)} levels)"
        elif self.n_buckets:
            encoder = f"FeatureHasher({self.n_buckets})"
        imputer = ""
        if self.has_indicator:
            fill = self.fill if isinstance(self.fill, str) else f"{self.fill:.6g}"
            imputer = f", SimpleImputer({fill}) with MissingIndicator"
        return f"{self.kind}: {encoder}{imputer}"

    @classmethod
    def learn(cls, name: str, values: Any, where: str) -> "Column":
        """Return what suits the values of a peek, a column of an Arrow table."""
        values = one_array(values)
        kind = kind_of(values.type)
        if kind is None:
            raise DataError(
                f"{where}: column {name!r} has type {values.type}; expected numbers, booleans,"
                " strings or dates: leave it out with x='-NAME' (--x=-NAME), or convert it"
            )
        if not n_known(values, kind):  # a level or an indicator of it would be the same everywhere
            return cls(name, "empty", 0.0)
        has_indicator = bool(values.null_count)
        if kind == "category":
            texts = as_strings(values).drop_null().to_pylist()  # as objects, which keep a last NUL
            names, counts = np.unique(np.array(texts, dtype=object), return_counts=True)
            fill = str(names[counts.argmax()]) if len(names) else ""
            if len(names) > MAX_LEVELS:
                return cls(name, kind, fill, has_indicator, n_buckets=MAX_LEVELS)
            return cls(name, kind, fill, has_indicator, tuple(names.tolist()))
        width = width_of_lists(values) if kind == "vector" else 0
        if kind == "vector" and not width:
            return cls(name, "empty", 0.0)
        if kind == "vector":
            numbers = vectors_of(values, width, f"{where}: column {name!r}")
        else:
            numbers = floats_of(values, kind)
        known = numbers[np.isfinite(numbers)]
        has_indicator = bool(np.isnan(numbers).any())
        if kind == "boolean":
            return cls(name, kind, float(known.mean() > 0.5) if len(known) else 0.0, has_indicator)
        median = float(np.median(known)) if len(known) else 0.0
        if kind in ("number", "vector"):
            return cls(name, kind, median, has_indicator, width=width)
        return cls(name, kind, median, has_indicator, cycles=seen_in(known))

    def encode(self, values: Any, out: NDArray[np.float64]) -> int:
        """Fill `out` (n, n_outputs) with an Arrow array; return the values unlike those learnt."""
        if self.kind == "empty":
            out[:] = 0
            return n_known(values, str(kind_of(values.type)))
        if self.kind == "category":
            missing, n_unseen = self._encode_levels(values, out)
        elif self.kind == "vector":
            numbers, n_unseen = vectors_of(values, self.width, f"column {self.name!r}"), 0
            missing = np.logical_or.reduce(np.isnan(numbers), axis=1)
            out[:, : self.width] = np.where(np.isnan(numbers), self.fill, numbers)
        else:
            numbers = floats_of(values, self.kind)
            missing, n_unseen = np.isnan(numbers), 0
            if missing.any():
                numbers = np.where(missing, self.fill, numbers)
            out[:, 0] = numbers
            for place, cycle in enumerate(self.cycles):
                out[:, 1 + 2 * place : 3 + 2 * place] = waves(numbers, cycle)
        if self.has_indicator:
            out[:, -1] = missing
            return n_unseen
        return n_unseen + (0 if self.fill != self.fill else int(np.count_nonzero(missing)))

    def _encode_levels(self, values: Any, out: NDArray[Any]) -> tuple[NDArray[np.bool_], int]:
        """Fill `out`; return which are missing, and how many are of no known level."""
        found = coded(values)
        names = found.dictionary.to_pylist()
        codes = filled(found.indices, np.int32, len(names))
        missing = codes == len(names)
        n_values = len(self.levels) or self.n_buckets
        places, signs = np.full(len(names) + 1, n_values), np.ones(len(names) + 1)
        index = {level: place for place, level in enumerate(self.levels)}
        for i, name in enumerate([*names, self.fill]):
            places[i] = index.get(name, n_values)
            if self.n_buckets:
                hashed = hashed_text(name)
                places[i], signs[i] = hashed % self.n_buckets, 1 - 2 * (hashed >> 63)
        out[:, :n_values] = 0
        known = np.flatnonzero(places[codes] < n_values)
        out[known, places[codes[known]]] = signs[codes[known]]
        return missing, len(codes) - len(known) - int(missing[places[codes] == n_values].sum())

    def to_tree(self) -> dict[str, Any]:
        """Return the column as a tree."""
        shown = ("name", "kind", "fill", "has_indicator", *["width"] * (self.kind == "vector"))
        tree = {name: vars(self)[name] for name in shown}
        return tree | {
            "levels": list(self.levels),
            "n_buckets": self.n_buckets,
            "cycles": list(self.cycles),
        }

    @classmethod
    def from_tree(cls, fields: Fields) -> "Column":
        """Return what `to_tree` described."""
        kind = fields.text("kind", KINDS)
        column = cls(
            fields.text("name"),
            kind,
            fields.text("fill") if kind == "category" else fields.number("fill"),
            fields.flag("has_indicator"),
            tuple(fields.texts("levels")),
            fields.integer("n_buckets", maximum=1 << 20),
            tuple(fields.texts("cycles")),
            fields.integer("width", minimum=1, maximum=1 << 20) if kind == "vector" else 0,
        )
        if not set(column.cycles) <= set(CYCLES):
            raise fields.wrong("cycles", f"is {list(column.cycles)}; expected some of {[*CYCLES]}")
        fields.end()
        return column


@dataclass(frozen=True)
class Columns:
    """What the columns of a table became: a table of transformations, without code.

    Parameters
    ----------
    columns : in the order of the columns of X
    targets : names of the columns of targets that were learnt from
    weights : name of the column of weights, or None
    """

    columns: tuple[Column, ...]
    targets: tuple[str, ...] = field(default=())
    weights: str | None = None

    @functools.cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns of X, none twice: those that are made give way to the table's."""
        own = {column.name for column in self.columns}
        found: dict[str, None] = {}  # in their order
        for column in self.columns:
            for name in column.outputs:
                is_made = name != column.name
                while name in found or (is_made and name in own):
                    name += "_"
                found[name] = None
        return tuple(found)

    def sums(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums (n_columns,) of shares (n_outputs,) over what each column became."""
        ends = np.cumsum([len(column.outputs) for column in self.columns])
        return np.add.reduceat(shares, [0, *ends[:-1]])

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers as they are, or nothing."""
        return all(column.kind in ("number", "boolean", "empty") for column in self.columns)

    @functools.cached_property
    def are_as_given(self) -> bool:
        """Whether each is numbers of X as they came, so that a row is the same by places."""
        return all(
            column.kind in ("number", "boolean", "vector") and not column.has_indicator
            for column in self.columns
        )

    @functools.cached_property
    def is_bare(self) -> bool:
        """Whether names are all that is known, as of the numbers of a frame that has no holes."""
        return self.is_plain and all(math.isnan(float(column.fill)) for column in self.columns)

    @classmethod
    def named(cls, names: tuple[str, ...], targets: tuple[str, ...] = ()) -> "Columns":
        """Return columns of numbers of which names are all that is known."""
        return cls(tuple(Column(name, "number") for name in names), targets)

    def plain(self) -> "Columns":
        """Return the same numbers with missing values left as NaN."""
        kinds = ((c.name, "number" if c.kind == "empty" else c.kind) for c in self.columns)
        columns = tuple(Column(*pair) for pair in kinds)
        return Columns(columns, self.targets, self.weights)

    def with_targets(self, other: "Columns | None") -> "Columns":
        """Return the columns with our targets and then those of `other`.

        No names if one side lacks them, or both have one.
        """
        theirs = () if other is None else other.targets
        are_names = self.targets and theirs and not {*self.targets} & {*theirs}
        return replace(self, targets=self.targets + theirs if are_names else ())

    def encode(self, table: Any) -> tuple[NDArray[np.float64], int]:
        """Return X of an Arrow table, float64 (n, n_features), and the values unlike the peek's.

        Those are of levels that the peek did not have, and missing where it missed none.
        """
        X = np.empty((len(table), len(self.outputs)))
        first = n_unseen = 0
        for column in self.columns:
            last = first + len(column.outputs)
            n_unseen += column.encode(one_array(table.column(column.name)), X[:, first:last])
            first = last
        return X, n_unseen

    def check(
        self, kinds: dict[str, str | None], where: str, can_be: Callable[[str, str], bool]
    ) -> None:
        """Raise ShapeError with the difference if a table has not these columns.

        Parameters
        ----------
        kinds : kinds of the table's columns, see `kind_of`
        where : the table, for messages
        can_be : whether a column by its name can be read as of another kind
        """
        lacks = [column.name for column in self.columns if column.name not in kinds]
        changed = [
            f"{column.name!r} was {column.kind} and is {kinds[column.name] or 'of no known kind'}"
            for column in self.columns
            if column.name in kinds
            and column.kind != "empty"
            and kinds[column.name] not in (column.kind, "empty")
            and (column.kind, kinds[column.name]) != ("number", "boolean")
            and not can_be(column.name, column.kind)
        ]
        if lacks or changed:
            told = [f"it lacks {brief(repr(lacks))}"] if lacks else []
            dates = [
                column.name
                for column in self.columns
                if (column.kind, kinds.get(column.name)) == _AS_TEXT
                and not can_be(column.name, column.kind)
            ]
            cure = f"; make dates of text: pd.to_datetime(frame[{dates[0]!r}])" if dates else ""
            raise ShapeError(
                f"{where} has other columns than those learnt from: "
                f"{'; '.join([*told, *changed])}{cure}"
            )

    @property
    def digest(self) -> str:
        """A fingerprint of what becomes of the columns."""
        return digest(self.to_tree()["columns"])

    def to_tree(self) -> dict[str, Any]:
        """Return the columns as a tree."""
        columns: Any = {str(place): column.to_tree() for place, column in enumerate(self.columns)}
        if self.is_bare:
            columns = list(self.outputs)
        return {"columns": columns, "targets": list(self.targets), "weights": self.weights}

    @classmethod
    def from_tree(cls, fields: Fields) -> "Columns":
        """Return what `to_tree` described."""
        if fields.is_tree("columns"):
            found = {int(place): tree for place, tree in fields.trees("columns")}
            columns = tuple(Column.from_tree(found[place]) for place in range(len(found)))
        else:
            columns = cls.named(tuple(fields.texts("columns"))).columns
        targets = tuple(fields.texts("targets"))
        weights = fields.value("weights")
        if weights is not None and not isinstance(weights, str):
            raise fields.wrong("weights", "is not the name of a column")
        fields.end()
        return cls(columns, targets, weights)


def raw_numbers(table: Any, columns: Sequence[Column], where: str) -> NDArray[np.float64]:
    """Return columns as numbers that nothing learnt changes: for fingerprints; missing ones NaN.

    DataError for lists of several lengths; `where` names the table.
    """
    parts = []
    for column in columns:
        values = one_array(table.column(column.name))
        kind = kind_of(values.type)
        if "category" in (kind, column.kind) and column.kind != "vector" and kind != "empty":
            found = coded(values)
            codes = filled(found.indices, np.int32, -1)
            hashed = [float(hashed_text(text) >> 11) for text in found.dictionary.to_pylist()]
            parts.append(np.array([*hashed, np.nan])[codes])
        elif "vector" in (kind, column.kind) and kind != "empty":
            width = column.width or width_of_lists(values)
            found = vectors_of(values, width, f"{where}: column {column.name!r}")
            parts.append(found if width else np.full(len(table), np.nan))
        elif kind in (None, "empty"):
            parts.append(np.full(len(table), np.nan))
        else:
            parts.append(floats_of(values, str(kind)))
    return np.column_stack(parts)
