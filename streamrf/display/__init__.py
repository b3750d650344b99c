"""What a person sees of runs and objects: settings by name, short reprs, stages, time left."""

from streamrf.display.cards import Card
from streamrf.display.parameters import Parametrized, clone
from streamrf.display.showing import showing, shown
from streamrf.display.stages import Run, advance, begin, expect, foresee, now, pace
from streamrf.display.texts import brief, listed, printable
from streamrf.display.timing import forget_peak, peak_bytes, resident_bytes, stage, watching
from streamrf.display.units import format_bytes, format_time

__all__ = [
    "Card",
    "Parametrized",
    "Run",
    "advance",
    "begin",
    "brief",
    "clone",
    "expect",
    "foresee",
    "forget_peak",
    "format_bytes",
    "format_time",
    "listed",
    "now",
    "pace",
    "peak_bytes",
    "printable",
    "resident_bytes",
    "showing",
    "shown",
    "stage",
    "watching",
]
