"""The plan of a broker's replacement: which moves are left, and why it is refused."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import NO_LEADER, PartitionMetadata
from josefine_broker.client.replicas import Move
from josefine_cli.cluster import replace as command
from josefine_cli.cluster.replacement import Cluster, Progress, remaining, why_not

OLD, NEW = 2, 4


def tp(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


def a_cluster(
    *replicas: tuple[int, ...],
    leader: int = 1,
    fenced: tuple[int, ...] = (),
    voters: tuple[int, ...] = (1, 2, 3),
    moves: dict[int, Move] | None = None,
) -> Cluster:
    """Brokers 1 to 4, and a topic whose partitions have these replicas."""
    return Cluster(
        fenced={each: each in fenced for each in (1, 2, 3, 4)},
        voters=frozenset(voters),
        partitions={
            tp(index): PartitionMetadata(
                partition=index,
                leader=leader,
                leader_epoch=0,
                replicas=each,
                isr=each,
                error_code=ErrorCode.none,
            )
            for index, each in enumerate(replicas)
        },
        moves={tp(index): move for index, move in (moves or {}).items()},
    )


def test_newcomer_takes_the_old_brokers_place_in_each_replica_list() -> None:
    left = remaining(a_cluster((1, 2, 3), (2, 1), (1, 3)), OLD, NEW)

    assert left.start == {tp(0): (1, 4, 3), tp(1): (4, 1)}
    assert (left.moving, left.count) == ((), 2)


def test_started_move_is_waited_for_and_not_started_again() -> None:
    move = Move(replicas=(1, 4, 3, 2), adding=(4,), removing=(2,))

    left = remaining(a_cluster((1, 4, 3, 2), (1, 2), moves={0: move}), OLD, NEW)

    assert left.start == {tp(1): (1, 4)}
    assert left.moving == (tp(0),)


def test_move_to_the_old_broker_is_turned_to_the_newcomer() -> None:
    move = Move(replicas=(1, 2, 3), adding=(2,), removing=(3,))

    left = remaining(a_cluster((1, 2, 3), moves={0: move}), OLD, NEW)

    assert left.start == {tp(0): (1, 4)}


def test_nothing_is_left_once_no_partition_has_the_old_broker() -> None:
    assert remaining(a_cluster((1, 4, 3)), OLD, NEW).count == 0


def test_possible_replacement_has_no_reason_against_it() -> None:
    assert why_not(a_cluster((1, 2, 3)), OLD, NEW) == ""
    assert why_not(a_cluster((1, 2, 3), fenced=(2,)), OLD, NEW) == "", "the old one may be dead"


@pytest.mark.parametrize(
    ("seen", "new", "reason"),
    [
        (a_cluster((1, 2)), 7, "broker 7 is not in the cluster, which has the brokers 1, 2, 3, 4"),
        (a_cluster((1, 2), fenced=(4,)), 4, "broker 4 is registered, but does not serve"),
        (a_cluster((1, 2, 4)), 4, "orders-0 already has a replica on broker 4 and one on broker 2"),
        (a_cluster((2,), leader=NO_LEADER), 4, "orders-0 has no leader to copy from"),
        (a_cluster((2,), leader=2, fenced=(2,)), 4, "orders-0 has no leader to copy from"),
        (a_cluster((1, 2), voters=(2,)), 4, "broker 2 is the only voter"),
        (a_cluster((1, 2), fenced=(3,)), 4, "a majority of the remaining voters must serve: start "
                                          "broker 3 first"),
        (a_cluster(*[(1, 2, 4)] * 5), 4, "orders-0, orders-1, orders-2 and 2 more"),
    ],
)  # fmt: skip
def test_impossible_replacement_is_refused_with_what_to_do(
    seen: Cluster, new: int, reason: str
) -> None:
    assert reason in why_not(seen, OLD, new)


def test_time_left_follows_the_pace_of_this_run() -> None:
    progress = Progress(total=4, bytes_total=10_000_000, began_s=100.0)

    assert progress.line(4, 2, 2_000_000, 100.0) == (
        "0 of 4 partitions moved, 2 moving, 2.0 of 10.0 MB"
    )
    assert progress.line(3, 2, 4_000_000, 110.0) == (
        "1 of 4 partitions moved, 2 moving, 4.0 of 10.0 MB, about 30 s left"
    )


def test_partitions_without_bytes_are_counted_alone() -> None:
    progress = Progress(total=2, bytes_total=0, began_s=0.0)

    assert progress.line(1, 1, 0, 3.0) == "1 of 2 partitions moved, 1 moving"


def test_cluster_that_is_out_of_reach_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_S", 0.0)
    said: list[str] = []
    answers = iter([KafkaError(ErrorCode.network_exception, "no broker answers"), None])

    def look() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "seen"

    assert command.patiently(look, said.append) == "seen"
    assert said == ["waiting for the cluster: no broker answers"]


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (ErrorCode.invalid_request, "broker 2 holds replicas of 1 partitions: ...", True),
        (ErrorCode.request_timed_out, "no controller", True),
        (ErrorCode.invalid_request, "broker 2 is the last of its cluster", False),
    ],
)
def test_refused_removal_is_tried_again_where_it_may_succeed(
    code: ErrorCode, message: str, expected: bool
) -> None:
    assert command.may_try_again(KafkaError(code, message)) is expected


def test_topic_that_is_created_on_both_brokers_meanwhile_is_noticed() -> None:
    assert remaining(a_cluster((1, 2, 4)), OLD, NEW).has_both(NEW)
    assert not remaining(a_cluster((1, 2, 3)), OLD, NEW).has_both(NEW)


def test_partitions_that_come_while_others_move_are_counted() -> None:
    progress = Progress(total=1, bytes_total=0, began_s=0.0)

    assert progress.line(2, 1, 0, 3.0) == "0 of 2 partitions moved, 1 moving"
