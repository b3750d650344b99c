"""Sums to coefficients: normal equations, penalties, cross-validation, pruning."""

from streamrf.solving.blocks import BlockWeights, evidence, left_out, searched_weights
from streamrf.solving.crossvalidation import CrossValidation, cross_validate
from streamrf.solving.dual import Dual
from streamrf.solving.family import Family
from streamrf.solving.findings import (
    class_finding,
    few_finding,
    guess_finding,
    nested,
    penalty_finding,
    width_finding,
)
from streamrf.solving.held_out import JOINED_ROWS, HeldOut, held_scores, max_kept
from streamrf.solving.losses import LOSSES, MAX_STEP, SQUARED, Loss, check_loss, line_step
from streamrf.solving.normal import (
    N_ALPHAS,
    RELATIVE_ALPHAS,
    Normal,
    check_alpha,
    check_finite,
    check_penalties,
)
from streamrf.solving.path import Path, as_alphas, is_low_rank, target_shares, trace
from streamrf.solving.penalty import (
    Trial,
    alike,
    best,
    downhill,
    is_above,
    n_tried,
    place,
    read_best,
    safest,
    searched,
    tried,
    valleys,
)
from streamrf.solving.pruning import check_kept, most_useful
from streamrf.solving.spectrum import frobenius, principal
from streamrf.solving.tridiagonal import Tridiagonal
from streamrf.solving.uncertainty import NoFreedomError, posterior
from streamrf.solving.workspace import lent, reused_memory

__all__ = [
    "JOINED_ROWS",
    "LOSSES",
    "MAX_STEP",
    "N_ALPHAS",
    "RELATIVE_ALPHAS",
    "SQUARED",
    "BlockWeights",
    "CrossValidation",
    "Dual",
    "Family",
    "HeldOut",
    "Loss",
    "NoFreedomError",
    "Normal",
    "Path",
    "Trial",
    "Tridiagonal",
    "alike",
    "as_alphas",
    "best",
    "check_alpha",
    "check_finite",
    "check_kept",
    "check_loss",
    "check_penalties",
    "class_finding",
    "cross_validate",
    "downhill",
    "evidence",
    "few_finding",
    "frobenius",
    "guess_finding",
    "held_scores",
    "is_above",
    "is_low_rank",
    "left_out",
    "lent",
    "line_step",
    "max_kept",
    "most_useful",
    "n_tried",
    "nested",
    "penalty_finding",
    "place",
    "posterior",
    "principal",
    "read_best",
    "reused_memory",
    "safest",
    "searched",
    "searched_weights",
    "target_shares",
    "trace",
    "tried",
    "valleys",
    "width_finding",
]
