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
ARCHIVE_PIPELINE = "archive"
"""The pipeline in the chains of all archives."""
ARCHIVE_ENABLE, ARCHIVE_LOCATION = "remote.storage.enable", "josefine.archive.location"
ARCHIVE_KEYS = frozenset({ARCHIVE_ENABLE, ARCHIVE_LOCATION})
LAG_MS, FILE_BYTES = 30_000, 128 << 20
DELETED_RETENTION_MS = 7 * 24 * 3_600_000
NEVER = -1


class Format(Enum):
    """How a value becomes columns."""

    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    DEBEZIUM = "debezium"


class Mode(Enum):
    """How records change the table. The words are those of a pipeline's sink."""

    APPEND = "append"
    UPSERT = "upsert"


class KeyFormat(Enum):
    """How a record's key becomes the key columns: of tombstones, which have no value."""

    JSON = "json"
    TEXT = "text"
    AVRO = "avro"


class Evolution(Enum):
    """What happens if the schema has columns that the table lacks."""

    NONE = "none"
    ADD = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTopic:
    """A topic with a table. `dead_letter` None: a record that does not decode stops the table."""

    topic: str
    location: str
    format: Format = Format.RAW
    schema: str = ""
    """DDL, an Avro schema, or the path of an .avsc or .desc file; empty: the registry's newest."""
    registry: str = ""
    """The schema registry's address, without a user; empty: records have no frame."""
    message: str = ""
    """The full name of the Protobuf message."""
    evolution: Evolution = Evolution.NONE
    mode: Mode = Mode.APPEND
    keys: tuple[str, ...] = ()
    """The columns that identify a row, of mode upsert."""
    key_format: KeyFormat = KeyFormat.JSON
    dead_letter: str | None = None
    target_lag_ms: int = LAG_MS
    target_file_bytes: int = FILE_BYTES
    deleted_retention_ms: int | None = DELETED_RETENTION_MS
    """Of data files that are no longer in the table; None: they are never deleted."""
    is_archive: bool = False
    """It is the topic's archive, which has every column of a record."""

    @property
    def chain(self) -> ChainName:
        """The owner of the table's commits."""
        pipeline = ARCHIVE_PIPELINE if self.is_archive else PIPELINE
        return ChainName(pipeline=pipeline, sink=chain_word(self.topic))

    @property
    def dead_letter_chain(self) -> ChainName:
        """The owner of the commits of its dead letters, named as pipelines name theirs."""
        return ChainName(pipeline=PIPELINE, sink=f"dead_letter.{self.chain.sink}")

    @property
    def subject(self) -> str:
        """The registry's name for the schemas of the values."""
        return f"{self.topic}-value"


def chain_word(topic: str) -> str:
    """The topic's name as a sink's: there a dot separates a prefix, and brokers refuse two topics
    that differ only in dots and underscores."""
    return topic.replace(".", "_")


def table_topic(topic: str, configs: Mapping[str, str | None]) -> TableTopic | None:
    """The table of a topic by its configs; None without one. Raises ValueError as `described`."""
    found = described(topic, configs)
    return found if found.location else None


def described(topic: str, configs: Mapping[str, str | None]) -> TableTopic:
    """The columns of a topic by its configs, also of one without a table: an empty `location`.

    Raises ValueError for values that this writer does not know: a newer broker may accept more.
    """
    found = {name.removeprefix(PREFIX): value or "" for name, value in configs.items()}
    location = found.get("location", "")
    dead_letter = found.get("dead.letter") or f"{location}_dead_letter"
    made = Format(_known(found, "format", Format))
    key_format = _known(found, "key.format", KeyFormat) if found.get("key.format") else ""
    registry = found.get("schema.registry", "")
    # A key that an older broker does not have is absent: the defaults here are the broker's.
    retention_ms = int(found.get("deleted.file.retention.ms") or DELETED_RETENTION_MS)
    return TableTopic(
        topic=topic,
        location=location,
        format=made,
        schema=found.get("schema", ""),
        registry=registry,
        message=found.get("message", ""),
        evolution=Evolution(_known(found, "schema.evolution", Evolution)),
        mode=Mode(_known(found, "mode", Mode)),
        keys=tuple(name.strip() for name in found.get("keys", "").split(",") if name.strip()),
        key_format=KeyFormat(key_format) if key_format else _key_format(made, registry),
        dead_letter=None if dead_letter == FAIL else dead_letter,
        target_lag_ms=int(found.get("target.lag.ms") or LAG_MS),
        target_file_bytes=int(found.get("target.file.bytes") or FILE_BYTES),
        deleted_retention_ms=None if retention_ms == NEVER else retention_ms,
    )


def _known(found: Mapping[str, str], key: str, kinds: type[Enum]) -> str:
    """The value of a config, by default the first one of its kind. Raises ValueError."""
    known = [str(each.value) for each in kinds]
    value = found.get(key) or known[0]
    if value not in known:
        raise ValueError(
            f"'{PREFIX}{key}' is {value}, this writer knows {', '.join(known)}: use a newer one"
        )
    return value


def _key_format(values: Format, registry: str) -> KeyFormat:
    """The format that producers of such values use for their keys."""
    is_avro = values is Format.AVRO or (values is Format.DEBEZIUM and registry)
    return KeyFormat.AVRO if is_avro and registry else KeyFormat.JSON
