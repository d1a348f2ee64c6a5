"""A damaged replica, leader or follower, is made whole from the others; what nobody has is lost,
and given up only by a person at the leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata_quorum.apply_committed import resume
from josefine_broker.engine.partition.repair.repair import RETRY_MS_MAX, RepairState
from josefine_broker.engine.ports import work_at_once
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.scrub import Scrub, ScrubSettings
from josefine_broker.observe.healing import Healing
from josefine_broker.observe.health import check_damage
from josefine_broker.records.batch import iter_batches, parse_header, stamp
from tests.unit.josefine_broker.api.replicas import FETCH, FETCH_VERSION, Replicas
from tests.unit.josefine_broker.api.world import batch_of

TP = TopicPartition("orders", 0)
LOG = f"{TP}/{0:020d}.log"
VALUES = [b"a", b"b", b"c", b"d", b"e"]


class Damaged(Replicas):
    """A partition on every broker, with five records, one per batch, and the brokers' repairs."""

    def __init__(self, brokers: int = 3) -> None:
        super().__init__(brokers)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.silent: set[int] = set()
        self.create(replicas=(tuple(range(1, brokers + 1)),))
        self.run()
        for value in VALUES:
            self.produce(1, value)
            self.run()
        self.check_isrs()
        self.run()
        self.repairs: dict[int, Repairs] = {}
        for id_, ctx in self.ctx.items():
            ctx.ports.forward = self._forward
            ctx.ports.tell = self._tell
            self.repairs[id_] = Repairs(ctx, self.hosting[id_].damaged, work_at_once, resume)

    def _forward(
        self, broker_id: int, api_key: int, request: Any, deadline_ms: int, on_answer: Any
    ) -> None:
        assert api_key == FETCH
        is_silent = broker_id in self.silent
        on_answer(None if is_silent else self.ask(broker_id, FETCH, request, FETCH_VERSION))

    def _tell(self, message: str, /, **fields: Any) -> None:
        self.told.append((message, fields))

    def spoil(self, broker_id: int, *numbers: int) -> None:
        """Flip a bit in these batches, and have the broker read them."""
        log: Any = self.hosted(broker_id).log
        data = self.files[broker_id].names[LOG].data
        spans = [(pos, header.size_bytes) for pos, header in iter_batches(bytes(data))]
        for number in numbers:
            position, size = spans[number]
            data[position + size - 1] ^= 1
            for segment in log._segments:
                segment.reads.forget()
            with pytest.raises(KafkaError):
                log.read(number, 1, end_offset=log.log_end_offset)

    def repair(self, broker_id: int, *, after_ms: int = 0) -> None:
        self.advance(after_ms)
        self.repairs[broker_id].step()

    def damaged(self, broker_id: int) -> bool:
        return bool(self.hosting[broker_id].damaged.logs)

    def values(self, broker_id: int) -> list[bytes]:
        return [value for _, _, value in self.records(broker_id)]

    def messages(self) -> list[str]:
        return [message for message, _ in self.told]


@pytest.mark.parametrize("broker_id", [1, 2], ids=["leader", "follower"])
def test_damage_is_repaired_without_a_new_leader_or_epoch(broker_id: int) -> None:
    cluster = Damaged()
    before = cluster.entry()
    cluster.spoil(broker_id, 1, 3)

    cluster.repair(broker_id)

    assert not cluster.damaged(broker_id)
    assert cluster.values(broker_id) == VALUES
    assert cluster.entry() == before
    assert cluster.messages() == ["damaged segment found", "segment repaired"]
    (_, found), _ = cluster.told
    assert (found["partition"], found["segment"], found["offset"]) == ("orders-0", 0, 1)
    cluster.produce(1, b"f")
    cluster.run()
    assert cluster.values(2) == [*VALUES, b"f"]


def test_every_replica_is_damaged_at_another_place_and_all_are_repaired() -> None:
    cluster = Damaged()
    for broker_id in (1, 2, 3):
        cluster.spoil(broker_id, broker_id)

    for broker_id in (1, 2, 3):
        cluster.repair(broker_id)

    assert [cluster.values(each) for each in (1, 2, 3)] == [VALUES] * 3


def test_consumer_waits_for_the_repair_instead_of_failing() -> None:
    cluster = Damaged()
    cluster.spoil(1, 2)

    waiting = cluster.fetch(1, 2)
    assert (waiting.error_code, waiting.records) == (0, ())
    cluster.repair(1)

    assert cluster.fetch(1, 2).records


