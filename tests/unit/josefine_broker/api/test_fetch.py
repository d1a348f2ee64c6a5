"""Fetch: what a reader sees, when a long poll ends, and sessions that equal full answers."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import FetchSettings
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import DeleteTopic
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.world import (
    ELSEWHERE,
    World,
    batch_of,
    fetch_request,
    values_in,
    world_of,
)

world = fixture_of(lambda: world_of(partitions=3))


def size_of(answer: FetchPartitionResponse) -> int:
    return sum(len(buffer) for buffer in answer.records or ())


def test_fetch_at_the_end_is_empty_and_tells_the_high_watermark(world: World) -> None:
    world.produce(batch_of(b"a", b"b"))

    answer = world.fetch(2)

    assert values_in(answer) == []
    assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (0, 2, 0)
    assert answer.last_stable_offset == 2


@pytest.mark.parametrize("offset", [-1, 3])
def test_offset_outside_the_log_is_out_of_range(world: World, offset: int) -> None:
    """Checklist row 38."""
    world.produce(batch_of(b"a", b"b"))

    assert world.fetch(offset).error_code == ErrorCode.offset_out_of_range


def test_first_batch_comes_whole_however_large(world: World) -> None:
    """KIP-74."""
    world.produce(batch_of(b"x" * 1000))

    assert values_in(world.fetch(0, partition_max_bytes=1)) == [b"x" * 1000]
    assert values_in(world.fetch(0, max_bytes=1)) == [b"x" * 1000]


def test_only_the_first_partition_may_pass_the_limit(world: World) -> None:
    """KIP-74."""
    for partition in (0, 1):
        world.produce(batch_of(b"x" * 1000), partition=partition)
    parts = tuple(FetchPartition(p, -1, 0, -1, -1, 1 << 20) for p in (0, 1))
    request = FetchRequest(-1, 0, 1, 500, 0, 0, -1, (FetchTopic("orders", None, parts),))

    first, second = world.ask(1, request).topics[0].partitions

    assert values_in(first) == [b"x" * 1000]
    assert (values_in(second), second.error_code, second.high_watermark) == ([], 0, 1)


def test_max_bytes_is_shared_by_all_partitions(world: World) -> None:
    for partition in range(3):
        world.produce(batch_of(b"x" * 1000), partition=partition)
    parts = tuple(FetchPartition(p, -1, 0, -1, -1, 1 << 20) for p in range(3))
    request = FetchRequest(-1, 0, 1, 2500, 0, 0, -1, (FetchTopic("orders", None, parts),))

    answers = world.ask(1, request).topics[0].partitions

    assert [len(values_in(answer)) for answer in answers] == [1, 1, 0]


def test_max_bytes_bounds_the_whole_answer(world: World) -> None:
    for _ in range(10):
        world.produce(batch_of(b"x" * 1000))

    answer = world.fetch(0, partition_max_bytes=5000)

    assert 4000 < size_of(answer) <= 5000
    assert values_in(answer) == [b"x" * 1000] * 4


def test_long_poll_ends_with_the_first_batch(world: World) -> None:
    waiting = world.fetch(0, max_wait_ms=500)
    assert isinstance(waiting, Parked)

    world.produce(batch_of(b"a"), partition=1)
    assert not waiting.done
    world.produce(batch_of(b"a"))

    assert values_in(only(waiting)) == [b"a"]
    assert len(world.ctx.parked) == 0


def test_long_poll_ends_empty_at_its_deadline(world: World) -> None:
    waiting = world.fetch(0, max_wait_ms=500)

    world.advance(499)
    assert not waiting.done
    world.advance(1)

    assert values_in(only(waiting)) == []


def test_long_poll_waits_for_min_bytes(world: World) -> None:
    batch = batch_of(b"x" * 100)
    world.produce(batch)
    waiting = world.fetch(0, max_wait_ms=500, min_bytes=3 * len(batch))

    world.produce(batch)
    assert not waiting.done
    world.produce(batch)

    assert values_in(only(waiting)) == [b"x" * 100] * 3


def test_min_bytes_is_bounded_by_max_bytes(world: World) -> None:
    """As Kafka does: otherwise such a fetch could only end at its deadline."""
    world.produce(batch_of(b"x" * 100))

    answer = world.fetch(0, max_wait_ms=500, min_bytes=1 << 20, max_bytes=100)

    assert values_in(answer) == [b"x" * 100]


def test_long_poll_tells_at_its_deadline_what_there_is(world: World) -> None:
    world.produce(batch_of(b"a"))
    waiting = world.fetch(0, max_wait_ms=500, min_bytes=1 << 20)

    world.advance(500)

    assert values_in(only(waiting)) == [b"a"]


def test_long_poll_ends_when_its_topic_is_deleted(world: World) -> None:
    waiting = world.fetch(0, max_wait_ms=500)
    topic_id = world.ctx.image.topics["orders"].topic_id

    world.raft.propose(encode_change(DeleteTopic(topic_id=topic_id), ELSEWHERE), 0)

    assert only(waiting).error_code == ErrorCode.unknown_topic_or_partition


def test_error_is_told_at_once(world: World) -> None:
    answer = world.fetch(0, topic="nope", max_wait_ms=500)

    assert answer.error_code == ErrorCode.unknown_topic_or_partition


def test_fetch_without_partitions_does_not_wait(world: World) -> None:
    request = FetchRequest(-1, 500, 1, 1000, 0, 0, -1, ())

    assert world.ask(1, request) == FetchResponse(topics=[])


def test_topic_is_found_by_id(world: World) -> None:
    topic_id = world.ctx.image.topics["orders"].topic_id
    world.produce(batch_of(b"a"))

    assert values_in(world.fetch(0, topic="", topic_id=topic_id)) == [b"a"]
    unknown = world.fetch(0, topic="", topic_id=UUID(int=5))
    assert unknown.error_code == ErrorCode.unknown_topic_id


def test_leader_epoch_of_the_request_is_judged(world: World) -> None:
    """KIP-320."""
    assert world.fetch(0, leader_epoch=0).error_code == 0
    assert world.fetch(0, leader_epoch=1).error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("version", [10, 16])
def test_negative_leader_epoch_is_none(world: World, version: int) -> None:
    """Any, not only -1, as in Kafka's FetchRequest."""
    answer = world.ask(1, fetch_request(0, leader_epoch=-7), version=version)

    assert answer.topics[0].partitions[0].error_code == 0


