"""The state of a Python class in a transform: its keys, the columns of its rows, timers and TTL."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.base.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedState:
    """`keys`: the columns whose values have a state each. `schema`: the columns of the rows that
    the class gives, as in SQL. `timers`: `event_time`, `processing_time` or `none`. `ttl_ms`: how
    long a value stays that is not written again; None: for ever."""

    keys: tuple[str, ...]
    key_places: tuple[Place, ...]
    schema: str
    schema_place: Place
    schema_path: str
    timers: str
    ttl_ms: int | None
