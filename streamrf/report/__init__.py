"""What models and statistics hold: in figures, in words, and as one page."""

from streamrf.report import facts
from streamrf.report.pictures import check_drawing
from streamrf.report.writing import write

__all__ = ["check_drawing", "facts", "write"]
