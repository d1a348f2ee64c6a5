"""UnregisterBroker, UpdateFeatures, DescribeQuorum, and what ApiVersions says of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.api.shared.forwarding import FORWARDED_CLIENT_ID
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.changes import CreateTopic, RegisterBroker
from josefine_broker.engine.metadata.features import JOSEFINE_VERSION
from josefine_broker.engine.metadata.image import (
    TRANSACTION_VERSION,
    VERIFYING_LEVEL,
    Address,
    FeatureRange,
)
from josefine_broker.engine.ports import QuorumMember, QuorumView
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import (
    describe_quorum,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from tests.unit.josefine_broker.api.world import World

UPGRADE, SAFE_DOWNGRADE = 1, 2
BAD_LEVEL = ErrorCode.invalid_update_version


def unregister(world: World, broker_id: int) -> Any:
    return world.ask(64, unregister_broker.UnregisterBrokerRequest(broker_id=broker_id))


def test_broker_without_replicas_is_unregistered() -> None:
    """Checklist row 16."""
    world = World(brokers=3)

    assert unregister(world, 3).error_code == ErrorCode.none
    assert sorted(world.ctx.image.brokers) == [1, 2]
    assert world.ctx.image.unregistered == {3}


def test_unknown_broker_cannot_be_unregistered() -> None:
    world = World()

    assert unregister(world, 7).error_code == ErrorCode.broker_id_not_registered


def test_broker_that_holds_replicas_stays_registered() -> None:
    world = World(brokers=2)
    world.propose(CreateTopic(name="t", topic_id=world.topic_id(), replicas=((2,), (2, 1))))

    answer = unregister(world, 2)

    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message == ("broker 2 holds replicas of 2 partitions: reassign them first")
    assert 2 in world.ctx.image.brokers


def test_unregistering_that_is_refused_writes_no_block() -> None:
    world = World(brokers=2)
    world.propose(CreateTopic(name="t", topic_id=world.topic_id(), replicas=((2,),)))
    before = list(world.raft.committed)

    unregister(world, 7)
    unregister(world, 2)

    assert world.raft.committed == before


def test_broker_that_got_a_replica_before_the_block_stays_registered() -> None:
    world = World(brokers=2)
    create = CreateTopic(name="t", topic_id=world.topic_id(), replicas=((2,),))
    world.raft.at_once = False
    world.propose(create)

    waiting = unregister(world, 2)
    world.raft.deliver()

    assert waiting.response.error_code == ErrorCode.invalid_request
    assert 2 in world.ctx.image.brokers


def test_unregistering_waits_for_the_block() -> None:
    world = World(brokers=2)
    world.raft.at_once = False

    waiting = unregister(world, 2)
    again = unregister(world, 2)
    assert isinstance(waiting, Parked)
    world.raft.deliver()

    response: Any = waiting.response
    assert response.error_code == ErrorCode.none
    assert again.response.error_code == ErrorCode.broker_id_not_registered


def test_last_broker_is_not_unregistered_and_writes_no_block() -> None:
    world = World()
    before = list(world.raft.committed)

    answer = unregister(world, 1)

    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message == "broker 1 is the last of its cluster, which would end with it"
    assert world.raft.committed == before


def test_only_voter_is_not_unregistered_while_others_only_observe() -> None:
    """Raft would keep it as a member, and it would have stopped."""
    world = World(brokers=2)
    world.ctx.ports.quorum = Quorum(voters=(QuorumMember(1),))

    answer = unregister(world, 1)

    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message.startswith("broker 1 is the only voter of the cluster: ")
    assert unregister(world, 2).error_code == ErrorCode.none


def lost_voter(live: tuple[int, ...] = (1, 2)) -> tuple[World, Quorum]:
    """Three voters, of which broker 1 leads; who is not live is fenced."""
    world = World(brokers=3)
    brokers = {
        key: replace(each, fenced=key not in live) for key, each in world.ctx.image.brokers.items()
    }
    world.ctx.image = replace(world.ctx.image, brokers=brokers)
    quorum = Quorum(voters=tuple(QuorumMember(each) for each in (1, 2, 3)))
    world.ctx.ports.quorum = quorum
    world.ctx.cluster.controller_term = 5
    return world, quorum


def remove_vote(world: World, broker_id: int, **fields: Any) -> Any:
    return world.ask(81, remove_raft_voter.RemoveRaftVoterRequest(voter_id=broker_id, **fields))


def test_vote_of_a_broker_that_lost_its_data_is_taken_away() -> None:
    world, quorum = lost_voter()

    assert remove_vote(world, 3).error_code is ErrorCode.none
    assert quorum.removed == [3]
    assert sorted(world.ctx.image.brokers) == [1, 2, 3], "it keeps its number and its replicas"


@pytest.mark.parametrize(
    ("live", "broker_id", "code", "words"),
    [
        ((1, 2, 3), 3, ErrorCode.invalid_request, "stop it first"),
        ((1,), 3, ErrorCode.invalid_request, "start broker 2 first"),
        ((1, 2), 7, ErrorCode.voter_not_found, "broker 7 does not vote"),
    ],
)
def test_vote_that_must_stay_stays(
    live: tuple[int, ...], broker_id: int, code: ErrorCode, words: str
) -> None:
    world, quorum = lost_voter(live)

    answer = remove_vote(world, broker_id)

    assert answer.error_code is code
    assert words in answer.error_message
    assert quorum.removed == []


def test_vote_is_taken_away_by_the_controller_alone_and_when_raft_is_ready() -> None:
    world, quorum = lost_voter()
    quorum.is_ready = False
    assert remove_vote(world, 3).error_code is ErrorCode.request_timed_out
    assert remove_vote(world, 3, cluster_id="red").error_code is ErrorCode.inconsistent_cluster_id

    world.ctx.cluster.controller_term = None
    assert remove_vote(world, 3).error_code is ErrorCode.not_controller


def world_at(level: int, *, brokers: int = 1, name: str = JOSEFINE_VERSION) -> World:
    """A cluster at a level of a feature; every broker knows levels 1 and 2 of it."""
    world = World(brokers=brokers)
    known = (FeatureRange(name, 1, 2),)
    image = world.ctx.image
    world.ctx.image = replace(
        image,
        brokers={key: replace(each, features=known) for key, each in image.brokers.items()},
        features={name: level},
        features_epoch=3,
    )
    return world


def update(
    world: World, level: int, kind: int = UPGRADE, name: str = JOSEFINE_VERSION, **fields: Any
) -> Any:
    key = update_features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = update_features.UpdateFeaturesRequest(feature_updates=(key,), **fields)
    return world.ask(57, request)


def level(world: World) -> int:
    return world.ctx.image.features[JOSEFINE_VERSION]


def test_level_is_raised_when_every_broker_understands_it() -> None:
    world = world_at(1, brokers=2)

    answer = update(world, 2)

    assert answer.error_code == ErrorCode.none
    assert level(world) == 2
    assert world.ctx.image.features_epoch == world.height


def test_rolling_upgrade_raises_the_level_last_and_shuts_old_code_out() -> None:
    """Old brokers, then mixed ones, then new ones; then the level; then no old one any more."""
    at = level(World())
    old, new = (FeatureRange(JOSEFINE_VERSION, 1, top) for top in (at, at + 1))
    world = World(brokers=2, features=(old,))

    def restart(broker_id: int, known: FeatureRange) -> ErrorCode:
        before = world.ctx.image.brokers[broker_id].epoch
        world.propose(
            RegisterBroker(
                broker_id=broker_id,
                incarnation=f"again {world.height}",
                endpoints=(),
                features=(known,),
            )
        )
        is_in = world.ctx.image.brokers[broker_id].epoch > before
        return ErrorCode.none if is_in else ErrorCode.unsupported_version

    assert update(world, at + 1).error_code == BAD_LEVEL
    assert restart(1, new) == ErrorCode.none
    assert update(world, at + 1).error_code == BAD_LEVEL, "broker 2 runs the old code"
    assert restart(1, old) == ErrorCode.none, "nothing was written that it could not read"
    assert restart(1, new) == restart(2, new) == ErrorCode.none

    assert update(world, at + 1).error_code == ErrorCode.none

    assert restart(2, old) == ErrorCode.unsupported_version
    assert restart(2, new) == ErrorCode.none


def test_level_that_one_broker_does_not_understand_is_refused() -> None:
    """A rolling upgrade ends with the last broker's code, not before."""
    world = world_at(1, brokers=2)
    old = replace(world.ctx.image.brokers[2], features=(FeatureRange(JOSEFINE_VERSION, 1, 1),))
    world.ctx.image = replace(world.ctx.image, brokers={**world.ctx.image.brokers, 2: old})

    answer = update(world, 2)

    assert answer.error_code == BAD_LEVEL
    assert answer.error_message == "broker 2 does not support 'josefine.version' 2"
    assert [each.error_code for each in answer.results] == [BAD_LEVEL]
    assert level(world) == 1