def test_records_on_no_replica_are_lost_and_named() -> None:
    cluster = Damaged()
    for broker_id in (1, 2, 3):
        cluster.spoil(broker_id, 2)

    cluster.repair(1)

    assert cluster.repairs[1].lost == [(TP, (2, 3))]
    assert cluster.fetch(1, 2).error_code == ErrorCode.corrupt_message
    check = check_damage(cluster.repairs[1])
    assert not check.ok
    assert "orders-0 offsets 2 to 3" in check.detail


def test_records_are_not_lost_while_a_replica_is_silent() -> None:
    cluster = Damaged()
    cluster.spoil(1, 2)
    cluster.spoil(2, 2)
    cluster.silent.add(3)

    cluster.repair(1)

    ((_, repair),) = cluster.repairs[1]
    assert repair.state is RepairState.WAITING
    assert check_damage(cluster.repairs[1]).ok
    cluster.silent.clear()
    cluster.repair(1, after_ms=RETRY_MS_MAX)
    assert cluster.values(1) == VALUES


def test_lost_records_come_back_with_a_replica_that_has_them() -> None:
    cluster = Damaged(2)
    cluster.spoil(1, 2)
    cluster.spoil(2, 2)
    cluster.repair(1)
    assert cluster.repairs[1].lost
    data = cluster.files[2].names[LOG].data
    spans = [(pos, header.size_bytes) for pos, header in iter_batches(bytes(data))]
    data[sum(spans[2]) - 1] ^= 1  # somebody restores it

    cluster.repair(1, after_ms=RETRY_MS_MAX)

    assert not cluster.repairs[1].lost
    assert cluster.values(1) == VALUES


def test_loss_is_accepted_at_the_leader_and_copied_by_the_followers() -> None:
    cluster = Damaged(2)
    cluster.spoil(1, 2)
    cluster.spoil(2, 2)
    cluster.repair(1)
    with pytest.raises(KafkaError) as raised:
        cluster.repairs[2].accept_loss(TP)
    assert raised.value.code is ErrorCode.not_leader_or_follower

    (given_up,) = cluster.repairs[1].accept_loss(TP)
    assert given_up == (2, 3)

    cluster.repair(1, after_ms=RETRY_MS_MAX)
    cluster.repair(2, after_ms=RETRY_MS_MAX)
    assert not cluster.damaged(1)
    assert not cluster.damaged(2)
    kept = [b"a", b"b", b"d", b"e"]
    assert cluster.values(1) == kept
    assert cluster.values(2) == kept
    assert bytes(cluster.files[1].names[LOG].data) == bytes(cluster.files[2].names[LOG].data)


def test_deleted_topic_ends_its_repairs() -> None:
    cluster = Damaged(2)
    cluster.spoil(1, 2)
    cluster.spoil(2, 2)
    cluster.repair(1)
    cluster.hosting[1].delete(TP)
    del cluster.ctx[1].hosted.partitions[TP]

    cluster.repair(1)

    assert list(cluster.repairs[1]) == []


def healing(cluster: Damaged, broker_id: int) -> Healing:
    ctx = cluster.ctx[broker_id]
    manager: LogManager = cluster.hosting[broker_id]._manager
    scrub = Scrub(manager, work_at_once, ctx.clock, ScrubSettings())
    damaged = cluster.hosting[broker_id].damaged
    return Healing(ctx, damaged, scrub, cluster.repairs[broker_id])


def test_checksums_of_ranges_are_equal_on_intact_replicas_and_missing_on_damaged_ones() -> None:
    cluster = Damaged(2)
    query = {"partition": "orders-0", "end": "4"}

    first, second = (asyncio.run(healing(cluster, each).checksums(query)) for each in (1, 2))

    assert first["ranges"] == second["ranges"]
    assert first["ranges"][0][:2] == [0, 4]
    cluster.spoil(2, 3)
    damaged = asyncio.run(healing(cluster, 2).checksums(query))
    assert damaged["ranges"] == [[0, 4, None]]
    part = asyncio.run(healing(cluster, 2).checksums({**query, "start": "0", "end": "3"}))
    assert part["ranges"][0][:2] == [0, 3]
    assert part["ranges"][0][2] is not None


