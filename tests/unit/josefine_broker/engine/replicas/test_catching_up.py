"""A leader that was elected in doubt takes the end of its log from the others before it serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import COMPLETENESS_LEVEL, JOSEFINE_VERSION
from josefine_broker.engine.metadata_quorum.apply_committed import resume
from josefine_broker.engine.partition.catch_up import RETRY_MS
from josefine_broker.engine.partition.replica_role import ReplicaState
from josefine_broker.engine.ports import work_at_once
from josefine_broker.engine.replicas.catching_up import CatchUps
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.engine.replicas.replica_reads import is_answered
from josefine_broker.records.batch import iter_batches, parse_header, stamp
from tests.unit.josefine_broker.api.replicas import FETCH, FETCH_VERSION, Replicas
from tests.unit.josefine_broker.api.world import batch_of

TP = TopicPartition("orders", 0)
VALUES = [b"a", b"b", b"c", b"d"]


class Doubted(Replicas):
    """Broker 2 lacks the end of the log; 1 and 3 have it, and 2 is elected all the same."""

    def __init__(
        self, *, kept: int = 2, ends_in_damage: bool = False, values: Sequence[bytes] = VALUES
    ) -> None:
        super().__init__(3)
        level = {each.name: each.max_level for each in SUPPORTED}
        self.image = replace(self.image, features=level)
        for ctx in self.ctx.values():
            ctx.image = replace(ctx.image, features=level)
        self.silent: set[int] = set()
        self.create()
        self.run()
        for value in values:
            self.produce(1, value)
            self.run()
        self.catch_ups: dict[int, CatchUps] = {}
        for id_, ctx in self.ctx.items():
            ctx.ports.forward = self._forward
            self.catch_ups[id_] = CatchUps(ctx, resume)
        self.lead(1, isr=(1,))
        hosted = self.hosted(2)
        hosted.log.truncate_to(kept)
        hosted.partition.truncated(kept)
        hosted.ends_in_damage = ends_in_damage

    def _forward(
        self, broker_id: int, api_key: int, request: Any, deadline_ms: int, on_answer: Any
    ) -> None:
        assert api_key == FETCH
        is_silent = broker_id in self.silent
        on_answer(None if is_silent else self.ask(broker_id, FETCH, request, FETCH_VERSION))

    def state(self) -> ReplicaState:
        return self.hosted(2).partition.state

    def go(self, after_ms: int = 0) -> None:
        self.advance(after_ms)
        self.catch_ups[2].step()

    def values(self, broker_id: int) -> list[bytes | None]:
        return [value for _, _, value in self.records(broker_id)]


def test_leader_in_doubt_takes_the_end_of_its_log_before_it_serves() -> None:
    cluster = Doubted()

    cluster.lead(2, isr=(2,))

    assert cluster.entry().unclean_epoch == cluster.entry().leader_epoch
    assert cluster.state() is ReplicaState.CATCHING_UP
    assert cluster.produce(2, b"x").error_code == ErrorCode.not_leader_or_follower
    cluster.go()
    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == VALUES
    cluster.run()
    assert cluster.produce(2, b"e", acks=1).error_code == 0
    cluster.run()
    assert cluster.values(1) == cluster.values(2) == [*VALUES, b"e"]


def test_empty_log_of_a_leader_in_doubt_is_copied_from_its_start() -> None:
    cluster = Doubted(kept=0)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == VALUES


def test_clean_leader_asks_nobody() -> None:
    cluster = Doubted()

    cluster.lead(1)

    assert cluster.hosted(1).partition.is_leader
    assert not cluster.ctx[1].hosted.catching_up


def test_replica_that_is_alive_is_waited_for() -> None:
    cluster = Doubted()
    cluster.silent = {1, 3}
    cluster.lead(2, isr=(2,))
    cluster.go()
    assert cluster.state() is ReplicaState.CATCHING_UP

    cluster.silent = {1}
    cluster.go(after_ms=RETRY_MS)

    assert cluster.state() is ReplicaState.CATCHING_UP, "broker 1 may have more"
    cluster.fence(1)
    cluster.go(after_ms=RETRY_MS)
    assert cluster.values(2) == VALUES
    assert cluster.state() is ReplicaState.LEADER


def test_replica_that_is_down_is_waited_for_where_damage_hid_the_end_of_the_log() -> None:
    cluster = Doubted(ends_in_damage=True)
    cluster.silent = {1}
    cluster.lead(2, isr=(2,))
    cluster.fence(1)
    cluster.go()
    assert cluster.state() is ReplicaState.CATCHING_UP

    Repairs(cluster.ctx[2], cluster.hosting[2].damaged, work_at_once, resume).accept_loss(TP)
    cluster.go(after_ms=RETRY_MS)

    assert cluster.values(2) == VALUES, "broker 3 has them"
    assert cluster.state() is ReplicaState.LEADER
    assert not cluster.hosted(2).ends_in_damage


@pytest.mark.parametrize("ends_in_damage", [True, False])
def test_leader_whose_log_ends_in_damage_asks_also_where_images_keep_no_doubts(
    ends_in_damage: bool,
) -> None:
    """Nothing recorded its doubt, and it led without committed records (life 1038)."""
    cluster = Doubted(ends_in_damage=ends_in_damage)
    old_level = dict(cluster.image.features) | {JOSEFINE_VERSION: COMPLETENESS_LEVEL - 1}
    cluster.image = replace(cluster.image, features=old_level)
    for ctx in cluster.ctx.values():
        ctx.image = replace(ctx.image, features=old_level)

    cluster.lead(2, isr=(2,))

    assert cluster.entry().unclean_epoch < cluster.entry().leader_epoch
    assert cluster.hosted(2).partition.is_leader is not ends_in_damage
    cluster.go()
    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == (VALUES if ends_in_damage else VALUES[:2])
    assert not cluster.hosted(2).ends_in_damage


def write(cluster: Doubted, broker_id: int, value: bytes, *, offset: int, epoch: int) -> None:
    """The broker's log ends with this record from `offset` on."""
    log = cluster.hosted(broker_id).log
    log.truncate_to(offset)
    batch = bytearray(batch_of(value))
    stamp(batch, 0, offset, epoch)
    log.append(memoryview(batch), parse_header(batch), 0)


