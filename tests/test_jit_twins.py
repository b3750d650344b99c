"""Every compiled kernel has a plain twin."""

import importlib
import pkgutil
from collections import Counter

import numba
import pytest

import naive
from streamrf import jit

WITHOUT_KERNELS = {"arrays", "butterflies", "instructions", "lapack", "threads"} | {
    *("cholesky", "strips", "substitution", "symmetric")
}
FAMILIES = {
    info.name: importlib.import_module(f"streamrf.jit.{info.name}")
    for info in pkgutil.iter_modules(jit.__path__)
    if info.name not in WITHOUT_KERNELS
}


def compiled_kernels(family):
    """The names of the public kernels that a family defines."""
    module = FAMILIES[family]
    for name, value in vars(module).items():
        kernel = isinstance(value, numba.core.dispatcher.Dispatcher) and not name.startswith("_")
        if kernel and value.py_func.__module__ == module.__name__:
            yield name


@pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="without the compiler a kernel looks like any function"
)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_has_a_twin(family):
    families = Counter(name for other in FAMILIES for name in compiled_kernels(other))
    kernels = list(compiled_kernels(family))
    assert kernels
    twins = [name if families[name] == 1 else f"{family}_{name}" for name in kernels]
    missing = [twin for twin in twins if not callable(getattr(naive, twin, None))]
    assert not missing, f"tests/naive.py lacks {missing}"
