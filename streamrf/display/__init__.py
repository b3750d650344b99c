"""What a person sees of runs and objects: stages, seconds, memory, time left, short reprs."""

from streamrf.display.cards import Card
from streamrf.display.showing import showing, shown
from streamrf.display.stages import Run, advance, begin, expect, foresee, now, pace
from streamrf.display.timing import forget_peak, peak_bytes, resident_bytes, stage, watching
from streamrf.display.units import format_bytes, format_time

__all__ = [
    "Card",
    "Run",
    "advance",
    "begin",
    "expect",
    "foresee",
    "forget_peak",
    "format_bytes",
    "format_time",
    "now",
    "pace",
    "peak_bytes",
    "resident_bytes",
    "showing",
    "shown",
    "stage",
    "watching",
]
