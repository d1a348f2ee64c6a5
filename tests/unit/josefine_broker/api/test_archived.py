"""Archived topics: retention that waits, and reads below the local start."""

from typing import Any

import pytest

from josefine_broker.api.shared.archived_fetch import is_below
from josefine_broker.base.archive_note import ARCHIVE_GROUP, ArchiveNote
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.compose.archives import Archives
from josefine_broker.engine.coordinators.archive_ends import TABLES_GROUP, ArchiveEnds
from josefine_broker.engine.coordinators.offsets_topic import store_offsets
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.partition.archive_chunks import KEPT_MS
from josefine_broker.engine.partition.archived_end import FRESH_MS
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.archive_reads import (
    NO_READER,
    PAUSE_MS,
    START_MS,
    TELL_AGAIN_MS,
    ArchiveAnswer,
    ArchiveQuestion,
    ArchiveReads,
    EpochQuestion,
    MissingReader,
    TimeQuestion,
)
from josefine_broker.wire.entities import (
    delete_records,
    list_offsets,
    offset_fetch,
    offset_for_leader_epoch,
)
from josefine_broker.wire.fetch import FetchPartition
from tests.unit.josefine_broker.api.world import World, batch_of, values_in

TP = TopicPartition("orders", 0)
LOCAL = 3
"""The local start in these tests; the log ends at 5."""
EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -2, -4, -5, -6


