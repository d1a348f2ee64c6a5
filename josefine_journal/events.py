"""The events of a journal as its user sees them. Values only.

A sequence number has 64 bits, is at least 1, and may skip numbers after its predecessor. Tags keep
their order, because the encoding has one; a tag occurs once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NewType

SeqNr = NewType("SeqNr", int)
SEQ_NR_MIN, SEQ_NR_MAX = 1, 2**63 - 1

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Json:
    """A payload of any JSON value, as returned by `json.loads`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Text:
    """A payload of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Binary:
    """A payload of bytes."""

    data: bytes


Payload = Json | Text | Binary


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a journal. Raises ValueError for an invalid sequence number or invalid tags."""

    seq_nr: SeqNr
    tags: tuple[str, ...] = ()
    payload: Payload | None = None

    def __post_init__(self) -> None:
        check_seq_nr(self.seq_nr)
        if len(set(self.tags)) != len(self.tags):
            raise ValueError(f"event {self.seq_nr}: duplicate tag: {', '.join(self.tags)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadMetadata:
    """Metadata of one append, stored in the record's value with its events."""

    expire_after: timedelta | None = None
    data: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The events of one append: at least one, their sequence numbers strictly increasing.

    Raises ValueError otherwise.
    """

    events: tuple[Event, ...]
    metadata: PayloadMetadata = field(default_factory=PayloadMetadata)

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("an append has at least one event")
        for before, after in zip(self.events, self.events[1:], strict=False):
            if after.seq_nr <= before.seq_nr:
                raise ValueError(f"event {after.seq_nr} follows event {before.seq_nr}")


def check_seq_nr(number: int) -> None:
    """Raises ValueError unless it is a sequence number."""
    if not SEQ_NR_MIN <= number <= SEQ_NR_MAX:
        raise ValueError(f"sequence number {number} is not within 1 to {SEQ_NR_MAX}")
