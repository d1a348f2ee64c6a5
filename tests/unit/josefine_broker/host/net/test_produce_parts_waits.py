"""Produce requests for several partitions wait for each of their batches, no longer than that."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.replicas.committing import Together
from josefine_broker.host.net.late_answers import LateGroup, Later
from josefine_broker.records.plain_produce import compiled
from tests.support.garbage import alive, uncollected
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.host.net.test_produce_parts import BATCHES, Turn, three
from tests.unit.josefine_broker.plain_frames import frame_of, frame_with

pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def waiting() -> tuple[Replicas, Turn]:
    """A request with acks=all for both partitions that are not committed."""
    cluster = three()
    turn = Turn(cluster.ctx[1])
    turn.serve_together([frame_of(BATCHES["good"], BATCHES["good"], acks=-1)])
    assert turn.taken == 0
    assert turn.seen() == {7: None}
    return cluster, turn


def test_an_answer_waits_for_every_partition_and_has_the_error_of_each() -> None:
    cluster, turn = waiting()
    (later,) = turn.slots.values()
    first = later.waiting.parked

    cluster.lead(2, index=1)
    cluster.ctx[1].parked.run_completed()
    assert turn.seen() == {7: None}
    assert not later.waiting.parked.done
    assert first.done

    cluster.run()
    cluster.ctx[1].parked.run_completed()
    assert turn.codes(7) == [ErrorCode.none, ErrorCode.not_leader_or_follower]
    assert (turn.released, turn.counted) == (1, 1)


@pytest.mark.parametrize("is_answered", [True, False])
def test_waits_that_are_over_go_without_the_collector(is_answered: bool) -> None:
    with uncollected():
        before = alive(LateGroup), alive(Later)  # those of other tests
        cluster, turn = waiting()
        if is_answered:
            cluster.run()
            cluster.ctx[1].parked.run_completed()
            assert turn.codes(7) == [ErrorCode.none] * 2
        else:
            turn.slots[7].leave()
        turn.slots.clear()
        assert (alive(LateGroup), alive(Later)) == before


def test_batches_that_are_appended_one_by_one_wait_for_their_replicas() -> None:
    cluster = three(with_records=False)  # nothing may follow the first batch of a segment
    turn = Turn(cluster.ctx[1])
    good = BATCHES["good"]

    turn.serve_together(
        frame_with([("orders", [(0, good), (1, good)])], acks=-1, correlation_id=n) for n in (1, 2)
    )

    assert turn.taken == 0
    assert turn.seen() == {1: None, 2: None}
    cluster.run()
    cluster.ctx[1].parked.run_completed()
    assert [turn.codes(n) for n in (1, 2)] == [[ErrorCode.none] * 2] * 2


@pytest.mark.parametrize("with_records", [True, False])
def test_requests_of_one_partition_wait_for_the_last_of_them_and_no_longer_than_each_may(
    with_records: bool,
) -> None:
    cluster = three(with_records=with_records)
    turn = Turn(cluster.ctx[1])
    good = BATCHES["good"]
    before = set(cluster.ctx[1].parked.waiting)

    turn.serve_together(
        frame_with([("orders", [(0, good), (1, good)])], acks=-1, correlation_id=n, timeout_ms=ms)
        for n, ms in enumerate((1000, 300, 1000))
    )

    end = cluster.hosted(1, 0).log.log_end_offset
    waits: list[Any] = [each for each in cluster.ctx[1].parked.waiting if each not in before]
    ends = sorted(
        (each.deadline_ms, batch.end_offset)
        for each in waits
        for batch in each._pending.get(("orders", 0), ())
    )
    assert [each for _, each in ends] == [end - 1, end]
    cluster.advance(400)
    cluster.ctx[1].parked.run_completed()
    assert [n for n, answer in turn.seen().items() if answer is not None] == [1]


def test_a_batch_that_was_committed_before_its_leader_was_deposed_is_acknowledged() -> None:
    _, turn = waiting()
    (later,) = turn.slots.values()
    refused = Together(2, KafkaError(ErrorCode.not_leader_or_follower, "deposed"))

    assert not later.settle(0, 2, refused)
    assert later.settle(1, 3, refused)

    assert turn.codes(7) == [ErrorCode.none, ErrorCode.not_leader_or_follower]


def test_the_waits_of_a_connection_that_is_gone_are_given_up() -> None:
    cluster, turn = waiting()
    before = len(cluster.ctx[1].parked)

    turn.slots[7].leave()

    assert len(cluster.ctx[1].parked) == before - 2
    turn.slots[7].leave()


def test_a_hangup_of_one_partition_ends_the_answer_and_the_other_waits() -> None:
    cluster, turn = waiting()
    ctx = cluster.ctx[1]
    before = len(ctx.parked)
    ctx.cluster.is_heard = False
    cluster.hosted(1, 0).partition.is_stranded = True

    ctx.parked.wake(("orders", 0), 0)
    ctx.parked.run_completed()

    assert turn.seen() == {7: b""}
    assert turn.released == 1
    assert len(ctx.parked) == before - 2