class Reader:
    """The archive reader: it keeps the questions until the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[ArchiveQuestion, Any]] = []
        self.times: dict[int, tuple[int, int]] = {}
        self.epochs: dict[int, tuple[int, int] | KafkaError] = {}

    def ask(self, question: ArchiveQuestion, deadline_ms: int, on_answer: Any) -> None:
        self.asked.append((question, on_answer))

    def ask_time(self, question: TimeQuestion) -> tuple[int, int] | None:
        return self.times.get(question.time)

    def ask_epoch(self, question: EpochQuestion) -> tuple[int, int] | None:
        found = self.epochs.get(question.epoch)
        if isinstance(found, KafkaError):
            raise found
        return found

    def answer(self, data: bytes, next_offset: int, start: int = 0, error: str = "") -> int:
        """Answer the oldest question; its offset."""
        question, on_answer = self.asked.pop(0)
        on_answer(ArchiveAnswer(data, next_offset, start, error))
        return question.offset


def archived_world(**more: str) -> tuple[World, Reader]:
    """The topic has five records, of which the log has the last two."""
    world, reader = World(), Reader()
    world.create(
        remote_storage_enable="true",
        josefine_archive_location="/lake/orders",
        retention_ms="-1",
        **more,
    )
    for n in range(5):
        world.produce(batch_of(b"%d" % n))
    world.ctx.hosted.partitions[TP].log.delete_before(LOCAL)
    world.ctx.ports.archive = ArchiveReads(world.ctx, reader.ask, reader.ask_time, reader.ask_epoch)
    return world, reader


def archived(*offsets: int) -> bytes:
    return b"".join(batch_of(b"%d" % at, base_offset=at) for at in offsets)


def test_only_offsets_below_the_local_start_are_archived() -> None:
    world, _ = archived_world()
    hosted = world.ctx.hosted.partitions[TP]

    found = {at: is_below(world.ctx, hosted, part_at(at)) for at in (-1, 0, LOCAL - 1, LOCAL)}

    assert found == {-1: False, 0: True, LOCAL - 1: True, LOCAL: False}


def part_at(offset: int) -> FetchPartition:
    return FetchPartition(0, -1, offset, -1, -1, 1)


def waiting(world: World, offset: int, **more: Any) -> Parked:
    found = world.fetch(offset, max_wait_ms=500, **more)
    assert isinstance(found, Parked)
    assert not found.done
    return found


def answer_of(parked: Parked) -> Any:
    assert parked.done
    return parked.response.topics[0].partitions[0]


def offset_of(world: World, timestamp: int) -> Any:
    part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = list_offsets.ListOffsetsTopic(name="orders", partitions=(part,))
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
    return world.ask(2, request).topics[0].partitions[0]


@pytest.mark.parametrize("isolation", [0, 1])
def test_fetch_below_the_local_start_waits_for_the_archive(isolation: int) -> None:
    world, reader = archived_world()

    parked = waiting(world, 0, isolation=isolation)
    reader.answer(archived(0, 1), 2)

    assert values_in(answer_of(parked)) == [b"0", b"1"]
    # The next chunk is asked for before its reader comes; then the reader is in the log.
    assert reader.answer(archived(2), 3) == 2
    assert values_in(world.fetch(2, isolation=isolation)) == [b"2"]
    assert values_in(world.fetch(3, isolation=isolation)) == [b"3", b"4"]
    assert not reader.asked


def test_fetch_ends_empty_before_the_archive_answers() -> None:
    world, reader = archived_world()

    parked = waiting(world, 0)
    world.advance(600)

    assert (answer_of(parked).error_code, values_in(answer_of(parked))) == (0, [])
    waiting(world, 0)
    assert len(reader.asked) == 1  # once, whoever waits


def test_gap_up_to_the_local_start_continues_in_the_log() -> None:
    """The last archived offsets were of an aborted transaction."""
    world, reader = archived_world()

    parked = waiting(world, 1)
    reader.answer(b"", 3)

    assert values_in(answer_of(parked)) == [b"3", b"4"]


@pytest.mark.parametrize("start", [1, -1])
def test_offset_below_the_archive_is_out_of_range(start: int) -> None:
    world, reader = archived_world()

    parked = waiting(world, 0)
    reader.answer(b"", 0, start)

    assert answer_of(parked).error_code == ErrorCode.offset_out_of_range


def test_archive_that_had_nothing_is_asked_again_once_the_local_start_has_moved() -> None:
    """It was made for a topic that had lost records, and got those that retention deletes now."""
    world, reader = archived_world()
    waiting(world, 0)
    reader.answer(b"", 0, -1)
    assert offset_of(world, EARLIEST).offset == LOCAL
    world.ctx.hosted.partitions[TP].log.delete_before(LOCAL + 1)

    assert offset_of(world, EARLIEST).error_code == ErrorCode.offset_not_available
    parked = waiting(world, LOCAL)
    while reader.asked:
        is_there = reader.asked[0][0].offset == LOCAL
        reader.answer(archived(LOCAL) if is_there else b"", LOCAL + 1 if is_there else 0, LOCAL)

    assert values_in(answer_of(parked)) == [b"3"]
    assert offset_of(world, EARLIEST).offset == LOCAL
    # What no archive has stays out of range, without another question.
    assert world.fetch(0).error_code == ErrorCode.offset_out_of_range
    assert not reader.asked


@pytest.mark.parametrize(
    ("next_offset", "error"), [(-1, "no such disk"), (0, "")], ids=["failure", "hole"]
)
def test_archive_that_cannot_be_read_is_a_retriable_error_and_left_alone(
    next_offset: int, error: str
) -> None:
    world, reader = archived_world()

    parked = waiting(world, 0)
    reader.answer(b"", next_offset, 0, error)
    again = waiting(world, 0)

    assert answer_of(parked).error_code == ErrorCode.kafka_storage_error
    assert not reader.asked
    assert values_in(world.fetch(3)) == [b"3", b"4"]
    world.advance(PAUSE_MS)
    assert again.done
    waiting(world, 0)
    reader.answer(archived(0, 1, 2), 3)
    assert values_in(world.fetch(0)) == [b"0", b"1", b"2"]


def test_limits_of_the_reader_hold() -> None:
    world, reader = archived_world()
    waiting(world, 0)
    reader.answer(archived(0, 1, 2), 3)

    assert values_in(world.fetch(0, partition_max_bytes=1)) == [b"0"]
    assert values_in(world.fetch(1, max_bytes=150)) == [b"1", b"2"]


def test_start_is_that_of_the_archive_once_it_is_known() -> None:
    world, reader = archived_world()

    assert offset_of(world, EARLIEST).error_code == ErrorCode.offset_not_available
    reader.answer(b"", 0, 1)

    assert offset_of(world, EARLIEST).offset == 1
    assert offset_of(world, EARLIEST_LOCAL).offset == LOCAL


def test_start_is_asked_for_again_because_the_archives_retention_moves_it() -> None:
    world, reader = archived_world()
    offset_of(world, EARLIEST)
    reader.answer(b"", 0, 1)

    world.advance(START_MS)
    assert offset_of(world, EARLIEST).offset == 1  # nobody waits for it
    reader.answer(b"", 0, 2)

    assert offset_of(world, EARLIEST).offset == 2
    assert not reader.asked


def test_times_are_looked_up_in_archive_and_log() -> None:
    world, reader = archived_world()
    reader.times[7] = (1, 9)

    assert (offset_of(world, 7).offset, offset_of(world, 7).timestamp) == (1, 9)
    assert offset_of(world, 8).offset == LOCAL


def test_without_a_reader_a_fetch_is_refused_until_there_is_one_and_the_log_starts_later() -> None:
    """Out of range would make a consumer skip what the archive has."""
    world, reader = archived_world()
    archive, world.ctx.ports.archive = world.ctx.ports.archive, None
    world.ctx.ports.no_archive = MissingReader(world.ctx)
    told: list[tuple[str, str]] = []
    world.ctx.ports.tell = lambda message, **fields: told.append((message, str(fields["reason"])))

    codes = [world.fetch(at).error_code for at in (0, 1, LOCAL, -1)]
    world.advance(TELL_AGAIN_MS)
    world.fetch(0)

    error = ErrorCode.kafka_storage_error
    assert codes == [error, error, ErrorCode.none, ErrorCode.offset_out_of_range]
    assert told == [("archive not read", NO_READER)] * 2  # once in a while
    assert offset_of(world, EARLIEST).offset == LOCAL

    world.ctx.ports.archive = archive
    parked = waiting(world, 0)
    reader.answer(archived(0, 1, 2), 3)
    assert values_in(answer_of(parked)) == [b"0", b"1", b"2"]


def test_archived_records_are_asked_for_again_after_a_while() -> None:
    """Somebody may have erased one, or restored the archive."""
    world, reader = archived_world()
    waiting(world, 0)
    reader.answer(archived(0, 1, 2), 3)
    assert values_in(world.fetch(0)) == [b"0", b"1", b"2"]

    world.advance(KEPT_MS)
    parked = waiting(world, 0)
    reader.answer(archived(0, 2), 3)

    assert values_in(answer_of(parked)) == [b"0", b"2"]


def test_records_of_an_archived_topic_cannot_be_deleted() -> None:
    """They would still be served from the archive."""
    world, _ = archived_world()
    e = delete_records
    part = e.DeleteRecordsPartition(partition_index=0, offset=4)
    topic = e.DeleteRecordsTopic(name="orders", partitions=(part,))

    answer = world.ask(21, e.DeleteRecordsRequest(topics=(topic,), timeout_ms=1))

    assert answer.topics[0].partitions[0].error_code == ErrorCode.policy_violation


class Kept:
    """An archived topic of which retention keeps nothing but what the archive lacks."""

    def __init__(self, **more: str) -> None:
        self.world, _ = archived_world(local_retention_ms="0", segment_records="1", **more)
        self.world.create(OFFSETS_TOPIC)
        self.archives = Archives(self.world.ctx, self.world.manager, self.world.clock, None)
        self.ends = self.archives.ends
        self.topic_id = str(self.world.ctx.image.topics["orders"].topic_id)

    def commit(self, offset: int, metadata: str, group: str = ARCHIVE_GROUP) -> None:
        committed = CommittedOffset(
            offset=offset, leader_epoch=-1, metadata=metadata, commit_time_ms=0
        )
        store_offsets(self.world.ctx, group, [(TP, committed)])

    def look(self, offset: int, look: int, topic_id: str = "", stopped: str = "") -> None:
        """The archive's writer looked; the broker asks."""
        note = ArchiveNote(
            topic_id=topic_id or self.topic_id, table_id="t", look=look, stopped=stopped
        )
        self.commit(offset, note.text())
        self.ends.step()

    def start_after_retention(self) -> int:
        self.world.advance(10)
        for _ in self.world.hosting.apply_retention(self.archives.end):
            pass
        return self.world.ctx.hosted.partitions[TP].log.log_start_offset


