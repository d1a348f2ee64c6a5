"""Routing, refreshing and giving up, run without a socket."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import (
    admin,
    groups,
    offsets,
    operations,
    produce,
    transaction_admin,
)
from josefine_broker.client.effects import ANY_BROKER, CONTROLLER, Call, Exchange, Pause, Resumed
from josefine_broker.client.offsets import LATEST
from josefine_broker.client.retry import ACTIONS
from josefine_broker.client.session import Policy
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from josefine_broker.wire import produce as wire_produce
from tests.unit.josefine_broker.client.driver import (
    Driver,
    is_metadata,
    listed,
    metadata,
    unknown_topic,
    unreachable,
)

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
BATCH = bytes(build_batch([Record(b"k", b"v", (), 5)]))


def list_latest(driver: Driver, *partitions: TopicPartition, timeout_ms: int = 30_000) -> Any:
    wanted = dict.fromkeys(partitions, LATEST)
    return driver.run(
        lambda t, d: offsets.list_offsets(driver.session, wanted, 0, t, d), timeout_ms
    )


def test_partitions_of_one_leader_travel_in_one_request() -> None:
    driver = Driver(lambda c: metadata({"t": [1, 2, 1]}) if is_metadata(c) else listed(c))

    found = list_latest(driver, T0, T1, T2)

    assert {tp.partition: at.offset for tp, at in found.items()} == {0: 100, 1: 101, 2: 102}
    assert driver.asked == [(apis.METADATA, ANY_BROKER), (apis.LIST_OFFSETS, 1),
                            (apis.LIST_OFFSETS, 2)]  # fmt: skip


def test_known_metadata_is_not_asked_for_again() -> None:
    driver = Driver(lambda c: metadata({"t": [1]}) if is_metadata(c) else listed(c))

    list_latest(driver, T0)
    list_latest(driver, T0)

    assert [key for key, _ in driver.asked].count(apis.METADATA) == 1


def test_not_leader_asks_for_metadata_and_then_the_new_leader() -> None:
    moved = False

    def answer(call: Call) -> Any:
        nonlocal moved
        if is_metadata(call):
            return metadata({"t": [2 if moved else 1]})
        moved = True
        return listed(call, {0: ErrorCode.not_leader_or_follower} if call.node == 1 else None)

    driver = Driver(answer)

    assert list_latest(driver, T0)[T0].offset == 100
    assert [node for key, node in driver.asked if key == apis.LIST_OFFSETS] == [1, 2]


def test_only_partitions_that_failed_are_asked_for_again() -> None:
    rounds: list[list[int]] = []

    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [1, 1]})
        rounds.append([p.partition_index for t in call.request.topics for p in t.partitions])
        return listed(call, {1: ErrorCode.leader_not_available} if len(rounds) == 1 else None)

    assert len(list_latest(Driver(answer), T0, T1)) == 2
    assert rounds == [[0, 1], [1]]


def test_a_lost_leader_is_looked_for_until_the_deadline() -> None:
    driver = Driver(lambda c: metadata({"t": [1]}) if is_metadata(c) else unreachable("host1:1"))

    with pytest.raises(KafkaError) as raised:
        list_latest(driver, T0, timeout_ms=5_000)

    assert raised.value.code is ErrorCode.network_exception
    assert "cannot reach a broker at host1:1" in raised.value.message
    assert 4_000 < driver.paused_ms <= 5_000


def test_an_unknown_topic_is_waited_for_only_shortly_and_then_named() -> None:
    driver = Driver(lambda c: unknown_topic("t"))

    with pytest.raises(KafkaError) as raised:
        list_latest(driver, T0)

    assert raised.value.code is ErrorCode.unknown_topic_or_partition
    assert raised.value.message == "topic 't' does not exist"
    assert driver.paused_ms <= Policy().unknown_topic_timeout_ms


def test_a_topic_that_appears_while_waiting_is_found() -> None:
    def answer(call: Call) -> Any:
        if is_metadata(call):
            return unknown_topic("t") if len(driver.calls) < 3 else metadata({"t": [1]})
        return listed(call)

    driver = Driver(answer)

    assert list_latest(driver, T0)[T0].offset == 100


def test_a_partition_that_a_topic_has_not_is_named_with_the_number_it_has() -> None:
    driver = Driver(lambda c: metadata({"t": [1]}))

    with pytest.raises(KafkaError, match="topic 't' has no partition 2: it has 1, numbered from 0"):
        list_latest(driver, T2)


def test_each_produced_partition_has_its_own_outcome() -> None:
    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [1, 1]})
        codes = {0: 0, 1: int(ErrorCode.message_too_large)}
        parts = [
            wire_produce.ProducePartitionResponse(p.index, codes[p.index], 40)
            for topic in call.request.topics
            for p in topic.partitions
        ]
        return wire_produce.ProduceResponse([wire_produce.ProduceTopicResponse("t", None, parts)])

    driver = Driver(answer)
    outcomes = driver.run(
        lambda t, d: produce.produce(driver.session, {T0: BATCH, T1: BATCH}, -1, t, d)
    )

    assert outcomes[T0].result.base_offset == 40
    assert outcomes[T0].error is None
    error = outcomes[T1].error
    assert error is not None
    assert error.code is ErrorCode.message_too_large


def test_produce_without_acks_waits_for_no_answer() -> None:
    driver = Driver(lambda c: metadata({"t": [1]}) if is_metadata(c) else None)

    outcomes = driver.run(lambda t, d: produce.produce(driver.session, {T0: BATCH}, 0, t, d))

    assert not driver.calls[-1].wants_response
    assert outcomes[T0] == operations.Outcome()


def test_a_partition_that_a_response_leaves_out_is_an_error() -> None:
    empty = wire_produce.ProduceResponse([])
    driver = Driver(lambda c: metadata({"t": [1]}) if is_metadata(c) else empty)

    outcomes = driver.run(lambda t, d: produce.produce(driver.session, {T0: BATCH}, -1, t, d))

    assert outcomes[T0].error is not None
    assert outcomes[T0].error.code is ErrorCode.unknown_server_error
    assert driver.paused_ms == 0, "nothing says that it would be there the next time"


def test_asking_about_a_topic_does_not_make_it() -> None:
    """A slip in a name would else leave a topic behind, with the broker's defaults."""
    driver = Driver(lambda c: metadata({"t": [1]}) if is_metadata(c) else listed(c))

    list_latest(driver, T0)
    driver.run(lambda t, d: operations.metadata(driver.session, ("t",), t, d))

    asked = [call.request for call in driver.calls if is_metadata(call)]
    assert [request.allow_auto_topic_creation for request in asked] == [False, False]