def test_verification_finds_damage_and_the_page_shows_it() -> None:
    cluster = Damaged(2)
    data = cluster.files[1].names[LOG].data
    data[len(data) // 2] ^= 1
    pages = healing(cluster, 1)

    assert pages.verify({"topic": "orders"}) == {"broker_id": 1, "partitions": 1}

    (shown,) = pages.view({})["damaged"]
    assert (shown["partition"], shown["state"]) == ("orders-0", "found")
    cluster.repair(1)
    assert pages.view({})["damaged"] == []
    assert pages.view({})["repaired"] == 1


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"partition": "orders"}, "expected TOPIC-NUMBER"),
        ({"partition": "bills-0"}, "has no replica on broker 1"),
        ({"partition": "orders-0", "start": "x"}, "start=x: expected an offset"),
    ],
)
def test_invalid_query_gets_one_sentence(query: dict[str, str], why: str) -> None:
    pages = healing(Damaged(2), 1)

    with pytest.raises(ValueError, match=why):
        asyncio.run(pages.checksums(query))
    with pytest.raises(ValueError, match="no partition of topic 'bills'"):
        pages.verify({"topic": "bills"})


def test_replica_that_lacks_batches_follows_again_also_when_its_damaged_segment_is_gone() -> None:
    cluster = Damaged()
    cluster.spoil(2, 1)
    hosted = cluster.hosted(2)
    hosted.partition.damaged()
    cluster.silent = {1, 3}
    cluster.repair(2)
    assert hosted.partition.awaits_repair

    hosted.log.restart_at(len(VALUES))
    cluster.repair(2)

    assert not hosted.partition.awaits_repair


def test_leader_that_lacks_batches_serves_after_its_repair() -> None:
    cluster = Damaged()
    cluster.spoil(2, 1)
    cluster.hosted(2).partition.damaged()
    cluster.silent = {1, 3}
    cluster.repair(2)

    cluster.lead(2)

    assert cluster.produce(2, b"x").error_code == ErrorCode.not_leader_or_follower
    cluster.silent = set()
    cluster.repair(2, after_ms=RETRY_MS_MAX)
    assert cluster.hosted(2).partition.is_leader
    assert cluster.values(2) == VALUES
    cluster.run()
    cluster.produce(2, b"f")
    cluster.run()
    assert cluster.values(1) == [*VALUES, b"f"]


def test_replica_that_lacks_batches_repairs_another_one() -> None:
    cluster = Damaged(2)
    for broker_id in (1, 2):
        cluster.spoil(broker_id, broker_id)
    cluster.hosted(2).partition.damaged()
    cluster.lead(2)

    cluster.repair(1)
    assert cluster.values(1) == VALUES

    cluster.repair(2)
    assert cluster.values(2) == VALUES
    assert cluster.hosted(2).partition.is_leader


def unacknowledged(*holders: int) -> Damaged:
    """A sixth record is on these brokers, and no high watermark has passed it."""
    cluster = Damaged()
    batch = bytearray(batch_of(b"f"))
    stamp(batch, 0, len(VALUES), cluster.entry().leader_epoch)
    header = parse_header(batch)
    for broker_id in holders:
        cluster.hosted(broker_id).log.append(memoryview(batch), header, 0)
    return cluster


@pytest.mark.parametrize(
    ("leader", "is_repaired"), [(1, True), (3, False)], ids=["the leader", "a follower"]
)
def test_batch_that_is_not_committed_is_taken_from_the_leader_alone(
    leader: int, is_repaired: bool
) -> None:
    """A follower's log may differ from the leader's there."""
    cluster = unacknowledged(1, 2)
    if leader != 1:
        cluster.lead(leader)
    data = cluster.files[2].names[LOG].data
    data[len(data) - 1] ^= 1
    with pytest.raises(KafkaError):
        cluster.hosted(2).log.read(5, 1, end_offset=6)

    cluster.repair(2)

    assert cluster.damaged(2) is not is_repaired


def test_replica_whose_leader_lacks_the_batch_follows_and_is_cut() -> None:
    """It waited for ever for a record that had never been committed."""
    cluster = unacknowledged(2)
    data = cluster.files[2].names[LOG].data
    data[len(data) - 1] ^= 1
    with pytest.raises(KafkaError):
        cluster.hosted(2).log.read(5, 1, end_offset=6)
    cluster.hosted(2).partition.damaged()
    cluster.lead(3)
    cluster.produce(3, b"g", acks=1)

    cluster.repair(2)
    cluster.run()
    cluster.repair(2, after_ms=RETRY_MS_MAX)
    cluster.repair(2)
    cluster.run()

    assert not cluster.hosted(2).partition.awaits_repair
    assert cluster.values(2) == [*VALUES, b"g"]