@pytest.mark.parametrize(
    ("wanted", "kind"), [(1, UPGRADE), (3, UPGRADE), (2, 9), (-1, UPGRADE), (0, SAFE_DOWNGRADE)]
)
def test_level_is_not_changed_the_wrong_way(wanted: int, kind: int) -> None:
    world = world_at(2)

    assert update(world, wanted, kind).error_code == BAD_LEVEL
    assert level(world) == 2


def test_level_goes_down_when_asked_for_as_a_downgrade_and_not_up() -> None:
    world = world_at(2, name="other")

    assert update(world, 1, UPGRADE, "other").error_code == BAD_LEVEL
    assert update(world, 1, SAFE_DOWNGRADE, "other").error_code == ErrorCode.none
    assert world.ctx.image.features == {"other": 1}
    assert update(world, 2, SAFE_DOWNGRADE, "other").error_code == BAD_LEVEL


def test_level_that_formats_hang_on_never_goes_down() -> None:
    answer = update(world_at(2), 1, SAFE_DOWNGRADE)

    assert answer.error_code == BAD_LEVEL
    assert answer.error_message == (
        "'josefine.version' cannot be lowered from 2 to 1: what was written stays"
    )


def test_level_that_is_there_already_and_a_check_only_propose_nothing() -> None:
    world = world_at(1)
    before = len(world.raft.committed)

    assert update(world, 1).error_code == ErrorCode.none
    assert update(world, 2, validate_only=True).error_code == ErrorCode.none
    assert len(world.raft.committed) == before


