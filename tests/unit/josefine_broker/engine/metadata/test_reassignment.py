"""Moving partitions (KIP-455)."""

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.engine.metadata.leader_election import Liveness
from josefine_broker.engine.metadata.reassignment import complete, retarget
from tests.unit.josefine_broker.engine.metadata.images import broker, partition

ALL = Liveness.of({n: broker(n) for n in range(1, 7)})


def test_reassignment_keeps_the_old_replicas_until_the_new_are_in_sync() -> None:
    moving = retarget(partition((1, 2)), (3, 1))

    assert moving.replicas == (3, 1, 2)
    assert (moving.adding, moving.removing) == ((3,), (2,))
    assert (moving.leader, moving.isr, moving.leader_epoch) == (1, (1, 2), 3)
    assert complete(moving, ALL) is moving


def test_reassignment_is_complete_when_all_new_replicas_are_in_sync() -> None:
    moving = partition((3, 4, 1, 2), leader=1, isr=(1, 2, 3), adding=(3, 4), removing=(1, 2))
    assert complete(moving, ALL) is moving

    caught_up = partition((3, 4, 1, 2), leader=1, adding=(3, 4), removing=(1, 2))
    done = complete(caught_up, ALL)

    assert (done.replicas, done.isr, done.adding, done.removing) == ((3, 4), (3, 4), (), ())
    assert (done.leader, done.leader_epoch) == (3, 4)


def test_leader_that_stays_begins_a_new_epoch_when_a_replica_goes() -> None:
    """It comes back empty, perhaps soon, and a fetch of before may still be on its way: it must be
    fenced, or the leader takes the new log for the old one and lets it into the ISR."""
    moving = partition((3, 1, 2), leader=1, adding=(3,), removing=(2,))

    done = complete(moving, ALL)

    assert (done.leader, done.leader_epoch, done.replicas) == (1, 4, (3, 1))


def test_leader_that_stays_keeps_its_epoch_where_no_replica_goes() -> None:
    moving = partition((1, 2, 3), leader=1, adding=(3,))

    done = complete(moving, ALL)

    assert (done.leader, done.leader_epoch, done.replicas) == (1, 3, (1, 2, 3))


def test_cancelling_goes_back_to_the_replicas_before() -> None:
    moving = partition((3, 1, 2), leader=1, isr=(1, 2), adding=(3,), removing=(2,))

    back = retarget(moving, None)

    assert (back.replicas, back.isr, back.adding, back.removing) == ((1, 2), (1, 2), (), ())
    assert back.leader_epoch == moving.leader_epoch


def test_cancelling_what_is_not_under_way_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        retarget(partition((1, 2)), None)

    assert raised.value.code is ErrorCode.no_reassignment_in_progress


def test_second_target_replaces_the_first_and_starts_from_the_original() -> None:
    moving = retarget(partition((1, 2)), (3, 4))

    again = retarget(moving, (2, 5))

    assert (again.replicas, again.adding, again.removing) == ((2, 5, 1), (5,), (1,))


def test_replica_that_came_goes_back_only_when_enough_others_are_in_sync() -> None:
    """It may have the only other copy of what was confirmed."""
    moving = partition((3, 1, 2), leader=3, isr=(3, 1), adding=(3,), removing=(2,))

    back = retarget(moving, None)

    assert (back.replicas, back.isr, back.leader) == ((1, 2, 3), (3, 1), 3)
    assert (back.adding, back.removing, back.target) == ((3,), (3,), (1, 2))
    assert complete(back, ALL, 2) is back

    caught_up = replace(back, isr=(3, 1, 2))
    done = complete(caught_up, ALL, 2)

    assert (done.replicas, done.isr, done.leader, done.leader_epoch) == ((1, 2), (1, 2), 1, 4)
    assert not done.is_reassigning


def test_cancelling_again_while_it_goes_back_changes_nothing() -> None:
    back = retarget(partition((3, 1, 2), leader=3, isr=(3, 1), adding=(3,), removing=(2,)), None)

    assert retarget(back, None) == back
    assert retarget(replace(back, isr=(1,), leader=1), None).is_reassigning is False


def test_eligible_replica_is_kept_until_the_move_is_complete() -> None:
    moving = partition((3, 1, 2), leader=1, isr=(1,), elr=(3,), adding=(3,), removing=(2,))

    assert retarget(moving, (1, 4)).removing == (3, 2)


def test_move_that_is_complete_without_a_leader_names_one_of_the_target() -> None:
    moving = partition((3, 4, 1), leader=NO_LEADER, isr=(4, 3), adding=(3, 4), removing=(1,))

    done = complete(moving, ALL)

    assert (done.leader, done.leader_epoch, done.replicas) == (3, 4, (3, 4))


def test_eligible_replica_that_goes_is_eligible_no_more() -> None:
    """Else a broker without the partition could be named its leader when the last member dies."""
    moving = replace(partition((1, 2, 3), isr=(1,), removing=(2, 3)), elr=(2, 3))

    done = complete(moving, ALL, 2)

    assert (done.replicas, done.isr, done.elr) == ((1,), (1,), ())


def test_move_is_not_complete_while_too_few_of_the_target_are_in_sync() -> None:
    moving = partition((3, 4, 1), leader=1, isr=(1, 3), adding=(3,), removing=(1,))

    assert complete(moving, ALL, 2) is moving
    assert complete(moving, ALL, 1).replicas == (3, 4)
    assert complete(replace(moving, isr=(1, 3, 4)), ALL, 3).replicas == (3, 4)


def test_reassignment_waits_while_no_target_replica_can_lead() -> None:
    moving = partition((2, 1), leader=1, isr=(1,), removing=(1,))

    assert complete(moving, ALL) is moving


def test_new_order_alone_is_done_at_once() -> None:
    entry = retarget(partition((1, 2)), (2, 1))

    assert (entry.replicas, entry.is_reassigning, entry.leader) == ((2, 1), False, 1)
