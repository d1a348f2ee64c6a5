"""The topic of a sink, and the name of the sink's record in the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.base.errors import Place

SINK_ID_MAX = 150
"""The maximum length in characters of the connector's `sinkId`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTopic:
    """The target topic of a sink. `key`: the column of the record's key, if any; `key_columns`:
    those of a key of several columns, a JSON object, with their places.

    `exactly_once`: rows and offsets are committed in one transaction; otherwise offsets follow.
    `security`: a client's settings, empty for plaintext.
    """

    bootstrap: str
    topic: str
    key: str | None
    key_place: Place
    exactly_once: bool = True
    security: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    key_columns: tuple[tuple[str, Place], ...] = ()

    @property
    def keys(self) -> tuple[tuple[str, Place], ...]:
        """The columns of the record's key, each with its place; none: records without a key."""
        return self.key_columns or (((self.key, self.key_place),) if self.key else ())

    @property
    def told(self) -> str:
        """The display name, like a table's path."""
        return f"topic {self.topic}"


def sink_id(pipeline: str, sink: str, topic: str) -> str:
    """The name of a sink's record. It contains the topic, so that two environments in one cluster,
    or a file with a changed topic, do not share a record. No name has a dot, so it is unique."""
    return f"{pipeline}.{sink}.{topic}"
