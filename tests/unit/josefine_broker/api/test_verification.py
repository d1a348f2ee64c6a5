"""A leader asks the coordinator before a transaction's first batch is let in (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.coordinators.transaction_verification import VERIFY_MS_MAX
from josefine_broker.engine.metadata.image import (
    JOSEFINE_VERSION,
    TRANSACTIONS_LEVEL,
    FeatureRange,
)
from josefine_broker.engine.partition.questions import WAITING_MAX
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire import apis
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.transaction_clients import (
    GROUP,
    TXN,
    V1,
    Client,
    Cluster,
    find,
    stable,
)
from tests.unit.josefine_broker.api.world import World

LEADER, COORDINATOR = 1, 2


def make_world(**arguments: Any) -> tuple[World, Client]:
    world = World(**arguments)
    world.create("orders")
    find(world.ask, TXN, 1)
    find(world.ask, GROUP, 0)
    client = Client(world.ask)
    assert client.init() is ErrorCode.none
    return world, client


def code_of(answer: Any) -> ErrorCode:
    response = answer.response if isinstance(answer, Parked) else answer
    return ErrorCode(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("is_commit", [True, False])
def test_batch_that_comes_after_its_transaction_was_ended_is_refused(is_commit: bool) -> None:
    world, client = make_world()
    client.add()
    assert client.produce() == ErrorCode.none
    late = client.request()
    assert client.end(is_commit=is_commit) is ErrorCode.none

    answers = [code_of(world.ask(apis.PRODUCE, late, version=version)) for version in (9, 11)]

    assert answers == [ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable]
    assert stable(world.ctx) == world.fetch(0).high_watermark == 2, "nothing is hidden"


def test_late_batch_that_was_stored_is_told_so() -> None:
    world, client = make_world()
    client.add()
    first = client.request()
    assert code_of(world.ask(apis.PRODUCE, first, version=11)) is ErrorCode.none
    client.end()

    assert code_of(world.ask(apis.PRODUCE, first, version=11)) is ErrorCode.none
    assert stable(world.ctx) == 2


def test_below_the_level_nobody_is_asked() -> None:
    level = (FeatureRange(JOSEFINE_VERSION, 1, TRANSACTIONS_LEVEL),)
    _, client = make_world(features=level)

    assert client.produce() == ErrorCode.none, "although it was never added"


def test_offsets_of_an_ended_transaction_are_refused() -> None:
    _, client = make_world()
    assert client.commit_offset(7) is ErrorCode.transaction_abortable
    client.add_offsets()
    assert client.commit_offset(7) is ErrorCode.none
    client.end()

    assert client.commit_offset(9) is ErrorCode.transaction_abortable
    assert client.committed(stable=True) == 7


class Question(NamedTuple):
    """Of the leader, to the coordinator."""

    cluster: Asking
    arguments: tuple[Any, ...]
    on_answer: Callable[[Any], None]

    def decide(self) -> Callable[[], None]:
        """The coordinator takes it now; the leader hears of that when the test says so."""
        answers: list[Any] = []
        Cluster._forward(self.cluster, *self.arguments, answers.append)
        return lambda: self.on_answer(answers[0])


class Asking(Cluster):
    """Questions to the coordinator wait until the test answers them."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Question] = []
        self.client = Client(self.ask)
        assert self.client.init() is ErrorCode.none
        assert self.client.add() is ErrorCode.none

    def _forward(
        self, broker_id: int, key: int, request: Any, deadline_ms: int, on_answer: Any
    ) -> None:
        arguments = broker_id, key, request, deadline_ms
        if key != apis.ADD_PARTITIONS_TO_TXN:
            super()._forward(*arguments, on_answer)
            return
        assert broker_id == COORDINATOR
        assert request.transactions[0].verify_only
        self.questions.append(Question(self, arguments, on_answer))

    def send(self, request: Any) -> Any:
        patient = request._replace(timeout_ms=60_000)
        return self.replicas.ask(LEADER, apis.PRODUCE, patient, V1[apis.PRODUCE])

    def answer(self) -> None:
        self.questions.pop(0).decide()()
        self.run()

    def end_offset(self) -> int:
        return self.replicas.ctx[LEADER].hosted.partitions["orders", 0].log.log_end_offset


cluster = fixture_of(Asking)


