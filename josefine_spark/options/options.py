"""What a read or a write was told to do, as values; and how to reach the brokers. Nothing is read
but a password that stands elsewhere (`kafka.sasl.password=file:PATH` or `env:NAME`), on the driver.

`read/source_options.py` and `write/sink_options.py` make these values from the options' text.
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
"""Of one fetch response: large enough that per-response costs vanish, small enough that three of
them per task (one decoded, two waiting) are no load."""
FETCH_BYTES_MAX = 64 * 1024 * 1024
POLL_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000
BATCH_BYTES = 512 * 1024
"""Of one record batch in the sink: below every broker's default limit of 1 MiB."""

DELIVERY_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS = 900_000
"""As long as brokers allow by default: a decision is to be ended within it, also by the driver that
comes after a crash."""
MAX_BLOCK_MS = 60_000


class MissingStrategy(Enum):
    """What to do in a partition that has no record at or after the starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


class UnreadableBatches(Enum):
    """What a task does with a record batch whose checksum is right and whose records are not."""

    FAIL = "fail"
    SKIP = "skip"
    AS_ROW = "asRow"


class Delivery(Enum):
    """What the sink promises when a task or a batch runs again."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach the brokers. Hashable: it is the key of the connection cache."""

    bootstrap: str
    client_id: str = "josefine-spark"
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    security: Security = PLAINTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Exactly one of the three is set."""

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
class ReadOptions:
    """What the executors need; it travels pickled with every task."""

    connection: Connection
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    """Only these, in their order; None: those that are always there, and headers if included."""
    json_schema: str | None = None
    """`StructType.json()` of what values are, to be read into a column `json`."""
    rows: RowFilter = ALL_ROWS
    fail_on_data_loss: bool = True
    unreadable_batches: UnreadableBatches = UnreadableBatches.FAIL
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    fetch_bytes: int = FETCH_BYTES
    fetch_wait_ms: int = 500
    read_committed: bool = False
    rack: str = ""
    """Where the tasks are: they read from a replica there, if the partition's leader knows one."""
    check_crcs: bool = True
    loss_table: str | None = None
    """Path of the Delta table for ranges that are passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options of a read."""

    read: ReadOptions
    subscription: Subscription
    starting: Position
    ending: Position
    stops_at: ByPartition | None = None
    """Where an AvailableNow run of a stream ends at the latest; None: at what there is."""
    starting_given: bool = False
    """Whether `starting` is what was asked for, not the default."""
    starting_group: str | None = None
    """Start at what this consumer group committed; `starting` is for the other partitions."""
    commit_group: str | None = None
    missing: MissingStrategy = MissingStrategy.ERROR
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    without_effect: tuple[str, ...] = ()
    """Clauses for the log: options that were taken and do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedBatch:
    """A batch write that its caller may do again: what tells it from others, and what is kept with
    its decision."""

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
    """A file that gets a line of JSON per write or microbatch."""
    sink_id: str | None = None
    checkpoint: str | None = None
    batch: NumberedBatch | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    two_phase: bool | None = None
    """Whether transactions take part in a two-phase commit; None: where the broker lets them."""
    acks: int = -1
    idempotent: bool = True
    hash_keys: bool = True
    """Whether a key decides on its row's partition."""
    batch_bytes: int = BATCH_BYTES
    compression: int = 0
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    """Of a record batch with all its tries."""
    max_block_ms: int = MAX_BLOCK_MS
    """Of what a task asks before it can send: a topic's partitions, a producer id."""
    without_effect: tuple[str, ...] = ()
    """Clauses for the log: options that were taken and do nothing."""


def connection(options: OptionText) -> Connection:
    """Check and type the options that say how to reach the brokers. Raises OptionError."""
    both = [name for name in ("kafka.bootstrap.servers", "bootstrapServers") if options.has(name)]
    if not both:
        raise OptionError("kafka.bootstrap.servers (or bootstrapServers) is missing")
    servers = [options.text(name, "") for name in both]
    if len(set(servers)) > 1:
        raise OptionError("kafka.bootstrap.servers and bootstrapServers say different things")
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
    if protocol != "PLAINTEXT":  # else a job's others are told to have no effect
        settings |= options.take("kafka.ssl.", "kafka.sasl.")
    try:
        return parse_security(read_secrets(settings, os.environ))
    except ValueError as error:
        raise OptionError(f"kafka.{error}") from None
