"""Make rows of two classes whose least possible error is known, as HDF5 files.

Two columns hold two moons: each class is a mixture of `N_CENTRES` round Gaussians of deviation
`DEVIATION`, their centres evenly spaced on a half circle of radius 1, the half circles interlocked
as in scikit-learn's ``make_moons``. The other 26 columns are noise of variance 1 in both classes,
so the least possible (Bayes) error is that of the two columns: half the integral of the smaller
density, here a sum over a fine grid. In "turned" rows an orthogonal matrix mixes all columns, so
that no column alone tells anything, which is hard for trees; in the others 26 columns are useless,
which is hard for kernels.
"""

import sys
from pathlib import Path

import h5py
import numpy as np

N_COLUMNS, N_CENTRES, DEVIATION = 28, 8, 0.25
N_ROWS = {"train": 10_000_000, "test": 200_000}
BLOCK = 100_000
STEP = 0.005  # of the grid


def centres() -> np.ndarray:
    """Return the centres of both classes, (2, N_CENTRES, 2)."""
    angle = np.pi * (np.arange(N_CENTRES) + 0.5) / N_CENTRES
    arc = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.stack([arc, [1, 0.5] - arc])


def bayes_error() -> float:
    """Return the error of the best possible rule."""
    x, y = np.arange(-3, 4, STEP), np.arange(-2.5, 3, STEP)
    densities = []
    for class_centres in centres():
        near = [np.exp(-((s - class_centres[:, [i]]) ** 2) / 2 / DEVIATION**2) for i, s in
                enumerate((x, y))]  # fmt: skip
        densities.append(np.einsum("kx,ky->xy", *near) / N_CENTRES)
    norm = 2 * np.pi * DEVIATION**2
    return float(np.minimum(*densities).sum() * STEP**2 / norm / 2)


def rows(number: int, turned: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a block by its number."""
    rng = np.random.default_rng([0, number])
    y = rng.integers(2, size=BLOCK).astype(np.uint8)
    X = rng.standard_normal((BLOCK, N_COLUMNS), dtype=np.float32)
    X[:, :2] *= DEVIATION
    X[:, :2] += centres()[y, rng.integers(N_CENTRES, size=BLOCK)]
    if turned:
        turn = np.linalg.qr(np.random.default_rng(1).standard_normal((N_COLUMNS, N_COLUMNS)))[0]
        X = X @ turn.astype(np.float32)
    return X, y


def main(kind: str, target: str) -> None:
    """Write a file of `N_ROWS`, whole or not at all."""
    new = Path(target).with_suffix(".new")
    number = 0
    with h5py.File(new, "w") as file:
        file.attrs["bayes_error"] = bayes_error()
        for part, n_rows in N_ROWS.items():
            X = file.create_dataset(f"{part}/X", (n_rows, N_COLUMNS), "f4", chunks=(10_000, 28))
            y = file.create_dataset(f"{part}/y", (n_rows,), "u1", chunks=(10_000,))
            for first in range(0, n_rows, BLOCK):
                here = slice(first, first + BLOCK)
                X[here], y[here] = rows(number, kind == "turned")
                number += 1
    new.replace(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