def test_broker_that_is_no_replica_may_not_fetch_as_one(world: World) -> None:
    assert world.fetch(0, replica_id=7).error_code == ErrorCode.not_leader_or_follower


def test_read_committed_is_told_of_no_aborted_transactions(world: World) -> None:
    world.produce(batch_of(b"a"))

    committed, uncommitted = world.fetch(0, isolation=1), world.fetch(0)

    assert values_in(committed) == values_in(uncommitted) == [b"a"]
    assert (committed.aborted_transactions, uncommitted.aborted_transactions) == ((), None)


def test_error_before_reading_has_an_empty_list_of_aborted_transactions(world: World) -> None:
    """As in Kafka, where the list is null only beside an answer that was read."""
    for unread in ({"topic": "no"}, {"topic": "", "topic_id": UUID(int=5)}):
        assert world.fetch(0, **unread).aborted_transactions == ()
    assert world.fetch(9).aborted_transactions is None
    assert world.fetch(9).error_code == ErrorCode.offset_out_of_range


def test_unknown_session_is_a_whole_fetch_error(world: World) -> None:
    answer = world.ask(1, fetch_request(0)._replace(session_id=5, session_epoch=3))

    assert answer.error_code == ErrorCode.fetch_session_id_not_found
    assert answer.topics == ()


def test_answer_is_never_larger_than_the_brokers_bound(world: World) -> None:
    for _ in range(10):
        world.produce(batch_of(b"x" * 1000))
    world.ctx.settings = type(world.settings)(fetch=FetchSettings(bytes_max=3000))

    assert 2000 < size_of(world.fetch(0)) <= 3000


def only(waiting: Parked) -> FetchPartitionResponse:
    assert waiting.done
    response: Any = waiting.response
    found: FetchPartitionResponse = response.topics[0].partitions[0]
    return found


class SessionClient:
    """A consumer with a session: it knows, per partition, what the last answers said."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session_id = 0
        self.epoch = 0
        self.offsets: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self.watermarks: dict[int, int] = {}
        self.values: dict[int, list[bytes | None]] = {}

    def poll(self) -> None:
        changed = {p: o for p, o in self.offsets.items() if self.sent.get(p) != o}
        forget = tuple(p for p in self.sent if p not in self.offsets)
        self.sent = dict(self.offsets)
        parts = tuple(FetchPartition(p, -1, o, -1, -1, 150) for p, o in changed.items())
        forgotten = (ForgottenTopic("orders", None, forget),) if forget else ()
        topics = (FetchTopic("orders", None, parts),) if parts else ()
        request = FetchRequest(-1, 0, 1, 300, 0, self.session_id, self.epoch, topics, forgotten)
        response = self.world.ask(1, request)
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if response.session_id else 0
        if not response.session_id:
            self.sent = {}
        for topic in response.topics:
            for answer in topic.partitions:
                self.watermarks[answer.index] = answer.high_watermark
                values = values_in(answer)
                self.values.setdefault(answer.index, []).extend(values)
                self.offsets[answer.index] += len(values)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["produce", "poll", "poll", "drop", "add"]), st.integers(0, 2)),
        max_size=40,
    )
)
def test_session_tells_in_sum_what_full_fetches_tell(script: list[tuple[str, int]]) -> None:
    world = World()
    world.create(partitions=3)
    client = SessionClient(world)
    client.offsets = {0: 0, 1: 0, 2: 0}
    for number, (action, partition) in enumerate(script):
        match action:
            case "produce":
                world.produce(batch_of(b"%d" % number * 30), partition=partition)
            case "poll":
                client.poll()
            case "drop" if len(client.offsets) > 1:
                client.offsets.pop(partition, None)
            case "add" if partition not in client.offsets:
                client.offsets[partition] = len(client.values.get(partition, ()))
    for _ in range(2 * len(script) + 2):
        client.poll()

    for partition in client.offsets:
        full = world.fetch(0, partition=partition)
        assert client.values.get(partition, []) == values_in(full)
        assert client.watermarks[partition] == full.high_watermark
