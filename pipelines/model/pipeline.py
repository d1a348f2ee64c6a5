"""A validated pipeline: frozen values, every reference resolved, no YAML nodes.

Values that only Spark can check (SQL, schemas) keep their place, so that Spark's errors name a line
of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import Place
from pipelines.model.dead_letter_threshold import Threshold
from pipelines.model.keyed_state import KeyedState
from pipelines.model.lookup import Lookup
from pipelines.model.maintenance import Upkeep
from pipelines.model.parameters import Value, bound
from pipelines.model.retry_policy import Restart
from pipelines.model.schema_evolution import Evolution
from pipelines.model.table_family import TableFamily
from pipelines.model.table_features import Wish
from pipelines.model.table_stream import TableStream
from pipelines.model.test_case import Case, Record
from pipelines.model.topic import SinkTopic
from pipelines.model.watermark import Watermark

if TYPE_CHECKING:
    # At run time this would import the connector, which `lint` does not need.
    from josefine_spark.base.topic_offsets import ByPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A text and its place in the file. `written`: as it is in the file, with quotes; `raw`: before
    the replacement of `${...}`; `params`: the values of those that the text names, as SQL."""

    text: str
    place: Place
    path: str
    written: str = field(default="", repr=False)
    raw: str = field(default="", repr=False)
    params: tuple[tuple[str, Value], ...] = ()
    bound: str = field(init=False, repr=False, compare=False)
    """The text with a literal for each parameter; made once, because each batch asks for it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", bound(self.text, dict(self.params)))  # frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A value of the file's `params`, and the place of its name."""

    value: Value
    place: Place
    path: str


class Format(Enum):
    """The format of a value's or a key's bytes."""

    JSON = "json"  # an object
    CSV = "csv"  # one line of fields
    STRING = "string"  # a text
    AVRO = "avro"  # a record, perhaps in Confluent's frame
    PROTOBUF = "protobuf"  # a message
    DEBEZIUM = "debezium"  # a change of a database's row, as JSON or Avro