def test_replica_whose_log_ends_within_a_batch_of_its_leader_is_cut_before_that_batch() -> None:
    """Without the epochs of its log the leader finds no divergence, and its batch fits nowhere."""
    cluster = unacknowledged(2)
    data = cluster.files[2].names[LOG].data
    data[len(data) - 1] ^= 1
    with pytest.raises(KafkaError):
        cluster.hosted(2).log.read(5, 1, end_offset=6)
    cluster.hosted(2).partition.damaged()
    cluster.hosted(2).partition.epochs.clear()
    cluster.lead(3)
    cluster.produce(3, b"g", b"h", acks=1)

    for _ in range(3):
        cluster.repair(2, after_ms=RETRY_MS_MAX)
        cluster.run()

    assert not cluster.hosted(2).partition.awaits_repair
    assert cluster.values(2) == [*VALUES, b"g", b"h"]


def test_repair_of_a_segment_that_was_cut_meanwhile_starts_again() -> None:
    """It asked for offsets that no replica had any more."""
    cluster = Damaged()
    cluster.spoil(2, 1)
    cluster.silent = {1, 3}
    cluster.repair(2)
    cluster.hosted(2).log.truncate_to(4)
    cluster.silent = set()

    for _ in range(3):
        cluster.repair(2, after_ms=RETRY_MS_MAX)

    assert not cluster.damaged(2)
    assert cluster.values(2) == VALUES[:4]


def test_records_deleted_during_a_repair_are_not_waited_for() -> None:
    cluster = Damaged()
    cluster.spoil(2, 1)
    cluster.silent = {1, 3}
    cluster.repair(2)
    for broker_id in (1, 2, 3):
        cluster.hosted(broker_id).log.delete_before(2)
    cluster.silent = set()

    cluster.repair(2, after_ms=RETRY_MS_MAX)

    assert not cluster.damaged(2)
    assert cluster.values(2) == VALUES[2:]


@pytest.mark.parametrize(
    ("unsynced_from", "known_committed", "lost_power", "is_cut"),
    [
        (5, False, False, True),
        (6, False, False, False),
        (5, True, False, False),
        (5, True, True, True),
        (6, True, True, False),
    ],
    ids=["unsynced", "synced", "committed", "committed, power lost", "synced, power lost"],
)
def test_leader_cuts_a_hole_that_nobody_can_fill_if_a_crash_explains_it(
    unsynced_from: int, known_committed: bool, lost_power: bool, is_cut: bool
) -> None:
    """What was not synced and not committed was never acknowledged; and what is not synced, a power
    failure takes from all replicas."""
    cluster = unacknowledged(2)
    hosted = cluster.hosted(2)
    its_log: Any = hosted.log
    its_log.recovery_report = replace(its_log.recovery_report, unsynced_from=unsynced_from)
    data = cluster.files[2].names[LOG].data
    data[len(data) - 1] ^= 1
    with pytest.raises(KafkaError):
        hosted.log.read(5, 1, end_offset=6)
    hosted.partition.damaged()
    hosted.partition.high_watermark = 5 + known_committed
    damaged: Any = cluster.hosting[2].damaged.logs[TP]
    damaged.lost_power = lost_power
    cluster.lead(2)

    cluster.repair(2)
    cluster.repair(2)

    assert hosted.partition.is_leader is is_cut
    assert hosted.log.log_end_offset == 6 - is_cut
    if hosted.partition.is_leader:
        assert cluster.values(2) == VALUES
        assert "the end of a log was cut: no replica has what is missing" in cluster.messages()


def test_leader_that_waits_for_a_silent_replica_is_freed_by_accepting_the_loss() -> None:
    """It serves nothing, so nobody else could give up what only that replica may have."""
    cluster = Damaged()
    cluster.spoil(2, 1)
    cluster.spoil(3, 1)
    cluster.hosted(2).partition.damaged()
    cluster.lead(2)
    cluster.silent = {1}
    cluster.repair(2)
    assert not cluster.hosted(2).partition.is_leader

    assert cluster.repairs[2].accept_loss(TP) == [(1, 2)]

    assert cluster.hosted(2).partition.is_leader
    assert cluster.values(2) == [b"a", b"c", b"d", b"e"]


