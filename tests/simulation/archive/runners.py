"""Runners of the archive's writer: the real one, on a thread that moves only when it is its turn.

The writer, its chain, its table and its notes are the product's, on a real Delta table in a folder.
The topic, the group's offsets, the clock and the failures are modelled. Before each call of the
world a runner gives its turn back, so that anything may happen meanwhile, also its death.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from josefine_broker.base.archive_note import ArchivedRecord
from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_lake.archive.writer import ArchiveWriter, archive_writer
from josefine_lake.writer import merge
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.process import AGAIN
from josefine_lake.writer.start import Topic
from josefine_lake.writer.topic_reader import OutOfRangeError, Read
from josefine_lake.writer.verdicts import StoppedTable
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.offset_chain import Verdict
from tests.simulation.archive.brokers import TOPIC

if TYPE_CHECKING:
    from tests.simulation.archive.world import World

FETCH_RECORDS = 4
PAUSES_MS = (500, 30_000)
"""After a failure of the world, and after a verdict, as in `writer/process.py`."""
FAILURES = (KafkaError, CorruptData, OutOfRangeError, DeltaError, OSError)
TURN_S = 60
"""Of the real clock: a runner that does not come back hangs."""


class KilledError(BaseException):
    """The process died here."""


class Log:
    """The topic, as the leaders have it. Implements `writer.ports.Log`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def look(self) -> Topic:
        cluster = self._runner.called("look")
        bounds = {
            tp: Bounds(each.leader.start, each.high_watermark)
            for tp, each in cluster.partitions.items()
        }
        return Topic(name=TOPIC, id=str(cluster.topic_id), bounds=bounds)

    def topic_id(self) -> str:
        return str(self._runner.world.cluster.topic_id)

    def stable_ends(self, partitions: Mapping[Any, int]) -> ByPartition:
        cluster = self._runner.called("ends")
        return {tp: cluster.partitions[tp].high_watermark for tp in partitions}

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        cluster = self._runner.called("fetch")
        found = []
        for tp, at in positions.items():
            each = cluster.partitions[tp]
            if not each.leader.start <= at <= len(each.leader.records):
                raise OutOfRangeError(f"{tp}: {at}")
            end = min(at + FETCH_RECORDS, each.high_watermark)
            rows = [
                {"key": b"k", "value": record.value, "topic": TOPIC, "partition": tp.partition,
                 "offset": offset, "timestamp": record.time_ms * 1_000, "timestampType": 0,
                 "headers": None, "leader_epoch": record.epoch}
                for offset, record in enumerate(each.leader.records[at:end], at)
                if record.value is not None
            ]  # fmt: skip
            if end > at:
                batch = pa.RecordBatch.from_pylist(rows, ARCHIVE_SCHEMA)
                ends = [ArchivedRecord(o, each.leader.records[o].epoch) for o in (at, end - 1)]
                read = Read(
                    partition=tp, batches=[batch], next_offset=end, end=each.high_watermark,
                    ends=(ends[0], ends[1]),
                )  # fmt: skip
                found.append(read)
        return found


