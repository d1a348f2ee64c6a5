"""Typed options of a read or a write, and of the connection to the brokers. The only I/O is to read
a password's file or variable (`kafka.sasl.password=file:PATH` or `env:NAME`), on the driver.

`read/source_options.py` and `write/sink_options.py` parse these values from the options' text.
"""

import os
import re
from dataclasses import dataclass, field
from enum import Enum

from josefine_arrow.batches.row_filter import ALL_ROWS, RowFilter
from josefine_broker.client.secret_settings import read_secrets
from josefine_broker.client.security import PLAINTEXT, Security, parse_security
from josefine_spark.base.errors import OptionError
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.options.parse import OptionText
from josefine_spark.options.positions import Position

CONNECTION_OPTIONS = (
    "kafka.bootstrap.servers",
    "bootstrapServers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.security.protocol",
)

FETCH_BYTES = 8 * 1024 * 1024
"""Size of one fetch response: large enough to make the cost per response negligible, small enough
for three of them per task (one decoded, two waiting)."""
FETCH_BYTES_MAX = 64 * 1024 * 1024
POLL_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000
BATCH_BYTES = 512 * 1024
"""Size of one record batch in the sink: below every broker's default limit of 1 MiB."""

DELIVERY_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS = 900_000
"""The longest that brokers allow by default: a decided batch must be committed within it, also by
the next driver after a crash."""
MAX_BLOCK_MS = 60_000


class MissingStrategy(Enum):
    """The start in a partition that has no record at or after the starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


class BelowLocalStart(Enum):
    """Who reads an archived topic's records that brokers have no longer."""

    BROKER = "broker"
    """The broker itself, if an archive reader runs on its machine."""
    AUTO = "auto"
    """The tasks read the archive's files."""
    OFF = "off"
    """Nobody: a topic starts where its brokers' own records do."""


class UnreadableBatches(Enum):
    """What a task does with a record batch that has a valid checksum and unreadable records."""

    FAIL = "fail"
    SKIP = "skip"
    AS_ROW = "asRow"


class Delivery(Enum):
    """The sink's guarantee when a task or a batch runs again."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The connection to the brokers. Hashable: it is the key of the client cache."""

    bootstrap: str
    client_id: str = "josefine-spark"
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    security: Security = PLAINTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The subscribed topics; exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics named, None for a pattern."""
        if self.pattern is not None:
            return None
        return self.topics or tuple(topic for topic, _ in self.assigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumn:
    """How values are decoded into a column `json`; see `JsonOptions`."""

    schema: str
    """`StructType.json()` of the values."""
    time_zone: str = "UTC"
    strict: bool = False
    accept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options that executors need; they are pickled with every task."""

    connection: Connection
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    """Only these columns, in order; None: the standard ones, and headers if included."""
    json: JsonColumn | None = None
    rows: RowFilter = ALL_ROWS
    fail_on_data_loss: bool = True
    unreadable_batches: UnreadableBatches = UnreadableBatches.FAIL
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    fetch_bytes: int = FETCH_BYTES
    fetch_wait_ms: int = 500
    read_committed: bool = False
    rack: str = ""
    """Rack of the tasks: they read from a replica in it, if the partition leader knows one
    (KIP-392)."""
    check_crcs: bool = True
    loss_table: str | None = None
    """Path of the Delta table for skipped ranges."""
    archive: BelowLocalStart = BelowLocalStart.BROKER


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options of a read."""

    read: ReadOptions
    subscription: Subscription
    starting: Position
    ending: Position
    stops_at: ByPartition | None = None
    """Latest end offsets of a stream's AvailableNow run; None: the current ends."""
    starting_given: bool = False
    """Whether `starting` was set by an option and is not the default."""
    starting_group: str | None = None
    """Start at this consumer group's committed offsets; `starting` is for the other partitions."""
    commit_group: str | None = None
    missing: MissingStrategy = MissingStrategy.ERROR
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    without_effect: tuple[str, ...] = ()
    """Clauses for the log: options that are accepted and have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedBatch:
    """The identity of a batch write that its caller may repeat, with a note that is stored with its
    decision."""

    number: int
    fingerprint: str = ""
    note: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All options of a write."""

    connection: Connection
    topic: str | None = None
    include_headers: bool = True
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    delivery_log: str | None = None
    """A file that gets a line of JSON per write or micro-batch."""
    sink_id: str | None = None
    checkpoint: str | None = None
    batch: NumberedBatch | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    two_phase: bool | None = None
    """Whether transactions are two-phase participants; None: if the broker allows it."""
    acks: int = -1
    idempotent: bool = True
    hash_keys: bool = True
    """Whether the hash of its key selects a row's partition."""
    batch_bytes: int = BATCH_BYTES
    compression: int = 0
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    """Timeout of a record batch including all retries."""
    max_block_ms: int = MAX_BLOCK_MS
    """Timeout of the requests before a task can send: a topic's partitions, a producer id."""
    without_effect: tuple[str, ...] = ()
    """Clauses for the log: options that are accepted and have no effect."""


def connection(options: OptionText) -> Connection:
    """Check and type the connection options. Raises OptionError."""
    both = [name for name in ("kafka.bootstrap.servers", "bootstrapServers") if options.has(name)]
    if not both:
        raise OptionError("kafka.bootstrap.servers (or bootstrapServers) is missing")
    servers = [options.text(name, "") for name in both]
    if len(set(servers)) > 1:
        raise OptionError("kafka.bootstrap.servers and bootstrapServers differ: set only one")
    for server in servers[0].split(","):
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:,\[\]]+):\d{1,5}", server.strip()):
            raise OptionError(f"{both[0]}: expected host:port[,host:port], got {servers[0]!r}")
    return Connection(
        bootstrap=servers[0],
        client_id=options.text("kafka.client.id", "josefine-spark"),
        request_timeout_ms=options.integer("kafka.request.timeout.ms", 1) or REQUEST_TIMEOUT_MS,
        security=_security(options),
    )


def _security(options: OptionText) -> Security:
    protocol = options.text("kafka.security.protocol", "PLAINTEXT").upper()
    settings = {"security.protocol": protocol}
    if protocol != "PLAINTEXT":  # otherwise they are logged as options without effect
        settings |= options.take("kafka.ssl.", "kafka.sasl.")
    try:
        return parse_security(read_secrets(settings, os.environ))
    except ValueError as error:
        raise OptionError(f"kafka.{error}") from None
