"""Pickles of plain values, as PyTables keeps lists and names in attributes; no others are read."""

import io
import pickle
import pickletools
from typing import Any


class _Plain(pickle.Unpickler):
    """What makes lists, texts and numbers of pickles, and nothing of any class."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is asked for")


def unpickled(value: Any) -> Any:
    """Return what PyTables has pickled in an attribute, None if that is not only plain values."""
    if not isinstance(value, bytes):
        return None
    try:
        # room is made for what is remembered by the greatest number that it is remembered as
        puts = [arg for op, arg, _ in pickletools.genops(value) if op.name.endswith("PUT")]
        is_small = max(filter(None, puts), default=0) <= len(value)
        return _Plain(io.BytesIO(value)).load() if is_small else None
    except Exception:  # any that a crafted one raises
        return None
