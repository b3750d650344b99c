"""Decoders of a code that rows held out compare."""

from typing import Any

from streamrf.display import clone
from streamrf.models import Decoder, OneVsRest, make_decoder, needs_class_sums
from streamrf.solving import SQUARED
from streamrf.statistics import BitSums, Statistics
from streamrf.training.evidence import Codes

MAX_CLASSES = 100  # to look for discriminants unasked; of 1,000 they take as long as the pass


def is_auto_decode(codes: Codes | None) -> bool:
    """Return whether the decoder is asked to be chosen."""
    return codes is not None and codes.decode == "auto"


def of_loss(codes: Codes | None, loss: Any) -> Codes | None:
    """Return the codes, those of the largest output where a loss, not yet checked, is another."""
    is_squared = isinstance(loss, str) and loss == SQUARED
    return codes if is_squared or codes is not None else OneVsRest()


def takes_discriminants(codes: Codes | None) -> bool:
    """Return whether discriminants may name the classes."""
    return codes is None or codes.decode in ("auto", "discriminant")


def compared(codes: Codes | None, statistics: Statistics) -> list[Codes | None]:
    """Return a code by each decoder to compare, the one that leads first.

    Where no code is named, the largest output and discriminants. Sums by bit teach no discriminant.
    """
    is_by_bit = isinstance(statistics.sums.targets, BitSums)
    if codes is None:
        n_classes = 0 if statistics.labels is None else len(statistics.labels)
        is_small = 1 < n_classes <= MAX_CLASSES
        is_free = is_small and not is_by_bit
        return [OneVsRest(), OneVsRest("discriminant")] if is_free else [None]
    if not is_auto_decode(codes):
        return [codes]
    words = [word for word in codes.decodings if word != "auto"]
    taught = [word for word in words if not (is_by_bit and needs_class_sums(word))]
    return [clone(codes).set_params(decode=word) for word in taught]


def before_last(codes: list[Codes | None]) -> list[Decoder]:
    """Return the decoders of all but the last of codes, by whose models the outputs are known."""
    return [make_decoder("euclidean" if code is None else code.decode) for code in codes[:-1]]
