"""Reads below the local log start from an archive's own files, for `archive=auto`.

Rules: a topic's archive is found by its configs, once for each topic and process; a
topic without one is asked for again after a while. Below the local log start (ListOffsets -4) the
files are read, above it the brokers: the broker's answer to the same question moves the seam, so no
offset is read twice or left out while retention deletes. `josefine_lake` is loaded by its name,
because who reads brokers alone does not install it.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.batches.columns import arrow_schema
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient
from josefine_spark.base.errors import OptionError
from josefine_spark.options.connections import client_for
from josefine_spark.options.options import Connection, ReadOptions
from josefine_spark.read.local_start import EARLIEST_LOCAL

PROVIDER = "josefine_lake.archive.files"
AGAIN_S = 60.0
"""After this time a topic without an archive is asked for again."""

_Known = tuple[Any, float]
_known: dict[tuple[int, Connection, str, str], _Known] = {}
"""(process, brokers, topic, topic id) → its archive or None, and when it was looked up."""


def archive_of(connection: Connection, topic: str, topic_id: str) -> Any | None:
    """The archive of a topic; None: it has none. Raises KafkaError, OptionError."""
    key = os.getpid(), connection, topic, topic_id
    found, at_s = _known.get(key, (None, -AGAIN_S))
    now_s = time.monotonic()
    if found is None and now_s - at_s >= AGAIN_S:
        found = _provider().open_archive(client_for(connection), topic, topic_id, os.environ)
        _known[key] = found, now_s
    return found


def _provider() -> Any:
    try:
        return importlib.import_module(PROVIDER)
    except ImportError as error:
        raise OptionError(
            f"archive=auto needs the package josefine-lake on the driver and every executor "
            f"({error}): install it, or use archive=broker"
        ) from error


class ArchivedClient:
    """The client of a planner: starts and times are those of archive and log together."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(client_for(self._connection), name)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, Any]:
        """As the client's; offsets below the local log start are found in the archive. Raises
        KafkaError."""
        client = client_for(self._connection)
        found = dict(client.list_offsets(wanted, isolation_level=isolation_level))
        below = [tp for tp, at in wanted.items() if at == EARLIEST or at >= 0]
        archives = self._archives(client, below)
        local = client.list_offsets(dict.fromkeys(archives, EARLIEST_LOCAL)) if archives else {}
        for tp, archive in archives.items():
            end = local[tp].offset
            if not end:
                continue
            if wanted[tp] == EARLIEST:
                first = archive.start(tp.partition)
            else:
                first = archive.at_time(tp.partition, wanted[tp], end)
            if first is not None and not 0 <= found[tp].offset < first:
                found[tp] = replace(found[tp], offset=first)
        return found

    def first_ms(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The timestamp of the first record at each position that only the archive has. Raises
        KafkaError, OptionError."""
        client = client_for(self._connection)
        archives = self._archives(client, list(positions))
        local = client.list_offsets(dict.fromkeys(archives, EARLIEST_LOCAL)) if archives else {}
        found = {}
        for tp, start in local.items():
            if positions[tp] < start.offset:
                rows, _ = archives[tp].rows(tp.partition, positions[tp], start.offset)
                if rows is not None and rows.num_rows:
                    first_us = rows.column("timestamp").cast(pa.int64())[0].as_py()
                    if first_us is not None:
                        found[tp] = first_us // 1_000
        return found

    def _archives(
        self, client: BlockingClient, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Any]:
        if not partitions:
            return {}
        cluster = client.metadata(sorted({tp.topic for tp in partitions}))
        opened = {
            topic: archive_of(self._connection, topic, str(cluster.topic_id(topic) or ""))
            for topic in cluster.topics
        }
        return {tp: opened[tp.topic] for tp in partitions if opened.get(tp.topic) is not None}


def batches_of(rows: Any, options: ReadOptions) -> Iterator[Any]:
    """Archived rows as the record batches that the decoder makes of the same records."""
    if options.rows.from_ms is not None:
        since = pa.scalar(options.rows.from_ms * 1_000, pa.int64())
        rows = rows.filter(pc.greater_equal(rows.column("timestamp").cast(pa.int64()), since))
    if options.rows.keys is not None:
        keys = pa.array(sorted(options.rows.keys), pa.binary())
        rows = rows.filter(pc.is_in(rows.column("key"), value_set=keys))
    schema = arrow_schema(options.include_headers, options.columns)
    for batch in rows.select(schema.names).cast(schema).to_batches():
        if batch.num_rows:
            yield batch
