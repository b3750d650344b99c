"""`fold`: add a source's blocks into a summary."""

from streamrf.engine.local import fold, stream

__all__ = ["fold", "stream"]
