"""What a fetch returns, leaves out and raises; where a reader of several partitions stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import fetch
from josefine_broker.client.effects import Call
from josefine_broker.client.fetch import FetchOptions, Positions
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis
from josefine_broker.wire import fetch as wire
from tests.unit.josefine_broker.client.driver import (
    TOPIC_ID,
    Driver,
    is_metadata,
    metadata,
    unreachable,
)

T0, T1 = (TopicPartition("t", p) for p in range(2))


def batch(base_offset: int, count: int) -> bytes:
    records = [Record(None, b"%d" % n, (), 5) for n in range(count)]
    return bytes(build_batch(records, base_offset=base_offset))


def fetched(*parts: wire.FetchPartitionResponse, name: str = "t", topic_id: Any = None) -> Any:
    return wire.FetchResponse(topics=(wire.FetchTopicResponse(name, topic_id, parts),))


def part(index: int, code: ErrorCode = ErrorCode.none, records: bytes = b"") -> Any:
    return wire.FetchPartitionResponse(index, int(code), 50, 40, 3, records=[records])


def polled(driver: Driver, positions: dict[TopicPartition, int], timeout_ms: int = 30_000) -> Any:
    return driver.run(
        lambda t, d: fetch.fetch(driver.session, positions, FetchOptions(), t, d), timeout_ms
    )


def two_leaders(answer: Callable[[Call], Any]) -> Driver:
    return Driver(lambda c: metadata({"t": [1, 2]}) if is_metadata(c) else answer(c))


def test_each_leader_is_asked_for_its_partitions_at_their_offsets() -> None:
    driver = two_leaders(lambda c: fetched(part(c.node - 1, records=b"x" * c.node)))

    found = polled(driver, {T0: 7, T1: 9})

    assert {tp: bytes(f.records) for tp, f in found.items()} == {T0: b"x", T1: b"xx"}
    asked = {
        c.node: [p.fetch_offset for t in c.request.topics for p in t.partitions]
        for c in driver.calls
        if c.api_key == apis.FETCH
    }
    assert asked == {1: [7], 2: [9]}
    assert (found[T0].high_watermark, found[T0].last_stable_offset) == (50, 40)
    assert found[T0].log_start_offset == 3


def test_a_response_by_topic_id_is_understood() -> None:
    driver = two_leaders(lambda c: fetched(part(c.node - 1), name="", topic_id=TOPIC_ID))

    assert set(polled(driver, {T0: 0, T1: 0})) == {T0, T1}


def test_an_offset_out_of_range_is_the_callers_to_decide() -> None:
    driver = two_leaders(lambda c: fetched(part(0, ErrorCode.offset_out_of_range)))

    assert polled(driver, {T0: 99})[T0].error_code is ErrorCode.offset_out_of_range


def test_a_passing_error_is_left_out_when_others_can_be_read_and_metadata_is_asked_next() -> None:
    codes = {1: ErrorCode.none, 2: ErrorCode.not_leader_or_follower}
    driver = two_leaders(lambda c: fetched(part(c.node - 1, codes[c.node])))

    found = polled(driver, {T0: 0, T1: 0})
    polled(driver, {T0: 0})

    assert set(found) == {T0}
    assert [key for key, _ in driver.asked].count(apis.METADATA) == 2


def test_a_passing_error_of_all_is_retried_until_the_deadline() -> None:
    driver = two_leaders(lambda c: unreachable())

    with pytest.raises(KafkaError, match="fetch: cannot reach a broker"):
        polled(driver, {T0: 0}, timeout_ms=2_000)

    assert 1_000 < driver.paused_ms <= 2_000


def test_a_final_error_of_one_ends_the_fetch_though_others_may_pass() -> None:
    """It would be asked for again, for as long as the others fail."""
    refused = wire.FetchResponse(error_code=ErrorCode.cluster_authorization_failed.value)
    driver = two_leaders(lambda c: unreachable() if c.node == 1 else refused)

    with pytest.raises(KafkaError) as raised:
        polled(driver, {T0: 0, T1: 0})

    assert raised.value.code is ErrorCode.cluster_authorization_failed
    assert driver.paused_ms == 0


def test_advance_steps_over_whole_batches_and_stays_before_a_cut_one() -> None:
    positions = Positions()
    positions.assign(T0, 5)

    positions.advance(T0, memoryview(batch(3, 4) + batch(7, 2) + batch(9, 5)[:-1]))

    assert positions.position(T0) == 9


def test_a_fetch_without_records_moves_nothing() -> None:
    positions = Positions()
    positions.assign(T0, 5)

    positions.advance(T0, memoryview(b""))

    assert positions.position(T0) == 5


def test_a_partition_at_its_end_is_not_wanted_any_more() -> None:
    positions = Positions()
    positions.assign(T0, 0, 3)
    positions.assign(T1, 4, 4)

    assert list(positions.wanted()) == [T0]
    positions.advance(T0, memoryview(batch(0, 3)))

    assert positions.finished


def test_partitions_read_last_come_last() -> None:
    positions = Positions()
    positions.assign(T0, 0)
    positions.assign(T1, 0)

    positions.advance(T0, memoryview(batch(0, 1)))

    assert list(positions.wanted()) == [T1, T0]
