"""A pipeline file after validation: frozen values, every reference resolved, no YAML left.

Places are kept for the values that only Spark can judge (SQL, schemas), so that its complaint
still names a line of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import Place
from pipelines.model.dead_letter_threshold import Threshold
from pipelines.model.lookup import Lookup
from pipelines.model.maintenance import Upkeep
from pipelines.model.retry_policy import Restart
from pipelines.model.schema_evolution import Evolution
from pipelines.model.test_case import Case, Record
from pipelines.model.topic import SinkTopic
from pipelines.model.watermark import Watermark

if TYPE_CHECKING:
    # At run time the connector would come along, which `lint` has no use for.
    from josefine_spark.base.topic_offsets import ByPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A text and where the file says it. `written` is what stands there, "" when it differs."""

    text: str
    place: Place
    path: str
    written: str = field(default="", repr=False)


class Format(Enum):
    """What the bytes of a value or a key are."""

    JSON = "json"  # an object
    CSV = "csv"  # one line of fields
    STRING = "string"  # a text
    AVRO = "avro"  # a record, perhaps in Confluent's frame
    PROTOBUF = "protobuf"  # a message
    DEBEZIUM = "debezium"  # a change of a database's row, as JSON or Avro


class OnError(Enum):
    """What becomes of a record that is not what `decode` expects."""

    DEAD_LETTER = "dead_letter"  # it goes there
    FAIL = "fail"  # the run stops before anything of its batch is written
    NULL = "null"  # it is a good one, decoded to null


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How a record's value, or its key, becomes columns."""

    format: Format
    schema: Placed
    """Columns as in SQL; no text where the format has none. Of Avro those of `avro`, of Protobuf
    those of `message`, of Debezium those of the envelope."""
    on_error: OnError
    separator: str = ","
    """Between the fields of CSV."""
    strict: bool = False
    """Values that Spark's JSON reader would change without a word are bad ones."""
    tombstones: bool = False
    """A record without a value is a good row, whose `value` is null."""
    avro: str = ""
    """The schema as which Avro's records are read."""
    row: str = ""
    """The columns of a row in Debezium's envelopes; nothing where these are Avro's."""
    descriptors: bytes = field(default=b"", repr=False)
    """A FileDescriptorSet, in which Protobuf's `message` is."""
    message: str = ""
    framed: bool = False
    """Each record begins with the number of the schema by which it was written."""
    registry: str | None = field(default=None, repr=False)
    """Where those schemas are; None where that is a secret that was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a source begins that has no offsets yet: an option of the connector and its text.

    A run itself looks up what a `group` committed, or takes these `offsets`; with `by_table` it
    begins nowhere but where the sink's table ends.
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
    """Where a run ends: at a time since 1970, or so long before the run, where a group is, or at
    these offsets. One of the four is set."""

    time_ms: int | None = None
    ago_ms: int | None = None
    group: str | None = None
    offsets: ByPartition = field(default_factory=dict)

    @property
    def is_by_offsets(self) -> bool:
        """Whether they are known without a look at the brokers."""
        return self.time_ms is None and self.ago_ms is None and self.group is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Of one batch; None: none. A batch waits for `rows_min` records, `delay_ms` at most."""

    rows: int | None = None
    bytes: int | None = None
    rows_min: int | None = None
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How a batch is cut into tasks: `rows` records in one at most, `tasks_min` at least."""

    rows: int | None = None
    tasks_min: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Records without a broker, of a type that has one of these."""

    type: str
    path: str = ""
    rows_per_second: int = 0
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One read of topics. Exactly one of `topics` and `pattern` is set, unless it is `local`; with
    `assigned` only these partitions of the topics are read.

    `skips_losses`: what retention deleted before it was read is recorded and passed over.
    `committed_only`: records of open and aborted transactions are not read. `commit_group`: the
    consumer group that is told how far all its sinks are. `stop`: where a run ends; None: at what
    is there. `security`: a client's settings, none for plaintext.
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
    commit_group: str | None = None
    stop: End | None = None
    assigned: tuple[TopicPartition, ...] = ()
    local: Local | None = None
    security: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def is_in_file(self) -> bool:
        """Its records stand in the pipeline's file."""
        return self.local is not None and self.local.type == "memory"

    def has_on_error(self, what: OnError) -> bool:
        """Whether this becomes of some bad records. None is both a dead letter and a stop."""
        return any(how and how.on_error is what for how in (self.decode, self.decode_key))

    @property
    def told(self) -> str:
        """What it reads, in short."""
        if self.local is not None:
            many = f"{len(self.local.records)} records"
            rate = f"{self.local.rows_per_second} rows/s"
            return {"file": self.local.path, "rate": rate}.get(self.local.type, many)
        return ", ".join(map(str, self.assigned or self.topics)) or f"/{self.pattern}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of a Python file beside the pipeline's. `source`: the text of that file."""

    file: str
    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A SELECT over its inputs, which it names as tables, or a function of their rows.

    `said`: the SELECT, or what the file says of the function. With `watermarks` it looks at rows of
    many batches, and has a state.
    """

    name: str
    place: Place
    inputs: tuple[str, ...]
    said: Placed
    function: Function | None = None
    watermarks: tuple[Watermark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One merged column: `column = function(argument)`; `argument` None means `count(*)`."""

    column: str
    function: str
    argument: str | None
    place: Place


