"""A topic that a sink writes, as the file says it, and the name of its record in the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.base.errors import Place

SINK_ID_MAX = 150
"""Characters, as the connector's `sinkId`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTopic:
    """The topic that a sink's rows go to. `key`: the column that a record's key is made of, if any.

    `exactly_once`: rows and offsets are decided on at once; else offsets follow the rows.
    `security`: a client's settings, none for plaintext.
    """

    bootstrap: str
    topic: str
    key: str | None
    key_place: Place
    exactly_once: bool = True
    security: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def told(self) -> str:
        """In the place of a table's path."""
        return f"topic {self.topic}"


def sink_id(pipeline: str, sink: str, topic: str) -> str:
    """The name of a sink's record. With the topic: two environments of one cluster, or a file that
    names another topic, must not take one for the other. No name has a dot, so it is unique."""
    return f"{pipeline}.{sink}.{topic}"
