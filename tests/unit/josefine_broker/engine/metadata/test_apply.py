"""Changes of brokers and partitions, applied: what fits, what is refused, what is skipped."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterIsr,
    AlterTopicConfig,
    BrokerState,
    Change,
    CreateTopic,
    Decision,
    FeatureLevel,
    IsrItem,
    PartitionState,
    ReassignItem,
    ReassignPartitions,
    RegisterBroker,
    SetFeatures,
    UnregisterBroker,
)
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    Address,
    FeatureRange,
    MetadataImage,
    PartitionEntry,
)
from tests.unit.josefine_broker.engine.metadata.images import (
    TERM,
    TOPIC_ID,
    after,
    broker,
    image_of,
    only,
    partition,
)

ANOTHER_ID = UUID(int=99)
V1 = (FeatureRange("josefine.version", 1, 1),)
V12 = (FeatureRange("josefine.version", 1, 2),)


def refused(image: MetadataImage, change: Change) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        after(image, change)
    return raised.value.code


def register(broker_id: int = 1, name: str = "new", **changes: object) -> RegisterBroker:
    plain = RegisterBroker(broker_id=broker_id, incarnation=name, endpoints=())
    return replace(plain, **changes)  # type: ignore[arg-type]


def alter(isr: tuple[int, ...], by: int = 1, **changes: object) -> AlterIsr:
    joined = tuple((member, 10 * member) for member in isr)
    item = IsrItem(TOPIC_ID, 0, 3, 7, isr, (), joined)._replace(**changes)
    return AlterIsr(broker_id=by, broker_epoch=10 * by, items=(item,))


def decide(*states: PartitionState, brokers: tuple[BrokerState, ...] = ()) -> Decision:
    return Decision(controller_term=TERM, reason="test", brokers=brokers, partitions=states)


# -- registration


def test_registered_broker_is_fenced_and_its_epoch_is_the_height_of_its_block() -> None:
    image = after(
        image_of(brokers=()), register(4, raft=Address("h", 1), admin="http://h:2"), height=77
    )

    entry = image.brokers[4]
    assert (entry.epoch, entry.fenced, entry.unclean) == (77, True, False)
    assert (entry.raft, entry.admin) == (Address("h", 1), "http://h:2")
    assert not image.is_live(4)


def test_registration_ends_every_leadership_of_the_incarnation_before() -> None:
    """The new process may lack records that the old one wrote under its epoch."""
    image = after(image_of([partition((1, 2)), partition((2, 1))]), register(1))

    mine, other = image.topics["orders"].partitions
    assert (mine.leader, mine.leader_epoch, mine.partition_epoch) == (NO_LEADER, 4, 8)
    assert mine.isr == (1, 2)
    assert other == partition((2, 1))


@pytest.mark.parametrize(
    ("clean", "previous_epoch", "unclean"),
    [(True, 10, False), (False, 10, True), (True, 9, True), (True, -1, True)],
)
def test_registration_is_unclean_without_the_mark_of_the_incarnation_before(
    clean: bool, previous_epoch: int, unclean: bool
) -> None:
    """KIP-966; a data directory of an older life is no better than a broken one."""
    image = after(image_of(), register(1, clean=clean, previous_epoch=previous_epoch))

    assert image.brokers[1].unclean is unclean


def test_broker_in_doubt_stays_so_when_its_next_process_lost_nothing_more() -> None:
    """Killed before the controller had cleared it; what the loss of power took is still gone
    (simulated cluster, seed 7000126)."""
    image = after(image_of(), register(1, "doubted", previous_epoch=-1), height=77)

    image = after(image, register(1, "killed", previous_epoch=77), height=78)

    assert image.brokers[1].unclean


def test_registration_is_refused_when_another_process_registered_since_it_was_proposed() -> None:
    """The last word of a dead process must not dismiss the one that runs (simulated cluster)."""
    image = after(image_of(), register(1, "second", known_epoch=10), height=77)

    assert refused(image, register(1, "first", known_epoch=10)) is ErrorCode.stale_broker_epoch
    assert refused(image, register(1, "first", known_epoch=-1)) is ErrorCode.stale_broker_epoch
    assert after(image, register(1, "third", known_epoch=77)).brokers[1].incarnation == "third"
    assert after(image, register(1, "joiner")).brokers[1].incarnation == "joiner"


def test_registering_the_same_incarnation_twice_changes_nothing() -> None:
    image = image_of([partition((1, 2))])

    assert after(image, register(1, "i1")) is image


def test_first_broker_finalizes_what_it_understands() -> None:
    image = after(MetadataImage(cluster_id="c"), register(1, features=V12))

    assert image.features == {"josefine.version": 2}


@pytest.mark.parametrize("features", [(), V1])
def test_broker_that_does_not_understand_a_finalized_level_cannot_register(
    features: tuple[FeatureRange, ...],
) -> None:
    image = replace(image_of(), features={"josefine.version": 2})

    assert refused(image, register(4, features=features)) is ErrorCode.unsupported_version


def test_feature_level_needs_every_broker() -> None:
    image = image_of(brokers=[broker(1, features=V12), broker(2, features=V1)])

    assert refused(image, level("josefine.version", 0, 2)) is ErrorCode.invalid_update_version
    assert refused(image, level("f", 0, -1)) is ErrorCode.invalid_update_version

    image = after(image, level("josefine.version", 0, 1), height=77)
    assert (image.features, image.features_epoch) == ({"josefine.version": 1}, 77)


def test_feature_level_is_compared_with_what_its_proposer_saw() -> None:
    image = replace(image_of(brokers=[broker(1, features=V12)]), features={"josefine.version": 1})

    image = after(image, level("josefine.version", 1, 2))

    assert refused(image, level("josefine.version", 1, 2)) is ErrorCode.invalid_update_version


def test_feature_goes_down_but_for_the_one_that_all_formats_hang_on() -> None:
    """Blocks and snapshots of the higher version stay."""
    image = image_of(brokers=[broker(1, features=V12)])
    image = replace(image, features={"josefine.version": 2, "other": 1})

    assert refused(image, level("josefine.version", 2, 1)) is ErrorCode.invalid_update_version
    assert refused(image, level("josefine.version", 2, 0)) is ErrorCode.invalid_update_version
    assert after(image, level("other", 1, 0)).features == {"josefine.version": 2}


def test_features_are_set_together_or_not_at_all() -> None:
    known = (FeatureRange("a", 1, 1), FeatureRange("b", 1, 1))
    image = image_of(brokers=[broker(1, features=known)])

    both = SetFeatures(levels=(FeatureLevel("a", 0, 1), FeatureLevel("b", 0, 2)))
    assert refused(image, both) is ErrorCode.invalid_update_version

    both = SetFeatures(levels=(FeatureLevel("a", 0, 1), FeatureLevel("b", 0, 1)))
    assert after(image, both).features == {"a": 1, "b": 1}


def level(name: str, previous: int, new: int) -> SetFeatures:
    return SetFeatures(levels=(FeatureLevel(name, previous, new),))


def test_broker_with_replicas_cannot_be_unregistered() -> None:
    """Checklist row 16."""
    image = image_of([partition((1, 2))])

    assert refused(image, UnregisterBroker(broker_id=2)) is ErrorCode.invalid_request
    assert refused(image, UnregisterBroker(broker_id=9)) is ErrorCode.broker_id_not_registered
    gone = after(image, UnregisterBroker(broker_id=3))
    assert 3 not in gone.brokers
    assert gone.unregistered == {3}
    assert after(gone, register(3)).unregistered == frozenset()


def test_last_broker_cannot_be_unregistered() -> None:
    image = image_of(brokers=(1, 2))

    alone = after(image, UnregisterBroker(broker_id=2))

    assert refused(alone, UnregisterBroker(broker_id=1)) is ErrorCode.invalid_request


# -- decisions


def test_state_of_another_incarnation_is_skipped() -> None:
    image = image_of()

    for epoch, fenced in ((10, True), (9, False), (11, False)):
        state = BrokerState(1, epoch, True, False, False)
        assert after(image, decide(brokers=(state,))).brokers[1].fenced is fenced


def entry_to(entry: PartitionEntry, **changes: object) -> PartitionState:
    return PartitionState.of(TOPIC_ID, 0, entry, replace(entry, **changes))  # type: ignore


def test_decided_partition_gets_the_next_partition_epoch() -> None:
    entry = partition((1, 2))

    image = after(image_of([entry]), decide(entry_to(entry, leader=2, leader_epoch=4, isr=(2,))))

    now = only(image)
    assert (now.leader, now.leader_epoch, now.partition_epoch, now.isr) == (2, 4, 8, (2,))


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": 2},  # another leader under the same epoch
        {"leader": 2, "leader_epoch": 2},  # an epoch that is over
        {"leader": 3, "leader_epoch": 4},  # a leader that is fenced by now
        {"leader": 4, "leader_epoch": 4},  # a leader nobody knows
    ],
)
def test_decision_that_would_break_the_epochs_is_skipped(changes: dict[str, int]) -> None:
    entry = partition((1, 2, 3, 4))
    image = image_of([entry], [1, 2, broker(3, fenced=True)])

    assert after(image, decide(entry_to(entry, **changes))) == image


def test_decision_about_another_partition_epoch_or_topic_is_skipped() -> None:
    entry = partition((1, 2))
    image = image_of([entry])
    state = entry_to(entry, isr=(1,))

    for wrong in (
        state._replace(partition_epoch=6),
        state._replace(partition=1),
        state._replace(partition=-1),
        state._replace(topic_id=ANOTHER_ID),
    ):
        assert after(image, decide(wrong)) == image


# -- ISR changes


def test_leader_changes_its_isr() -> None:
    image = after(image_of([partition((1, 2, 3))]), alter((1, 3)))

    entry = only(image)
    assert (entry.isr, entry.partition_epoch, entry.leader_epoch) == ((1, 3), 8, 3)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(alter((2, 3), by=2), id="proposed by a follower"),
        pytest.param(alter((2, 3)), id="without the leader"),
        pytest.param(alter((1, 4)), id="with a broker that is no replica"),
        pytest.param(alter((1,), leader_epoch=2), id="of an older leader epoch"),
        pytest.param(alter((1,), leader_epoch=4), id="of a leader epoch to come"),
        pytest.param(alter((1,), partition_epoch=6), id="of an older partition epoch"),
        pytest.param(alter((1,), elr=(3,)), id="eligible though it was never in sync"),
        pytest.param(alter((1, 2), elr=(2,)), id="eligible though in sync"),
    ],
)
def test_isr_change_that_does_not_fit_is_skipped(change: AlterIsr) -> None:
    image = image_of([partition((1, 2, 3), isr=(1, 2))], (1, 2, 3, 4))

    assert after(image, change) == image


def test_isr_change_of_a_superseded_incarnation_is_refused() -> None:
    image = image_of([partition((1, 2))])

    stale = replace(alter((1,)), broker_epoch=9)
    assert refused(image, stale) is ErrorCode.stale_broker_epoch
    unknown = replace(alter((1,)), broker_id=9)
    assert refused(image, unknown) is ErrorCode.stale_broker_epoch


@pytest.mark.parametrize("away", [{"fenced": True}, {"shutting_down": True}])
def test_broker_that_is_away_does_not_join_an_isr(away: dict[str, bool]) -> None:
    """KIP-841, KIP-903."""
    image = image_of([partition((1, 2, 3), isr=(1, 2))], (1, 2, broker(3, **away)))

    assert after(image, alter((1, 2, 3))) == image


def test_broker_about_to_stop_stays_until_its_leadership_moved() -> None:
    image = image_of([partition((1, 2), isr=(1,))], (broker(1, shutting_down=True), 2))

    assert only(after(image, alter((1, 2)))).isr == (1, 2)


def test_only_the_incarnation_that_caught_up_joins_the_isr() -> None:
    """KIP-903: a later one may have lost what that one had."""
    image = image_of([partition((1, 2), isr=(1,))], (1, 2))

    assert after(image, alter((1, 2), joined=((2, 19),))) == image
    assert after(image, alter((1, 2), joined=())) == image
    assert only(after(image, alter((1, 2)))).isr == (1, 2)


def test_fenced_member_cannot_stay_in_an_isr_that_is_changed() -> None:
    image = image_of([partition((1, 2, 3), isr=(1, 2))], (1, broker(2, fenced=True), 3))

    assert after(image, alter((1, 2, 3))) == image
    assert only(after(image, alter((1, 3)))).isr == (1, 3)


def test_items_are_judged_one_by_one() -> None:
    image = image_of([partition((1, 2)), partition((1, 2))])
    bad = IsrItem(TOPIC_ID, 0, 3, 6, (1,))
    good = IsrItem(TOPIC_ID, 1, 3, 7, (1,))

    image = after(image, AlterIsr(broker_id=1, broker_epoch=10, items=(bad, good)))

    assert [e.isr for e in image.topics["orders"].partitions] == [(1, 2), (1,)]


# -- topics and reassignments


def test_new_topic_is_led_by_its_first_replica_that_is_not_offline() -> None:
    create = CreateTopic(
        name="new",
        topic_id=ANOTHER_ID,
        replicas=((1, 2), (2, 1), (1,)),
        offline=(1,),
    )

    partitions = after(image_of(), create).topics["new"].partitions

    assert [(e.leader, e.isr) for e in partitions] == [(2, (2,)), (2, (2,)), (NO_LEADER, (1,))]


def test_topic_on_a_broker_that_left_is_refused() -> None:
    create = CreateTopic(name="new", topic_id=TOPIC_ID, replicas=((9,),))

    image = MetadataImage(cluster_id="c")
    assert refused(image, create) is ErrorCode.invalid_replica_assignment


def test_reassignment_of_known_brokers_begins_and_others_are_skipped() -> None:
    image = image_of([partition((1, 2)), partition((1, 2))])
    change = ReassignPartitions(
        items=(ReassignItem(TOPIC_ID, 0, (3, 1)), ReassignItem(TOPIC_ID, 1, (9,)))
    )

    moved, same = after(image, change).topics["orders"].partitions

    assert (moved.replicas, moved.partition_epoch) == ((3, 1, 2), 8)
    assert same == partition((1, 2))
    nothing = ReassignPartitions(items=(ReassignItem(TOPIC_ID, 0, None),))
    assert after(image, nothing) == image


def test_another_in_sync_minimum_empties_the_elr() -> None:
    """With a smaller one the high watermark moves on without them (KIP-966)."""
    image = image_of([partition((1, 2), isr=(1,), elr=(2,)), partition((1, 2), isr=(), elr=(2,))])

    kept = after(image, AlterTopicConfig(topic_id=TOPIC_ID, assign=(("retention.ms", "1"),)))
    emptied = after(
        image, AlterTopicConfig(topic_id=TOPIC_ID, assign=(("min.insync.replicas", "1"),))
    )

    assert [e.elr for e in kept.topics["orders"].partitions] == [(2,), (2,)]
    partitions = emptied.topics["orders"].partitions
    assert [(e.isr, e.elr) for e in partitions] == [((1,), ()), ((2,), ())]


def configured(image: MetadataImage, *changes: AlterTopicConfig) -> dict[str, str]:
    for change in changes:
        image = after(image, change)
    return dict(image.topics["orders"].config)


def test_topic_that_is_not_compacted_any_more_says_that_it_was() -> None:
    """What was taken away is still missing: recovery and followers must not take that for damage.
    Not below the level at which every broker understands it, nor by a client's wish."""
    image = image_of([partition((1,))], cleanup_policy="compact")
    at_level_3 = replace(image, features={"josefine.version": 3})
    delete = AlterTopicConfig(topic_id=TOPIC_ID, assign=(("cleanup.policy", "delete"),))
    forget = AlterTopicConfig(topic_id=TOPIC_ID, remove=("cleanup.policy", "was.compacted"))
    both = AlterTopicConfig(topic_id=TOPIC_ID, assign=(("cleanup.policy", "compact,delete"),))

    was = {"was.compacted": "true"}
    assert configured(at_level_3, delete) == {"cleanup.policy": "delete", **was}
    assert configured(at_level_3, forget) == was
    assert configured(at_level_3, delete, forget) == was
    assert configured(at_level_3, both) == {"cleanup.policy": "compact,delete"}
    assert configured(at_level_3, both, forget, delete) == {"cleanup.policy": "delete", **was}
    assert configured(image, delete) == {"cleanup.policy": "delete"}
    never = replace(image_of([partition((1,))]), features={"josefine.version": 3})
    assert configured(never, delete) == {"cleanup.policy": "delete"}


def test_topic_under_the_id_of_another_is_refused() -> None:
    """Whoever asks by id would be answered of either."""
    image = image_of([partition((1,))])
    namesake = CreateTopic(name="another", topic_id=TOPIC_ID, replicas=((1,),))

    assert refused(image, namesake) is ErrorCode.topic_already_exists


@pytest.mark.parametrize("first_id", [4_000, 6_000])
def test_producer_ids_are_given_out_in_one_row(first_id: int) -> None:
    """An id below the next one had an owner; one above it would leave a hole for a second one."""
    image = replace(image_of(), next_producer_id=5_000)
    change = AllocateProducerIds(broker_id=1, first_id=first_id, count=1_000)

    assert refused(image, change) is ErrorCode.coordinator_load_in_progress
    fits = replace(change, first_id=5_000)
    assert after(image, fits).next_producer_id == 6_000
