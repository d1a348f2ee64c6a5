"""Proposals settle once, by their block or their deadline; producer ids are never repeated."""

from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterTopicConfig,
    At,
    Change,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FeatureLevel,
    Origin,
    RegisterBroker,
    SetFeatures,
    UnregisterBroker,
)
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import FeatureRange, MetadataImage
from josefine_broker.engine.metadata.proposals import (
    Proposal,
    Proposals,
    is_in_effect,
    may_propose_again,
)
from josefine_broker.engine.partition.producer_ids import ProducerIds

CHANGE = DeleteTopic(topic_id=UUID(int=1))
REFUSED = KafkaError(ErrorCode.unknown_topic_or_partition)


def two_proposals() -> tuple[Proposals, list[Proposal]]:
    table = Proposals(1, 500)
    return table, [table.open(CHANGE)[0] for _ in range(2)]


def test_payload_carries_the_change_and_its_origin() -> None:
    proposal, payload = Proposals(1, 500).open(CHANGE)

    assert decode_change(payload) == (CHANGE, Origin(1, 500))
    assert not proposal.settled


def test_block_of_another_broker_or_of_an_earlier_life_settles_nothing() -> None:
    table, proposals = two_proposals()

    assert table.close(Origin(2, 500)) is None
    assert table.close(Origin(1, 7)) is None

    assert len(table) == len(proposals)


def test_who_waits_for_a_proposal_is_told_once_and_when_it_is_settled() -> None:
    _, (proposal, _) = two_proposals()
    told: list[KafkaError | None] = []
    proposal.on_settled = lambda: told.append(proposal.error)

    proposal.settle(REFUSED)

    assert (proposal.settled, told) == (True, [REFUSED])


def test_proposal_that_was_given_up_is_settled_by_no_block() -> None:
    table, (proposal, other) = two_proposals()

    table.give_up(proposal, REFUSED)
    table.give_up(proposal, REFUSED)

    assert table.close(proposal.origin) is None
    assert table.close(other.origin) is other
    assert len(table) == 0


def test_producer_ids_come_from_each_block_once() -> None:
    ids = ProducerIds()
    assert ids.take() is None

    ids.add(1000, 2)
    ids.add(5000, 1)

    assert [ids.take() for _ in range(4)] == [1000, 1001, 5000, None]


TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)
CREATE = CreateTopic(name="t", topic_id=TOPIC_ID, replicas=((1,),), config=(("a", "1"),))


def register(broker_id: int) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        incarnation=f"of {broker_id}",
        endpoints=(),
        features=(*SUPPORTED, FeatureRange("other", 1, 1)),
    )


def image_after(*changes: Change) -> MetadataImage:
    image = MetadataImage(cluster_id="c")
    for height, change in enumerate((register(1), *changes), start=1):
        image = apply(image, change, At(1, height))
    return image


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ((), CREATE),
        ((CREATE,), DeleteTopic(topic_id=TOPIC_ID)),
        ((CREATE,), CreatePartitions(topic_id=TOPIC_ID, first_partition=1, replicas=((1,), (1,)))),
        ((CREATE,), AlterTopicConfig(topic_id=TOPIC_ID, assign=(("b", "2"),), remove=("a",))),
        ((), register(2)),
        ((register(2),), UnregisterBroker(broker_id=2)),
        ((), SetFeatures(levels=(FeatureLevel("other", 1, 0),))),
    ],
    ids=lambda each: "" if isinstance(each, tuple) else type(each).__name__,
)
def test_image_shows_a_change_when_it_was_applied_and_not_before(
    before: tuple[Change, ...], change: Change
) -> None:
    assert not is_in_effect(change, image_after(*before))
    assert is_in_effect(change, image_after(*before, change))


def test_image_does_not_show_whose_a_namesake_or_a_block_of_producer_ids_is() -> None:
    namesake = CreateTopic(name="t", topic_id=OTHER_ID, replicas=((1,),))
    ids = AllocateProducerIds(broker_id=1, first_id=0, count=10)

    assert not is_in_effect(CREATE, image_after(namesake))
    assert not is_in_effect(ids, image_after(ids))
    assert not is_in_effect(
        AlterTopicConfig(topic_id=OTHER_ID, assign=(), remove=("a",)), image_after(CREATE)
    )


def test_snapshot_settles_what_it_shows_and_leaves_the_rest_open() -> None:
    table = Proposals(1, 500)
    shown, _ = table.open(CREATE)
    hidden, _ = table.open(CreateTopic(name="u", topic_id=OTHER_ID, replicas=((1,),)))

    table.settle_by(image_after(CREATE))

    assert (shown.settled, shown.error, hidden.settled) == (True, None, False)
    assert table.close(shown.origin) is None
    assert table.close(hidden.origin) is hidden


def test_only_what_takes_effect_once_is_proposed_again_while_it_is_in_doubt() -> None:
    """Else a block of ours that did commit would be undone or done twice by the second one."""
    config = AlterTopicConfig(topic_id=UUID(int=1), assign=(("retention.ms", "5"),), remove=())
    removal = UnregisterBroker(broker_id=2)
    changes = (CHANGE, config, CREATE, removal)
    payloads = [Proposals(1, 500).open(each)[1] for each in changes]

    may = [may_propose_again(each, is_dead=False) for each in payloads]
    assert may == [True, False, False, False]
    assert all(may_propose_again(each, is_dead=True) for each in payloads)


def test_proposal_is_open_until_its_block_was_applied_or_it_was_given_up() -> None:
    table = Proposals(1, 500)
    closed, its_payload = table.open(CHANGE)
    given_up, other_payload = table.open(CHANGE)
    assert table.has_open(its_payload)
    assert table.has_open(other_payload)
    assert not Proposals(2, 500).has_open(its_payload)

    table.close(closed.origin)
    table.give_up(given_up, REFUSED)

    assert not table.has_open(its_payload)
    assert not table.has_open(other_payload)


def test_image_shows_no_change_of_which_it_has_another_ones_effect() -> None:
    """Somebody else's topic of that size, process of that broker, or value left in place."""
    image = image_after(
        CREATE, AlterTopicConfig(topic_id=CREATE.topic_id, assign=(("segment.ms", "9"),), remove=())
    )
    width = len(CREATE.replicas)
    grown = CreatePartitions(topic_id=CREATE.topic_id, first_partition=width - 1, replicas=((1,),))
    less = CreatePartitions(topic_id=CREATE.topic_id, first_partition=0, replicas=())
    removal = AlterTopicConfig(topic_id=CREATE.topic_id, assign=(), remove=("segment.ms",))
    other = RegisterBroker(broker_id=1, incarnation="nobody's", endpoints=(), features=SUPPORTED)

    assert is_in_effect(grown, image)
    assert not is_in_effect(less, image)
    assert not is_in_effect(removal, image)
    assert not is_in_effect(other, image)
