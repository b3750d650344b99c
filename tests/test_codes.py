"""Books of codewords keep their promises, and decoding follows its definition."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import streamrf as srf
from streamrf.errors import FormatError, ParameterError
from streamrf.jit.threads import computing
from streamrf.models.codes import CodeBook, ErrorCorrectingCodes, OneVsRest
from streamrf.models.decoders import Discriminant, Hamming, make_decoder
from streamrf.training import Settings


@st.composite
def sizes(draw):
    """A number of classes and a number of bits that it can have."""
    n_classes = draw(st.integers(2, 40))
    fewest = int(np.ceil(np.log2(n_classes)))
    most = min(2 ** (n_classes - 1) - 1, 150)
    return n_classes, draw(st.integers(fewest, most))


def fewest_wrong_bits(matrix):
    """The definition of the minimum distance, by scipy."""
    return round(pdist(matrix, "hamming").min() * matrix.shape[1])


@settings(max_examples=40)
@given(sizes(), st.integers(0, 5))
@example((2, 1), 0)
@example((16, 2**15 - 1), 0)
@example((17, 5), 0)
@example((17, 31), 0)
@example((17, 32), 0)
@example((18, 40000), 0)
@example((1000, 10), 0)
@example((1000, 64), 0)
@example((np.int64(100), np.int64(300)), 0)
def test_rows_differ_and_columns_are_different_splits(size, seed):
    n_classes, n_bits = size
    book = ErrorCorrectingCodes(n_bits).book(n_classes, random_state=seed)
    matrix = book.matrix
    assert matrix.shape == (n_classes, n_bits)
    assert np.isin(matrix, (-1, 1)).all()
    assert len(np.unique(matrix, axis=0)) == n_classes
    assert (np.abs(matrix.sum(axis=0)) < n_classes).all()  # none constant
    both = np.concatenate((matrix, -matrix), axis=1)  # equal columns, or complements
    assert np.unique(np.packbits(both > 0, axis=0), axis=1).shape[1] == 2 * n_bits


@settings(max_examples=30)
@given(sizes(), st.integers(0, 5))
def test_the_minimum_distance_is_that_of_the_closest_rows(size, seed):
    book = ErrorCorrectingCodes(size[1]).book(size[0], random_state=seed)
    assert book.minimum_distance == fewest_wrong_bits(book.matrix) >= 1


def test_the_minimum_distance_sees_rows_far_apart_in_a_large_book(rng):
    matrix = np.where(rng.random((2500, 40)) < 0.5, -1.0, 1.0)
    matrix[2400] = matrix[3]
    matrix[2400, 7] *= -1
    assert CodeBook(matrix).minimum_distance == 1


@pytest.mark.parametrize(
    ("n_classes", "n_bits", "distance"),
    [
        (10, 15, 7),  # Dietterich & Bakiri's own book for ten classes
        (10, 511, 256),  # every split: each pair is apart in 2^(k-2) of them
        (8, 127, 64),
        (16, 15, 8),  # the simplex code
        (1000, 1023, 512),  # the simplex code
        (1000, 64, 24),  # random books reach 12, the best linear code known 28
        (10, 200, 106),  # the mean over pairs cannot pass 109, random books reach 94
    ],
)
def test_books_are_as_far_apart_as_known_codes(n_classes, n_bits, distance):
    assert ErrorCorrectingCodes(n_bits).book(n_classes).minimum_distance >= distance


def test_a_book_of_all_splits_holds_each_once():
    matrix = ErrorCorrectingCodes(2**5 - 1).book(6).matrix
    ours = {tuple(column * column[0]) for column in matrix.T}
    every = {(1.0, *(1.0 - 2 * ((s >> b) & 1) for b in range(5))) for s in range(1, 2**5)}
    assert ours == every


def test_the_same_seed_gives_the_same_book():
    code = ErrorCorrectingCodes(40)
    np.testing.assert_array_equal(code.book(12).matrix, code.book(12, random_state=0).matrix)
    assert (code.book(12).matrix != code.book(12, random_state=1).matrix).any()


def test_the_own_seed_of_a_code_goes_first():
    ours = ErrorCorrectingCodes(40, random_state=3)
    theirs = ErrorCorrectingCodes(40)
    for seed in (0, 1):
        np.testing.assert_array_equal(
            ours.book(12, random_state=seed).matrix, theirs.book(12, random_state=3).matrix
        )


def test_a_generator_draws_on():
    rng = np.random.default_rng(0)
    code = ErrorCorrectingCodes(40)
    assert (code.book(12, rng).matrix != code.book(12, rng).matrix).any()


def test_euclidean_scores_rank_as_distances_do(rng):
    book = ErrorCorrectingCodes(30).book(12)
    outputs = rng.normal(size=(50, 30))
    distances = cdist(outputs, book.matrix, "sqeuclidean")
    offset = (outputs**2).sum(axis=1, keepdims=True) + 30
    np.testing.assert_allclose(2 * book.scores(outputs) - offset, -distances, atol=1e-10)
    np.testing.assert_array_equal(book.scores(outputs).argmax(1), distances.argmin(1))


def test_hamming_scores_count_wrong_bits(rng):
    book = ErrorCorrectingCodes(30, decode="hamming").book(12)
    outputs = rng.normal(size=(50, 30))
    expected = -30 * cdist(np.sign(outputs), book.matrix, "hamming")
    np.testing.assert_allclose(book.scores(outputs), expected, atol=1e-12)


def test_hamming_takes_zero_for_plus_one_and_gives_ties_to_the_first_class():
    book = CodeBook(np.array([[1, -1], [-1, 1], [1, 1]]), Hamming())
    scores = book.scores(np.array([[0.0, -0.0], [-0.5, -0.5]]))
    np.testing.assert_array_equal(scores, [[-1, -1, 0], [-1, -1, -2]])
    assert scores[1].argmax() == 0


@settings(max_examples=30)
@given(sizes(), st.sampled_from(["euclidean", "hamming"]), st.randoms(use_true_random=False))
def test_fewer_wrong_bits_than_half_the_minimum_distance_do_no_harm(size, decode, random):
    book = ErrorCorrectingCodes(size[1], decode).book(size[0])
    outputs = book.matrix.copy()
    for row in outputs:
        row[random.sample(range(size[1]), (book.minimum_distance - 1) // 2)] *= -1
    np.testing.assert_array_equal(book.scores(outputs).argmax(axis=1), np.arange(size[0]))


@pytest.mark.parametrize("n_classes", [3, 10])
def test_one_vs_rest_takes_the_largest_output(n_classes, rng):
    book = OneVsRest().book(n_classes)
    np.testing.assert_array_equal(book.matrix, 2 * np.eye(n_classes) - 1)
    outputs = rng.normal(size=(40, n_classes))
    np.testing.assert_array_equal(book.scores(outputs).argmax(axis=1), outputs.argmax(axis=1))
    assert book.minimum_distance == 2


@pytest.mark.parametrize("decode", ["euclidean", "hamming", "discriminant"])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_outputs_of_one_vs_rest_are_scored_without_the_codewords(n_classes, decode, rng):
    decoder = make_decoder(decode)
    if decode == "discriminant":
        decoder = Discriminant(rng.normal(size=(n_classes,) * 2), rng.normal(size=n_classes))
    book = CodeBook(2 * np.eye(n_classes) - 1, decoder)
    assert book.is_one_vs_rest
    outputs = rng.normal(size=(40, n_classes))
    expected = decoder.scores(book.matrix, outputs)
    np.testing.assert_allclose(book.scores(outputs), expected, atol=1e-12)
    assert (decoder.own_scores(outputs) is not None) == (decode == "euclidean")
    coef, intercept = rng.normal(size=(n_classes, 7)), rng.normal(size=n_classes)
    if decode == "hamming":
        assert book.scoring(coef, intercept) is None
        return
    features = rng.normal(size=(40, 7))
    by_class, offset = book.scoring(coef, intercept)
    assert by_class.flags.c_contiguous
    expected = decoder.scores(book.matrix, features @ coef.T + intercept)
    np.testing.assert_allclose(features @ by_class.T + offset, expected, atol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [
        OneVsRest().book(2).matrix,
        -OneVsRest().book(4).matrix,
        OneVsRest().book(4).matrix[[1, 0, 2, 3]],
        OneVsRest().book(4).matrix[:, :3],
        [[1, 1, -1], [-1, 1, 1], [1, -1, 1]],
        [[1, -1, -1], [1, 1, -1], [-1, -1, 1]],
    ],
)
def test_other_codewords_are_not_taken_for_one_vs_rest(matrix, rng):
    book = CodeBook(matrix)
    assert not book.is_one_vs_rest
    assert book.minimum_distance == fewest_wrong_bits(book.matrix)
    outputs = rng.normal(size=(5, book.n_bits))
    np.testing.assert_allclose(book.scores(outputs), outputs @ book.matrix.T, atol=1e-12)


def test_two_classes_need_one_output():
    book = OneVsRest().book(2)
    np.testing.assert_array_equal(book.matrix, [[-1], [1]])
    np.testing.assert_array_equal(book.scores(np.array([[-0.1], [0.1]])).argmax(axis=1), [0, 1])


@pytest.mark.parametrize("code", [OneVsRest(), ErrorCorrectingCodes(6)])
@pytest.mark.parametrize("n_classes", [2, 4, 9])
def test_the_number_of_outputs_is_known_before_the_book(code, n_classes):
    if n_classes == 2 and isinstance(code, ErrorCorrectingCodes):
        code = ErrorCorrectingCodes(1)
    assert code.n_outputs(n_classes) == code.book(n_classes).n_bits


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ErrorCorrectingCodes(512).book(10),
            "in only 511 different ways: set n_bits (--bits) to",
        ),
        (lambda: ErrorCorrectingCodes(2).book(2), "(--bits) to 1 or less, or use OneVsRest()"),
        (
            lambda: ErrorCorrectingCodes(3).book(10),
            "tell 10 classes apart: set n_bits (--bits) to 4 or",
        ),
        (lambda: ErrorCorrectingCodes(3).n_outputs(10), "n_bits=3 cannot tell 10 classes apart"),
        (lambda: ErrorCorrectingCodes(8.0).book(10), "n_bits must be an integer, not 8.0"),
        (lambda: Settings(codes=ErrorCorrectingCodes(None)), "n_bits must be an integer, not None"),
        (lambda: ErrorCorrectingCodes(True).book(10), "n_bits must be an integer, not True"),
        (lambda: ErrorCorrectingCodes(8).book(1), "two classes or more, not 1"),
        (lambda: OneVsRest().book(1), "two classes or more, not 1"),
        (lambda: ErrorCorrectingCodes(8, "soft").book(10), "not 'soft'"),
        (
            lambda: OneVsRest("hamming").book(10),
            "'discriminant', 'auto'), not 'hamming'",
        ),
        (lambda: Discriminant(slope=np.zeros((2, 1))), "both slope and offset"),
        (lambda: Discriminant(offset=np.zeros(2)), "both slope and offset"),
        (
            lambda: CodeBook(np.array([[1], [-1]]), Discriminant(np.zeros((2, 2)), np.zeros(2))),
            "do not fit",
        ),
        (
            lambda: CodeBook(np.array([[1], [-1]]), Discriminant(np.zeros((2, 1)), np.zeros(3))),
            "do not fit",
        ),
        (lambda: ErrorCorrectingCodes(8, random_state="a").book(10), "integer from 0 on, not 'a'"),
        (lambda: ErrorCorrectingCodes(8, random_state=-1).book(10), "integer from 0 on, not -1"),
        (lambda: CodeBook(np.array([[1, -1], [1, -1]])), "share a codeword"),
        (lambda: CodeBook(np.array([[1, 0], [1, -1]])), "are -1 and +1"),
        (lambda: CodeBook(np.array([[1, np.nan], [1, -1]])), "are -1 and +1"),
        (lambda: CodeBook(np.array([["a"], ["b"]])), "are -1 and +1"),
        (lambda: CodeBook(np.array([1, -1])), "has shape (2,)"),
        (lambda: CodeBook(np.empty((3, 0))), "has shape (3, 0)"),
    ],
)
def test_what_cannot_work_is_said(make, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("totals", ["unrounded", "float64", "int32"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    ("n_classes", "code"),
    [
        (10, OneVsRest("discriminant")),
        (10, ErrorCorrectingCodes(40, "discriminant")),
        (10, ErrorCorrectingCodes(5, "discriminant")),
        (2, OneVsRest("discriminant")),
    ],
    ids=["one-vs-rest", "long", "short", "two-classes"],
)
def test_discriminants_are_those_of_the_outputs(n_classes, code, weighted, totals, rng):
    """Learnt from sums, they are what scikit-learn learns from the outputs of the rows.

    But for the rounding of the features, which the sums are of and the outputs are not.
    """
    X, y = load_digits(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    times = rng.integers(1, 4, len(X)) if weighted else np.ones(len(X), int)
    source = srf.ArraySource(X, y, times.astype(float) if weighted else None)
    features = srf.StructuredFourier(srf.Gaussian(gamma="scale"), 64)
    classes = range(n_classes) if n_classes > 2 else None
    exactness = {"precision": "float64"} if totals == "unrounded" else {"totals": totals}
    statistics = srf.accumulate(
        source, features, classes=classes, codes=code, random_state=0, **exactness
    )
    plain = statistics.solve(0.1)
    model = statistics.solve(0.1, code, overwrite=totals == "int32")  # the Gram is lost
    # long codes are sums of the outputs by class, and too alike for the twin
    outputs = (model if model.book.n_bits < n_classes else plain).outputs(X)
    twin = LinearDiscriminantAnalysis(solver="lsqr")  # its covariance is over n, not n - k
    twin.fit(np.repeat(outputs, times, axis=0), np.repeat(y, times))
    expected, found = twin.decision_function(outputs), model.scores(X)
    if n_classes == 2:
        expected = np.stack((-expected / 2, expected / 2), axis=1)
    expected, found = (scores - scores.mean(axis=1, keepdims=True) for scores in (expected, found))
    tolerance = 1e-4 if totals == "unrounded" else 0.02
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * expected.max())
    again = srf.Model.from_tree(model.to_tree())
    np.testing.assert_array_equal(again.scores(X), model.scores(X))


@pytest.mark.parametrize("n_seen", [1, 3])
def test_a_class_without_rows_is_never_predicted(n_seen, rng):
    X, y = rng.normal(size=(300, 5)), rng.integers(0, n_seen, 300)
    features = srf.StructuredFourier(srf.Gaussian(gamma="scale"), 32)
    statistics = srf.accumulate(srf.ArraySource(X, y), features, classes=range(5), random_state=0)
    model = statistics.solve(1.0, OneVsRest("discriminant"))
    assert set(model.predict(100 * X)) <= set(range(n_seen))
    assert np.isfinite(model.scores(X)).all()
    np.testing.assert_array_equal(model.book.is_absent, np.arange(5) >= n_seen)
    usual = model.fit_probabilities(X, y).probabilities
    beside = model.fit_probabilities(
        np.concatenate((X, X[:5])), np.append(y, [4] * 5)
    ).probabilities
    assert usual.slope == beside.slope  # their rows tell nothing


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_features_that_never_vary_leave_the_greatest_class(rng):
    X, y = np.ones((30, 4)), np.repeat([0, 1, 1], 10)
    features = srf.StructuredFourier(srf.Gaussian(gamma=1.0), 32)
    statistics = srf.accumulate(srf.ArraySource(X, y), features, random_state=0)
    model = statistics.solve(1.0, OneVsRest("discriminant"))
    assert set(model.predict(X)) == {1}
    np.testing.assert_allclose(model.scores(X)[0], np.log([1 / 3, 2 / 3]))


def test_a_discriminant_is_learnt_for_any_penalties_and_folds(rng):
    X, y = load_digits(return_X_y=True)
    features = srf.StructuredFourier(srf.Gaussian(gamma="scale"), 64)
    codes = OneVsRest("discriminant")
    whole = srf.accumulate(srf.ArraySource(X, y), features, random_state=0)
    folded = srf.accumulate(srf.ArraySource(X, y), features, folds=3, random_state=0)
    one = whole.solve(0.1, codes)
    for other in (whole.solve([0.1] * 10, codes), folded.solve(0.1, codes)):
        np.testing.assert_allclose(other.scores(X), one.scores(X), rtol=1e-9, atol=1e-9)
    assert one.evaluate(X, y)["error"] < whole.solve(0.1).evaluate(X, y)["error"]


def test_a_discriminant_is_learnt_from_sums_by_class():
    book = ErrorCorrectingCodes(3, "discriminant").book(5)
    with pytest.raises(ParameterError, match="learnt by solving statistics"):
        book.scores(np.zeros((1, 3)))
    X, y = np.random.default_rng(0).normal(size=(50, 5)), np.arange(50) % 5
    features = srf.StructuredFourier(srf.Gaussian(gamma="scale"), 32)
    bits = srf.accumulate(
        srf.ArraySource(X, y), features, classes=range(5), codes=ErrorCorrectingCodes(3)
    )
    with pytest.raises(ParameterError, match="needs sums by class"):
        bits.solve(1.0, ErrorCorrectingCodes(3, "discriminant"))

    def unread():
        yield X, y
        raise AssertionError("refused after the first block")

    unread_source = srf.IteratorSource(unread)
    with pytest.raises(ParameterError, match="needs sums by class"):
        srf.accumulate(unread_source, like=bits, codes=ErrorCorrectingCodes(3, "discriminant"))
    with pytest.raises(ParameterError, match="decode of OneVsRest must be one of"):
        srf.accumulate(unread_source, features, codes=OneVsRest("hamming"))


def test_a_book_cannot_change():
    given_matrix = np.array([[1.0, -1.0], [-1.0, -1.0]])
    book = CodeBook(given_matrix)
    given_matrix[:] = 7
    np.testing.assert_array_equal(book.matrix, [[1, -1], [-1, -1]])
    with pytest.raises(ValueError, match="read-only"):
        book.matrix[0, 0] = -1


def test_books_come_back_from_trees():
    book = ErrorCorrectingCodes(20, "hamming").book(7)
    again = CodeBook.from_tree(book.to_tree())
    np.testing.assert_array_equal(again.matrix, book.matrix)
    assert (again.matrix.dtype, again.decode) == (np.float64, "hamming")


DISCRIMINANT = {
    "matrix": np.array([[1], [-1]], np.int8),
    "decode": "discriminant",
    "slope": np.zeros((2, 1)),
    "offset": np.zeros(2),
}


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"matrix": [[1], [-1]], "decode": "hamming"},
        {"matrix": np.array([[1], [-1]], np.int8), "decode": None},
        {"matrix": np.array([[1], [-1]], np.int8), "decode": "soft"},
        {"matrix": np.array([[1], [1]], np.int8), "decode": "hamming"},
        {"matrix": np.array([[1], [2]], np.int8), "decode": "hamming"},
        {"matrix": np.array([1, -1], np.int8), "decode": "hamming"},
        {"matrix": np.array([[1], [-1]], np.int8), "decode": "discriminant"},
        {**DISCRIMINANT, "slope": np.zeros((2, 2))},
        {**DISCRIMINANT, "offset": np.zeros(3)},
        {**DISCRIMINANT, "decode": "euclidean"},
    ],
)
def test_a_tree_that_holds_no_book_is_refused(tree):
    with pytest.raises(FormatError):
        CodeBook.from_tree(tree)


def test_discriminants_of_many_classes_have_the_bits_of_one_thread(rng):
    """BLAS splits what it adds up by its threads: slopes of probabilities differed."""
    n_classes = 500
    outputs, coef = rng.normal(size=(3000, n_classes)), rng.normal(size=(n_classes, 333))
    means, weights = rng.normal(size=(n_classes, n_classes)), np.full(n_classes, 6.0)
    scatter = outputs.T @ outputs + 3000 * np.eye(n_classes)
    found = []
    for n_threads in 1, 2:
        with computing(n_threads):
            decoder = make_decoder("discriminant").learnt(means, scatter, weights)
            book = CodeBook(2 * np.eye(n_classes) - 1, decoder)
            learnt = (decoder.slope, decoder.offset)
            found.append((*learnt, book.scores(outputs), *book.scoring(coef, coef[:, 0])))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
