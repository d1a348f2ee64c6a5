"""A log that lost archived records to another leader is noticed before more is archived."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from josefine_broker.base.archive_note import ArchivedRecord
from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import FetchedPartition
from josefine_lake.archive import newest
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.writer import ArchiveReader, ArchiveWriter
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.state import TableState
from josefine_lake.writer.topic_reader import OutOfRangeError, Read
from josefine_lake.writer.verdicts import StoppedTable
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.exactly_once.other_chains import ChainName, OtherChain
from tests.unit.josefine_broker.api.world import batch_of
from tests.unit.josefine_lake.world import TOPIC, Lake, MemoryLog, records

TP = TopicPartition(TOPIC, 0)


class Log(MemoryLog):
    """`epochs`: of each offset, the last one of all that follow."""

    def __init__(self, archived: Archived) -> None:
        super().__init__(archived)
        self._archived = archived

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        for tp, at in positions.items():
            if at < self._archived.first[tp.partition]:
                raise OutOfRangeError(f"{tp}: {at}")
        reads, epochs = super().fetch(positions, wait_ms), self._archived.epochs
        found = []
        for each in reads:
            rows = each.batches[0].to_pylist()
            for row in rows:
                row["leader_epoch"] = epochs[min(row["offset"], len(epochs) - 1)]
            batch = pa.RecordBatch.from_pylist(rows, schema=ARCHIVE_SCHEMA)
            found.append(
                Read(
                    partition=each.partition,
                    batches=[batch],
                    next_offset=each.next_offset,
                    end=each.end,
                )
            )
        return found


class Writer(ArchiveWriter):
    """Its table is in memory, so nobody can have dropped it."""

    def _report(self, state: TableState) -> None:
        self._notes.commit({})


class Archived(Lake):
    """An archived topic with one partition."""

    def __init__(self) -> None:
        super().__init__(1)
        self.table = TableTopic(topic=TOPIC, location="/t", dead_letter=None, is_archive=True)
        self.letters = False
        self.epochs = [4]
        self.stops: list[str] = []

    def archive(self, *, trust: bool = False) -> None:
        """One writer, up to the end."""
        world = self.world(lambda place: None)
        notes = ArchiveNotes(mock.Mock(), TOPIC)

        def reached(offsets: ByPartition) -> None:
            notes.last = dict(notes.read)
            self.group.update(offsets)

        changed = {"log": Log(self), "commit_offsets": reached}
        world = type(world)(**{**_fields(world), **changed})
        with mock.patch.object(notes, "stop", self.stops.append):
            Writer(self.table, world, notes, lambda: None).run(
                lambda: False, once=True, trust=trust
            )

    def replaced_from(self, offset: int, epoch: int, *values: bytes) -> None:
        """Another leader ended the log here, and wrote these."""
        self.values[0][offset:] = values
        self.epochs = [4] * offset + [epoch]

    def offsets(self) -> list[int]:
        return [row["offset"] for row in self.main.rows]


def _fields(world: Any) -> dict[str, Any]:
    return {name: getattr(world, name) for name in type(world).__dataclass_fields__}


@pytest.fixture
def topic() -> Archived:
    found = Archived()
    found.send(0, b"a", b"b", b"c")
    found.archive()
    assert newest.newest_of(found.main.commits[-1][2], TOPIC) == {TP: ArchivedRecord(2, 4)}
    return found


def test_next_leader_that_has_all_archived_records_is_followed(topic: Archived) -> None:
    topic.replaced_from(3, 5, b"d", b"e")

    topic.archive()

    assert topic.offsets() == [0, 1, 2, 3, 4]
    assert not topic.stops


def test_log_with_other_records_at_archived_offsets_stops_the_writer(topic: Archived) -> None:
    topic.replaced_from(1, 5, b"B", b"C")  # as many as the archive has: nothing to read

    for _ in range(2):  # a start never makes it right
        with pytest.raises(StoppedTable, match="another record at offset 2"):
            topic.archive()
    topic.send(0, b"D")
    assert (topic.offsets(), topic.group) == ([0, 1, 2], {TP: 3})
    assert len(topic.stops) == 2

    topic.archive(trust=True)
    assert topic.offsets() == [0, 1, 2, 3]
    topic.archive()  # and from here on the log is the archive's again


def test_log_that_was_ended_while_the_writer_reads_stops_it(topic: Archived) -> None:
    topic.send(0, b"d", b"e", b"f")
    looks = iter(range(10))

    def change() -> None:
        if next(looks) == 2:  # after the check of the start and the first read, of two records
            topic.replaced_from(4, 5, b"E", b"F", b"G")

    topic.before_fetch = change

    with pytest.raises(StoppedTable, match="another record at offset 4"):
        topic.archive()
    assert topic.offsets() == [0, 1, 2]


def test_record_that_retention_has_deleted_is_not_looked_for(topic: Archived) -> None:
    topic.replaced_from(3, 5, b"d", b"e")
    topic.first = [3]

    topic.archive()

    assert topic.offsets() == [0, 1, 2, 3, 4]


def test_table_with_the_rows_of_others_does_not_become_an_archive() -> None:
    """A user gave two topics the same location."""
    topic = Archived()
    topic.send(0, b"a")
    name = ChainName(pipeline="archive", sink="other")
    topic.main.others = [
        OtherChain(name=name, reached=TopicOffsets(ends={}, topic_ids={"other": "9"}))
    ]

    for trust in (False, True):
        with pytest.raises(StoppedTable, match=r"has the rows of .*other.*a table of its own"):
            topic.archive(trust=trust)
    assert topic.offsets() == []


def test_topic_that_was_created_again_never_continues_the_archive(topic: Archived) -> None:
    """The archive would have two records at each offset."""
    topic.id = "2"
    topic.values = [[b"A"]]

    for trust in (False, True):
        with pytest.raises(StoppedTable, match="created again") as stop:
            topic.archive(trust=trust)
        assert "josefine.archive.location=/ANOTHER/TABLE" in str(stop.value)
    assert topic.offsets() == [0, 1, 2]


@pytest.mark.parametrize(
    "said", [{}, {newest.FACT: 1}, {newest.FACT: {"a": [1, 2]}}, {newest.FACT: {"0": [1]}}]
)
def test_commits_without_a_newest_record_show_nothing(said: dict[str, Any]) -> None:
    assert newest.newest_of(said, TOPIC) == {}


def test_read_that_the_archive_answered_is_no_other_record() -> None:
    """Between look and read retention has deleted it, which it does only if it is archived."""
    batch = records(0, 2, [b"c"]).append_column("leader_epoch", pa.array([None], pa.int32()))
    read = Read(partition=TP, batches=[batch], next_offset=3, end=3)

    assert newest.is_there([read], TP, ArchivedRecord(2, 4))
    assert newest.is_there([], TP, ArchivedRecord(2, 4)) is None


def test_offset_of_a_marker_or_an_aborted_record_is_a_witness_too() -> None:
    """After an unclean election a record may have it. Its epoch is that of its batch."""
    data = batch_of(b"0", b"1", base_offset=4, leader_epoch=2)
    marker = batch_of(b"m", base_offset=6, leader_epoch=3)
    later = batch_of(b"7", base_offset=7, leader_epoch=3)
    records = memoryview(bytes(data) + bytes(marker) + bytes(later))

    def ends(position: int, next_offset: int) -> Any:
        return newest.ends_of(records, position, next_offset)

    assert ends(4, 7) == (ArchivedRecord(4, 2), ArchivedRecord(6, 3))
    assert ends(5, 8) == (ArchivedRecord(5, 2), ArchivedRecord(7, 3))
    assert ends(6, 7) == (ArchivedRecord(6, 3), ArchivedRecord(6, 3))
    assert ends(8, 8) is None
    read = Read(partition=TP, batches=[], next_offset=7, end=8, ends=ends(6, 7))
    assert newest.records_in(read) == (ArchivedRecord(6, 3), ArchivedRecord(6, 3))
    assert newest.is_there([read], TP, ArchivedRecord(6, 2)) is False
    assert newest.is_there([read], TP, ArchivedRecord(6, 3)) is True


def test_archives_reader_reports_the_ends_of_what_it_read() -> None:
    data = batch_of(b"0", b"1", base_offset=4, leader_epoch=2)
    answer = FetchedPartition(
        records=memoryview(data),
        high_watermark=6,
        last_stable_offset=6,
        log_start_offset=0,
        error_code=ErrorCode.none,
    )
    client = mock.Mock()
    client.fetch.return_value = {TP: answer}

    (read,) = ArchiveReader(client, TOPIC).fetch({TP: 5}, 0)

    assert read.ends == (ArchivedRecord(5, 2), ArchivedRecord(5, 2))