def test_topics_that_are_gone_are_forgotten_when_all_are_asked_for() -> None:
    there = {"t": [1], "u": [1]}
    driver = Driver(lambda c: metadata(there))
    driver.run(lambda t, d: operations.metadata(driver.session, None, t, d))

    del there["u"]
    driver.run(lambda t, d: operations.metadata(driver.session, None, t, d))

    assert list(driver.session.cluster.topics) == ["t"]


def test_topics_are_created_by_the_controller() -> None:
    result = e.create_topics.CreatableTopicResult(name="t", num_partitions=3, configs=None)
    driver = Driver(lambda c: e.create_topics.CreateTopicsResponse(topics=(result,)))

    created = driver.run(
        lambda t, d: admin.create_topics(driver.session, [admin.NewTopic("t", 3)], False, t, d)
    )

    assert driver.asked == [(apis.CREATE_TOPICS, CONTROLLER)]
    assert created["t"].partitions == 3


def test_a_broker_that_answers_at_the_deadline_it_was_told_is_still_heard() -> None:
    """Else its reason is lost, and it is said not to have answered."""
    session = Driver(lambda _: None).session
    session.connected()
    late = e.create_topics.CreatableTopicResult(
        name="t",
        error_code=ErrorCode.request_timed_out,
        error_message="no controller: 1 of the voters 1, 2, 3 is there",
        configs=None,
    )
    steps = admin.create_topics(session, [admin.NewTopic("t")], False, 1_000, 31_000)

    first = next(steps)
    assert isinstance(first, Exchange)
    assert first.calls[0].request.timeout_ms == 30_000
    assert first.deadline_ms > 31_000
    pause = steps.send(Resumed(5_000, (unreachable(),)))
    assert isinstance(pause, Pause)
    second = steps.send(Resumed(pause.until_ms))

    assert isinstance(second, Exchange)
    assert second.calls[0].request.timeout_ms == 31_000 - pause.until_ms
    with pytest.raises(KafkaError, match=r"no controller: 1 of the voters 1, 2, 3 is there"):
        steps.send(Resumed(31_010, (e.create_topics.CreateTopicsResponse(topics=(late,)),)))