def test_next_batch_is_found_where_it_does_not_fit_one_answer_with_our_last_one() -> None:
    values = [b"a", b"b" * 600_000, b"c" * 600_000, b"d"]
    cluster = Doubted(values=values)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == values
    assert cluster.state() is ReplicaState.LEADER


def test_batch_of_the_later_leader_is_taken_whoever_answers_first() -> None:
    """The earlier leader's was not committed, or the later one would have it."""
    cluster = Doubted()
    write(cluster, 1, b"x", offset=2, epoch=0)
    write(cluster, 3, b"y", offset=2, epoch=1)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == [b"a", b"b", b"y"]


def add(cluster: Doubted, broker_id: int, value: bytes, *, epoch: int) -> None:
    """One more record at the end of the broker's log."""
    end = cluster.hosted(broker_id).log.log_end_offset
    write(cluster, broker_id, value, offset=end, epoch=epoch)


def flip_epoch(cluster: Doubted, broker_id: int, batch: int, epoch: int) -> None:
    """The batch of that number has this leader epoch on that broker's disk."""
    data = cluster.files[broker_id].names[f"{TP}/{0:020d}.log"].data
    position, header = list(iter_batches(bytes(data)))[batch]
    stamp(data, position, header.base_offset, epoch)


def test_later_leaders_batch_is_not_passed_over_for_one_that_the_same_answer_has_after_others() -> (
    None
):
    """Broker 1 ends with a batch of epoch 1, broker 3 with one of epoch 2 at the same offset."""
    cluster = Doubted()
    add(cluster, 1, b"x", epoch=1)
    add(cluster, 3, b"y", epoch=2)
    add(cluster, 3, b"z", epoch=2)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == [*VALUES, b"y", b"z"]
    assert cluster.state() is ReplicaState.LEADER


def test_no_more_of_an_earlier_leader_is_taken_than_a_later_one_had() -> None:
    """The next batches of both are the same."""
    cluster = Doubted()
    add(cluster, 1, b"x", epoch=0)
    add(cluster, 1, b"x2", epoch=0)
    add(cluster, 3, b"y", epoch=1)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == [*VALUES, b"y"]
    assert cluster.state() is ReplicaState.LEADER


