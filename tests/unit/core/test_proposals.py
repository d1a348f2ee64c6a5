"""Proposals settle once, by their block or their deadline; producer ids are never repeated."""

from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.change_codec import decode_change
from josefine_broker.core.changes import DeleteTopic, Origin
from josefine_broker.core.parked import ParkedRequests
from josefine_broker.core.producer_ids import ProducerIds
from josefine_broker.core.proposals import AwaitProposals, Proposal, Proposals

CHANGE = DeleteTopic(topic_id=UUID(int=1))
REFUSED = KafkaError(ErrorCode.unknown_topic_or_partition)


def two_proposals() -> tuple[Proposals, list[Proposal]]:
    table = Proposals(1, 500)
    return table, [table.open(CHANGE)[0] for _ in range(2)]


def outcome(proposals: list[Proposal]) -> list[KafkaError | None]:
    return [proposal.error for proposal in proposals]


def test_payload_carries_the_change_and_its_origin() -> None:
    proposal, payload = Proposals(1, 500).open(CHANGE)

    assert decode_change(payload) == (CHANGE, Origin(1, 500))
    assert not proposal.settled


def test_block_of_another_broker_or_of_an_earlier_life_settles_nothing() -> None:
    table, proposals = two_proposals()

    assert table.settle(Origin(2, 500), None) is None
    assert table.settle(Origin(1, 7), None) is None

    assert not any(proposal.settled for proposal in proposals)


def test_request_waits_for_all_its_proposals() -> None:
    table, proposals = two_proposals()
    waiting = AwaitProposals(table, proposals, 100, lambda: outcome(proposals))
    parked = ParkedRequests()
    parked.park(waiting, [proposal.origin for proposal in proposals])

    table.settle(proposals[1].origin, REFUSED)
    parked.wake(proposals[1].origin, 0)
    assert not waiting.done
    table.settle(proposals[0].origin, None)
    parked.wake(proposals[0].origin, 0)

    assert waiting.response == [None, REFUSED]
    assert len(table) == len(parked) == 0


def test_deadline_tells_a_timeout_for_what_has_not_settled() -> None:
    table, proposals = two_proposals()
    waiting = AwaitProposals(table, proposals, 100, lambda: outcome(proposals))
    table.settle(proposals[0].origin, None)

    waiting.expire(100)

    assert proposals[0].error is None
    assert proposals[1].error is not None
    assert proposals[1].error.code is ErrorCode.request_timed_out
    assert table.settle(proposals[1].origin, None) is None


def test_producer_ids_come_from_each_block_once() -> None:
    ids = ProducerIds()
    assert ids.take() is None

    ids.add(1000, 2)
    ids.add(5000, 1)

    assert [ids.take() for _ in range(4)] == [1000, 1001, 5000, None]
