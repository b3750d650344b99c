"""The same rows have the same features whatever instructions BLAS and NumPy take."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

SCRIPT = """
import hashlib, json, warnings
import numpy as np
from cases import MAPS
warnings.filterwarnings("ignore")
rng = np.random.default_rng(0)
found = {}
for case in MAPS:
    X = case.domain(rng.standard_normal((150, 48)))
    features = case.make(n_components=case.exact_terms(48) + 70, random_state=0).fit(X)
    if not features.code:  # whose products are not ours
        found[case.name] = hashlib.sha256(features.transform(X).tobytes()).hexdigest()
print(json.dumps(found))
"""
OF_AVX512 = [
    name
    for name, has in np._core._multiarray_umath.__cpu_features__.items()
    if has and name.startswith(("AVX512", "X86_V4"))
]
WAYS = {
    "AVX2": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(OF_AVX512)},
    "SSE3": {"OPENBLAS_CORETYPE": "Prescott"},
}


def digests(**environment):
    here = str(Path(__file__).parent)
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env={**os.environ, **environment, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def here():
    return digests()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes long without the compiler")
@pytest.mark.parametrize("way", WAYS)
def test_features_have_the_same_bits_by_other_instructions(here, way):
    assert len(here) > 50
    assert digests(**WAYS[way]) == here
