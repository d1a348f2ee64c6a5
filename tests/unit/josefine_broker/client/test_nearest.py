"""From which replica a reader fetches that says where it is (KIP-392), whatever becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import fetch
from josefine_broker.client.effects import Call
from josefine_broker.client.fetch import FetchOptions
from josefine_broker.client.nearest import NEARER_MS
from josefine_broker.wire import apis
from josefine_broker.wire import fetch as wire
from tests.unit.josefine_broker.client.driver import Driver, is_metadata, metadata, unreachable

T0, T1 = (TopicPartition("t", p) for p in range(2))
LEADER, NEAR = 1, 2
RACK = FetchOptions(rack_id="here")


def answer(
    index: int = 0, *, code: ErrorCode = ErrorCode.none, records: bytes = b"", sent_to: int = -1
) -> Any:
    part = wire.FetchPartitionResponse(
        index, int(code), 50, 50, 0, preferred_read_replica=sent_to, records=[records]
    )
    return wire.FetchResponse(topics=(wire.FetchTopicResponse("t", None, (part,)),))


class Brokers:
    """Partition 0 is led by LEADER, which sends readers in the rack to `sends_to`."""

    def __init__(self, near: Callable[[], Any], sends_to: int = NEAR) -> None:
        self.near, self.sends_to = near, sends_to
        self.driver = Driver(self._answer)

    def _answer(self, call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [LEADER, NEAR]})
        if call.node == NEAR:
            return self.near()
        if call.request.rack_id:
            return answer(sent_to=self.sends_to)
        return answer(records=b"leader")

    def fetch(self, options: FetchOptions = RACK) -> bytes:
        run = self.driver.run(lambda t, d: fetch.fetch(self.driver.session, {T0: 7}, options, t, d))
        return bytes(run[T0].records)

    @property
    def asked(self) -> list[int]:
        return [call.node for call in self.driver.calls if call.api_key == apis.FETCH]


def test_a_reader_goes_where_its_leader_sends_it_and_stays_there() -> None:
    brokers = Brokers(lambda: answer(records=b"near"))

    assert [brokers.fetch() for _ in range(3)] == [b"near"] * 3
    assert brokers.asked == [LEADER, NEAR, NEAR, NEAR]


def test_a_reader_that_does_not_say_where_it_is_reads_from_leaders() -> None:
    brokers = Brokers(lambda: answer(records=b"near"))
    brokers.fetch()

    assert brokers.fetch(FetchOptions()) == b"leader"


def test_the_leader_is_asked_again_when_its_word_is_old() -> None:
    brokers = Brokers(lambda: answer(records=b"near"))
    brokers.fetch()
    brokers.driver.now_ms += NEARER_MS

    brokers.fetch()

    assert brokers.asked == [LEADER, NEAR, LEADER, NEAR]


@pytest.mark.parametrize(
    "near",
    [
        unreachable,
        lambda: answer(code=ErrorCode.offset_out_of_range),
        lambda: answer(code=ErrorCode.not_leader_or_follower),
        lambda: wire.FetchResponse(error_code=int(ErrorCode.kafka_storage_error)),
    ],
)
def test_what_a_nearer_replica_cannot_answer_its_leader_is_asked_for_at_once(
    near: Callable[[], Any],
) -> None:
    brokers = Brokers(near)

    assert brokers.fetch() == b"leader"
    assert brokers.asked == [LEADER, NEAR, LEADER]
    assert brokers.driver.paused_ms == 0


def test_a_nearer_replica_with_nothing_new_is_left_for_it_may_have_fallen_behind() -> None:
    brokers = Brokers(answer)

    assert [brokers.fetch(), brokers.fetch()] == [b"", b""]
    assert brokers.asked == [LEADER, NEAR, LEADER, NEAR]


def test_a_nearer_replica_sends_nobody_on() -> None:
    brokers = Brokers(lambda: answer(sent_to=NEAR))

    assert brokers.fetch() == b""
    assert brokers.asked == [LEADER, NEAR]


@pytest.mark.parametrize("sends_to", [LEADER, 99])
def test_a_place_that_is_none_is_not_gone_to(sends_to: int) -> None:
    brokers = Brokers(lambda: answer(records=b"near"), sends_to)

    assert brokers.fetch() == b"leader"
    assert NEAR not in brokers.asked


@given(
    script=st.lists(
        st.sampled_from(["records", "nothing", "elsewhere", "range", "moved", "away"]), max_size=30
    )
)
def test_whatever_two_brokers_answer_a_fetch_ends_with_the_partition_or_its_error(
    script: list[str],
) -> None:
    answers = {
        "records": lambda: answer(records=b"x"),
        "nothing": answer,
        "elsewhere": lambda: answer(sent_to=NEAR),
        "range": lambda: answer(code=ErrorCode.offset_out_of_range),
        "moved": lambda: answer(code=ErrorCode.not_leader_or_follower),
        "away": unreachable,
    }
    left = iter(script)
    asked: list[int] = []

    def say(call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [LEADER, NEAR]})
        asked.append(call.node)
        said = next(left, "records")
        # Only leaders send elsewhere, and only who says where he is.
        honest = said != "elsewhere" or (call.node == LEADER and call.request.rack_id)
        return answers[said if honest else "nothing"]()

    driver = Driver(say)
    for _ in range(5):
        before = len(asked)
        try:
            found = driver.run(lambda t, d: fetch.fetch(driver.session, {T0: 7}, RACK, t, d))
        except KafkaError:
            continue
        assert set(found) == {T0}
        assert found[T0].preferred_read_replica == -1
        assert len(asked) - before <= len(script) + 4
