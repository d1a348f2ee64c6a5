"""Who leads a partition when brokers come and go, and who stays in sync."""

import pytest

from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.engine.metadata.leader_election import (
    ElectionRules,
    Liveness,
    eligible,
    prefer,
    settle,
)
from tests.unit.josefine_broker.engine.metadata.images import partition

SAFE = ElectionRules()
TWO = ElectionRules(min_insync_replicas=2)
UNSAFE = ElectionRules(unclean_allowed=True)


def brokers(*live: int, stopping: tuple[int, ...] = (), unclean: tuple[int, ...] = ()) -> Liveness:
    return Liveness(
        live=frozenset(live), heard=frozenset((*live, *stopping)), unclean=frozenset(unclean)
    )


def told(entry: PartitionEntry) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    return entry.leader, entry.isr, entry.elr, entry.leader_epoch


def test_partition_whose_brokers_are_all_live_stays_the_same_object() -> None:
    entry = partition((1, 2, 3))

    assert settle(entry, brokers(1, 2, 3), SAFE) is entry


def test_leader_is_the_first_live_in_sync_replica_in_replica_order() -> None:
    """Checklist row 14."""
    entry = partition((1, 2, 3), isr=(3, 2, 1))

    after = settle(entry, brokers(2, 3), SAFE)

    assert told(after) == (2, (3, 2), (), 4)
    assert after.partition_epoch == entry.partition_epoch


def test_follower_that_is_fenced_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    assert told(settle(partition((1, 2, 3)), brokers(1, 3), SAFE)) == (1, (1, 3), (), 3)


def test_replica_out_of_sync_is_not_elected() -> None:
    """Unclean election is off by default: the partition waits for its last member."""
    entry = partition((1, 2), isr=(1,))

    after = settle(entry, brokers(2), SAFE)

    assert told(after) == (NO_LEADER, (1,), (), 4)
    assert told(settle(after, brokers(1, 2), SAFE)) == (1, (1,), (), 5)


def test_unclean_election_takes_the_first_live_replica_as_the_only_one_in_sync() -> None:
    entry = partition((1, 2, 3), isr=(1,))

    assert told(settle(entry, brokers(2, 3), UNSAFE)) == (2, (2,), (), 4)


def test_unclean_election_leaves_nobody_eligible() -> None:
    """Who had every committed record before has records now that the new leader has not."""
    entry = partition((1, 2, 3), leader=NO_LEADER, isr=(2,), elr=(3,))
    rules = ElectionRules(min_insync_replicas=2, unclean_allowed=True)

    assert told(settle(entry, brokers(1), rules)) == (1, (1,), (), 4)


def test_unclean_election_is_the_last_resort() -> None:
    entry = partition((1, 2, 3), isr=(1, 3))

    assert told(settle(entry, brokers(2, 3), UNSAFE)) == (3, (3,), (), 4)


def test_isr_is_kept_when_all_its_members_are_gone() -> None:
    entry = partition((1, 2, 3), isr=(1, 2))

    after = settle(entry, brokers(3), SAFE)

    assert told(after) == (NO_LEADER, (1, 2), (), 4)
    assert settle(after, brokers(3), SAFE) is after
    assert told(settle(after, brokers(2, 3), SAFE)) == (2, (2,), (), 5)


def test_broker_about_to_stop_hands_over_and_leaves_the_isr() -> None:
    entry = partition((1, 2, 3))

    assert told(settle(entry, brokers(2, 3, stopping=(1,)), SAFE)) == (2, (2, 3), (), 4)


def test_broker_about_to_stop_leads_on_while_nobody_else_can() -> None:
    entry = partition((1, 2), isr=(1,))

    assert settle(entry, brokers(2, stopping=(1,)), SAFE) is entry


def test_member_after_an_unclean_shutdown_leaves_before_the_election() -> None:
    """KIP-966: 1 is back without its page cache, 2 is away and has everything."""
    entry = partition((1, 2), leader=NO_LEADER)

    after = settle(entry, brokers(unclean=(1,)), SAFE)

    assert told(after) == (NO_LEADER, (2,), (), 3)
    assert settle(after, brokers(1), SAFE) is after, "1 may not lead though it is live again"


def test_last_member_after_an_unclean_shutdown_stays() -> None:
    entry = partition((1, 2), leader=NO_LEADER, isr=(1,))

    assert settle(entry, brokers(2, unclean=(1,)), SAFE) is entry


def test_member_that_leaves_a_small_isr_is_eligible_and_elected_when_the_isr_is_gone() -> None:
    """KIP-966: below min.insync.replicas nothing was confirmed after it left."""
    shrunk = settle(partition((1, 2)), brokers(1), TWO)
    assert told(shrunk) == (1, (1,), (2,), 3)

    alone = settle(shrunk, brokers(2), TWO)

    assert told(alone) == (2, (2,), (1,), 4)


def test_eligible_replica_is_elected_when_the_last_member_lost_records() -> None:
    """The case in which a confirmed record would be lost without the ELR: 2 was only away, 1 then
    lost its page cache."""
    entry = partition((1, 2), leader=NO_LEADER, isr=(1,), elr=(2,))

    waiting = settle(entry, brokers(unclean=(1,)), TWO)
    assert told(waiting) == (NO_LEADER, (), (2,), 3)

    assert told(settle(waiting, brokers(1, 2), TWO)) == (2, (2,), (), 4)


def test_isr_that_is_large_enough_has_no_eligible_others() -> None:
    entry = partition((1, 2, 3), isr=(1, 2), elr=(3,))

    assert eligible(entry, (1, 2), 2) == ()
    assert eligible(entry, (1,), 2) == (2, 3)
    assert eligible(partition((1,)), (1,), 2) == (), "a single replica is enough for one"


def test_eligible_replica_that_lost_records_is_not_eligible_any_more() -> None:
    entry = partition((1, 2, 3), isr=(1,), elr=(2, 3))

    assert told(settle(entry, brokers(1, 3, unclean=(2,)), TWO)) == (1, (1,), (3,), 3)


@pytest.mark.parametrize(
    ("isr", "live", "leader"), [((1, 2), (1, 2), 1), ((2,), (1, 2), 2), ((1, 2), (2,), 2)]
)
def test_preferred_leader_is_the_first_replica_if_in_sync_and_live(
    isr: tuple[int, ...], live: tuple[int, ...], leader: int
) -> None:
    entry = partition((1, 2), leader=2, isr=isr)

    assert prefer(entry, brokers(*live)).leader == leader
