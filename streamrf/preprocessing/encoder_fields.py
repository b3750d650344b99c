"""Parts of an encoder as files have them."""

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


def read_targets(fields: Fields, n_targets: int) -> tuple[str, ...]:
    """Return the names of several targets from a file, see `Encoder`."""
    if "targets" not in fields.keys:
        return ()
    names = tuple(fields.texts("targets", n_targets))
    if n_targets < 2 or len({*names}) < n_targets:
        raise fields.wrong("targets", "are not names of several targets, each once")
    return names
