"""The table of what a selection of features tried, as files have it."""

from typing import Any

from streamrf.storage import Fields


def read_tried(fields: Fields) -> dict[str, Any]:
    """Return what a selection tried, see `Encoder`, from a file."""
    names = fields.texts("candidate")
    tried: dict[str, Any] = {"candidate": names}
    for key in ("n_components", "n_rows"):
        tried[key] = fields.counts(key, len(names))
    tried["error"] = fields.totals("error", len(names), exact=False)
    if "decode" in fields.keys:
        tried["decode"] = fields.text("decode", ("discriminant",))
    fields.end()
    return tried
