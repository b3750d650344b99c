"""What a pass sums: the packed Gram, the targets, folds, the ledger."""

from streamrf.statistics.folds import FoldedSums, check_folds
from streamrf.statistics.gram import (
    TOTALS,
    CompactGram,
    ExactGram,
    GramSum,
    gram_class,
    packed_size,
)
from streamrf.statistics.ledger import Ledger
from streamrf.statistics.statistics import Statistics, load_statistics
from streamrf.statistics.sums import Sums
from streamrf.statistics.targets import BitSums, ClassSums, TargetSums, ValueSums

__all__ = [
    "TOTALS",
    "BitSums",
    "ClassSums",
    "CompactGram",
    "ExactGram",
    "FoldedSums",
    "GramSum",
    "Ledger",
    "Statistics",
    "Sums",
    "TargetSums",
    "ValueSums",
    "check_folds",
    "gram_class",
    "load_statistics",
    "packed_size",
]