def test_transactions_of_version_2_wait_for_the_level_that_verifies_them() -> None:
    """KIP-1022: and both may be raised by one request; the version may be lowered again."""
    known = (
        FeatureRange(JOSEFINE_VERSION, 1, VERIFYING_LEVEL),
        FeatureRange(TRANSACTION_VERSION, 1, 2),
    )
    world = World()
    image = world.ctx.image
    world.ctx.image = replace(
        image,
        brokers={key: replace(each, features=known) for key, each in image.brokers.items()},
        features={JOSEFINE_VERSION: VERIFYING_LEVEL - 1},
    )
    refused = update(world, 2, name=TRANSACTION_VERSION)
    assert refused.error_code == BAD_LEVEL
    assert refused.error_message == "'transaction.version' 2 needs 'josefine.version' 5 first"

    keys = [
        update_features.FeatureUpdateKey(feature=name, max_version_level=wanted)
        for name, wanted in ((JOSEFINE_VERSION, VERIFYING_LEVEL), (TRANSACTION_VERSION, 2))
    ]
    both = update_features.UpdateFeaturesRequest(feature_updates=tuple(keys))
    assert world.ask(57, both).error_code == ErrorCode.none
    assert world.ctx.image.tags_transactions
    assert update(world, 0, SAFE_DOWNGRADE, TRANSACTION_VERSION).error_code == ErrorCode.none
    assert not world.ctx.image.tags_transactions


def test_feature_nobody_knows_is_refused() -> None:
    assert update(world_at(1), 1, name="kraft.version").error_code == BAD_LEVEL


def test_feature_named_twice_is_refused() -> None:
    key = update_features.FeatureUpdateKey(feature=JOSEFINE_VERSION, max_version_level=2)
    request = update_features.UpdateFeaturesRequest(feature_updates=(key, key))

    assert world_at(1).ask(57, request).error_code == ErrorCode.invalid_request


def test_updates_of_two_clients_at_once_are_told_apart() -> None:
    world = world_at(1)
    world.raft.at_once = False

    first, second = update(world, 2), update(world, 2)
    world.raft.deliver()

    assert first.response.error_code == ErrorCode.none
    assert second.response.error_code == BAD_LEVEL


VOTERS = QuorumMember(2), QuorumMember(1, 42, 900, 950)


class Quorum:
    """What the host would say of its Raft."""

    def __init__(
        self, leader_id: int = 1, voters: tuple[QuorumMember, ...] = VOTERS, term: int = 5
    ) -> None:
        self.leader_id = leader_id
        self.term = term
        self.voters = voters
        self.removed: list[int] = []
        self.is_ready = True

    def describe(self) -> QuorumView:
        return QuorumView(
            leader_id=self.leader_id,
            term=self.term,
            commit_height=41,
            voters=self.voters,
            observers=(QuorumMember(3, 7, 1, 1),),
        )

    def remove_voter(self, broker_id: int) -> bool:
        self.removed.append(broker_id)
        return self.is_ready


