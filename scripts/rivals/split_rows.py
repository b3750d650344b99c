"""Shuffle a set without an official split and write nine tenths as train, the rest as test."""

import sys
from pathlib import Path

import h5py
import numpy as np

LAYOUT = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def main(source: str, target: str) -> None:
    """Read `source`, write `target`, whole or not at all."""
    with h5py.File(source) as file:
        X, y = file["X"][()], file["y"][()]
    order = np.random.default_rng(0).permutation(len(X))
    n_test = len(X) // 10
    new = Path(target).with_suffix(".new")
    with h5py.File(new, "w") as file:
        for part, rows in (("test", order[:n_test]), ("train", order[n_test:])):
            chunk = min((1 << 20) // X[:1].nbytes, len(rows))
            file.create_dataset(f"{part}/X", data=X[rows], chunks=(chunk, X.shape[1]), **LAYOUT)
            file.create_dataset(f"{part}/y", data=y[rows], **LAYOUT)
    new.replace(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
