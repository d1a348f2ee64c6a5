"""What the cluster makes of a replica that lost records, or may have: judged per partition."""

from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.changes import (
    AlterIsr,
    At,
    Decision,
    FeatureLevel,
    IsrItem,
    PartitionState,
    RegisterBroker,
    SetFeatures,
)
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    Doubt,
    FeatureRange,
    MetadataImage,
    PartitionEntry,
)
from josefine_broker.engine.metadata.leader_election import (
    ElectionRules,
    ElectionType,
    Liveness,
    elect,
    prefer,
    settle,
)
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims
from josefine_broker.engine.metadata.reassignment import complete
from tests.unit.josefine_broker.engine.metadata.images import (
    TERM,
    TOPIC_ID,
    after,
    broker,
    image_of,
    only,
    partition,
)

COMPLETE, UNSYNCED, SHORTENED, UNREADABLE, MISSING = Completeness
LEVEL_2 = {"josefine.version": 2}
TWO = ElectionRules(min_insync_replicas=2)
UNSAFE = ElectionRules(unclean_allowed=True)


def brokers(*live: int) -> Liveness:
    return Liveness(live=frozenset(live), heard=frozenset(live), unclean=frozenset())


def doubted(entry: PartitionEntry, *doubts: tuple[int, Completeness]) -> PartitionEntry:
    return replace(entry, doubts=tuple(Doubt(*each) for each in doubts))


def level_2(*partitions: PartitionEntry) -> MetadataImage:
    return replace(image_of(partitions or [partition((1, 2, 3))]), features=LEVEL_2)


def register(
    found: Completeness, broker_id: int = 2, *, previous_epoch: int | None = None, name: str = "new"
) -> RegisterBroker:
    """A new process of a broker that found this of partition 0."""
    return RegisterBroker(
        broker_id=broker_id,
        incarnation=name,
        endpoints=(),
        features=(FeatureRange("josefine.version", 1, 2),),
        logs=LogClaims(logs={(TOPIC_ID, 0): found}),
        previous_epoch=10 * broker_id if previous_epoch is None else previous_epoch,
        known_epoch=10 * broker_id,
    )


def doubts_of(entry: PartitionEntry) -> dict[int, Completeness]:
    return dict(entry.doubts)


# -- a registration


@pytest.mark.parametrize("found", [UNSYNCED, SHORTENED, UNREADABLE, MISSING])
def test_what_a_registration_says_of_one_log_holds_for_that_partition_alone(
    found: Completeness,
) -> None:
    image = after(level_2(partition((1, 2, 3)), partition((1, 2, 3))), register(found))

    first, second = image.topics["orders"].partitions
    assert doubts_of(first) == {2: found}
    assert first.partition_epoch == 8, "what was decided before it fits no more"
    assert second == partition((1, 2, 3))
    assert not image.brokers[2].unclean


def test_complete_logs_are_no_news() -> None:
    image = level_2()

    assert after(image, register(COMPLETE)).topics["orders"] is image.topics["orders"]


def test_a_disk_of_an_older_process_is_at_best_unsynced() -> None:
    image = after(level_2(), register(COMPLETE, previous_epoch=9))
    worse = after(level_2(), register(MISSING, previous_epoch=9))

    assert doubts_of(only(image)) == {2: UNSYNCED}
    assert doubts_of(only(worse)) == {2: MISSING}


def test_what_does_not_count_needs_no_doubt_but_is_known_where_it_is_bad() -> None:
    """An unclean election asks who is least in doubt."""
    outside = partition((1, 2, 3), isr=(1, 3))

    assert only(after(level_2(outside), register(UNSYNCED))).doubts == ()
    assert doubts_of(only(after(level_2(outside), register(SHORTENED)))) == {2: SHORTENED}


@pytest.mark.parametrize(
    ("before", "found", "then"),
    [
        (SHORTENED, COMPLETE, SHORTENED),  # it was cut then, and is whole since
        (MISSING, COMPLETE, MISSING),  # it was made anew then
        (UNSYNCED, COMPLETE, UNSYNCED),
        (SHORTENED, MISSING, MISSING),
        (SHORTENED, UNREADABLE, SHORTENED),
        (UNREADABLE, COMPLETE, None),  # a person restored the file
        (UNREADABLE, SHORTENED, SHORTENED),
    ],
)
def test_a_doubt_outlives_the_process_that_brought_it(
    before: Completeness, found: Completeness, then: Completeness | None
) -> None:
    image = level_2(doubted(partition((1, 2, 3)), (2, before)))

    entry = only(after(image, register(found)))

    assert doubts_of(entry).get(2) is then