class Action(Enum):
    """What becomes of rows that a check's condition is not true of. All of them are counted."""

    WARN = "warn"  # they stay
    DROP = "drop"  # they are left out
    DEAD_LETTER = "dead_letter"  # they are left out, their records are dead letters
    FAIL = "fail"  # the run stops before anything of their batch is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition over the rows of a source or transform. Null is not true.

    `ratio_max`: of a batch's rows, more than this part may not fail it; None: any may.
    """

    name: str
    place: Place
    on: str
    on_place: Place
    expr: Placed
    action: Action
    ratio_max: float | None = None

    @property
    def leaves_out(self) -> bool:
        return self.action in (Action.DROP, Action.DEAD_LETTER)


class Mode(Enum):
    """What becomes of a batch's rows in the table."""

    APPEND = "append"  # each is there
    MERGE = "merge"  # `aggregates` of them are folded into one row for each of `keys`
    UPSERT = "upsert"  # the latest for each of `keys` is there
    SCD2 = "scd2"  # each version of each of `keys` is there, with the time in which it held


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """Which row of a key is the latest: the greatest by `columns`, the first deciding.

    Rows of which `delete_when` is true delete their key. `marks`: the row stays and is marked, so
    that rows which are earlier and come later do not bring it back.
    """

    columns: tuple[str, ...]
    places: tuple[Place, ...]
    delete_when: Placed | None = None
    marks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Rows whose `keys` a row of the table has, are left out.

    With `within_ms` only where the two are so near by the column `time`; both or neither are set.
    """

    keys: tuple[str, ...]
    key_places: tuple[Place, ...]
    time: str | None
    time_place: Place
    within_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """One Delta table, or with `topic` one topic, or what `settings` say. `aggregates` are there
    with mode merge, `latest` with upsert and scd2, `deduplicate` perhaps with mode append."""

    name: str
    place: Place
    input: str
    path: str | None
    table: str | None
    type: str = "delta"
    """A row of `targets.table.TARGETS`."""
    topic: SinkTopic | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """What the words of another type say, which only its target reads."""
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    key_places: tuple[Place, ...] = ()
    evolution: Evolution = Evolution.NONE
    mode: Mode = Mode.APPEND
    latest: Latest | None = None
    deduplicate: Deduplicate | None = None
    cluster_by: tuple[str, ...] = ()
    cluster_places: tuple[Place, ...] = ()
    upkeep: tuple[Upkeep, ...] = ()
    constraints: Mapping[str, Placed] = field(default_factory=dict)
    """Name → the condition that the table holds each of its rows to."""

    @property
    def merges(self) -> bool:
        return self.mode is Mode.MERGE

    @property
    def told(self) -> str:
        """Where its rows go: a path, a table's name or a topic; "" where a secret is part of it."""
        if self.topic:
            return self.topic.told
        return self.path or self.table or self.settings.get("table", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The whole file. `every_ms` None means: read what is there now, then end; `once`: as one
    batch. Of `dead_letter_path` and `dead_letter_table` one is set where there are dead letters.
    `threshold`: which part of the records may be dead letters. `metrics`: where a run tells
    them; `metrics_table`: into which folder it writes them. `json_log`: whether its progress is
    objects."""

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
    """Tables among the file's sources: no streams, transforms join these with them."""
    dead_letter_path: str | None
    dead_letter_table: str | None = None
    every_ms: int | None
    once: bool = False
    threshold: Threshold | None = None
    restart: Restart | None = None
    metrics: HostPort | None = None
    metrics_table: str | None = None
    json_log: bool = False
    cases: tuple[Case, ...] = ()
    environment: str | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """The values of the file's secrets: no message may have one."""

    @property
    def dead_letters(self) -> str | None:
        """Where they go: a path or a table's name."""
        return self.dead_letter_path or self.dead_letter_table

    @property
    def as_arguments(self) -> str:
        """How a command names this pipeline."""
        return f"{self.file} --env {self.environment}" if self.environment else self.file

    def checkpoint_of(self, sink: str) -> str:
        """A sink's folder below the checkpoint. A dot is in no name, so it is nobody else's."""
        return f"{self.checkpoint}/{self.name}.{sink}"

    def old_checkpoint_of(self, sink: str) -> str:
        """Where it was before pipelines that share a checkpoint had folders of their own."""
        return f"{self.checkpoint}/{sink}"

    def streamed(self, source: Source) -> Source:
        """A source as a run reads it: `once` makes one batch of it, whatever its `limit` says."""
        return replace(source, limit=Limit()) if self.once else source

    def with_rows(self, of: Mapping[str, tuple[Mapping[str, Any], ...]]) -> Pipeline:
        """With these rows, or none, in the place of the tables that streams are joined with."""
        lookups = {n: replace(each, rows=of.get(n, ())) for n, each in self.lookups.items()}
        return replace(self, lookups=lookups)