def test_accepted_loss_cuts_no_intact_batch_after_the_hole() -> None:
    """Although a power failure explains the hole, and nothing after it is known to be synced."""
    cluster = Damaged()
    cluster.spoil(2, 1)
    cluster.spoil(3, 1)
    hosted = cluster.hosted(2)
    its_log: Any = hosted.log
    its_log.recovery_report = replace(its_log.recovery_report, unsynced_from=0)
    damaged: Any = cluster.hosting[2].damaged.logs[TP]
    damaged.lost_power = True
    hosted.partition.damaged()
    cluster.lead(2)
    cluster.silent = {1}
    cluster.repair(2)

    assert cluster.repairs[2].accept_loss(TP) == [(1, 2)]

    assert hosted.partition.is_leader
    assert cluster.values(2) == [b"a", b"c", b"d", b"e"]


def differing() -> Damaged:
    """Broker 2 has two batches, the first of them damaged, where its leader has one with both
    offsets; of its leader epochs nothing is known."""
    cluster = unacknowledged(2)
    hosted = cluster.hosted(2)
    batch = bytearray(batch_of(b"g"))
    stamp(batch, 0, 6, cluster.entry().leader_epoch)
    hosted.log.append(memoryview(batch), parse_header(batch), 0)
    data = cluster.files[2].names[LOG].data
    data[len(data) - len(batch) - 1] ^= 1
    with pytest.raises(KafkaError):
        hosted.log.read(5, 1, end_offset=7)
    damage: Any = hosted.log
    damage.damage.lacks_batches = True
    hosted.partition.damaged()
    hosted.partition.epochs.clear()
    cluster.lead(3)
    return cluster


def test_log_is_cut_where_the_leaders_batch_does_not_fit_into_the_hole() -> None:
    cluster = differing()
    cluster.produce(3, b"x", b"y", b"z", acks=1)

    cluster.repair(2)
    cluster.repair(2)
    cluster.run()

    assert not cluster.hosted(2).partition.awaits_repair
    assert cluster.values(2) == [*VALUES, b"x", b"y", b"z"]


def test_batches_of_the_leader_take_the_place_of_a_log_that_differs_from_its_own() -> None:
    """The checksum of the segment is of the batches that the leader does not have."""
    cluster = differing()
    cluster.produce(3, b"x", b"y", acks=1)

    cluster.repair(2)
    cluster.run()

    assert cluster.values(2) == [*VALUES, b"x", b"y"]


def test_replica_that_lacks_batches_appends_nothing_although_it_follows() -> None:
    """Its epochs do not show that its end differs: it copied on after records of its own."""
    cluster = differing()
    cluster.repair(2)
    assert cluster.ctx[2].hosted.fetchers.of((cluster.hosted(2).topic_id, 0)) is not None
    cluster.silent = {1, 3}
    for value in (b"x", b"y", b"z"):
        cluster.produce(3, value, acks=1)

    cluster.run()

    assert cluster.hosted(2).is_served_by(3)
    assert cluster.log_end(2) <= 7
    assert cluster.high_watermark(2) <= 5
    cluster.silent = set()
    for _ in range(4):
        cluster.repair(2, after_ms=RETRY_MS_MAX)
        cluster.run()
    assert cluster.values(2) == [*VALUES, b"x", b"y", b"z"]


@pytest.mark.parametrize("is_in_doubt", [False, True], ids=["", "a leader elected in doubt"])
def test_replica_whose_damage_hides_epochs_keeps_what_was_committed(is_in_doubt: bool) -> None:
    """It was cut to the end of the last epoch that it knew; no other replica need have the rest.
    That an election was unclean explains no such cut: the leader has the rest, too (46106)."""
    cluster = Damaged()
    cluster.lead(1)
    cluster.run()
    for value in (b"f", b"g"):
        cluster.produce(1, value)
        cluster.run()
    cluster.spoil(2, 1)
    cluster.spoil(1, 1)
    hosted = cluster.hosted(2)
    hosted.partition.damaged()
    hosted.partition.epochs.truncate_end(5)
    high_watermark = hosted.partition.high_watermark
    cluster.lead(1)
    if is_in_doubt:
        hosted.partition.unclean_epoch = hosted.partition.leader_epoch
    cluster.silent = {3}
    cluster.repair(2)
    assert cluster.ctx[2].hosted.fetchers.of((hosted.topic_id, 0)) is not None

    cluster.run()

    assert hosted.partition.high_watermark == high_watermark > 5
    assert hosted.log.log_end_offset == 7
    cluster.silent = set()
    for _ in range(3):
        cluster.repair(2, after_ms=RETRY_MS_MAX)
        cluster.run()
    assert cluster.values(2) == [*VALUES, b"f", b"g"]