def test_deleting_a_topic_that_is_not_there_fails_at_once() -> None:
    result = e.delete_topics.DeletableTopicResult(
        name="t", error_code=ErrorCode.unknown_topic_or_partition
    )
    driver = Driver(lambda c: e.delete_topics.DeleteTopicsResponse(responses=(result,)))

    with pytest.raises(KafkaError, match="topic 't' does not exist"):
        driver.run(lambda t, d: admin.delete_topics(driver.session, ["t"], t, d))

    assert driver.paused_ms == 0


def test_a_coordinator_that_moved_is_looked_up_again() -> None:
    lookups = 0

    def answer(call: Call) -> Any:
        nonlocal lookups
        if is_metadata(call):
            return metadata({"t": [1]})
        if call.api_key == apis.FIND_COORDINATOR:
            lookups += 1
            found = e.find_coordinator.Coordinator(key="g", node_id=lookups, host="h", port=1)
            return e.find_coordinator.FindCoordinatorResponse(coordinators=(found,))
        code = ErrorCode.not_coordinator if call.node == 1 else ErrorCode.none
        part = e.offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = e.offset_commit.OffsetCommitResponseTopic(name="t", partitions=(part,))
        return e.offset_commit.OffsetCommitResponse(topics=(topic,))

    driver = Driver(answer)
    driver.run(lambda t, d: groups.commit_offsets(driver.session, "g", {T0: 4}, t, d))

    assert [n for key, n in driver.asked if key == apis.OFFSET_COMMIT] == [1, 2]
    assert driver.session.coordinators == {"g": 2}


def test_bootstrap_addresses_stay_candidates_behind_known_brokers() -> None:
    driver = Driver(lambda c: metadata({"t": [1]}))
    driver.run(lambda t, d: operations.metadata(driver.session, None, t, d))

    addresses = [str(a) for a in driver.session.candidates(ANY_BROKER)]

    assert addresses == ["host1:1", "host2:2", "boot:1"]
    assert [str(a) for a in driver.session.candidates(2)] == ["host2:2"]
    assert [str(a) for a in driver.session.candidates(CONTROLLER)] == ["host1:1"]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_whatever_brokers_answer_every_partition_has_an_outcome_by_the_deadline(
    data: st.DataObject,
) -> None:
    codes = st.sampled_from([ErrorCode.none, *ACTIONS, ErrorCode.message_too_large])
    leaders = st.lists(st.integers(-1, 2), min_size=2, max_size=2)

    def answer(call: Call) -> Any:
        if data.draw(st.integers(0, 3), "lost") == 0:
            return unreachable()
        if is_metadata(call):
            gone = data.draw(st.integers(0, 4), "unknown topic") == 0
            return unknown_topic("t") if gone else metadata({"t": data.draw(leaders, "leaders")})
        drawn = {p: data.draw(codes, "code") for p in range(2)}
        return listed(call, drawn)

    driver = Driver(answer)
    kind = operations.Spread(
        api_key=apis.LIST_OFFSETS,
        build=partial(offsets._list_request, {T0: LATEST, T1: LATEST}, 0, 1_000),
        parse=offsets._list_answers,
    )
    attempts = driver.session.start(driver.now_ms, driver.now_ms + 2_000, "offsets")
    outcomes = driver.run(lambda t, d: operations.spread(driver.session, attempts, kind, [T0, T1]))

    assert set(outcomes) == {T0, T1}
    assert all((o.error is None) != (o.result is None) for o in outcomes.values())
    assert driver.paused_ms <= 2_000