def test_no_segment_goes_that_the_archive_has_not_committed() -> None:
    kept = Kept()
    assert kept.start_after_retention() == LOCAL

    kept.look(4, 1)
    assert kept.start_after_retention() == LOCAL  # the look may be of any age

    kept.look(4, 2)
    assert kept.start_after_retention() == 4


@pytest.mark.parametrize(
    "last", [{"stopped": "dropped"}, {"topic_id": "another"}], ids=["stopped", "recreated"]
)
def test_archive_that_stopped_or_is_of_another_topic_is_waited_for(last: dict[str, str]) -> None:
    kept = Kept()
    kept.look(4, 1)
    kept.look(5, 2)

    kept.look(5, 3, **last)

    assert kept.start_after_retention() == LOCAL


def test_look_grows_old() -> None:
    kept = Kept()
    kept.look(5, 1)
    kept.look(5, 2)

    kept.world.advance(FRESH_MS + 1)

    assert kept.start_after_retention() == LOCAL


def test_table_of_the_topic_is_waited_for_too() -> None:
    kept = Kept(josefine_table_location="/lake/table")
    kept.look(5, 1)
    kept.look(5, 2)
    assert kept.start_after_retention() == LOCAL

    kept.commit(4, "", TABLES_GROUP)
    kept.ends.step()
    assert kept.start_after_retention() == 4

    kept.commit(5, "a bad record", TABLES_GROUP)
    kept.ends.step()
    assert kept.start_after_retention() == 4


