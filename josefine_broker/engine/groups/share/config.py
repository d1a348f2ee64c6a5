"""The configuration of a share group."""

import re
from enum import Enum
from typing import NamedTuple

from josefine_broker.engine.groups.share.values import Limits


class StartAt(Enum):
    """Where a group starts in a partition of which it has no state
    (`share.auto.offset.reset`)."""

    LATEST = "latest"  # the high watermark: records from now on
    EARLIEST = "earliest"  # the log start offset: every record that is not deleted
    BY_DURATION = "by_duration"  # the first record that is not older than a duration


_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{0,9}))?S)?)?", re.IGNORECASE
)
DURATION_MS_MAX = (1 << 63) - 1


def start_of(text: str) -> tuple[StartAt, int]:
    """Where a group starts, and how far back it does `by_duration:PT1H`: a duration of ISO 8601 in
    days, hours, minutes and seconds, as Java reads it. Raises ValueError."""
    if text in (StartAt.LATEST.value, StartAt.EARLIEST.value):
        return StartAt(text), 0
    # An empty duration ("P", "PT") matches the pattern, and is none in Java either.
    word, _, duration = text.partition(":")
    found = _DURATION.fullmatch(duration) if word == StartAt.BY_DURATION.value else None
    if found is None or not any(found.groups()):
        raise ValueError("must be latest, earliest, or by_duration: with a duration such as PT1H")
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    fraction_ms = int((found[5] or "").ljust(3, "0")[:3])
    back_ms = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000 + fraction_ms
    if back_ms > DURATION_MS_MAX:
        raise ValueError("must be a duration of at most 2^63 - 1 ms")
    return StartAt.BY_DURATION, back_ms


class DeadLetters(NamedTuple):
    """Where the dead letters of a group go (KIP-1191)."""

    topic: str
    copies_records: bool = False
    """`errors.deadletterqueue.copy.record.enable`: whether a letter has the record's key and value,
    or only names the record."""


class ShareConfig(NamedTuple):
    """What a group's share partitions do: as in its broker's file (`group.share_*`), or as was
    set on the group."""

    limits: Limits = Limits()
    start_at: StartAt = StartAt.LATEST
    start_back_ms: int = 0
    """How far back a group starts `by_duration`."""
    is_committed_only: bool = False
    """`share.isolation.level=read_committed`: records of aborted transactions are not delivered,
    and those of open ones not before these end."""
    may_renew: bool = True
    """`share.renew.acknowledge.enable`: whether members may renew locks (KIP-1222)."""
    dead_letters: DeadLetters | None = None
    """None: there are none. A record that no member can process is only archived."""
    dead_letter_prefix: str = "dlq."
    """What the names of topics for dead letters start with."""
