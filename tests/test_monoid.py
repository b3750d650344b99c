"""Summaries form commutative monoids: the laws of `+` and `-`, run over every summary."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamrf as srf
from integers import accumulate, assert_close, assert_same_bytes, cut, features
from passes import begin
from streamrf.errors import DataError, MergeError, StreamrfError, UnknownLabelError
from streamrf.models.class_metrics import ClassErrors
from streamrf.models.metrics import ErrorSums, ValueErrors
from streamrf.models.probabilities import Probabilities
from streamrf.sources.ledger import Ledger
from streamrf.statistics.gram import CompactGram, ExactGram, FloatGram, gram_class
from streamrf.statistics.labelled import BitSums, ClassSums
from streamrf.statistics.statistics import Statistics
from streamrf.statistics.sums import Sums
from streamrf.statistics.targets import TargetSums
from streamrf.statistics.values import ValueSums
from streamrf.training import Pass

pytestmark = pytest.mark.usefixtures("one_thread")

N, WIDTH = 120, 5
RNG = np.random.default_rng(0)
Q = RNG.integers(-200, 200, size=(N, WIDTH)).astype(np.float32)
ROOTS = RNG.integers(1, 9000, size=N).astype(np.float64)
TARGETS = RNG.integers(-(2**30), 2**30, size=(N, 2)).astype(np.float64)
X = RNG.normal(size=(N, 3))
SCORES = RNG.normal(size=(N, 6))
NAMES = np.array(["fig", "apple", "date", "cherries", "egg", "bean"])
LABELS = NAMES[np.arange(N) // 20]  # sorted by class: nearly every block brings a new label
MATRIX = np.where(RNG.random((6, 4)) < 0.5, -1.0, 1.0)
for _array in (Q, ROOTS, TARGETS, X, SCORES, LABELS, MATRIX):
    _array.flags.writeable = False


@dataclass(frozen=True)
class Case:
    """A summary: what it is of no rows, and how rows are added in place."""

    name: str
    kind: type
    zero: Callable[[], Any]
    add: Callable[[Any, slice], None]
    exact: bool = True
    subtracts: bool = True

    def of(self, rows):
        summary = self.zero()
        if rows.start < rows.stop:
            self.add(summary, rows)
        return summary

    def assert_equal(self, a, b):
        if self.exact:
            assert_same_bytes(tree_of(a), tree_of(b))
        else:  # sums of 120 numbers: each addition rounds by 1.1e-16
            assert_close(tree_of(a), tree_of(b), rtol=1e-13)


def tree_of(summary):
    """Everything a summary holds."""
    if hasattr(summary, "to_tree"):
        return summary.to_tree()
    return {k: v.to_tree() if hasattr(v, "to_tree") else v for k, v in vars(summary).items()}


def sums(name, kind, targets, y, exact, totals="float64"):
    """A row for `Sums`."""
    noise = 0 if exact else 0.123
    dtype = np.float32 if exact else np.float64
    rows = (Q + noise).astype(dtype)

    def zero():
        return Sums(gram_class(exact, totals)(WIDTH), targets())

    def add(summary, part):
        summary.add(rows[part], ROOTS[part] + noise, y[part], n_clipped=part.stop - part.start)

    precision = totals if exact else "rounded"
    return Case(f"{name}-{precision}", kind, zero, add, exact)


def statistics(name, y, weights=ROOTS, **options):
    """A row for `Statistics`."""
    source = srf.ArraySource(X, y, weights)
    start = accumulate(source, features(WIDTH), **options)

    def zero():
        return Statistics(start.encoder, start.sums.zero_like(), Ledger())

    def add(summary, part):
        summary = Pass(summary)
        for block in source.blocks(part.start, part.stop, block_rows=50):
            summary.update(block)

    return Case(name, Statistics, zero, add, options.get("precision") != "float64")


def add_names(errors, rows):
    errors.add(LABELS[rows], SCORES[rows], None)


def add_values(errors, rows):
    errors.add(TARGETS[rows], TARGETS[rows] + X[rows, :2] * 1e8, ROOTS[rows])


def count(ledger, rows):
    for start in range(rows.start, rows.stop, 6):
        ledger.add("key", "data.h5", start, min(start + 6, rows.stop))


def every_sums(exact):
    """A row for each kind of targets."""
    book = (np.sort(NAMES), MATRIX)
    return [
        sums("classes", ClassSums, lambda: ClassSums.zero(WIDTH), LABELS, exact),
        sums("bits", BitSums, lambda: BitSums.zero(WIDTH, *book), LABELS, exact),
        sums("values", ValueSums, lambda: ValueSums.zero(WIDTH, 2, exact), TARGETS, exact),
    ]


CASES = [
    *every_sums(exact=True),
    *every_sums(exact=False),
    sums("classes", ClassSums, lambda: ClassSums.zero(WIDTH), LABELS, True, "int32"),
    statistics("statistics-classes", LABELS),
    statistics("statistics-values", TARGETS, regression=True),
    statistics("statistics-weightless", TARGETS, ROOTS * (ROOTS > 3000), regression=True),
    statistics("statistics-int32", TARGETS, regression=True, totals="int32"),
    statistics("statistics-float64", TARGETS, regression=True, precision="float64"),
    Case("ledger", Ledger, Ledger, count),
    Case(
        "class-errors",
        ClassErrors,
        lambda: ClassErrors(np.sort(NAMES), Probabilities(3.0, 9), 2.0),
        add_names,
        subtracts=False,
    ),
    Case("value-errors", ValueErrors, lambda: ValueErrors(2), add_values, False, subtracts=False),
]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
few = settings(max_examples=10)
two_cuts = st.tuples(st.integers(0, N), st.integers(0, N))
subtracting = pytest.mark.parametrize(
    "case", [case for case in CASES if case.subtracts], ids=lambda case: case.name
)


def test_every_summary_has_a_row():
    kinds = {*TargetSums.__subclasses__(), *ErrorSums.__subclasses__(), Ledger, Statistics}
    assert {case.kind for case in CASES} == kinds


@every_case
@few
@given(two_cuts)
def test_nothing_added_changes_nothing(case, cuts):
    a = case.of(cut(N, cuts)[1])
    case.assert_equal(a + case.zero(), a)
    case.assert_equal(case.zero() + a, a)


@every_case
@few
@given(two_cuts)
def test_the_order_does_not_matter(case, cuts):
    a, b, _ = map(case.of, cut(N, cuts))
    case.assert_equal(a + b, b + a)


@every_case
@few
@given(two_cuts)
def test_the_brackets_do_not_matter(case, cuts):
    a, b, c = map(case.of, cut(N, cuts))
    case.assert_equal((a + b) + c, a + (b + c))


@every_case
@few
@given(two_cuts)
def test_summaries_of_parts_add_up_to_the_summary_of_all(case, cuts):
    a, b, c = map(case.of, cut(N, cuts))
    case.assert_equal(a + b + c, case.of(slice(0, N)))


@subtracting
@few
@given(two_cuts)
def test_what_was_added_can_be_removed(case, cuts):
    a, b, c = map(case.of, cut(N, cuts))
    case.assert_equal(a + b - b, a)
    if case.exact:
        case.assert_equal(a + b + c - b, a + c)
        case.assert_equal(a - a, case.zero())


@every_case
def test_merge_leaves_both_sides_alone(case):
    first, second, more = cut(N, (50, 90))
    a, b = case.of(first), case.of(second)
    before = copy.deepcopy((tree_of(a), tree_of(b)))
    both = a + b
    if case.subtracts:
        both - b
    case.add(both, more)
    assert_same_bytes(tree_of(a), before[0])
    assert_same_bytes(tree_of(b), before[1])


@every_case
def test_merged_summary_does_not_follow_its_sides(case):
    first, second, more = cut(N, (50, 90))
    a, b = case.of(first), case.of(second)
    results = [a + b, case.zero() + a, a + case.zero()]
    if case.subtracts:
        results += [a - case.zero(), a + b - b]
    before = copy.deepcopy([tree_of(result) for result in results])
    case.add(a, more)
    case.add(b, more)
    for result, tree in zip(results, before, strict=True):
        assert_same_bytes(tree_of(result), tree)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["x", "longer", "x", "mid"]),
        np.array([7, -1, 7, 10**12]),
        np.array([0.5, -1.0, 0.5, 3.0]),
        np.array([True, False, True, True]),
        np.array(["x", "mid"], dtype="U40").repeat(2),
    ],
    ids=["str", "int", "float", "bool", "wide"],
)
def test_a_new_label_may_come_in_any_block(labels):
    rows, roots = Q[: len(labels)], ROOTS[: len(labels)]
    by_row = ClassSums.zero(WIDTH)
    for i in range(len(labels)):
        by_row.add(rows[i : i + 1], roots[i : i + 1], labels[i : i + 1])
    at_once, backwards = ClassSums.zero(WIDTH), ClassSums.zero(WIDTH)
    at_once.add(rows, roots, labels)
    backwards.add(rows[::-1].copy(), roots[::-1].copy(), labels[::-1])
    np.testing.assert_array_equal(by_row.labels, np.unique(labels))
    assert_same_bytes(by_row.to_tree(), at_once.to_tree())
    assert_same_bytes(by_row.to_tree(), backwards.to_tree())


def test_a_label_whose_rows_weigh_nothing_is_no_class():
    """Or a sum would lose it: only weights tell which classes are left after a subtraction."""
    roots = np.where(LABELS == "date", 0.0, 1.0)
    some = ClassSums.zero(WIDTH)
    some.add(Q, roots, LABELS)
    assert "date" not in some.labels
    without = ClassSums.zero(WIDTH)
    kept = LABELS != "date"
    without.add(Q[kept], roots[kept], LABELS[kept])
    assert_same_bytes(some.to_tree(), without.to_tree())
    assert_same_bytes(some.combined(ClassSums.zero(WIDTH), 1).to_tree(), some.to_tree())


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.6, 0.7), (0.1, 0.3), (1e-8, 1e8)])
def test_a_class_that_subtraction_leaves_without_rows_is_no_label_of_float_sums_either(
    rng, weights
):
    one, rest = ClassSums.zero(WIDTH), ClassSums.zero(WIDTH)
    Q = rng.standard_normal((3, WIDTH)) + 0.1
    one.add(Q[:1], np.sqrt(weights[:1]), np.array([1]))
    rest.add(Q[1:], np.sqrt(weights), np.array([1, 2]))
    left = one.combined(rest, 1).combined(rest, -1)
    assert left.labels.tolist() == [1]
    assert one.combined(rest, 1).combined(one, -1).combined(rest, -1).labels.tolist() == []


def test_numbers_and_strings_are_not_labels_together():
    words, numbers = ClassSums.zero(WIDTH), ClassSums.zero(WIDTH)
    words.add(Q[:2], ROOTS[:2], np.array(["a", "b"]))
    numbers.add(Q[:2], ROOTS[:2], np.array([1, 2]))
    with pytest.raises(DataError, match="all numbers or all strings, got 'a' and 1"):
        words.combined(numbers, 1)


def test_a_label_outside_the_code_book_leaves_the_sums_as_they_were():
    case = next(case for case in CASES if case.name == "bits-float64")
    summary = case.of(slice(0, 50))
    before = copy.deepcopy(tree_of(summary))
    with pytest.raises(UnknownLabelError, match=r"'kiwi' is not in the code book.*6 labels"):
        summary.add(Q[:2], ROOTS[:2], np.array(["fig", "kiwi"]))
    assert_same_bytes(tree_of(summary), before)


def sums_of(targets, gram=ExactGram, width=WIDTH):
    return Sums(gram(width), targets)


def test_a_block_that_32_bits_cannot_hold_leaves_the_sums_as_they_were():
    def add_great(n_rows):
        great = np.full((n_rows, WIDTH), 4000.0, dtype=np.float32)  # 135 squares reach 2^31
        summary.add(great, np.ones(n_rows), np.arange(n_rows) % 3, 0)

    summary = sums_of(ClassSums.zero(WIDTH), CompactGram)
    add_great(100)
    before = copy.deepcopy(tree_of(summary))
    for n_rows in (50, 5000):
        with pytest.raises(StreamrfError, match=r"outgrow 2\^31"):
            add_great(n_rows)
        assert_same_bytes(tree_of(summary), before)
    add_great(30)
    assert summary.n_rows == 130


BITS = BitSums.zero(WIDTH, np.sort(NAMES), MATRIX)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            sums_of(ClassSums.zero(WIDTH)),
            sums_of(ValueSums.zero(WIDTH, 1, True)),
            "ExactGram and ClassSums, the other ExactGram and ValueSums",
        ),
        (
            sums_of(ClassSums.zero(WIDTH)),
            sums_of(ClassSums.zero(WIDTH), FloatGram),
            "ExactGram and ClassSums, the other FloatGram and ClassSums",
        ),
        (
            sums_of(ClassSums.zero(WIDTH)),
            sums_of(ClassSums.zero(6), width=6),
            "5 features, the other 6",
        ),
        (
            sums_of(ValueSums.zero(WIDTH, 2, True)),
            sums_of(ValueSums.zero(WIDTH, 3, True)),
            "2 targets, the other 3",
        ),
        (sums_of(BITS), sums_of(replace(BITS, matrix=-MATRIX)), "different code books"),
        (sums_of(BITS), sums_of(replace(BITS, labels=NAMES[:6])), "different code books"),
        (ClassErrors(np.arange(3)), ClassErrors(np.arange(1, 4)), "different labels"),
        (
            ClassErrors(np.arange(3)),
            ClassErrors(np.arange(3), Probabilities.default()),
            "other probabilities",
        ),
        (ClassErrors(np.arange(3)), ValueErrors(1), "ClassErrors.*ValueErrors"),
        (ValueErrors(1), ValueErrors(2), "1 targets, the other 2"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_sums_of_different_things_are_refused(a, b, message):
    with pytest.raises(MergeError, match=message):
        a + b
    with pytest.raises(MergeError):
        b + a


@pytest.fixture(scope="module")
def base():
    return accumulate(srf.ArraySource(X, LABELS), features(8), window=(0, 60))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("feature maps", {"features": features(8, random_state=1)}),
        ("feature maps", {"features": features(8, degree=2)}),
        ("preprocessing", {"normalize": "l2"}),
        ("calibrations", {"precision": "float64"}),
        ("calibrations", {"weights": np.ones(N)}),
        ("calibrations", {"regression": True, "y": X[:, 0]}),
        ("calibrations", {"rows": X * 1.001}),
    ],
)
def test_statistics_of_different_encoders_are_refused_by_name(base, name, options):
    options = {"features": features(8), "y": LABELS, "weights": None, "rows": X, **options}
    source = srf.ArraySource(*(options.pop(part) for part in ("rows", "y", "weights")))
    other = accumulate(source, window=(60, N), **options)
    for merge in (base.__add__, base.__sub__):
        with pytest.raises(MergeError, match=f"summed with different {name}; .*like="):
            merge(other)


def of_kind(target, weights=None):
    """Rows with targets and weights of a kind."""
    y = {"labels": LABELS, "columns": np.stack((LABELS, LABELS), axis=1), "values": X[:, 0]}
    y |= {"pairs": X[:, :2]}
    return srf.ArraySource(X, y[target], weights)


@pytest.mark.parametrize(
    ("began", "goes_on", "message"),
    [
        (("labels",), ("columns",), r"y has shape \(n, 2\); labels are one a row, \(n,\)"),
        (("values",), ("pairs",), "rows have 2 targets, the sums began with 1"),
        (("values",), ("labels",), "the targets are strings; expected numbers"),
        (("labels",), ("labels", ROOTS), "rows have weights, the sums began with none"),
        (("labels", ROOTS), ("labels",), "rows have no weights, the sums began with some"),
    ],
)
def test_rows_unlike_those_the_sums_began_with_are_refused(began, goes_on, message):
    first = accumulate(of_kind(*began), features(4), regression=began[0] == "values")
    before = copy.deepcopy(first.to_tree())
    (block,) = of_kind(*goes_on).blocks()
    with pytest.raises(DataError, match=f"X, row 0: {message}"):
        Pass(first).update(replace(block, key="another store"))
    assert_same_bytes(first.to_tree(), before)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_label_outside_the_code_book_leaves_the_pass_as_it_was(held_out):
    codes = {"codes": srf.ErrorCorrectingCodes(3), "classes": NAMES}
    pass_ = begin(of_kind("labels"), features(4), hold_out=held_out, **codes)
    strange = LABELS.astype("U20")
    strange[-1] = "kiwi"
    (block,) = srf.ArraySource(X, strange).blocks()
    with pytest.raises(UnknownLabelError, match="'kiwi' is not in the code book"):
        pass_.update(block)
    assert pass_.join().ledger.n_rows == pass_.statistics.n_rows == 0
    (block,) = of_kind("labels").blocks()
    pass_.update(block)
    assert pass_.join().n_rows == N


def test_words_are_not_values():
    with pytest.raises(
        DataError, match=r"the target .fig. is a text, not a number; .* for classes use"
    ):
        srf.accumulate(of_kind("labels"), features(4), regression=True)


def test_merging_with_something_else_is_refused(base):
    with pytest.raises(MergeError, match="expected statistics to merge with, got Sums"):
        base + base.sums


def test_rows_on_both_sides_are_refused_by_name(base):
    other = accumulate(srf.ArraySource(X, LABELS), like=base, window=(40, 80))
    with pytest.raises(MergeError, match=r"rows 40 to 59 of X are on both sides.*counted twice"):
        base + other
    with pytest.raises(MergeError, match="rows 0 to 59 of X are on both sides"):
        base + base


def test_rows_never_counted_are_not_removed(base):
    other = accumulate(srf.ArraySource(X, LABELS), like=base, window=(40, 80))
    with pytest.raises(MergeError, match="rows 60 to 79 of X were never counted"):
        base - other
    with pytest.raises(MergeError, match="rows 0 to 39 of X were never counted"):
        other - base
    elsewhere = accumulate(srf.ArraySource(X + 1, LABELS), like=base, window=(0, 10))
    with pytest.raises(MergeError, match="rows 0 to 9 of X were never counted"):
        base - elsewhere


def test_a_row_read_twice_in_one_pass_is_refused(base):
    source = srf.ArraySource(X, LABELS)
    pass_ = Pass(Statistics(base.encoder, base.sums.zero_like(), Ledger()))
    for block in source.blocks(0, 30):
        pass_.update(block)
    (block,) = source.blocks(29, 40)
    with pytest.raises(MergeError, match="rows 29 to 29 of X"):
        pass_.update(block)
    assert pass_.finished().n_rows == pass_.finished().ledger.n_rows == 30


def test_skipped_rows_add_up(base):
    dirty = X.copy()
    dirty[[3, 70, 71]] = np.nan
    source = srf.ArraySource(dirty, LABELS)
    a, b = (
        accumulate(source, like=base, window=window, on_bad_rows="skip")
        for window in ((0, 60), (60, N))
    )
    both = a + b
    assert (a.n_skipped, b.n_skipped, both.n_skipped, (both - b).n_skipped) == (1, 2, 3, 1)
    assert (both.n_rows, both.ledger.n_rows) == (N - 3, N)


@st.composite
def row_sets(draw):
    """Rows of two stores, as sets."""
    return {key: draw(st.sets(st.integers(0, 12))) for key in draw(st.sets(st.sampled_from("pq")))}


def ledger_of(sets):
    ledger = Ledger()
    for key, rows in sets.items():
        for row in rows:
            ledger.add(key, f"{key}.h5", row, row + 1)
    return ledger


def counted(ledger):
    """The rows of a ledger, as sets."""
    return {
        key: {row for start, stop in ranges for row in range(start, stop)}
        for key, ranges in ledger.ranges.items()
    }


def nonempty(sets):
    return {key: rows for key, rows in sets.items() if rows}


@given(row_sets())
def test_a_ledger_is_a_set_of_rows_in_joined_ranges(rows):
    ledger = ledger_of(rows)
    assert counted(ledger) == nonempty(rows)
    assert ledger.n_rows == sum(map(len, rows.values()))
    for ranges in ledger.ranges.values():
        assert (np.diff(ranges.ravel()) > 0).all()


@given(row_sets(), row_sets())
def test_ledgers_add_as_sets_or_refuse(a, b):
    if any(a.get(key, set()) & b[key] for key in b):
        with pytest.raises(MergeError, match=r"of [pq]\.h5 are on both sides"):
            ledger_of(a) + ledger_of(b)
        return
    union = {key: a.get(key, set()) | b.get(key, set()) for key in {*a, *b}}
    assert_same_bytes((ledger_of(a) + ledger_of(b)).to_tree(), ledger_of(union).to_tree())


@given(row_sets(), row_sets())
def test_ledgers_subtract_as_sets_or_refuse(a, b):
    if any(b[key] - a.get(key, set()) for key in b):
        with pytest.raises(MergeError, match=r"of [pq]\.h5 were never counted"):
            ledger_of(a) - ledger_of(b)
        return
    rest = {key: a[key] - b.get(key, set()) for key in a}
    assert_same_bytes((ledger_of(a) - ledger_of(b)).to_tree(), ledger_of(rest).to_tree())