def test_each_reason_is_reported_once() -> None:
    kept = Kept()
    told: list[str] = []
    kept.world.ctx.ports.tell = lambda message, **fields: told.append(str(fields["reason"]))

    kept.world.advance(10)
    for _ in range(3):
        kept.archives.step()
    kept.look(5, 1, stopped="dropped")
    kept.ends.look(lambda tp: 100)

    assert [each.split(":")[0] for each in told] == [
        "the archive has nothing of this partition yet",
        "the archive's writer stopped",
    ]
    assert (len(kept.ends.reasons()), kept.ends.waiting_bytes[TP]) == (1, 100)

    kept.ends.look(lambda tp: 0)
    assert not kept.ends.reasons()


def seam(kept: Kept) -> tuple[int, int]:
    """The last archived offset, and the first one that is not."""
    return offset_of(kept.world, LATEST_TIERED).offset, offset_of(
        kept.world, EARLIEST_PENDING
    ).offset


def test_the_seam_is_what_the_archives_writer_reported() -> None:
    kept = Kept()
    assert seam(kept) == (-1, -1)

    kept.look(4, 1)
    assert seam(kept) == (3, 4)
    kept.world.advance(FRESH_MS + 1)  # records stay archived while no writer runs
    assert seam(kept) == (3, 4)
    answers = [offset_of(kept.world, each) for each in (LATEST_TIERED, EARLIEST_PENDING)]
    assert [(each.timestamp, each.leader_epoch) for each in answers] == [(-1, 0), (-1, 0)]


@pytest.mark.parametrize(
    "last",
    [{"stopped": "dropped"}, {"topic_id": "another"}, {"offset": 6}],
    ids=["stopped", "recreated", "ahead"],
)
def test_the_seam_is_unknown_with_an_archive_that_is_in_doubt(last: dict[str, Any]) -> None:
    kept = Kept()
    kept.look(4, 1)

    kept.look(**{"offset": 4, "look": 2, **last})

    assert seam(kept) == (-1, -1)


