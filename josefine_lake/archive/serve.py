"""The archive reader's process: brokers of this machine ask it for records below their local start.

Protocol: one JSON object in a line per request, `{topic, topic_id, partition, offset, end, bytes}`;
the answer is one, `{size, next, start, error}`, followed by `size` bytes of record batches. With
`time` for `offset` and `bytes` it is `{size, offset, timestamp, error}`, with `epoch`
`{size, offset, epoch, error}`. A connection may ask again. It listens on this machine alone,
because it asks nobody who they are.
"""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from deltalake.exceptions import DeltaError

from josefine_broker.base.archive_note import archive_note
from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.config import archive_topic
from josefine_lake.archive.encode import Encoded, encoded, warm_up
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.reader import NO_OFFSET, ArchiveTable
from josefine_lake.writer.discovery import Discovered, discover
from josefine_lake.writer.little_memory import unmap_code
from josefine_lake.writer.verdicts import StoppedTable

REQUEST_BYTES_MAX = 4_096
BYTES_MAX = 8 << 20
LOOK_S = 3.0
LOOK_AGAIN_S = 20.0
"""The archive's retention deletes records of versions that were looked at."""
HOST = "127.0.0.1"


class Archives:
    """The archives of a cluster, looked at again when a range is not in one. Thread-safe."""

    def __init__(self, open_client: Callable[[], BlockingClient], env: Mapping[str, str]) -> None:
        self._open_client = open_client
        self._env = env
        self._lock = threading.Lock()
        self._found = Discovered()
        self._tables: dict[str, tuple[threading.Lock, ArchiveTable]] = {}

    def discover(self) -> None:
        """Find the archived topics. Raises KafkaError."""
        with self._open_client() as client:
            found = discover(client, parse=archive_topic)
        with self._lock:
            self._found = found
            kept = {
                topic: each
                for topic, each in self._tables.items()
                if found.tables.get(topic) == each[1].archive
            }
            self._tables = kept

    def read(self, asked: Mapping[str, Any]) -> tuple[Encoded, int]:
        """(records, the archive's first offset of the partition). Raises LookupError with a
        sentence for what is not there, and errors of the storage."""
        topic, partition = str(asked["topic"]), int(asked["partition"])
        between = int(asked["offset"]), int(asked["end"])
        how = str(asked["topic_id"]), partition, between, min(int(asked["bytes"]), BYTES_MAX)
        lock, table = self._table(topic)
        with lock:
            is_old = time.monotonic() - table.looked_s >= LOOK_AGAIN_S
            if is_old or table.end(partition) < between[1] or table.start(partition) == NO_OFFSET:
                table.look()
                if table.start(partition) == NO_OFFSET:
                    self._refuse_gone(table, how[0], partition)
            try:
                return self._read(table, *how)
            except FileNotFoundError:
                # A compaction has replaced the file since the last look, and VACUUM removed it.
                table.look()
                return self._read(table, *how)

    def _read(
        self,
        table: ArchiveTable,
        topic_id: str,
        partition: int,
        between: tuple[int, int],
        bytes_max: int,
    ) -> tuple[Encoded, int]:
        offset, end = between
        check_topic(table, topic_id)
        start = table.start(partition)
        end = min(end, table.end(partition))
        if start == NO_OFFSET or offset < start or offset >= end:
            return Encoded(b"", offset), start
        rows, until = table.rows(partition, offset, end)
        found = encoded(rows, offset, bytes_max)
        all_taken = not rows.num_rows or found.next_offset > rows.column("offset")[-1].as_py()
        return Encoded(found.data, until if all_taken else found.next_offset), start

    def at_time(self, asked: Mapping[str, Any]) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after a time. Raises as `read` does."""
        partition, end = int(asked["partition"]), int(asked["end"])
        lock, table = self._table(str(asked["topic"]))
        with lock:
            table.look()
            check_topic(table, str(asked["topic_id"]))
            return table.at_time(partition, int(asked["time"]), end)

    def epoch_end(self, asked: Mapping[str, Any]) -> tuple[int, int] | None:
        """(offset of the first record of a later leader epoch, the epoch before it). Raises as
        `read` does."""
        partition, end = int(asked["partition"]), int(asked["end"])
        lock, table = self._table(str(asked["topic"]))
        with lock:
            table.look()
            check_topic(table, str(asked["topic_id"]))
            return table.epoch_end(partition, int(asked["epoch"]), end)

    def _refuse_gone(self, table: ArchiveTable, topic_id: str, partition: int) -> None:
        """Raise LookupError for an archive without records of which brokers know that it had some:
        consumers would skip them. Its folder may be on a file system that is not mounted."""
        topic = table.archive.topic
        with self._open_client() as client:
            found = ArchiveNotes(client, topic).committed().get(TopicPartition(topic, partition))
        note = archive_note(found.metadata) if found else None
        is_of_topic = note is None or note.topic_id == topic_id
        if found and is_of_topic and found.offset > table.end(partition):
            raise LookupError(
                f"the archive {table.archive.location} has no records of partition {partition}, "
                f"and had them up to {found.offset}: bring it back (josefine archive status)"
            )

    def _table(self, topic: str) -> tuple[threading.Lock, ArchiveTable]:
        with self._lock:
            if topic not in self._tables:
                archive = self._found.tables.get(topic)
                if archive is None:
                    raise LookupError(f"topic `{topic}` has no archive")
                self._tables[topic] = threading.Lock(), ArchiveTable(archive, self._env)
            return self._tables[topic]


def check_topic(table: ArchiveTable, topic_id: str) -> None:
    """Raises LookupError for the archive of another topic."""
    topic = table.archive.topic
    if table.offsets.topic_ids.get(topic) not in (None, topic_id):
        raise LookupError(f"the archive is of an earlier topic `{topic}`")


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    timeout = 60
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        """Answer until the other side ends, or sends nothing for a while: a broker opens another
        connection then."""
        with suppress(OSError):
            while line := self.rfile.readline(REQUEST_BYTES_MAX):
                answer, data = answered(self.server.archives, line)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
                self.wfile.write(data)


def answered(archives: Archives, line: bytes) -> tuple[dict[str, Any], bytes | memoryview]:
    """The answer to one line."""
    try:
        asked = json.loads(line)
        if "time" in asked:
            offset, time_ms = archives.at_time(asked) or (-1, -1)
            return {"size": 0, "offset": offset, "timestamp": time_ms, "error": ""}, b""
        if "epoch" in asked:
            offset, epoch = archives.epoch_end(asked) or (-1, -1)
            return {"size": 0, "offset": offset, "epoch": epoch, "error": ""}, b""
        found, start = archives.read(asked)
    except (LookupError, ValueError, TypeError, StoppedTable) as error:
        return {"size": 0, "next": -1, "start": -1, "error": f"{error}"}, b""
    except (OSError, DeltaError, KafkaError, CorruptData) as error:
        return {"size": 0, "next": -1, "start": -1, "error": f"archive not read: {error}"}, b""
    size = len(found.data)
    return {"size": size, "next": found.next_offset, "start": start, "error": ""}, found.data


class Server(socketserver.ThreadingTCPServer):
    """The listener of this machine."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, archives: Archives) -> None:
        """Raises OSError for a port that is taken."""
        self.archives = archives
        super().__init__((HOST, port), Handler)


def serve(
    port: int,
    archives: Archives,
    stopping: threading.Event,
    started: Callable[[int], None],
    report: Callable[[str], None],
) -> None:
    """Until `stopping`. Raises OSError for a port that is taken."""
    # The first request must not wait for a compiler.
    warm_up()
    unmap_code()
    with Server(port, archives) as server:
        started(int(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, name="archive reader", daemon=True)
        thread.start()
        failed = ""
        while True:
            try:
                archives.discover()
                failed = ""
            except KafkaError as error:
                if str(error) != failed:
                    report(f"topics not read, tried again: {error}")
                failed = str(error)
            if stopping.wait(LOOK_S):
                break
        server.shutdown()
        thread.join()
