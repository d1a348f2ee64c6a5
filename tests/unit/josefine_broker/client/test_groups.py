"""Offsets of groups: whom to ask, again after which answers, and what a group has not committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import groups
from josefine_broker.client.effects import Call
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.client.driver import Driver, is_metadata, metadata, unreachable

T0, T1 = (TopicPartition("t", p) for p in range(2))


def coordinated(answer: Callable[[Call], Any], *nodes: int) -> Driver:
    """A cluster whose group is coordinated by these nodes, one lookup after another."""
    left = list(nodes)

    def whole(call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [1, 1]})
        if call.api_key == apis.FIND_COORDINATOR:
            node = left.pop(0) if len(left) > 1 else left[0]
            found = e.find_coordinator.Coordinator(key="g", node_id=node, host="h", port=1)
            return e.find_coordinator.FindCoordinatorResponse(coordinators=(found,))
        return answer(call)

    return Driver(whole)


def fetched(*parts: tuple[int, int, ErrorCode]) -> Any:
    """An OffsetFetch response: (partition, offset, error) each."""
    entities = e.offset_fetch
    topic = entities.OffsetFetchResponseTopics(
        name="t",
        partitions=tuple(
            entities.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=offset, error_code=code
            )
            for index, offset, code in parts
        ),
    )
    group = entities.OffsetFetchResponseGroup(group_id="g", topics=(topic,))
    return entities.OffsetFetchResponse(groups=(group,))


def committed(driver: Driver, *partitions: TopicPartition) -> dict[TopicPartition, int]:
    return driver.run(lambda t, d: groups.committed_offsets(driver.session, "g", partitions, t, d))


def test_partition_without_a_committed_offset_is_left_out() -> None:
    driver = coordinated(lambda c: fetched((0, 7, ErrorCode.none), (1, -1, ErrorCode.none)), 1)

    assert committed(driver, T0, T1) == {T0: 7}


def test_offset_that_is_not_stable_yet_is_asked_for_again() -> None:
    """KIP-447: a transaction is about to decide on it."""
    answers = [
        fetched((0, 7, ErrorCode.none), (1, -1, ErrorCode.unstable_offset_commit)),
        fetched((0, 7, ErrorCode.none), (1, 8, ErrorCode.none)),
    ]
    driver = coordinated(lambda c: answers.pop(0), 1)

    assert committed(driver, T0, T1) == {T0: 7, T1: 8}


def test_offset_that_may_not_be_read_is_an_error_that_names_its_partition() -> None:
    denied = ErrorCode.topic_authorization_failed
    driver = coordinated(lambda c: fetched((0, 7, ErrorCode.none), (1, -1, denied)), 1)

    with pytest.raises(KafkaError, match="partition t-1") as raised:
        committed(driver, T0, T1)

    assert raised.value.code is denied


def test_coordinator_that_is_gone_is_looked_up_again() -> None:
    driver = coordinated(
        lambda c: unreachable() if c.node == 1 else fetched((0, 7, ErrorCode.none)), 1, 2
    )

    assert committed(driver, T0) == {T0: 7}
    assert driver.session.coordinators == {"g": 2}


def test_coordinator_that_only_loads_is_asked_again_without_a_lookup() -> None:
    loading = e.offset_fetch.OffsetFetchResponse(
        groups=(
            e.offset_fetch.OffsetFetchResponseGroup(
                group_id="g", topics=(), error_code=ErrorCode.coordinator_load_in_progress
            ),
        )
    )
    answers = [loading, fetched((0, 7, ErrorCode.none))]
    driver = coordinated(lambda c: answers.pop(0), 1)

    assert committed(driver, T0) == {T0: 7}
    assert [key for key, _ in driver.asked].count(apis.FIND_COORDINATOR) == 1


def test_coordinator_that_metadata_does_not_know_yet_is_asked_about_first() -> None:
    """Its address is in no answer but the brokers' list."""
    driver = coordinated(lambda c: fetched((0, 7, ErrorCode.none)), 2)
    driver.run(lambda t, d: groups.committed_offsets(driver.session, "g", (T0,), t, d))
    known = len([key for key, _ in driver.asked if key == apis.METADATA])
    del driver.session.coordinators["g"]
    del driver.session.cluster.brokers[2]

    committed(driver, T0)

    asked = [key for key, _ in driver.asked if key == apis.METADATA]
    assert len(asked) == known + 1
    assert 2 in driver.session.cluster.brokers