def test_batches_behind_the_first_one_wait_with_it_and_keep_their_order(cluster: Asking) -> None:
    answers = [cluster.send(cluster.client.request(bytes([at]))) for at in range(3)]
    assert (len(cluster.questions), cluster.end_offset()) == (1, 0)

    cluster.answer()

    assert [code_of(each) for each in answers] == [ErrorCode.none] * 3
    assert cluster.client.produce() == ErrorCode.none, "it is open now: nobody is asked"
    assert (cluster.questions, cluster.end_offset()) == ([], 4)


def test_who_finds_too_many_waiting_writes_again(cluster: Asking) -> None:
    requests = [cluster.client.request() for _ in range(WAITING_MAX + 2)]
    answers = [cluster.send(each) for each in requests]

    assert [code_of(each) for each in answers[WAITING_MAX:]] == [ErrorCode.not_enough_replicas] * 2
    cluster.answer()
    assert code_of(cluster.send(requests[-1])) is ErrorCode.not_enough_replicas, "not yet"
    again = [cluster.send(each) for each in requests[-2:]]
    cluster.run()
    assert [code_of(each) for each in again] == [ErrorCode.none] * 2


def test_without_an_answer_the_producer_writes_again_and_nothing_overtakes(
    cluster: Asking,
) -> None:
    first, second = cluster.client.request(), cluster.client.request()
    answer = cluster.send(first)
    cluster.deaf = {COORDINATOR}
    cluster.answer()
    assert code_of(answer) is ErrorCode.not_enough_replicas
    cluster.deaf = set()

    ahead = cluster.send(second)
    cluster.answer()
    assert code_of(ahead) is ErrorCode.not_enough_replicas
    again = [cluster.send(first), cluster.send(second)]
    cluster.answer()

    assert [code_of(each) for each in again] == [ErrorCode.none] * 2


def test_answer_that_a_marker_came_before_is_asked_for_again(cluster: Asking) -> None:
    """The coordinator said yes; its transaction was ended before the leader heard of it."""
    late = cluster.send(cluster.client.request())
    hear = cluster.questions.pop().decide()
    assert cluster.client.end() is ErrorCode.none
    cluster.run()

    hear()

    assert len(cluster.questions) == 1, "asked again"
    cluster.answer()
    assert code_of(late) is ErrorCode.transaction_abortable
    assert stable(cluster.replicas.ctx[LEADER]) == cluster.end_offset()


def test_answer_to_a_leader_of_before_lets_nothing_in(cluster: Asking) -> None:
    answer = cluster.send(cluster.client.request())
    cluster.replicas.lead(3)

    cluster.answer()
    while cluster.questions:
        cluster.answer()

    assert code_of(answer) in (ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas)
    assert cluster.end_offset() == 0


def test_successor_fences_who_waits(cluster: Asking) -> None:
    answer = cluster.send(cluster.client.request())
    successor = Client(cluster.ask)
    successor.init()
    cluster.run()

    cluster.answer()

    assert code_of(answer) is ErrorCode.invalid_producer_epoch


def test_verdict_of_a_coordinator_follows_its_record(cluster: Asking) -> None:
    client, ctx = cluster.client, cluster.replicas.ctx[COORDINATOR]
    coordinator = ctx.clients.transactions.coordinator
    there, elsewhere = TopicPartition("orders", 0), TopicPartition("orders", 1)
    view = coordinator.view(TXN)
    assert view is not None
    producer = view.record.producer

    codes = coordinator.verify(TXN, producer, (there, elsewhere))
    assert codes == {there: ErrorCode.none, elsewhere: ErrorCode.transaction_abortable}
    older = producer._replace(epoch=producer.epoch - 1)
    assert coordinator.verify(TXN, older, [there]) == {there: ErrorCode.producer_fenced}
    other = producer._replace(producer_id=producer.producer_id + 1)
    mapping = {there: ErrorCode.invalid_producer_id_mapping}
    assert coordinator.verify(TXN, other, [there]) == mapping
    assert coordinator.verify("nobody", producer, [there]) == mapping
    cluster.deaf = {LEADER, 3}
    assert client.end() is ErrorCode.none
    assert coordinator.verify(TXN, producer, [there]) == {there: ErrorCode.concurrent_transactions}


def test_a_question_ends_by_its_deadline(cluster: Asking) -> None:
    deadlines: list[int] = []
    cluster.replicas.ctx[LEADER].ports.forward = lambda *given: deadlines.append(given[3])

    cluster.send(cluster.client.request())

    assert deadlines == [cluster.replicas.clock.monotonic_ms() + VERIFY_MS_MAX]
