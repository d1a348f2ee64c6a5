"""Whether a limit of this machine lasts: a quota, file handles, memory. Pure: time is an argument.

A log that a limit keeps from taking records refuses them, and continues by itself when there is
room again. A leader for which the limit does not pass would block its producers for ever, while its
followers could write. So a limit that lasts is a reason to hand over, as a full disk is.

| state | event | next state |
|---|---|---|
| free | a log has refused 3 appends in 3 s, and took none between | limited |
| limited | a trial write succeeded at every look, for long enough | free |

How long is enough doubles with each relapse, so leaderships do not move to and fro where a trial
write fits under the limit, and a record does not.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

REFUSALS_MIN, REFUSED_MS = 3, 3_000
FORGOTTEN_MS = 10_000
"""Refusals so far apart have nothing to do with each other."""
PROBE_MS = 1_000
WELL_MS, WELL_MS_MAX = 5_000, 300_000
RELAPSE_MS = 60_000
"""A limit that returns so soon had not passed."""

Key = tuple[str, int]


class State(Enum):
    """See the module."""

    FREE = "free"
    LIMITED = "limited"


class Event(Enum):
    """What happened to the broker's writes."""

    REFUSED_FOR_LONG = "refused for long"
    WELL_FOR_LONG = "well for long"


NEXT = {
    (State.FREE, Event.REFUSED_FOR_LONG): State.LIMITED,
    (State.LIMITED, Event.WELL_FOR_LONG): State.FREE,
}
"""Every other event changes nothing."""


class _Refused(NamedTuple):
    """The refusals of a log whose end has not moved between."""

    end_offset: int
    times: int
    since_ms: int
    last_ms: int


class LastingLimit:
    """One per broker; mutable."""

    __slots__ = (
        "_freed_at_ms", "_probe_at_ms", "_refused", "_well_ms", "_well_since_ms", "reason",
        "state",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state = State.FREE
        self.reason = ""
        """Why records are refused; empty unless limited."""
        self._refused: dict[Key, _Refused] = {}
        self._probe_at_ms = 0
        self._well_since_ms: int | None = None
        self._well_ms = WELL_MS
        self._freed_at_ms: int | None = None

    def refused(self, tp: Key, end_offset: int, reason: str, now_ms: int) -> None:
        """A log that ends at `end_offset` has not taken a batch, or could not sync it."""
        if self.state is State.LIMITED:
            return
        known = self._refused.get(tp)
        is_first = (
            known is None or known.end_offset != end_offset or now_ms - known.last_ms > FORGOTTEN_MS
        )
        if known is None or is_first:
            self._refused[tp] = _Refused(end_offset, 1, now_ms, now_ms)
            return
        found = known._replace(times=known.times + 1, last_ms=now_ms)
        self._refused[tp] = found
        if found.times >= REFUSALS_MIN and now_ms - found.since_ms >= REFUSED_MS:
            self._on(Event.REFUSED_FOR_LONG, reason, now_ms)

    def is_probe_due(self, now_ms: int) -> bool:
        """Whether a trial write is to show now if the limit has passed."""
        return self.state is State.LIMITED and now_ms >= self._probe_at_ms

    def probed(self, reason: str, now_ms: int) -> None:
        """The trial write failed for this reason; empty: it succeeded."""
        self._probe_at_ms = now_ms + PROBE_MS
        if reason:
            self.reason, self._well_since_ms = reason, None
        elif self._well_since_ms is None:
            self._well_since_ms = now_ms
        elif now_ms - self._well_since_ms >= self._well_ms:
            self._on(Event.WELL_FOR_LONG, "", now_ms)

    def _on(self, event: Event, reason: str, now_ms: int) -> None:
        after = NEXT.get((self.state, event))
        if after is None:
            return
        self.state, self.reason = after, reason
        self._refused.clear()
        self._well_since_ms = None
        self._probe_at_ms = now_ms + PROBE_MS
        if after is State.FREE:
            self._freed_at_ms = now_ms
            return
        freed = self._freed_at_ms
        is_relapse = freed is not None and now_ms - freed < RELAPSE_MS
        self._well_ms = min(2 * self._well_ms, WELL_MS_MAX) if is_relapse else WELL_MS
