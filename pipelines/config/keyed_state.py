"""Reader of a transform's `state`: the state of a Python class.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

from pipelines.config.section import Reader
from pipelines.model.keyed_state import KeyedState


def keyed_state_of(transform: Reader) -> KeyedState | None:
    """The state; None without one."""
    reader = transform.section_of("state")
    if reader is None:
        return None
    if not transform.has("python"):
        transform.wrong_at("state", "only a Python class has it: expected `python: FILE.py:CLASS`")
    if not transform.has("watermark"):
        message = "`watermark` is missing: how late a row may come is part of a state"
        transform.wrong_at("state", message)
    if len(transform.texts("inputs")) > 1:
        message = "a class gets the rows of one input: join or unite several in a transform before"
        transform.wrong_at("inputs", message)
    timers = reader.choice("timers") or "none"
    ttl_ms = reader.duration_ms("ttl")
    if ttl_ms is not None and timers != "processing_time":
        message = "values expire by the clock: expected `timers: processing_time` with it"
        reader.wrong_at("ttl", message)
    keys = reader.texts("keys")
    return KeyedState(
        keys=keys,
        key_places=reader.item_places("keys")[: len(keys)],
        schema=reader.text("schema") or "",
        schema_place=reader.place_of("schema"),
        schema_path=reader.path_of("schema"),
        timers=timers,
        ttl_ms=ttl_ms,
    )
