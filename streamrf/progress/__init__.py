"""How far a run is: its stages, their rates, the time left, and how that is shown."""

from streamrf.progress.showing import showing, shown
from streamrf.progress.stages import Run, advance, begin, expect, foresee, now, pace

__all__ = ["Run", "advance", "begin", "expect", "foresee", "now", "pace", "showing", "shown"]