def test_who_comes_without_its_metadata_has_lost_its_logs_too() -> None:
    """It was not asked: a joiner knows no image, so not what the cluster understands."""
    joiner = replace(register(COMPLETE), logs=None, known_epoch=None, previous_epoch=-1)

    assert doubts_of(only(after(level_2(), joiner))) == {2: MISSING}


def test_below_level_2_the_whole_broker_is_judged_as_ever() -> None:
    image = image_of([partition((1, 2, 3))])
    old = replace(register(SHORTENED), logs=None, clean=False)

    registered = after(image, old)

    assert registered.brokers[2].unclean
    assert only(registered).doubts == ()
    late = after(level_2(), old)  # proposed at level 1, applied at level 2
    assert (late.brokers[2].unclean, only(late).doubts) == (True, ())


def test_a_new_broker_has_confirmed_nothing_that_it_could_lack() -> None:
    image = replace(level_2(), brokers={1: broker(1), 3: broker(3)})
    new = replace(register(MISSING), known_epoch=-1)

    assert only(after(image, new)).doubts == ()


# -- elections


@pytest.mark.parametrize("found", [UNSYNCED, SHORTENED, UNREADABLE, MISSING])
def test_a_replica_in_doubt_leaves_the_isr_for_those_that_are_not(found: Completeness) -> None:
    entry = doubted(partition((2, 1, 3), leader=NO_LEADER), (2, found))

    settled = settle(entry, brokers(1, 2, 3), TWO)

    assert (settled.leader, settled.isr, settled.elr) == (1, (1, 3), ())
    waiting = settle(entry, brokers(2), TWO)
    assert waiting.leader == NO_LEADER, "the others have the records"
    assert waiting.isr == (2, 1, 3), "and may turn out not to"
    assert settle(waiting, brokers(2), TWO) is waiting


@pytest.mark.parametrize(
    ("found", "leader"),
    [(UNSYNCED, 2), (SHORTENED, NO_LEADER), (UNREADABLE, NO_LEADER), (MISSING, NO_LEADER)],
)
def test_the_last_in_sync_replica_leads_only_if_nothing_is_known_to_be_gone(
    found: Completeness, leader: int
) -> None:
    """RF 1, or all others out: a loss of power is no reason to stand still, lost records are."""
    for alone in (partition((2,), leader=NO_LEADER), partition((1, 2), leader=NO_LEADER, isr=(2,))):
        settled = settle(doubted(alone, (2, found)), brokers(1, 2), TWO)

        assert settled.leader == leader
        assert settled.isr == (2,)


def test_of_two_in_doubt_the_one_that_only_lost_its_power_leads() -> None:
    entry = partition((1, 2), leader=NO_LEADER)

    settled = settle(doubted(entry, (1, SHORTENED), (2, UNSYNCED)), brokers(1, 2), TWO)

    assert (settled.leader, settled.isr) == (2, (2,))


def test_an_eligible_replica_leads_where_the_in_sync_one_lost_records() -> None:
    entry = partition((1, 2, 3), leader=NO_LEADER, isr=(1,), elr=(2, 3))

    settled = settle(doubted(entry, (1, SHORTENED), (2, MISSING)), brokers(1, 2, 3), TWO)

    assert (settled.leader, settled.isr) == (3, (3,))


def test_members_are_remembered_while_nobody_is_believed() -> None:
    entry = doubted(partition((1, 2), leader=NO_LEADER), (1, SHORTENED), (2, MISSING))

    assert settle(entry, brokers(1, 2), TWO) is entry


@pytest.mark.parametrize(
    ("doubts", "leader"),
    [
        (((1, MISSING), (2, SHORTENED), (3, UNREADABLE)), 2),
        (((1, MISSING),), 2),
        (((1, SHORTENED), (2, MISSING), (3, MISSING)), 1),
    ],
)
def test_an_unclean_election_takes_whoever_is_least_in_doubt(
    doubts: tuple[tuple[int, Completeness], ...], leader: int
) -> None:
    entry = doubted(partition((1, 2, 3), leader=NO_LEADER, isr=(1,)), *doubts)

    by_config = settle(entry, brokers(1, 2, 3), UNSAFE)
    by_command = elect(entry, brokers(1, 2, 3), TWO, ElectionType.UNCLEAN)

    assert by_config.leader == by_command.leader == leader
    assert by_config.isr == (leader,)