class Client:
    """What the writer's notes and settings ask brokers for."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def metadata(self, topics: Any) -> Any:
        tps = tuple(self._runner.world.cluster.partitions)
        return SimpleNamespace(partitions_of=lambda topic: tps)

    def run(self, operation: Any) -> Any:
        """`ArchiveNotes.committed`."""
        cluster = self._runner.called("committed")
        return {tp: cluster.offsets[tp] for tp in cluster.partitions if tp in cluster.offsets}

    def commit_offsets(self, group: str, offsets: Any, *, metadata: Any, timeout_ms: int) -> None:
        cluster = self._runner.called("note")
        self._runner.world.met["note"] += 1
        cluster.commit(offsets, metadata)
        if self._runner.world.fails("answer lost"):
            raise KafkaError(ErrorCode.request_timed_out)

    def describe_configs(self, topics: Any) -> Any:
        cluster = self._runner.called("configs")
        value = None if cluster.retention_ms is None else str(cluster.retention_ms)
        bounds = {"retention.ms": value, "retention.bytes": None}
        return {TOPIC: {name: SimpleNamespace(value=each) for name, each in bounds.items()}}


class Runner:
    """One process. It runs while `wants`, and after a failure again. Mutable."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.place = ""
        """Where it waits for its turn; empty: it does not run."""
        self.is_leaving = False
        """It has heard that its lease is another's."""
        self.verdict = self.failure = ""
        """Why it stopped last, as a verdict for a person and in any case."""
        self.from_ms = 0
        """It starts again from this time on."""
        self._dies = False
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._broken: BaseException | None = None
        self.thread = 0

    @property
    def runs(self) -> bool:
        return bool(self.place)

    def start(self, *, trust: bool = False, once: bool = False) -> None:
        """It waits for its first turn."""
        self.place, self.is_leaving, self._dies = "start", False, False
        threading.Thread(target=self._run, args=(trust, once), daemon=True).start()

    def turn(self) -> None:
        """Let it go on to its next call. Raises what the writer may never raise."""
        self._mine.release()
        assert self._theirs.acquire(timeout=TURN_S), f"{self.name} hangs after {self.place}"
        if self._broken is not None:
            raise self._broken

    def kill(self) -> None:
        if self.runs:
            self.world.met["kill"] += 1
            self._dies = True
            self.turn()

    def called(self, place: str) -> Any:
        """Give the turn back, and go on with the next one; the cluster as it is then."""
        self.place, since_ms = place, self.world.now_ms
        self._theirs.release()
        self._mine.acquire()
        self.world.slowest_ms = max(self.world.slowest_ms, self.world.now_ms - since_ms)
        if self._dies:
            raise KilledError
        if place not in ("before_commit", "written") and self.world.fails("no broker"):
            raise KafkaError(ErrorCode.network_exception)
        return self.world.cluster

    def write(self, *of: Any) -> None:
        """The commit of delta-rs, which may fail before, or lose its answer after."""
        self.called("write")
        if self.world.fails("commit refused"):
            raise CommitFailedError("a conflict")
        merge.write(*of)
        self.world.met["commit"] += 1
        self.called("written")
        if self.world.fails("commit answer lost"):
            raise OSError("no answer")

    def _run(self, trust: bool, once: bool) -> None:
        self.thread = threading.get_ident()
        self._mine.acquire()
        why: str = ""
        try:
            if not self._dies:
                self._writer().run(lambda: self.is_leaving, trust=trust, once=once)
        except KilledError:
            pass
        except StoppedTable as error:
            verdict = error.stopped.verdict
            pause_ms = PAUSES_MS[0 if verdict in AGAIN else 1]
            self.from_ms = self.world.now_ms + pause_ms
            why = "" if verdict in AGAIN else (verdict.name if verdict else error.stopped.what)
            self.world.met[f"stop {(verdict or Verdict.TABLE_BEHIND).name.lower()}"] += 1
            self.failure = str(error)
        except FAILURES as error:
            self.failure = f"{type(error).__name__}: {error}"
            self.from_ms = self.world.now_ms + PAUSES_MS[0]
        except BaseException as error:
            self._broken = error
        # The next thread may get this one's number.
        self.verdict, self.place, self.thread = why, "", 0
        self._theirs.release()

    def _writer(self) -> ArchiveWriter:
        """The product's writer, with a modelled topic and clock."""
        world, client = self.world, Client(self)
        writer = archive_writer(world.table, client, {})  # type: ignore[arg-type]
        writer._world = replace(
            writer._world,
            log=Log(self),
            clock_ms=lambda: world.now_ms,
            wall_ms=lambda: world.wall_ms,
            at=self._at,
        )
        return writer

    def _at(self, place: str) -> None:
        self.called(place)
