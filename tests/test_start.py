"""A new process imports what it needs: the time to a first prediction is that of its imports."""

import json
import subprocess
import sys

import numpy as np
import pytest

import streamrf as srf

NOT_NEEDED = [
    *("sklearn", "pandas", "polars", "dask", "distributed", "jinja2", "matplotlib", "zarr"),
    *("scipy.stats", "scipy.spatial", "scipy.optimize", "rich", "hdf5plugin"),
    *("scipy.special", "scipy.sparse", "scipy.fft"),
]
IMPORTED = f"""
import json, sys
print(json.dumps([name for name in {NOT_NEEDED} if name in sys.modules]), file=sys.stderr)
"""
LIBRARY = """
import streamrf as srf
model = srf.load_model("model.h5", estimator=False)
assert model.predict([[0.5, 1.0], [0.5, -1.0]]).tolist() == ["yes", "no"]
"""
COMMAND = """
from streamrf.cli import app
app("predict model.h5 DATA -o -".split(), standalone_mode=False)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the model of an estimator, and rows to predict."""
    folder = tmp_path_factory.mktemp("start")
    X = np.random.default_rng(0).standard_normal((200, 2))
    y = np.where(X[:, 1] > 0, "yes", "no")
    features = srf.StructuredFourier(srf.Gaussian(0.5), 64)
    srf.RandomFeatureClassifier(features, alpha=0.1, random_state=0).fit(X, y).save(
        folder / "model.h5"
    )
    (folder / "rows.csv").write_text("a,b\n0.5,1.0\n0.5,-1.0\n")
    return folder


@pytest.mark.parametrize(
    ("program", "output"),
    [
        (LIBRARY, ""),
        (COMMAND.replace("DATA", "rows.csv"), "y\nyes\nno\n"),
        (COMMAND.replace("DATA", "-"), "y\nyes\nno\n"),
    ],
    ids=["library", "command", "command-of-standard-input"],
)
def test_a_prediction_imports_no_more_than_it_needs(program, output, folder):
    with open(folder / "rows.csv") as rows:
        done = subprocess.run(
            [sys.executable, "-c", program + IMPORTED],
            cwd=folder,
            stdin=rows,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == output
    assert json.loads(done.stderr) == []


def test_a_model_alone_is_that_of_the_estimator(folder):
    estimator = srf.load_model(folder / "model.h5")
    alone = srf.load_model(folder / "model.h5", estimator=False)
    X = np.random.default_rng(1).standard_normal((50, 2))
    assert type(alone) is srf.Model
    assert alone.predict(X).tolist() == estimator.predict(X).tolist()
