"""What a person sees of runs and objects: stages, seconds, memory, time left, short reprs."""

from streamrf.display.cards import Card
from streamrf.display.showing import showing, shown
from streamrf.display.stages import Run, advance, begin, expect, foresee, now, pace
from streamrf.display.timing import forget_peak, peak_bytes, resident_bytes, stage, watching

__all__ = [
    "Card",
    "Run",
    "advance",
    "begin",
    "expect",
    "foresee",
    "forget_peak",
    "now",
    "pace",
    "peak_bytes",
    "resident_bytes",
    "showing",
    "shown",
    "stage",
    "watching",
]
