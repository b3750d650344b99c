"""On real digits: the same bytes from a file in any blocks, and errors near the papers'."""

import pytest

import streamrf as srf
from integers import accumulate, assert_same_bytes
from passes import add, begin
from streamrf.training import finish

KERNEL = srf.Polynomial(degree=7, coef0=1.0)


@pytest.fixture(scope="module")
def train(data_dir):
    return srf.HDF5Source(data_dir / "mnist.h5", x="train/X", y="train/y")


@pytest.fixture(scope="module")
def test(data_dir):
    return srf.HDF5Source(data_dir / "mnist.h5", x="test/X", y="test/y")


# Maps without a seed of their own take theirs from the run's, as on the command line.
def maclaurin(n_components):
    return srf.RandomMaclaurin(KERNEL, n_components, h01=True)


def craft(n_components, up_components):
    return srf.Craft(maclaurin(up_components), n_components)


def test_sums_of_a_file_are_the_same_bytes_in_any_blocks(train):
    """Blocks that fall on chunk borders and across them; border pixels make some blocks split."""
    options = {"normalize": "l2", "random_state": 0, "window": (0, 5_000)}
    reference = accumulate(train, maclaurin(1024), **options)
    assert reference.n_rows == 5_000
    for block_rows, n_threads in ((1000, 2), (4096, 1)):
        again = accumulate(
            train, maclaurin(1024), block_rows=block_rows, n_threads=n_threads, **options
        )
        assert_same_bytes(again.to_tree(), reference.to_tree())


def test_shards_of_a_file_add_up_to_the_last_byte(train):
    options = {"normalize": "l2", "random_state": 0, "rows": (0, 3_000)}
    whole = srf.accumulate(train, craft(256, 2048), **options)
    parts = [
        srf.accumulate(train, like=whole, rows=rows)
        for rows in ((2_500, 3_000), (0, 1_339), (1_339, 2_500))
    ]
    assert_same_bytes((parts[0] + parts[1] + parts[2]).to_tree(), whole.to_tree())
    first = (parts[0] + parts[1] + parts[2]) - parts[0]
    assert_same_bytes(first.to_tree(), (parts[1] + parts[2]).to_tree())


# Hamid et al. 2014, table 1: random Maclaurin features err 9.5 % at width 700; at width 300 they
# err 14.0 %, and compact ones 9.5 %.
@pytest.mark.parametrize(
    ("features", "bound"),
    [(maclaurin(1024), 0.095), (craft(256, 2048), 0.14)],
    ids=["maclaurin", "craft"],
)
def test_errors_lie_where_those_of_the_paper_do(train, test, features, bound):
    model = srf.RandomFeatureClassifier(features, alpha="auto", normalize="l2", random_state=0)
    model.fit(train)
    assert model.statistics_.n_rows == 60_000
    assert 0.02 < 1 - model.score(test) < bound


@pytest.fixture(scope="module")
def rounded_pass(train):
    """The pass of 4,096 Maclaurin features, before the rows held out have joined."""
    pass_ = begin(train, maclaurin(4096), normalize="l2", hold_out=True, random_state=0)
    return add(train, pass_)


@pytest.fixture(scope="module")
def rounded_error(rounded_pass, test):
    return finish(rounded_pass.fresh(), "auto")[0].evaluate(test)["error"]


@pytest.mark.slow
def test_4096_maclaurin_features_err_as_little_as_in_the_paper(rounded_error):
    assert rounded_error <= 0.032  # the paper has 3.17 %


@pytest.mark.slow
def test_200_bits_err_as_one_output_a_class_does(rounded_pass, rounded_error, test):
    codes = srf.ErrorCorrectingCodes(n_bits=200)
    model, _ = finish(rounded_pass.fresh(), "auto", codes)
    assert model.coef.shape == (200, 4096)
    assert abs(model.evaluate(test)["error"] - rounded_error) <= 0.002


@pytest.mark.slow
def test_4096_compact_features_err_as_little_as_in_the_paper(train, test):
    features = craft(4096, 32768)
    model = srf.RandomFeatureClassifier(features, alpha="auto", normalize="l2", random_state=0)
    assert 1 - model.fit(train).score(test) <= 0.030  # the paper has 3.09 %


@pytest.mark.slow
def test_rounding_features_costs_no_accuracy(train, test, rounded_error):
    model = srf.RandomFeatureClassifier(
        maclaurin(4096), alpha="auto", normalize="l2", precision="float64", random_state=0
    )
    error = 1 - model.fit(train).score(test)
    assert abs(error - rounded_error) <= 0.0015