def test_all_is_pending_before_the_first_report_and_nothing_without_an_archive() -> None:
    world = World()
    world.create(
        remote_storage_enable="true", josefine_archive_location="/lake/orders", retention_ms="-1"
    )
    world.produce(batch_of(b"1"))
    assert offset_of(world, LATEST_TIERED).offset == -1
    assert offset_of(world, EARLIEST_PENDING).offset == 0

    plain = World()
    plain.create()
    plain.produce(batch_of(b"1"))
    assert [offset_of(plain, each).offset for each in (-5, -6)] == [-1, -1]


def test_coordinator_on_another_broker_is_asked_once_for_all_partitions() -> None:
    world = World(brokers=2)
    ids = [
        world.create(
            name,
            remote_storage_enable="true",
            josefine_archive_location=f"/lake/{name}",
            retention_ms="-1",
        )
        for name in ("a", "b")
    ]
    change = CreateTopic(name=OFFSETS_TOPIC, topic_id=world.topic_id(), replicas=((2,),), config=())
    world.propose(change)
    asked: list[Any] = []
    world.ctx.ports.forward = lambda *of: asked.append(of)
    ends = ArchiveEnds(world.ctx)
    for name in ("a", "b"):
        for _ in range(3):
            world.produce(topic=name)

    def answer(look: int, *, error: ErrorCode = ErrorCode.none) -> None:
        ends.step()
        broker_id, api_key, request, _, on_answer = asked.pop()
        assert (broker_id, api_key, asked) == (2, 9, [])
        assert [each.topic_id for each in request.groups[0].topics] == ids
        note = ArchiveNote(topic_id=str(ids[0]), table_id="t", look=look).text()
        part = offset_fetch.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=2, metadata=note
        )
        topic = offset_fetch.OffsetFetchResponseTopics(topic_id=ids[0], partitions=(part,))
        group = offset_fetch.OffsetFetchResponseGroup(
            group_id=ARCHIVE_GROUP, topics=(topic,), error_code=error
        )
        on_answer(offset_fetch.OffsetFetchResponse(groups=(group,)))

    answer(1)
    answer(2, error=ErrorCode.not_coordinator)
    assert ends.bound(TopicPartition("a", 0)).end == 0
    answer(2)
    assert ends.bound(TopicPartition("a", 0)).end == 2
    assert ends.bound(TopicPartition("b", 0)).end == 0
    ends.step()
    asked.pop()[-1](None)  # no answer changes nothing
    assert ends.bound(TopicPartition("a", 0)).end == 2


def epoch_end(world: World, epoch: int, replica_id: int = -1) -> tuple[int, int]:
    """(leader epoch, end offset) as OffsetForLeaderEpoch has them."""
    part = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="orders", partitions=(part,))
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=(topic,)
    )
    found = world.ask(23, request).topics[0].partitions[0]
    assert found.error_code is ErrorCode.none
    return found.leader_epoch, found.end_offset


def test_the_end_of_an_epoch_before_the_log_is_the_archives() -> None:
    world, reader = archived_world()
    epochs = world.ctx.hosted.partitions[TP].partition.epochs
    epochs.clear()
    epochs.assign(LeaderEpoch(7), LOCAL)
    reader.epochs = {4: (4, 2), 5: KafkaError(ErrorCode.kafka_storage_error, "away")}

    assert epoch_end(world, 4) == (4, 2)
    assert epoch_end(world, 7) == (7, 5), "the log has it"
    # Nothing later is archived, or the archive is away: its end is the local start.
    assert epoch_end(world, 6) == (6, LOCAL)
    assert epoch_end(world, 5) == (5, LOCAL)
    assert epoch_end(world, 4, replica_id=2) == (4, LOCAL), "a replica has no archived records"
    world.ctx.ports.archive = None
    assert epoch_end(world, 4) == (4, LOCAL)
