"""A request for metadata changes is answered once all of them are settled, or at its deadline."""

from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.changes import DeleteTopic
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.wire.entities import init_producer_id, metadata
from tests.support.garbage import alive, uncollected
from tests.unit.josefine_broker.api.world import World

NO_SUCH = DeleteTopic(topic_id=UUID(int=1))
RETRIED = {ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}


def two_changes() -> tuple[World, list[Proposal], object]:
    """One that will be applied, one that will be refused; nothing is committed yet."""
    world = World()
    world.create("orders")
    world.raft.at_once = False
    delete = DeleteTopic(topic_id=world.ctx.image.topics["orders"].topic_id)
    proposals = [submit_change(world.ctx, change, 100) for change in (delete, NO_SUCH)]
    token = answer_when_settled(world.ctx, proposals, 100, lambda: outcomes(proposals))
    return world, proposals, token


def outcomes(proposals: list[Proposal]) -> list[ErrorCode]:
    return [ErrorCode.none if each.error is None else each.error.code for each in proposals]


def test_request_is_answered_once_all_its_changes_are_settled() -> None:
    world, _, token = two_changes()
    assert isinstance(token, Promise)

    world.apply(world.raft.waiting.pop(0))
    assert not token.done
    world.apply(world.raft.waiting.pop(0))

    assert token.response == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    assert len(world.ctx.parked) == len(world.ctx.metadata.proposals) == 0


def test_request_that_was_answered_goes_without_the_collector() -> None:
    with uncollected():
        before = alive(Proposal), alive(Promise)  # those of other tests
        world, proposals, token = two_changes()
        world.raft.deliver()
        assert isinstance(token, Promise)
        assert token.done
        del proposals, token

        assert (alive(Proposal), alive(Promise)) == before


def test_deadline_tells_a_timeout_for_what_has_not_settled() -> None:
    world, proposals, token = two_changes()
    assert isinstance(token, Promise)
    world.apply(world.raft.waiting.pop(0))

    world.advance(100)
    world.raft.deliver()  # too late: nobody waits for it

    assert token.response == [ErrorCode.none, ErrorCode.request_timed_out]
    assert proposals[1].error is not None
    assert len(world.ctx.metadata.proposals) == 0


def test_deadline_says_what_stands_in_the_way() -> None:
    world, proposals, _ = two_changes()
    world.ctx.ports.why_no_controller = lambda: "no controller: one of three voters is reached"

    world.advance(100)

    assert {str(each.error) for each in proposals} == {
        "request_timed_out: no controller: one of three voters is reached"
    }


def test_changes_that_are_settled_already_are_answered_at_once() -> None:
    world = World()
    proposal = submit_change(world.ctx, NO_SUCH, 100)

    answer = answer_when_settled(world.ctx, [proposal], 100, lambda: proposal.error)

    assert isinstance(answer, KafkaError)
    assert len(world.ctx.parked) == 0


def test_change_that_is_lost_is_forgotten_at_its_deadline_though_its_client_is_gone() -> None:
    """Or every client that leaves while nobody decides would leave one behind for ever."""
    world, _, token = two_changes()
    assert isinstance(token, Promise)

    world.ctx.parked.cancel(token)
    assert len(world.ctx.metadata.proposals) == 2
    world.advance(100)

    assert len(world.ctx.metadata.proposals) == len(world.ctx.parked) == 0


def test_blocks_settle_a_change_whose_client_is_gone() -> None:
    """The ids of a block that was allocated meanwhile are this broker's all the same."""
    world, proposals, token = two_changes()
    assert isinstance(token, Promise)

    world.ctx.parked.cancel(token)
    world.raft.deliver()

    assert all(each.settled for each in proposals)
    assert len(world.ctx.parked) == 0


class FullRaft:
    """Takes nothing."""

    def propose(self, payload: bytes, deadline_ms: int) -> None:
        raise KafkaError(ErrorCode.not_controller, "the disk is full")


def test_change_that_raft_does_not_take_is_not_waited_for() -> None:
    """Or each attempt on a full disk would leave one behind for the life of the broker."""
    world = World()
    world.ctx.ports.raft = FullRaft()

    with pytest.raises(KafkaError, match="the disk is full"):
        submit_change(world.ctx, NO_SUCH, 100)

    assert len(world.ctx.metadata.proposals) == 0


def test_no_client_that_asks_for_no_controller_is_told_of_one() -> None:
    """A producer gives up for an error that it does not know (found by seed 203039)."""
    world = World(BrokerSettings(auto_create_topics=True))
    world.ctx.ports.raft = FullRaft()
    init = init_producer_id.InitProducerIdRequest(transaction_timeout_ms=0)
    of_transactions = replace(init, transactional_id="t")
    topics = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(name="new"),), allow_auto_topic_creation=True
    )

    assert world.ask(22, init).error_code == ErrorCode.coordinator_not_available
    assert world.ask(22, of_transactions).error_code in RETRIED
    assert world.ask(3, topics).topics[0].error_code == ErrorCode.leader_not_available
