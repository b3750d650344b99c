"""The model of large clusters, and its table in the docs."""

import doctest
import importlib.util
import json
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def model():
    place = importlib.util.spec_from_file_location(
        "scaling_model", ROOT / "scripts" / "scaling_model.py"
    )
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def constants(model):
    return model.Constants(**json.loads(model.FITTED.read_text())["constants"])


def test_the_table_of_the_docs_is_that_of_the_constants(model, constants):
    table = model.table(model.parser().parse_args([]), constants)
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert model.written(page, table) == page
    assert table in page


def test_examples(model):
    assert doctest.testmod(model).failed == 0


def test_one_worker_waits_for_nobody(model):
    constants = model.Constants(1e-6, 1e-9, 1e-10, 0, 0, 0, 0, 0)
    found = model.seconds(model.Plan(10_000, 20, 100, n_workers=1), constants)
    assert found["pass"] == pytest.approx(10_000 * (1e-6 + 20 * 100e-9 + 100**2 * 1e-10))


def test_the_slowest_of_what_goes_on_together_counts(model):
    constants = model.Constants(0, 0, 1e-9, 0, 0, 0, 1e-3, 0)
    plan = {"n_rows": 10**6, "n_features": 1000, "n_components": 100, "parts": 100}
    busy = 1e-9 * 100**2 * (10**6 / 10 + 10**4 / 2)
    for storage, network in ((math.inf, math.inf), (10**8, math.inf), (math.inf, 10**7)):
        cluster = model.Plan(**plan, n_workers=10, storage=storage, network=network)
        found = model.seconds(cluster, constants)
        read = 10**9 / min(storage, 10 * network)
        tree = (4 + 1) * 8 * 100 * 101 / 2 / network
        assert found["tree"] == pytest.approx(tree)
        assert found["pass"] == pytest.approx(max(busy, read, 100 * 1e-3) + tree)