@pytest.mark.parametrize("batch", [1, 2, 3], ids=["last", "next", "after the next"])
@pytest.mark.parametrize("flipped", [(1,), (3,), (1, 3)], ids=["first", "second", "both"])
@pytest.mark.parametrize("epoch", [1, 9], ids=["of a leader", "of none"])
def test_epoch_that_flipped_to_a_later_one_hides_no_batch(
    batch: int, flipped: tuple[int, ...], epoch: int
) -> None:
    """No checksum covers it, but the epochs of the batches after it are earlier."""
    values = [*VALUES, b"e", b"f"]
    cluster = Doubted(values=values)
    for broker_id in flipped:
        flip_epoch(cluster, broker_id, batch, epoch)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == values
    assert cluster.state() is ReplicaState.LEADER


def test_epoch_that_flipped_to_an_earlier_one_does_not_cost_its_batch() -> None:
    """Broker 1 has what an earlier leader did not get committed."""
    cluster = Doubted()
    for value in (b"x", b"x2", b"x3", b"x4"):
        add(cluster, 1, value, epoch=0)
    for value in (b"y", b"z", b"w"):
        add(cluster, 3, value, epoch=1)
    flip_epoch(cluster, 3, 5, epoch=0)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == [*VALUES, b"y", b"z", b"w"]
    assert cluster.state() is ReplicaState.LEADER


def test_epoch_after_our_last_batch_that_flipped_to_an_earlier_one_does_not_cost_its_batch() -> (
    None
):
    """Both have the batch before it: that one is right."""
    cluster = Doubted()
    for broker_id in (2, 3):
        write(cluster, broker_id, b"x", offset=2, epoch=1)
    add(cluster, 3, b"y", epoch=1)
    flip_epoch(cluster, 3, 3, epoch=0)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.values(2) == [b"a", b"b", b"x", b"y"]
    assert cluster.state() is ReplicaState.LEADER


def test_nothing_is_taken_while_a_replica_that_is_alive_may_have_a_later_leaders_batch() -> None:
    cluster = Doubted()
    write(cluster, 1, b"x", offset=2, epoch=0)
    write(cluster, 3, b"y", offset=2, epoch=1)
    cluster.silent = {3}
    cluster.lead(2, isr=(2,))
    cluster.go()

    cluster.silent = set()
    cluster.go(after_ms=RETRY_MS)

    assert cluster.values(2) == [b"a", b"b", b"y"]
    assert cluster.state() is ReplicaState.LEADER


def test_replica_whose_copy_of_our_last_batch_is_damaged_is_waited_for() -> None:
    """It gets that batch from us, and has the next ones."""
    cluster = Doubted()
    cluster.silent = {3}
    cluster.fence(3)
    log: Any = cluster.hosted(1).log
    data = cluster.files[1].names[f"{TP}/{0:020d}.log"].data
    (_, _), (position, header), *_ = iter_batches(bytes(data))
    data[position + header.size_bytes - 1] ^= 1
    for segment in log._segments:
        segment.reads.forget()
    cluster.lead(2, isr=(2,))
    cluster.go()
    assert cluster.state() is ReplicaState.CATCHING_UP

    Repairs(cluster.ctx[1], cluster.hosting[1].damaged, work_at_once, resume).step()
    cluster.go(after_ms=RETRY_MS)

    assert cluster.values(2) == VALUES
    assert cluster.state() is ReplicaState.LEADER


def flip(cluster: Doubted, broker_id: int, batch: int) -> None:
    """The batch of that number is damaged on that broker's disk."""
    log: Any = cluster.hosted(broker_id).log
    data = cluster.files[broker_id].names[f"{TP}/{0:020d}.log"].data
    position, header = list(iter_batches(bytes(data)))[batch]
    data[position + header.size_bytes - 1] ^= 1
    for segment in log._segments:
        segment.reads.forget()


@pytest.mark.parametrize("batches", [(2,), (1, 2)], ids=["next batch", "last batch and next"])
def test_replica_whose_next_batch_is_damaged_is_waited_for_where_that_is_committed(
    batches: tuple[int, ...],
) -> None:
    """The batches after it are intact there, and would be cut by a leader that serves."""
    cluster = Doubted()
    for batch in batches:
        flip(cluster, 1, batch)
    cluster.silent = {3}
    cluster.fence(3)
    cluster.lead(2, isr=(2,))
    cluster.go()
    assert cluster.state() is ReplicaState.CATCHING_UP

    cluster.silent = set()
    cluster.go(after_ms=RETRY_MS)

    assert cluster.values(2) == VALUES, "broker 3 has that batch"
    assert cluster.state() is ReplicaState.LEADER


