"""Durations in files and commands: `500ms`, `30s`, `5m`, `12h`, `7d`, `1w`."""

from __future__ import annotations

import re
from collections.abc import Mapping

UNIT_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
FORMS = "500ms, 30s, 5m, 12h, 7d, 1w"

_DURATION = re.compile(r"([0-9]{1,20})([a-z]*)")


def duration_ms(text: str, units: Mapping[str, int] = UNIT_MS) -> int | None:
    """Milliseconds of a text that is a number with one of the units; None for any other."""
    found = _DURATION.fullmatch(text.strip())
    unit_ms = None if found is None else units.get(found[2])
    return None if found is None or unit_ms is None else int(found[1]) * unit_ms