class OnError(Enum):
    """The handling of a record that does not match `decode`."""

    DEAD_LETTER = "dead_letter"  # it becomes a dead letter
    FAIL = "fail"  # the run stops before anything of its batch is written
    NULL = "null"  # it is good, decoded to null


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """The decoding of a record's value or key into columns."""

    format: Format
    schema: Placed
    """Columns as in SQL, empty if the format has none. For Avro those of `avro`, for Protobuf those
    of `message`, for Debezium those of the envelope."""
    on_error: OnError
    separator: str = ","
    """The separator of CSV fields."""
    strict: bool = False
    """A JSON key that only its letter case keeps from a column is bad."""
    accept: tuple[str, ...] = ()
    """Exceptions from the rule that a value is stored as it was sent (`json.accept.ACCEPT`)."""
    explodes: bool = False
    """A JSON value is an array, and each of its elements a row."""
    tombstones: bool = False
    """A record without a value is a good row, whose `value` is null."""
    avro: str = ""
    """The Avro reader schema."""
    record_type: str = ""
    """The full name of the Avro record that is read, or the title of the JSON Schema of the records
    that are read, if the topic has several types."""
    skips_other_types: bool = False
    """Records of other types are left out; else they are bad."""
    row: str = ""
    """The columns of the row in Debezium's JSON envelopes; empty for Avro envelopes."""
    documents: bool = False
    """The envelopes are those of MongoDB: `before` and `after` are JSON texts."""
    position: bool = False
    """Debezium's envelopes get the column `position`, and one without a position is bad."""
    descriptors: bytes = field(default=b"", repr=False)
    """A FileDescriptorSet that contains the Protobuf `message`."""
    message: str = ""
    framed: bool = False
    """Each record starts with the id of its writer schema."""
    registry: str | None = field(default=None, repr=False)
    """The registry of those schemas; None if its address is a secret that was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of a source without recorded offsets: an option of the connector and its text.

    The run itself looks up the offsets of a `group`, or takes these `offsets`; with `by_table` it
    only starts at the end offsets of the sink's table.
    """

    option: str
    text: str
    group: str | None = None
    offsets: ByPartition = field(default_factory=dict)
    by_table: bool = False

    @property
    def is_by_offsets(self) -> bool:
        """Whether each partition's offset is known before the stream begins."""
        return self.group is not None or bool(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a run: a time since 1970, a duration before the run, the offsets of a group, or
    these offsets. One of the four is set."""

    time_ms: int | None = None
    ago_ms: int | None = None
    group: str | None = None
    offsets: ByPartition = field(default_factory=dict)

    @property
    def is_by_offsets(self) -> bool:
        """Whether the offsets are known without the brokers."""
        return self.time_ms is None and self.ago_ms is None and self.group is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limits of one batch; None: no limit. A batch waits for `rows_min` records, for `delay_ms`
    at most."""

    rows: int | None = None
    bytes: int | None = None
    rows_min: int | None = None
    delay_ms: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The split of a batch into tasks: at most `rows` records each, at least `tasks_min` tasks."""

    rows: int | None = None
    tasks_min: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """A source without a broker; its type determines which field is set."""

    type: str
    path: str = ""
    rows_per_second: int = 0
    records: tuple[Record, ...] = ()
    stream: TableStream | None = None
    """With type delta; its table is at `path`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of records. Exactly one of `topics` and `pattern` is set, unless it is `local`;
    with `assigned` only these partitions of the topics are read.

    `skips_losses`: records that retention deleted before they were read are recorded as lost and
    skipped. `committed_only`: records of open and aborted transactions are not read.
    `archive`: who reads an archived topic below its local start: auto, broker or off.
    `commit_group`: the consumer group that gets the offsets that all its sinks have committed.
    `stop`: the end of a run; None: the end offsets at its start. `security`: a client's settings,
    empty for plaintext.
    """

    name: str
    place: Place
    bootstrap: str
    topics: tuple[str, ...]
    pattern: str | None
    start: Start
    limit: Limit
    split: Split
    headers: bool
    decode: Decode | None
    decode_key: Decode | None = None
    skips_losses: bool = False
    committed_only: bool = False
    archive: str = "broker"
    commit_group: str | None = None
    stop: End | None = None
    assigned: tuple[TopicPartition, ...] = ()
    local: Local | None = None
    security: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def table_stream(self) -> TableStream | None:
        """Set if it is a Delta table that is read as a stream."""
        return self.local.stream if self.local is not None else None

    @property
    def is_in_file(self) -> bool:
        """Whether its records are in the pipeline file."""
        return self.local is not None and self.local.type == "memory"

    def has_on_error(self, what: OnError) -> bool:
        """Whether bad values or bad keys are handled this way. One record is never both a dead
        letter and a stop."""
        return any(how and how.on_error is what for how in (self.decode, self.decode_key))

    @property
    def told(self) -> str:
        """A short description of the input."""
        if self.local is not None:
            many = f"{len(self.local.records)} records"
            rate = f"{self.local.rows_per_second} rows/s"
            path = self.local.path
            return {"file": path, "delta": path, "rate": rate}.get(self.local.type, many)
        return ", ".join(map(str, self.assigned or self.topics)) or f"/{self.pattern}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function in a Python file next to the pipeline file. `source`: the text of that file."""

    file: str
    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A SELECT over its inputs, which it names as tables, or a function of their rows.

    `said`: the SELECT, or the function's name in the file. With `watermarks` it is stateful: it
    combines rows of many batches. With `state` the function is a class that does so.
    """

    name: str
    place: Place
    inputs: tuple[str, ...]
    said: Placed
    function: Function | None = None
    watermarks: tuple[Watermark, ...] = ()
    state: KeyedState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One merged column: `column = function(argument)`; `argument` None means `count(*)`."""

    column: str
    function: str
    argument: str | None
    place: Place


class Action(Enum):
    """The action for rows that fail a check. All of them are counted."""

    WARN = "warn"  # they stay
    DROP = "drop"  # they are left out
    DEAD_LETTER = "dead_letter"  # they are left out, their records are dead letters
    FAIL = "fail"  # the run stops before anything of their batch is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition over the rows of a source or transform. Null is not true.

    `ratio_max`: the maximum ratio of failing rows in a batch; None: no maximum.
    """

    name: str
    place: Place
    on: str
    on_place: Place
    expr: Placed
    action: Action
    ratio_max: float | None = None
    reason: str = ""
    """The reason of its dead letters, if it is not the condition."""

    @property
    def leaves_out(self) -> bool:
        return self.action in (Action.DROP, Action.DEAD_LETTER)


class Mode(Enum):
    """The way in which a batch's rows are written to the table."""

    APPEND = "append"  # each row is added
    MERGE = "merge"  # `aggregates` of them are folded into one row for each of `keys`
    UPSERT = "upsert"  # the table has the latest row for each of `keys`
    SCD2 = "scd2"  # the table has each version for each of `keys`, with its validity period
    UPDATE = "update"  # the topic gets each change of a stateful result, by its key


class Unavailable(Enum):
    """The handling of a value that a change does not have (Debezium's placeholder)."""

    KEEP = "keep"  # the value of the key's preceding row
    NULL = "null"
    DEAD_LETTER = "dead_letter"  # the record becomes a dead letter


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The order that decides the latest row of a key: the greatest by `columns`, in this order.

    Rows for which `delete_when` is true delete their key. `marks`: the row stays and is marked, so
    that an earlier row that arrives later does not restore the key.
    """

    columns: tuple[str, ...]
    places: tuple[Place, ...]
    delete_when: Placed | None = None
    marks: bool = False
    unavailable: Unavailable | None = None
    """None: no value is a placeholder."""
    unavailable_place: Place | None = None
    """Where the file has it; None: nowhere."""
    placeholder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Skip rows whose `keys` are already in the table.

    With `within_ms` only if the two rows are this close by the column `time`; both or neither are
    set.
    """

    keys: tuple[str, ...]
    key_places: tuple[Place, ...]
    time: str | None
    time_place: Place
    within_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """One Delta table, or with `topic` one topic, or a target of `settings`. `aggregates` are set
    with mode merge, `latest` with upsert and scd2, `deduplicate` optionally with mode append."""

    name: str
    place: Place
    input: str
    path: str | None
    table: str | None
    type: str = "delta"
    """The key of a row of `targets.table.TARGETS`."""
    topic: SinkTopic | None = None
    family: TableFamily | None = None
    """The template of `path`, with the type `table_family.FAMILY`."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """The settings of another type, which only its target reads."""
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    key_places: tuple[Place, ...] = ()
    evolution: Evolution = Evolution.NONE
    mode: Mode = Mode.APPEND
    latest: Latest | None = None
    deduplicate: Deduplicate | None = None
    on_error: OnError = OnError.FAIL
    """What becomes of a record for which an expression fails; never `null`."""
    on_error_place: Place | None = None
    """Where the file has it; None: nowhere."""
    cluster_by: tuple[str, ...] = ()
    cluster_places: tuple[Place, ...] = ()
    partition_by: tuple[str, ...] = ()
    partition_places: tuple[Place, ...] = ()
    wishes: tuple[Wish, ...] = ()
    """The properties of the table that the file asks for."""
    upkeep: tuple[Upkeep, ...] = ()
    fresh_ms: int | None = None
    file_bytes: int | None = None
    constraints: Mapping[str, Placed] = field(default_factory=dict)
    """Name → a condition that the table enforces for each row."""
    tombstone_when: Placed | None = None
    """With mode update: the condition of rows that become tombstones."""

    @property
    def merges(self) -> bool:
        return self.mode is Mode.MERGE

    def layout_columns(self) -> Iterator[tuple[str, Place, str]]:
        """(column, place, path) of each column by which the table's rows are to lie."""
        words = [
            ("cluster_by", self.cluster_by, self.cluster_places),
            ("partition_by", self.partition_by, self.partition_places),
            *(("optimize.zorder_by", each.zorder_by, each.zorder_places) for each in self.upkeep),
        ]
        for word, names, places in words:
            for name, place in zip(names, places, strict=False):
                yield name, place, f"sinks.{self.name}.{word}"

    @property
    def told(self) -> str:
        """The target: a path, a table's name or a topic; "" if it contains a secret."""
        if self.topic:
            return self.topic.told
        return self.path or self.table or self.settings.get("table", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The whole file. `every_ms` None means: read what is available now, then end; `once`: as one
    batch. One of `dead_letter_path` and `dead_letter_table` is set if there are dead letters.
    `threshold`: the maximum ratio of dead letters. `metrics`: the address of the Prometheus
    listener; `metrics_table`: the folder of the metric table. `json_log`: whether progress is
    logged as JSON."""

    name: str
    file: str
    master: str | None
    conf: Mapping[str, str] = field(repr=False)
    conf_places: Mapping[str, Place] = field(default_factory=dict, repr=False)
    checkpoint: str
    sources: Mapping[str, Source]
    transforms: Mapping[str, Transform]
    sinks: Mapping[str, Sink]
    checks: Mapping[str, Check] = field(default_factory=dict)
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    """Lookup tables among the file's sources; transforms join them with streams."""
    dead_letter_path: str | None
    dead_letter_table: str | None = None
    every_ms: int | None
    once: bool = False
    threshold: Threshold | None = None
    restart: Restart | None = None
    metrics: HostPort | None = None
    metrics_table: str | None = None
    json_log: bool = False
    params: Mapping[str, Parameter] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    environment: str | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """The values of the file's secrets: no message may contain one."""

    @property
    def dead_letters(self) -> str | None:
        """The dead-letter table: a path or a name."""
        return self.dead_letter_path or self.dead_letter_table

    @property
    def as_arguments(self) -> str:
        """The arguments that name this pipeline in a command."""
        return f"{self.file} --env {self.environment}" if self.environment else self.file

    def checkpoint_of(self, sink: str) -> str:
        """A sink's folder below the checkpoint. No name contains a dot, so the folder is unique."""
        return f"{self.checkpoint}/{self.name}.{sink}"

    def old_checkpoint_of(self, sink: str) -> str:
        """The folder that older versions used, before pipelines could share a checkpoint folder."""
        return f"{self.checkpoint}/{sink}"

    def streamed(self, source: Source) -> Source:
        """A source as a run reads it: `once` makes one batch of it and ignores its `limit`."""
        return replace(source, limit=Limit()) if self.once else source

    def with_rows(self, of: Mapping[str, tuple[Mapping[str, Any], ...]]) -> Pipeline:
        """The pipeline with these rows, or none, in place of its lookup tables."""
        lookups = {n: replace(each, rows=of.get(n, ())) for n, each in self.lookups.items()}
        return replace(self, lookups=lookups)
