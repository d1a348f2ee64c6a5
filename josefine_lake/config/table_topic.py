"""The table of one topic, read from the topic's configs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pipelines.exactly_once.other_chains import ChainName

PREFIX = "josefine.table."
FAIL = "fail"
PIPELINE = "table_topics"
"""The pipeline in the chains of all table topics."""
LAG_MS, FILE_BYTES = 30_000, 128 << 20


class Format(Enum):
    """How a value becomes columns."""

    RAW = "raw"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTopic:
    """A topic with a table. `dead_letter` None: a record that does not decode stops the table."""

    topic: str
    location: str
    format: Format = Format.RAW
    schema: str = ""
    dead_letter: str | None = None
    target_lag_ms: int = LAG_MS
    target_file_bytes: int = FILE_BYTES

    @property
    def chain(self) -> ChainName:
        """The owner of the table's commits."""
        return ChainName(pipeline=PIPELINE, sink=chain_word(self.topic))

    @property
    def dead_letter_chain(self) -> ChainName:
        """The owner of the commits of its dead letters, named as pipelines name theirs."""
        return ChainName(pipeline=PIPELINE, sink=f"dead_letter.{self.chain.sink}")


def chain_word(topic: str) -> str:
    """The topic's name as a sink's: there a dot separates a prefix, and brokers refuse two topics
    that differ only in dots and underscores."""
    return topic.replace(".", "_")


def table_topic(topic: str, configs: Mapping[str, str | None]) -> TableTopic | None:
    """The table of a topic by its configs; None without one.

    Raises ValueError for values that this writer does not know: a newer broker may accept more.
    """
    found = {name.removeprefix(PREFIX): value or "" for name, value in configs.items()}
    location = found.get("location", "")
    if not location:
        return None
    mode = found.get("mode") or "append"
    if mode != "append":
        raise ValueError(f"'{PREFIX}mode' is {mode}, this writer only appends: use a newer one")
    name = found.get("format") or Format.RAW.value
    if name not in {each.value for each in Format}:
        raise ValueError(f"'{PREFIX}format' is {name}, which this writer does not decode")
    dead_letter = found.get("dead.letter") or f"{location}_dead_letter"
    return TableTopic(
        topic=topic,
        location=location,
        format=Format(name),
        schema=found.get("schema", ""),
        dead_letter=None if dead_letter == FAIL else dead_letter,
        target_lag_ms=int(found.get("target.lag.ms") or LAG_MS),
        target_file_bytes=int(found.get("target.file.bytes") or FILE_BYTES),
    )
