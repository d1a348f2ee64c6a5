"""The real world of a table's writer: a Kafka client, tables by delta-rs, the process's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import groups
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.leases import GROUP
from josefine_lake.config.table_topic import Evolution, Mode, TableTopic
from josefine_lake.report.table_stats import TableStats
from josefine_lake.writer import failpoints, verdicts
from josefine_lake.writer.changes import PendingChanges
from josefine_lake.writer.columns import order_of
from josefine_lake.writer.delta_table import ChainedArchive, ChainedTable
from josefine_lake.writer.ports import File
from josefine_lake.writer.table_writer import World
from josefine_lake.writer.topic_reader import TopicReader
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.config.output_paths import in_s3
from pipelines.exactly_once.other_chains import ChainName
from pipelines.sinks.commits import Link
from pipelines.storage.folders import Folders, TableFolder
from pipelines.storage.location import StorageError

NOTE_BYTES_MAX = 2_048
"""Of a reason: brokers refuse metadata over 4,096 bytes."""
NOTE_MS_MAX = 5_000


def monotonic_ms() -> int:
    """The clock of due times."""
    return time.monotonic_ns() // 1_000_000


def world_of(
    table: TableTopic,
    client: BlockingClient,
    env: Mapping[str, str],
    commit_offsets: Callable[[ByPartition], None],
    stats: TableStats | None = None,
) -> World:
    """The world of one table. Raises StoppedTable for a place that cannot be written."""
    folders, run = Folders({}, env), uuid4().hex
    merges = table.mode is Mode.UPSERT
    main = _table(table, folders, table.location, table.chain, run, table.evolution, merges=merges)
    letters = None
    if table.dead_letter is not None:
        # A pipeline that had the table may have made this one, without headers.
        letters = _table(
            table, folders, table.dead_letter, table.dead_letter_chain, run, Evolution.ADD
        )

    def committed() -> ByPartition:
        partitions = client.metadata([table.topic]).partitions_of(table.topic)
        return client.committed_offsets(GROUP, partitions)

    def open_file(store: Any, schema: Any) -> File:
        if store is main and table.mode is Mode.UPSERT:
            return PendingChanges(table.keys, order_of(table))
        return store.new_file(store.folder, schema, store.indexed_columns)

    return World(
        log=TopicReader(client, table.topic),
        store=main,
        letters=letters,
        open_file=open_file,
        clock_ms=monotonic_ms,
        wall_ms=lambda: time.time_ns() // 1_000_000,
        committed=committed,
        commit_offsets=commit_offsets,
        note_stop=lambda tp, offset, why: note_stop(client, tp, offset, why),
        at=failpoints.hit,
        stats=stats or TableStats(),
        env=env,
    )


def note_stop(client: BlockingClient, tp: TopicPartition, offset: int, why: str) -> None:
    """Store why a table stopped, as the metadata of its group's offset. The next commit of the
    partition replaces it."""
    text = why.encode()[:NOTE_BYTES_MAX].decode(errors="ignore")
    with suppress(KafkaError):
        client.commit_offsets(GROUP, {tp: offset}, metadata=text, timeout_ms=NOTE_MS_MAX)


def noted_stop(client: BlockingClient, topic: str) -> str:
    """The newest reason that `note_stop` stored for a topic; empty without one."""
    partitions = client.metadata([topic]).partitions_of(topic)
    found = client.run(lambda s, t, d: groups.committed(s, GROUP, partitions, t, d))
    return next((each.metadata for _, each in sorted(found.items()) if each.metadata), "")


def _table(
    table: TableTopic,
    folders: Folders,
    where: str,
    name: ChainName,
    run: str,
    evolution: Evolution = Evolution.NONE,
    *,
    merges: bool = False,
) -> ChainedTable:
    folder = opened(table, folders, where)
    link = Link(pipeline=name.pipeline, sink=name.sink, run=run)
    made = ChainedArchive if table.is_archive else ChainedTable
    return made(folder, link, evolution, merges=merges)


def opened(table: TableTopic, folders: Folders, where: str) -> TableFolder:
    """The folder of a table. Raises StoppedTable."""
    try:
        folder = folders.open(where)
    except StorageError as error:
        raise verdicts.stopped(table, str(error)) from error
    if folder is None or not (folder.at is None or in_s3(where)):
        raise verdicts.stopped(table, f"{where}: only folders and S3 are written")
    return folder


def committer(client: BlockingClient) -> Callable[[ByPartition], None]:
    """Stores offsets for the group outside of any generation. Raises KafkaError."""

    def commit(offsets: Mapping[TopicPartition, int]) -> None:
        client.commit_offsets(GROUP, offsets)

    return commit