def test_an_outcome_has_the_errors_that_passed_before_it() -> None:
    codes = [ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out, ErrorCode.none]

    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [1]})
        part = wire_produce.ProducePartitionResponse(
            index=0, error_code=codes.pop(0), base_offset=4, log_append_time_ms=-1
        )
        return wire_produce.ProduceResponse(
            topics=(wire_produce.ProduceTopicResponse("t", None, (part,)),)
        )

    driver = Driver(answer)
    outcome = driver.run(lambda t, d: produce.produce(driver.session, {T0: BATCH}, -1, t, d))[T0]

    assert outcome.error is None
    assert outcome.passed == (ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out)


def test_a_topic_is_made_only_when_asked_for() -> None:
    driver = Driver(lambda c: metadata({"t": [1, 1]}))

    for create in (False, True):
        driver.run(
            lambda t, d, c=create: operations.partition_count(driver.session, "t", t, d, create=c)
        )

    asked = [call.request.allow_auto_topic_creation for call in driver.calls]
    assert asked == [False, True]


def test_a_name_that_no_topic_can_have_is_said_once() -> None:
    error = operations.partition_error(
        TopicPartition("a b", 0), ErrorCode.invalid_topic_exception, None
    )

    assert error.message == (
        "'a b' cannot name a topic: 1 to 249 of a-z A-Z 0-9 . _ -, and neither '.' nor '..'"
    )


@pytest.mark.parametrize("gone", [True, False], ids=["it is gone", "it is back"])
def test_every_broker_is_asked_again_when_one_of_them_has_died(gone: bool) -> None:
    """What a dead broker had is another's by then, also of one that had answered before it died."""
    lists: list[int] = []

    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({}, brokers=(1,) if lists and gone else (1, 2))
        lists.append(call.node)
        if call.node == 2 and lists == [1, 2]:
            return unreachable("host2:2")
        has = (f"of-{call.node}", *(["of-2"] if gone and len(lists) > 2 else []))
        states = tuple(
            e.list_transactions.TransactionState(
                transactional_id=each, producer_id=1, transaction_state="Ongoing"
            )
            for each in has
        )
        return e.list_transactions.ListTransactionsResponse(transaction_states=states)

    driver = Driver(answer)
    found = driver.run(
        lambda t, d: transaction_admin.list_transactions(driver.session, (), -1, t, d)
    )

    assert [each.transactional_id for each in found] == ["of-1", "of-2"]
    assert lists == ([1, 2, 1] if gone else [1, 2, 1, 2])
    assert driver.paused_ms < 1_000


def test_a_coordinator_that_died_before_it_told_is_looked_for_again() -> None:
    coordinators = [2, 1]

    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({}, brokers=(1, 2))
        if call.api_key == apis.FIND_COORDINATOR:
            found = e.find_coordinator.Coordinator(
                key="x", node_id=coordinators.pop(0), host="h", port=1
            )
            return e.find_coordinator.FindCoordinatorResponse(coordinators=(found,))
        if call.node == 2:
            return unreachable("host2:2")
        state = e.describe_transactions.TransactionState(
            transactional_id="x", transaction_state="Ongoing", producer_id=7
        )
        return e.describe_transactions.DescribeTransactionsResponse(transaction_states=(state,))

    driver = Driver(answer)
    found = driver.run(
        lambda t, d: transaction_admin.describe_transaction(driver.session, "x", t, d)
    )

    assert (found.coordinator, found.producer_id) == (1, 7)
