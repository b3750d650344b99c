"""`streamrf demo`: the whole way on a small data set, with the words to repeat it."""

import os
import re
import shlex
import tempfile
import textwrap
import time
from typing import Annotated, Any

import h5py
import numpy as np
import typer

from streamrf.cli.base import Answer, aligned
from streamrf.cli.files import written
from streamrf.cli.fitting import fit
from streamrf.cli.options import flattened, option_of
from streamrf.cli.scoring import evaluate
from streamrf.display import format_time

TRAIN_ROWS = 1200
WIDTH = 90  # of the command lines shown
FIT = {
    "x": "train/X",
    "y": "train/y",
    "map_": "craft-maclaurin",
    "kernel": "polynomial",
    "degree": 7,
    "coef0": 1.0,
    "components": 1024,
    "up_components": 8192,
    "normalize": "l2",
    "alpha": "auto",
    "seed": 0,
}
EVALUATE = {"x": "test/X", "y": "test/y"}


def demo(
    folder: Annotated[
        str | None, typer.Option(help="Where the files go; a new temporary folder by default.")
    ] = None,
) -> Answer:
    """Train and evaluate on the digits that come with scikit-learn."""
    began = time.perf_counter()
    if folder is None:
        folder = tempfile.mkdtemp(prefix="streamrf-demo-")
    os.makedirs(folder, exist_ok=True)
    data, outputs = "digits.h5", {"model": "digits.model.h5", "statistics": "digits.stats.h5"}
    path = os.path.join(folder, data)
    paths = {name: os.path.join(folder, file) for name, file in outputs.items()}
    write_digits(path)
    trained = flattened(fit)(data=[path], **FIT, **paths)
    tested = flattened(evaluate)(model=paths["model"], data=[path], **EVALUATE)
    figures = {
        "folder": folder,
        "fit": trained.figures,
        "evaluate": tested.figures,
        "seconds": time.perf_counter() - began,
        "commands": [
            f"cd {shlex.quote(folder)}",
            _command("fit", [data], FIT | outputs),
            _command("evaluate", [outputs["model"], data], EVALUATE),
            _command("info", [outputs["statistics"]], {}),
        ],
    }
    return Answer(figures, _lines(figures))


def write_digits(path: str) -> None:
    """Write the 8 x 8 pixel digits that come with scikit-learn."""
    from sklearn.datasets import load_digits  # not at the start of every command

    X, y = load_digits(return_X_y=True)
    X = X.astype(np.uint8)
    with h5py.File(path, "w") as file:
        file["train/X"], file["train/y"] = X[:TRAIN_ROWS], y[:TRAIN_ROWS]
        file["test/X"], file["test/y"] = X[TRAIN_ROWS:], y[TRAIN_ROWS:]


def _command(name: str, files: list[str], options: dict[str, Any]) -> str:
    """Return the command line of a call."""
    words = [name, *files]
    for option, value in options.items():
        words += [option_of(option.rstrip("_")), str(value)]
    return "streamrf " + shlex.join(words)


def _lines(figures: dict[str, Any]) -> list[str]:
    trained, tested = figures["fit"], figures["evaluate"]
    model, statistics = trained["model"], trained["statistics"]
    features = f"{trained['n_components']:,} features, {format_time(trained['seconds'])}"
    best = f"chosen among {len(trained['alphas'])} on {trained['n_rows_held_out']:,} rows held out"
    return [
        "Digits of 8 x 8 pixels and a polynomial kernel of degree 7, in one pass over the rows:",
        "",
        *aligned(
            [
                ("trained", f"{trained['n_rows']:,} rows, {features}"),
                ("alpha", f"{trained['alpha']:.3g}, {best}"),
                ("tested", f"{tested['n_rows']:,} rows, error {100 * tested['error']:.2f} %"),
                ("model", written(model)),
                ("statistics", written(statistics)),
                ("in all", f"{format_time(figures['seconds'])}, compilation included"),
            ]
        ),
        "",
        "The statistics answer further questions without the data; in Python:",
        "",
        f"  stats = streamrf.load_statistics({statistics!r})",
        "  stats.solve(0.1)  # a model for any other penalty",
        "  stats + others    # with the rows of other files (fit ... --like makes theirs)",
        "  stats - some      # without the rows of one of them",
        "",
        "What has been run:",
        "",
        *(line for command in figures["commands"] for line in _wrapped(command)),
    ]


def _wrapped(command: str) -> list[str]:
    """Return a command over several lines, as a shell takes it."""
    lines = textwrap.wrap(
        re.sub(r"(--\S+) (?!--)", "\\1\xa0", command),  # an option stays with its value
        WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [line.replace("\xa0", " ") for line in lines]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
