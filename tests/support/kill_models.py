"""What the sink of each kill cell has to have of these events, in Python: the model of
`tests/spark/pipelines/test_kill_cells.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Event = dict[str, Any]


def event(n: int) -> Event:
    return {"id": n, "k": f"k{n % 7}", "v": None if n % 3 == 0 else n}


def envelope(n: int) -> Event:
    """As Debezium has it: an event without `v` deletes."""
    this, gone = event(n), n % 3 == 0
    return {
        "op": "d" if gone else "u",
        "ts_ms": n,
        "source": {"lsn": n},
        "before": this if gone else None,
        "after": None if gone else this,
    }


# -- the model: what a sink of each mode has of these events ---------------------------------------


def _by_key(events: list[int]) -> dict[str, list[int]]:
    keys: dict[str, list[int]] = {}
    for n in events:
        keys.setdefault(f"k{n % 7}", []).append(n)
    return keys


def _folded(some: list[int]) -> Event:
    values = [n for n in some if n % 3 != 0]
    return {"records": len(some), "v_sum": sum(values) if values else None}


def _latest(events: list[int]) -> list[Event]:
    return [event(max(some)) for some in _by_key(events).values()]


def _versions(events: list[int]) -> list[Event]:
    found = []
    for some in _by_key(events).values():
        for n, after in zip(some, [*some[1:], None], strict=True):
            held = {"_valid_from": n, "_valid_to": after, "_current": after is None}
            found.append({**event(n), **held})
    return found


def _windows(events: list[int], closed_s: float | None = None) -> list[Event]:
    """Those that the watermark has closed."""
    closed_s = max(events) * 30 - 600 if closed_s is None else closed_s
    found: dict[tuple[int, str], list[int]] = {}
    for n in events:
        found.setdefault((n * 30 // 600 * 600, f"k{n % 7}"), []).append(n)
    return [
        {"begin": begin, "k": k, **_folded(some)}
        for (begin, k), some in found.items()
        if begin + 600 <= closed_s
    ]


class Model(NamedTuple):
    """`columns`: of the sink, those that are compared."""

    columns: str
    rows: Callable[[list[int]], list[Event]]


EVENT = "id INT, k STRING, v INT"
COUNTS = "begin BIGINT, k STRING, records BIGINT, v_sum BIGINT"
EACH = Model(EVENT, lambda events: [event(n) for n in events])
MODELS = {
    "append": EACH,
    "deduplicate": Model("k STRING", lambda events: [{"k": k} for k in _by_key(events)]),
    "merge": Model(
        "k STRING, records BIGINT, v_sum BIGINT",
        lambda events: [{"k": k, **_folded(some)} for k, some in _by_key(events).items()],
    ),
    "upsert": Model(EVENT, _latest),
    "cdc": Model(EVENT, lambda events: [r for r in _latest(events) if r["v"] is not None]),
    "scd2": Model(f"{EVENT}, _valid_from INT, _valid_to INT, _current BOOLEAN", _versions),
    "topic": EACH,
    "at_least_once": EACH,
    "iceberg": EACH,
    "state": Model(COUNTS, _windows),
    "state_topic": Model(COUNTS, _windows),
    "update": Model(COUNTS, lambda events: _windows(events, math.inf)),
}
