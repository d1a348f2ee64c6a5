"""Durations in files and commands: `500ms`, `30s`, `5m`, `12h`, `7d`, `1w`."""

from __future__ import annotations

import re

UNIT_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
FORMS = "500ms, 30s, 5m, 12h, 7d, 1w"

_DURATION = re.compile(r"([0-9]{1,15})(ms|[smhdw])")


def duration_ms(text: str) -> int | None:
    """Milliseconds of a number with a unit; None for any other text."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else int(found[1]) * UNIT_MS[found[2]]
