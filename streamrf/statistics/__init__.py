"""What a pass sums: the packed Gram, the targets, folds, the ledger."""

from streamrf.statistics.curvature import LossSums
from streamrf.statistics.gram import (
    TOTALS,
    CompactGram,
    ExactGram,
    GramSum,
    gram_class,
    packed_size,
)
from streamrf.statistics.kfold import MAX_FOLDS, KFoldSums, check_folds, kfold_index
from streamrf.statistics.labelled import BitSums, ClassSums
from streamrf.statistics.questions import rounding_note
from streamrf.statistics.ridge import RidgeProblem
from streamrf.statistics.statistics import Statistics, load_statistics
from streamrf.statistics.sums import AbstractSums, Sums
from streamrf.statistics.targets import TargetSums
from streamrf.statistics.two_sample import TwoSample, mmd
from streamrf.statistics.values import ValueSums

__all__ = [
    "MAX_FOLDS",
    "TOTALS",
    "AbstractSums",
    "BitSums",
    "ClassSums",
    "CompactGram",
    "ExactGram",
    "GramSum",
    "KFoldSums",
    "LossSums",
    "RidgeProblem",
    "Statistics",
    "Sums",
    "TargetSums",
    "TwoSample",
    "ValueSums",
    "check_folds",
    "gram_class",
    "kfold_index",
    "load_statistics",
    "mmd",
    "packed_size",
    "rounding_note",
]