class Forwarded:
    """`ForwardPort` that notes what it is to pass on; the test gives the answers."""

    def __init__(self, world: World) -> None:
        self.asked: list[tuple[int, int, Any]] = []
        self.answer: Callable[[Any], None] = lambda _: None
        world.ctx.ports.forward = self

    def __call__(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any], None],
        /,
    ) -> None:
        self.asked.append((broker_id, api_key, request))
        self.answer = on_answer


def quorum_request(
    topic: str = "__cluster_metadata", index: int = 0
) -> describe_quorum.DescribeQuorumRequest:
    e = describe_quorum
    part = e.PartitionRequest(partition_index=index)
    return e.DescribeQuorumRequest(topics=(e.TopicRequest(topic_name=topic, partitions=(part,)),))


def quorum_of(world: World, topic: str = "__cluster_metadata", index: int = 0) -> Any:
    return world.ask(55, quorum_request(topic, index))


def is_not_leader(answer: Any) -> bool:
    """Whether it says so, and names the leader, broker 2."""
    (partition,) = answer.topics[0].partitions
    return (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        ErrorCode.not_leader_or_follower,
        2,
        5,
    )


def test_quorum_is_told_as_kafkas_metadata_partition() -> None:
    """KIP-595: term as leader epoch, heights as offsets with exclusive ends."""
    world = World(brokers=3)
    broker = replace(world.ctx.image.brokers[2], raft=Address("host2", 9093))
    world.ctx.image = replace(world.ctx.image, brokers={**world.ctx.image.brokers, 2: broker})
    world.ctx.ports.quorum = Quorum()

    answer = quorum_of(world)

    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 5, 42)
    told = [
        (m.replica_id, m.log_end_offset, m.last_fetch_timestamp, m.last_caught_up_timestamp)
        for m in (*partition.current_voters, *partition.observers)
    ]
    assert told == [(2, -1, -1, -1), (1, 43, 900, 950), (3, 8, 1, 1)]
    assert [(n.node_id, [(at.host, at.port) for at in n.listeners]) for n in answer.nodes] == [
        (1, []),
        (2, [("host2", 9093)]),
        (3, []),
    ]


def test_term_beyond_what_kafka_carries_is_told_as_the_highest_epoch() -> None:
    world = World(brokers=3)
    world.ctx.ports.quorum = Quorum(term=1 << 41)

    (partition,) = quorum_of(world).topics[0].partitions

    assert partition.leader_epoch == 2**31 - 1


def test_other_partitions_have_no_quorum() -> None:
    world = World()
    world.ctx.ports.quorum = Quorum()

    for topic, index in (("orders", 0), ("__cluster_metadata", 1)):
        (partition,) = quorum_of(world, topic, index).topics[0].partitions
        assert partition.error_code == ErrorCode.unknown_topic_or_partition


def test_broker_that_does_not_lead_asks_the_leader_of_the_quorum() -> None:
    world = World(brokers=3)
    world.ctx.ports.quorum = Quorum(leader_id=2)
    forwarded = Forwarded(world)

    waiting = quorum_of(world)

    assert forwarded.asked == [(2, 55, quorum_request())]
    assert not waiting.done
    forwarded.answer("what the leader says")
    assert waiting.response == "what the leader says"


@pytest.mark.parametrize("how", ["no answer", "too late", "nobody to ask", "forwarded already"])
def test_quorum_that_its_leader_does_not_tell_is_somebody_elses(how: str) -> None:
    world = World(brokers=3)
    world.ctx.ports.quorum = Quorum(leader_id=2)
    if how == "nobody to ask":
        assert is_not_leader(quorum_of(world))
        return
    forwarded = Forwarded(world)
    if how == "forwarded already":
        assert is_not_leader(world.ask(55, quorum_request(), client_id=FORWARDED_CLIENT_ID))
        assert forwarded.asked == []
        return
    waiting = quorum_of(world)
    if how == "no answer":
        forwarded.answer(None)
    else:
        world.advance(world.ctx.settings.metadata_timeout_ms)
    assert is_not_leader(waiting.response)
    forwarded.answer("after all")  # is for nobody
    assert len(world.ctx.parked) == 0


def test_quorum_without_a_leader_is_told_by_nobody() -> None:
    world = World()
    world.ctx.ports.quorum = Quorum(leader_id=-1)
    forwarded = Forwarded(world)

    (partition,) = quorum_of(world).topics[0].partitions

    assert (partition.error_code, forwarded.asked) == (ErrorCode.not_leader_or_follower, [])


def test_broker_that_knows_no_quorum_says_so() -> None:
    assert quorum_of(World()).error_code == ErrorCode.broker_not_available
