"""The log cleaner over real segments of a partition with transactions. Checklist row 38."""

from __future__ import annotations

from collections.abc import Iterator

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import EXPIRATION_MS, ProducerState
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.cleaner import Candidate, Cleaner, CleanerSettings
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.control import Marker, build_marker
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import ManualClock
from tests.unit.josefine_broker.host.log.cleaning import records_of
from tests.unit.josefine_broker.host.log.support import NOW_MS
from tests.unit.josefine_broker.host.log.test_cleaner import LateWorker

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=10_000,
    segment_records=6,
    index_interval_bytes=100,
    delete_retention_ms=0,
)


class World:
    """One partition, its log and the cleaner, which the test steps."""

    def __init__(self) -> None:
        self.files, self.clock, self.worker = MemoryFiles(), ManualClock(), LateWorker()
        self.jobs: list[Job] = []
        self.flushes = True
        self.sequences = [0, 0]
        self.start(ProducerState())
        self.cleaner = Cleaner(
            self.files,
            self.candidates,
            self.worker,
            self.clock,
            CleanerSettings(backoff_ms=0, map_bytes_max=1 << 16),
        )

    def start(self, producers: ProducerState) -> None:
        self.log = PartitionLog.open(
            self.files,
            "t-0",
            CONFIG,
            NOW_MS,
            False,
            schedule=self.schedule,
            on_snapshot=producers.restore,
            on_batch=lambda header, batch: producers.take(header, batch, NOW_MS),
        )
        self.partition = Partition(producers, LeaderEpochs(), 10**6)
        self.log.snapshot_source = producers.snapshot

    def schedule(self, job: Job) -> None:
        """What the flusher is to do, now or when the test says."""
        self.jobs.append(job)
        while self.flushes and self.jobs:
            self.jobs.pop(0)()

    def restart(self) -> None:
        self.log.abandon()
        self.start(ProducerState())

    def candidates(self) -> Iterator[Candidate | None]:
        yield Candidate(TopicPartition("t", 0), self.partition, self.log)

    def write(self, key: bytes, value: bytes, producer: int = -1) -> None:
        batch = build_batch(
            [Record(key, value, (), NOW_MS)],
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=-1 if producer < 0 else self.sequences[producer],
            transactional=producer >= 0,
        )
        if producer >= 0:
            self.sequences[producer] += 1
        self._append(batch)

    def end(self, producer: int, *, is_commit: bool) -> None:
        self._append(build_marker(producer, 0, Marker(is_commit, 0), NOW_MS))

    def _append(self, batch: bytearray) -> None:
        stamp(batch, 0, self.log.log_end_offset, 0)
        header = parse_header(batch)
        self.log.append(memoryview(batch), header, NOW_MS)
        self.partition.producers.take(header, batch, NOW_MS)

    def fill(self, count: int = 12) -> None:
        """Enough that what is before lies in full segments, and is dirty."""
        for n in range(count):
            self.write(b"filler", b"%d" % n)

    def clean(self) -> int:
        """All passes that are due; how many."""
        count = 0
        while count < 50:
            for _ in self.cleaner.step():
                pass
            if not self.worker.jobs:
                return count
            self.worker.jobs.pop()()
            count += 1
        raise AssertionError("it is never clean")

    def markers(self) -> list[int]:
        """Offsets of those in the log."""
        found: list[int] = []
        self.log.replay(None, lambda h, _: found.append(h.base_offset) if h.is_control else None)
        return found

    @property
    def aborted(self) -> int:
        return len(self.partition.producers.transactions.aborted)


def transactions(world: World) -> None:
    """Two committed ones of one key, one aborted, one more aborted by another producer."""
    for n, is_commit in enumerate((True, False, True)):
        world.write(b"k", b"%d" % n, producer=0)
        world.end(0, is_commit=is_commit)
    world.write(b"k", b"never", producer=1)
    world.end(1, is_commit=False)


def values(world: World) -> list[bytes | None]:
    """Of the key that transactions wrote, without the markers' records."""
    return [record.value for record in records_of(world.log) if record.key == b"k"]


def test_of_transactions_the_last_committed_value_of_a_key_is_left() -> None:
    world = World()
    transactions(world)
    world.fill()

    assert world.clean() == 1

    assert values(world) == [b"2"]
    assert world.aborted == 1, "producer 1 is remembered by an empty batch, so its marker is needed"


def test_nothing_is_cleaned_from_an_open_transaction_on() -> None:
    world = World()
    world.write(b"k", b"0", producer=0)
    world.fill()
    world.write(b"k", b"1", producer=0)
    world.fill()
    assert world.clean() == 0

    world.end(0, is_commit=True)
    world.fill()
    assert world.clean() == 1
    assert values(world) == [b"1"]


def test_markers_go_when_their_records_are_gone_and_no_snapshot_needs_them() -> None:
    """A start between any two passes knows which transactions are open and aborted."""
    world = World()
    world.write(b"first", b"of its leader epoch, whose header stays")
    transactions(world)
    before = world.markers()
    for n in range(9):
        world.write(b"k", b"more", producer=n % 2)
        world.end(n % 2, is_commit=True)
        world.fill()
        world.clean()
        if n % 3 == 0:  # what a start from a snapshot remembers is forgotten anew by a pass
            world.restart()
        producers = world.partition.producers
        assert producers.transactions.open_ids == ()
        told = {each.marker_offset for each in producers.transactions.aborted}
        assert told <= set(world.markers())
        assert values(world)[-1] == b"more"

    assert not set(before) & set(world.markers())
    assert world.aborted == 0


def test_snapshot_of_an_open_transaction_keeps_its_marker() -> None:
    """A start from it finds the end of the transaction behind it."""
    world = World()
    world.write(b"first", b"of its leader epoch")
    world.write(b"k", b"0", producer=0)
    world.write(b"k", b"1", producer=0)
    for _ in range(3):
        world.write(b"k", b"2")
    world.write(b"k", b"rolls", producer=1)  # and with it comes a snapshot
    (snapshot,) = world.log.state.snapshot_offsets()
    world.end(0, is_commit=False)
    world.end(1, is_commit=True)
    (marker, _) = world.markers()
    world.partition.producers.expire(NOW_MS + EXPIRATION_MS)  # else its last batch stays
    for _ in range(4):
        world.fill(6)
        world.clean()
        world.log.state.remove_snapshots_past(snapshot)

    assert world.aborted == 0
    assert marker in world.markers()
    world.restart()
    assert world.partition.producers.transactions.open_ids == ()


def test_no_marker_goes_while_the_flusher_has_a_snapshot_to_store() -> None:
    world = World()
    transactions(world)
    world.write(b"k", b"more", producer=0)
    world.end(0, is_commit=True)
    world.fill()
    world.clean()
    world.fill(6)
    world.clean()
    kept = world.markers()
    world.flushes = False
    world.fill(6)
    world.jobs.pop(0)()  # the segment is sealed, the snapshot is still to come

    world.clean()
    assert world.markers() == kept
    world.flushes = True
    for _ in range(3):
        world.fill()
        world.clean()
    assert len(world.markers()) < len(kept)
