"""The answer to a statement over table topics, with the offsets up to which it holds.

The order of looks makes it exact: the group's offsets come before the table, so they are not ahead
of it without a reason; the topic's bounds and last stable offsets come after the table, so no
record that the table has is missing in them; then the log is read up to those offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import Schema

from josefine_lake.config.table_topic import PREFIX, Mode, TableTopic, described
from josefine_lake.formats.registry import NewerSchemaError
from josefine_lake.formats.values import values_of
from josefine_lake.query import relations
from josefine_lake.query.brokers import Brokers, Reader
from josefine_lake.query.engine import Engine, check_names
from josefine_lake.query.plan import ONLY, Holds, Options, Tail, tail_of
from josefine_lake.query.refusals import QueryError
from josefine_lake.query.snapshot import Snapshot, snapshot
from josefine_lake.query.statement import sentence, statement, topics_of
from josefine_lake.query.tail import Budget, TailRows, read_tail
from josefine_lake.writer.changes import PendingChanges
from josefine_lake.writer.columns import Columns, order_of
from josefine_lake.writer.evolution import fit
from josefine_lake.writer.start import Sides, Topic
from josefine_lake.writer.worlds import monotonic_ms
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.offset_chain import Tip
from pipelines.model.schema_evolution import other_rows
from pipelines.storage.folders import Folders
from pipelines.storage.location import StorageError

ATTEMPTS_MAX = 5
"""Reads of one log: a producer may register a newer schema during each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`relation`: DuckDB's, to be fetched once. `holds`: one for each topic, sorted by name."""

    relation: Any
    holds: tuple[Holds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One topic before its log is read. `committed`: the group's offsets."""

    name: str
    table: TableTopic
    found: Snapshot | None
    committed: ByPartition
    reads_log: bool


@contextmanager
def answering(
    brokers: Brokers,
    text: str,
    options: Options,
    env: Mapping[str, str],
    at: Callable[[str], None] = lambda step: None,
) -> Iterator[Answer]:
    """The answer to one statement, until the end of the block; errors of its fetch are QueryErrors
    too. `at`: called with the name of each step.

    Raises QueryError, KafkaError, CorruptData, and OSError of a registry or of the storage."""
    wanted = statement(text)
    topics = topics_of(wanted.names, brokers.topics()) if wanted.names else {}
    versions = _versions(options, topics.values())
    engine = Engine(options.memory, options.temporary)
    sides: list[_Side] = []
    try:
        for topic, name in sorted({topic: name for name, topic in topics.items()}.items()):
            sides.append(_side(brokers, topic, name, options.tail, versions, env))
        at("tables")
        # After the tables, so that no table has a record beyond these ends.
        readers = {each.name: brokers.reader(each.table.topic) for each in sides}
        looked = {each.name: readers[each.name].look() for each in sides if each.reads_log}
        stable: dict[str, ByPartition] = {
            name: readers[name].stable_ends(dict.fromkeys(topic.bounds, 0))
            for name, topic in looked.items()
        }
        at("ends")
        budget = Budget(options.tail_bytes_max)
        holds = [
            _both(engine, number, side, readers[side.name], looked[side.name], stable[side.name],
                  budget, env)
            if side.reads_log
            else _table_alone(engine, number, side)
            for number, side in enumerate(sides)
        ]  # fmt: skip
        at("logs")
        engine.lock()
        yield Answer(relation=engine.run(wanted.text), holds=tuple(holds))
    except duckdb.Error as error:
        gone = next(filter(None, (each.found.gone() for each in sides if each.found)), "")
        raise QueryError(gone or sentence(error)) from error
    finally:
        engine.close()


def _versions(options: Options, topics: Collection[str]) -> Mapping[str, int]:
    """Topic → the version to read. Raises QueryError for one that the statement does not name."""
    found = dict(options.versions)
    if ONLY in found:
        if len({*topics}) != 1:
            raise QueryError("--at VERSION is for one topic: write --at TOPIC=VERSION")
        found[next(iter(topics))] = found.pop(ONLY)
    other = next((each for each in found if each not in topics), None)
    if other is not None:
        raise QueryError(f"--at {other}={found[other]}: the statement does not read this topic")
    return found


def _side(
    brokers: Brokers,
    topic: str,
    name: str,
    tail: bool,
    versions: Mapping[str, int],
    env: Mapping[str, str],
) -> _Side:
    """The configs and the table of one topic. Raises QueryError."""
    configs = brokers.configs(topic)
    try:
        table = described(topic, {n: each for n, each in configs.items() if n.startswith(PREFIX)})
    except ValueError as error:
        raise QueryError(f"topic '{topic}': {error}") from error
    version = versions.get(topic)
    reads_log = tail and version is None
    if not table.location:
        if not reads_log:
            raise QueryError(f"topic '{topic}' has no table (no josefine.table.location)")
        return _Side(name=name, table=table, found=None, committed={}, reads_log=True)
    # Before the table: the writer stores them after its commit, so they are not ahead of it.
    committed = brokers.committed(topic) if reads_log else {}
    try:
        folder = Folders({}, env).open(table.location)
    except StorageError as error:
        raise QueryError(f"topic '{topic}': {error}") from error
    if folder is None:
        raise QueryError(f"topic '{topic}': {table.location}: only folders and S3 are read")
    found = snapshot(table, folder, version)
    if found is None and not reads_log:
        raise QueryError(
            f"topic '{topic}': there is no table {table.location} yet: run `josefine tables run`"
        )
    return _Side(name=name, table=table, found=found, committed=committed, reads_log=reads_log)


def _table_alone(engine: Engine, number: int, side: _Side) -> Holds:
    found = side.found
    assert found is not None, "the side was refused otherwise"
    check_names(side.table.topic, found.schema.names)
    engine.add(f"__josefine_table_{number}", found.dataset(found.schema))
    engine.create(relations.table_view(side.name, f"__josefine_table_{number}"))
    return Holds(
        topic=side.table.topic, ends=found.ends, version=found.version, table_rows=found.rows
    )


def _rows(
    side: _Side,
    log: Reader,
    topic_id: str,
    plan: Tail,
    budget: Budget,
    env: Mapping[str, str],
) -> tuple[Columns, TailRows]:
    """The log's rows, with the columns of the schema that all of them fit."""
    table, topic = side.table, side.table.topic
    for _ in range(ATTEMPTS_MAX):
        try:
            columns = Columns(table, values_of(table, env), env)
        except ValueError as error:
            raise QueryError(f"topic '{topic}': {error}") from error
        except FileNotFoundError as error:
            raise QueryError(
                f"topic '{topic}': its schema file {error.filename} is not on this machine; "
                "--no-tail reads the table alone"
            ) from error
        changes = None
        if table.mode is Mode.UPSERT:
            changes = PendingChanges(table.keys, order_of(table))
        used = budget.used
        try:
            return columns, read_tail(topic_id, log, columns, plan, changes, budget, monotonic_ms)
        except NewerSchemaError:
            budget.used = used
    raise QueryError(f"topic '{topic}': the registry has a newer schema at each read; run it again")


def _both(
    engine: Engine,
    number: int,
    side: _Side,
    log: Reader,
    topic: Topic,
    stable: ByPartition,
    budget: Budget,
    env: Mapping[str, str],
) -> Holds:
    """Read a topic's log and make its view. Raises QueryError."""
    found = side.found
    sides = Sides(
        topic=topic,
        found=None if found is None else found.found,
        others=() if found is None else found.others,
        committed={p: at for p, at in side.committed.items() if p in topic.bounds},
    )
    # By the writer's own rules: what it would refuse to continue has no exact answer either.
    plan = tail_of(side.table, sides, stable)
    columns, rows = _rows(side, log, topic.id, plan, budget, env)
    _view(engine, number, side, columns, rows)
    return Holds(
        topic=side.table.topic,
        ends=plan.ends,
        version=None if found is None else found.version,
        table_rows=None if found is None else found.rows,
        tail_rows=rows.rows.num_rows,
        what="change" if side.table.mode is Mode.UPSERT else "row",
        bad=rows.bad,
        named=rows.named,
    )


def _view(engine: Engine, number: int, side: _Side, columns: Columns, log: TailRows) -> None:
    """Make the view of a topic over its table and its log. Raises QueryError."""
    table, found = side.table, side.found
    rows, changes = f"__josefine_table_{number}", f"__josefine_log_{number}"
    upserts = table.mode is Mode.UPSERT
    removed: tuple[str, ...] = ()
    schema = columns.schema
    if found is not None:
        removed = _fitting(side, columns, found)
        schema = relations.merged(table.topic, found.schema, columns.schema)
        engine.add(rows, found.dataset(schema))
    check_names(table.topic, schema.names)
    # Each case has a view of its own, so that the optimizer sees no more than there is.
    if not upserts:
        engine.add(changes, _cast(log.rows, schema))
        if found is None:
            engine.create(relations.table_view(side.name, changes))
        else:
            engine.create(relations.append_view(side.name, rows, changes))
    elif found is None:
        engine.keep(changes, log.rows)
        engine.create(relations.changes_view(side.name, changes, schema.names))
    elif log.rows.num_rows == 0:
        engine.create(relations.table_view(side.name, rows))
    else:
        own = columns.file_schema
        wide = [schema.field(n) if n in schema.names else own.field(n) for n in own.names]
        engine.keep(changes, _cast(log.rows, pa.schema(wide)))
        engine.create(
            relations.upsert_view(
                side.name, rows, changes, schema.names, table.keys, order_of(table),
                own=frozenset(columns.schema.names), removed=removed,
            )
        )  # fmt: skip


def _fitting(side: _Side, columns: Columns, found: Snapshot) -> tuple[str, ...]:
    """The columns that the topic has no more. Raises QueryError if the table's writer would refuse
    the log's rows."""
    said = found.found.said if isinstance(found.found, Tip) else {}
    other = other_rows(said, side.table.mode.value, side.table.keys) if said else None
    if other:
        what = other.replace("the file", "the topic")
        raise QueryError(
            f"topic '{side.table.topic}': its table {what}; --no-tail reads the table alone"
        )
    wanted = Schema.from_arrow(columns.schema)
    result = fit(found.delta, wanted, said, side.table.evolution)
    if isinstance(result, str):
        raise QueryError(
            f"topic '{side.table.topic}': its table does not fit its log: {result}; --no-tail reads"
            " the table alone"
        )
    return result.removed


def _cast(rows: Any, schema: pa.Schema) -> Any:
    """Rows with all columns of `schema`; those that they lack are null."""
    found = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(found, schema=schema)