def test_no_preference_and_no_reassignment_makes_a_replica_in_doubt_lead() -> None:
    preferred = doubted(partition((1, 2), leader=2), (1, SHORTENED))
    moving = doubted(
        partition((1, 2), leader=NO_LEADER, isr=(1, 2), adding=(1,), removing=(2,)),
        (1, SHORTENED),
        (2, SHORTENED),
    )

    assert prefer(preferred, brokers(1, 2)) is preferred
    assert complete(moving, brokers(1, 2)) is moving


# -- what ends a doubt, and what is remembered of an election


def decided(image: MetadataImage, leader: int, isr: tuple[int, ...]) -> PartitionEntry:
    entry = only(image)
    led = replace(entry, leader=leader, isr=isr, leader_epoch=entry.leader_epoch + 1)
    state = PartitionState.of(TOPIC_ID, 0, entry, led)
    decision = Decision(controller_term=TERM, reason="test", partitions=(state,))
    return only(apply(image, decision, At(TERM, 100)))


def test_a_leader_is_in_doubt_no_more_and_its_followers_are_until_they_copied_it() -> None:
    entry = doubted(partition((1, 2), leader=NO_LEADER), (1, UNSYNCED), (2, UNSYNCED))

    led = decided(level_2(entry), 1, (1, 2))

    assert doubts_of(led) == {2: UNSYNCED}
    assert settle(led, brokers(1, 2), TWO).isr == (1,)


def test_joining_the_isr_ends_a_doubt_and_staying_in_it_does_not() -> None:
    image = level_2(doubted(partition((1, 2, 3), isr=(1, 2)), (2, MISSING), (3, SHORTENED)))
    item = IsrItem(TOPIC_ID, 0, 3, 7, (1, 2, 3), (), ((3, 30),))

    entry = only(after(image, AlterIsr(broker_id=1, broker_epoch=10, items=(item,))))

    assert entry.isr == (1, 2, 3)
    assert doubts_of(entry) == {2: MISSING}


@pytest.mark.parametrize(
    ("leader", "doubts", "unclean_epoch"),
    [
        (1, (), -1),
        (1, ((2, MISSING),), -1),
        (2, ((2, UNSYNCED), (1, UNSYNCED)), 4),  # all lost their power: records may be gone
        (2, ((2, SHORTENED),), 4),
        (3, (), 4),  # not in sync
    ],
)
def test_the_image_knows_whether_an_election_was_unclean(
    leader: int, doubts: tuple[tuple[int, Completeness], ...], unclean_epoch: int
) -> None:
    entry = doubted(partition((1, 2, 3), leader=NO_LEADER, isr=(1, 2)), *doubts)

    assert decided(level_2(entry), leader, (leader,)).unclean_epoch == unclean_epoch


def test_elections_before_level_2_may_all_have_been_unclean() -> None:
    understands = (FeatureRange("josefine.version", 1, 2),)
    known = [broker(each, features=understands) for each in (1, 2)]
    image = replace(image_of([partition((1, 2))], known), features={"josefine.version": 1})

    raised = after(image, SetFeatures(levels=(FeatureLevel("josefine.version", 1, 2),)))

    assert only(image).unclean_epoch == -1
    assert only(raised).unclean_epoch == 3


def test_images_with_doubts_are_the_same_from_their_bytes_and_older_ones_are_read() -> None:
    image = level_2(
        doubted(partition((1, 2)), (2, MISSING)),
        replace(partition((1, 2)), unclean_epoch=3),
        partition((1, 2), elr=(2,), isr=(1,)),
    )
    old = image_of([partition((1, 2))])

    assert MetadataImage.from_bytes(image.to_bytes()) == image
    assert b'"version":2' in image.to_bytes()
    assert MetadataImage.from_bytes(old.to_bytes()) == old
    assert b'"version":1' in old.to_bytes()


def test_claims_of_other_topics_are_passed_over() -> None:
    claims = LogClaims(logs={(UUID(int=9), 0): MISSING, (TOPIC_ID, 7): MISSING})
    image = level_2()

    registered = after(image, replace(register(COMPLETE), logs=claims))

    assert registered.topics["orders"] is image.topics["orders"]


def test_a_leader_that_came_in_doubt_leads_no_more() -> None:
    entry = doubted(partition((1, 2)), (1, SHORTENED))

    settled = settle(entry, brokers(1, 2), ElectionRules())

    assert (settled.leader, settled.isr) == (2, (2,))