def give_up(cluster: Doubted) -> None:
    Repairs(cluster.ctx[2], cluster.hosting[2].damaged, work_at_once, resume).accept_loss(TP)
    for _ in range(4):
        cluster.go(after_ms=RETRY_MS)


def test_person_may_give_up_a_next_batch_that_is_damaged_on_its_only_holder() -> None:
    """Exactly that one: the intact batch after it is taken, and readers go on with it."""
    cluster = Doubted()
    flip(cluster, 1, 2)
    cluster.silent = {3}
    cluster.fence(3)
    cluster.lead(2, isr=(2,))
    cluster.go()

    give_up(cluster)

    assert cluster.state() is ReplicaState.LEADER
    assert cluster.records(2) == [(0, 0, b"a"), (1, 0, b"b"), (3, 0, b"d")]
    assert cluster.fetch(2, 2).records
    cluster.run()
    assert cluster.produce(2, b"e", acks=1).error_code == 0
    cluster.run()
    assert cluster.values(2) == [b"a", b"b", b"d", b"e"]


def test_loss_is_accepted_of_what_no_replica_has_intact_and_of_nothing_else() -> None:
    """Only batch 2 is damaged on both of its holders."""
    values = [*VALUES, b"e", b"f", b"g"]
    cluster = Doubted(values=values)
    for batch in (2, 3):
        flip(cluster, 1, batch)
    for batch in (2, 5):
        flip(cluster, 3, batch)
    cluster.lead(2, isr=(2,))
    cluster.go()
    assert cluster.state() is ReplicaState.CATCHING_UP

    give_up(cluster)

    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == [b"a", b"b", *values[3:]]


def test_loss_of_several_holes_leaves_every_intact_batch_between_them() -> None:
    values = [*VALUES, b"e", b"f", b"g"]
    cluster = Doubted(values=values)
    for batch in (2, 4, 6):
        flip(cluster, 1, batch)
    cluster.silent = {3}
    cluster.fence(3)
    cluster.lead(2, isr=(2,))
    cluster.go()

    give_up(cluster)

    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == [b"a", b"b", b"d", b"f"], "nothing intact follows the last"


@pytest.mark.parametrize("start", [2, 3, 4])
def test_leader_in_doubt_takes_what_a_log_has_that_starts_after_its_last_batch(start: int) -> None:
    """What was deleted there was committed: the log is not one that ended before."""
    cluster = Doubted()
    cluster.hosted(1).log.delete_before(start)
    cluster.silent = {3}
    cluster.fence(3)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == (VALUES if start == 2 else VALUES[start:])
    assert cluster.hosted(2).log.log_end_offset == 4


def test_log_that_ends_before_our_last_batch_has_no_more() -> None:
    cluster = Doubted()
    cluster.hosted(1).log.truncate_to(0)
    cluster.silent = {3}
    cluster.fence(3)
    cluster.lead(2, isr=(2,))

    cluster.go()

    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == VALUES[:2]


def test_log_without_our_last_batch_continues_nothing() -> None:
    """Equal offsets of two leaders are no equal records."""
    cluster = Doubted()
    write(cluster, 2, b"z", offset=2, epoch=0)

    cluster.lead(2, isr=(2,))
    cluster.go()

    assert cluster.state() is ReplicaState.LEADER
    assert cluster.values(2) == [b"a", b"b", b"z"]


def test_leader_that_is_replaced_meanwhile_asks_no_more() -> None:
    cluster = Doubted()
    cluster.silent = {1, 3}
    cluster.lead(2, isr=(2,))
    cluster.go()

    cluster.lead(1, isr=(1,))

    assert cluster.state() is ReplicaState.FOLLOWER
    assert not cluster.ctx[2].hosted.catching_up
    cluster.silent = set()
    cluster.catch_ups[1].step()
    cluster.run()
    assert cluster.values(2) == VALUES


def test_replica_in_sync_again_is_no_longer_thought_to_lack_its_end() -> None:
    cluster = Doubted(ends_in_damage=True)

    cluster.lead(1, isr=(1, 2))

    assert not cluster.hosted(2).ends_in_damage


def test_no_answer_and_an_error_of_the_whole_request_say_nothing_about_a_batch() -> None:
    assert not is_answered(None)
