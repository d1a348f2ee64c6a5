"""Fetch: which answers end a long poll at once and which wait for records, as in Kafka's KafkaApis,
ReplicaManager.fetchMessages and DelayedFetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.acls import Acl, Operation, PatternType, Permission, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.hosted import Unopened
from josefine_broker.engine.metadata.changes import AlterAcls, CreateTopic, Decision, PartitionState
from josefine_broker.engine.partition.fetch_wait import MissingBytes, Readable
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.unit.josefine_broker.api.world import TERM, World, batch_of, values_in

BY_NAME, BY_ID = 12, 17
WAIT_MS = 500
SPAN_MS = 10_000
Bad = Callable[[World, int], FetchTopic]
"""Makes a topic that cannot be read, and names it for that version."""


def wish(offset: int = 0, *, index: int = 0, epoch: int = -1) -> FetchPartition:
    return FetchPartition(index, epoch, offset, -1, -1, 1 << 20)


def named(world: World, topic: str, version: int, part: FetchPartition) -> FetchTopic:
    if version >= BY_ID:
        return FetchTopic("", world.ctx.image.topics[topic].topic_id, (part,))
    return FetchTopic(topic, None, (part,))


def deleted(world: World, version: int) -> FetchTopic:
    world.create("bad")
    topic = named(world, "bad", version, wish())
    world.delete("bad")
    return topic


def missing_partition(world: World, version: int) -> FetchTopic:
    world.create("bad")
    return named(world, "bad", version, wish(index=7))


def zero_id(world: World, version: int) -> FetchTopic:
    return FetchTopic("", None, (wish(),))


def forbidden(world: World, version: int) -> FetchTopic:
    world.create("bad")
    world.ctx.clients.authorizer = Authorizer(frozenset())
    acl = Acl(
        ResourceType.TOPIC, "good", PatternType.LITERAL, "User:ANONYMOUS", "*",
        Operation.READ, Permission.ALLOW,
    )  # fmt: skip
    world.propose(AlterAcls(add=(acl,)))
    return named(world, "bad", version, wish())


def out_of_range(world: World, version: int) -> FetchTopic:
    world.create("bad")
    return named(world, "bad", version, wish(99))


def epoch_to_come(world: World, version: int) -> FetchTopic:
    world.create("bad")
    return named(world, "bad", version, wish(epoch=9))


def hosted_elsewhere(world: World, version: int) -> FetchTopic:
    world.start_broker(2)
    world.propose(CreateTopic(name="bad", topic_id=world.topic_id(), replicas=((2,),)))
    return named(world, "bad", version, wish())


def led_under_a_later_epoch(world: World, version: int) -> FetchTopic:
    world.create("bad")
    topic = world.ctx.image.topics["bad"]
    old = topic.partitions[0]
    state = PartitionState.of(topic.topic_id, 0, old, old)._replace(
        leader_epoch=old.leader_epoch + 1
    )
    world.propose(Decision(controller_term=TERM, reason="test", partitions=(state,)))
    return named(world, "bad", version, wish(epoch=old.leader_epoch))


def unreadable(world: World, version: int) -> FetchTopic:
    world.create("bad")
    del world.ctx.hosted.partitions["bad", 0]
    world.ctx.hosted.unopened["bad", 0] = Unopened("no", True)
    return named(world, "bad", version, wish())


LASTING: list[tuple[Bad, int, ErrorCode]] = [
    (deleted, BY_NAME, ErrorCode.unknown_topic_or_partition),
    (deleted, BY_ID, ErrorCode.unknown_topic_id),
    (missing_partition, BY_NAME, ErrorCode.unknown_topic_or_partition),
    (missing_partition, BY_ID, ErrorCode.unknown_topic_or_partition),
    (zero_id, BY_ID, ErrorCode.unknown_topic_id),
    (forbidden, BY_NAME, ErrorCode.topic_authorization_failed),
    (forbidden, BY_ID, ErrorCode.topic_authorization_failed),
]
"""Found before anything is read: they are there for as long as the client asks."""
FOUND_WHILE_READING: list[tuple[Bad, int, ErrorCode]] = [
    (out_of_range, BY_NAME, ErrorCode.offset_out_of_range),
    (epoch_to_come, BY_NAME, ErrorCode.unknown_leader_epoch),
    (hosted_elsewhere, BY_NAME, ErrorCode.not_leader_or_follower),
    (led_under_a_later_epoch, BY_NAME, ErrorCode.fenced_leader_epoch),
    (unreadable, BY_ID, ErrorCode.kafka_storage_error),
]


class Consumer:
    """Reads two topics through a session, and asks again as soon as it is answered."""

    def __init__(self, world: World, version: int, topics: tuple[FetchTopic, ...]) -> None:
        self.world, self.version = world, version
        self.topics = topics
        self.session_id = self.epoch = self.requests = 0
        self.codes: set[int] = set()

    def ask(self) -> Any:
        self.requests += 1
        topics = self.topics if self.epoch == 0 else ()
        request = FetchRequest(
            -1, WAIT_MS, 1, 1 << 20, 0, self.session_id, self.epoch, topics
        )  # fmt: skip
        return self.world.ask(1, request, version=self.version)

    def hear(self, answer: FetchResponse) -> None:
        assert not answer.error_code
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        self.codes |= {part.error_code for topic in answer.topics for part in topic.partitions}

    def run(self, span_ms: int) -> None:
        """For so long, with at most so many requests a second that a test ends."""
        end_ms = self.world.clock.elapsed_ms + span_ms
        while self.world.clock.elapsed_ms < end_ms and self.requests < 1_000:
            answer = self.ask()
            while isinstance(answer, Parked):
                if answer.done:
                    answer = answer.response
                else:
                    self.world.advance(100)
            self.hear(answer)


@pytest.mark.parametrize(("bad", "version", "code"), LASTING)
def test_error_found_before_reading_leaves_the_long_poll_its_time(
    bad: Bad, version: int, code: ErrorCode
) -> None:
    world = World()
    world.create("good")
    consumer = Consumer(
        world, version, (bad(world, version), named(world, "good", version, wish()))
    )

    consumer.run(SPAN_MS)

    assert consumer.codes == {0, code}
    assert consumer.requests == SPAN_MS // WAIT_MS


@pytest.mark.parametrize(("bad", "version", "code"), LASTING)
def test_records_end_a_long_poll_beside_an_error(bad: Bad, version: int, code: ErrorCode) -> None:
    world = World()
    world.create("good")
    topics = bad(world, version), named(world, "good", version, wish())
    waiting = Consumer(world, version, topics).ask()
    assert isinstance(waiting, Parked)
    world.ctx.clients.authorizer = None

    world.produce(batch_of(b"a"), topic="good")

    assert waiting.done
    response: Any = waiting.response
    found = [values_in(topic.partitions[0]) for topic in response.topics]
    assert [b"a"] in found


@pytest.mark.parametrize(("bad", "version", "code"), LASTING + FOUND_WHILE_READING)
def test_fetch_of_nothing_that_can_be_read_is_answered_at_once(
    bad: Bad, version: int, code: ErrorCode
) -> None:
    """As in Kafka: clients back off from an answer of errors alone."""
    world = World()
    world.create("good")

    answer = Consumer(world, version, (bad(world, version),)).ask()

    assert answer.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(("bad", "version", "code"), FOUND_WHILE_READING)
def test_error_found_while_reading_is_reported_at_once(
    bad: Bad, version: int, code: ErrorCode
) -> None:
    world = World()
    world.create("good")
    topics = named(world, "good", version, wish()), bad(world, version)

    answer = Consumer(world, version, topics).ask()

    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, code]


def test_topic_deleted_while_a_fetch_waits_is_reported_once_at_once() -> None:
    world = World()
    world.create("good")
    world.create("bad")
    consumer = Consumer(
        world, BY_NAME, tuple(FetchTopic(name, None, (wish(),)) for name in ("good", "bad"))
    )
    consumer.run(WAIT_MS)
    waiting = consumer.ask()

    world.delete("bad")
    assert waiting.done
    consumer.hear(waiting.response)

    assert consumer.codes == {0, ErrorCode.unknown_topic_or_partition}
    assert isinstance(consumer.ask(), Parked)


def test_partition_named_twice_is_answered_once_as_last_wished() -> None:
    """As in Kafka's FetchRequest.fetchData."""
    world = World()
    world.create("good")
    world.produce(batch_of(b"a"), topic="good")
    world.produce(batch_of(b"b"), topic="good")
    for topics in (
        (FetchTopic("good", None, (wish(0), wish(1))),),
        (FetchTopic("good", None, (wish(0),)), FetchTopic("good", None, (wish(1),))),
    ):
        (topic,) = Consumer(world, BY_NAME, topics).ask().topics

        assert [values_in(part) for part in topic.partitions] == [[b"b"]]


# The least number of bytes.


def fetch(world: World, offset: int = 0, *, min_bytes: int, part_max: int, **kinds: int) -> Any:
    parts = tuple(
        FetchPartition(index, -1, offset, -1, -1, part_max)
        for index in range(kinds.get("partitions", 1))
    )
    request = FetchRequest(
        -1, WAIT_MS, min_bytes, kinds.get("max_bytes", 1 << 20), kinds.get("isolation", 0), 0, -1,
        (FetchTopic("orders", None, parts),),
    )  # fmt: skip
    return world.ask(1, request, version=BY_NAME)


def full_world(batches: int, partitions: int = 1) -> World:
    world = World()
    world.create(partitions=partitions)
    for _ in range(batches):
        world.produce(batch_of(b"x" * 1_000))
    return world


@pytest.mark.parametrize("isolation", [0, 1])
def test_partition_whose_next_batch_does_not_fit_counts_as_full(isolation: int) -> None:
    """Three batches of 1,073 bytes fit into 4,000: a fetch for 4,000 waited out its time."""
    world = full_world(4)

    answer = fetch(world, min_bytes=4_000, part_max=4_000, isolation=isolation)

    assert isinstance(answer, FetchResponse)
    assert len(values_in(answer.topics[0].partitions[0])) == 3


def test_partition_that_is_read_to_its_end_is_not_full() -> None:
    assert isinstance(fetch(full_world(3), min_bytes=4_000, part_max=4_000), Parked)


def test_fetch_waits_for_no_more_than_its_partitions_may_hold() -> None:
    world = full_world(4)

    assert isinstance(fetch(world, min_bytes=1 << 19, part_max=4_000), FetchResponse)


def test_full_partition_leaves_the_others_to_be_waited_for() -> None:
    """As in Kafka: it counts for as many bytes as its answer may hold."""
    world = full_world(8, partitions=2)
    assert isinstance(fetch(world, min_bytes=4_000, part_max=4_000, partitions=2), FetchResponse)
    waiting = fetch(world, min_bytes=4_500, part_max=4_000, partitions=2)
    assert isinstance(waiting, Parked)

    world.produce(batch_of(b"x" * 1_000))
    assert not waiting.done  # no room for it
    world.produce(batch_of(b"x" * 1_000), partition=1)

    assert waiting.done


def test_batch_that_fills_a_partition_ends_the_wait() -> None:
    world = full_world(3)
    waiting = fetch(world, min_bytes=4_000, part_max=4_000)

    world.produce(batch_of(b"x" * 1_000))

    assert waiting.done


def test_answer_without_room_for_a_partition_is_full() -> None:
    world = full_world(2, partitions=2)
    for _ in range(2):
        world.produce(batch_of(b"x" * 1_000), partition=1)

    answer = fetch(world, min_bytes=4_000, part_max=4_000, max_bytes=4_000, partitions=2)

    assert isinstance(answer, FetchResponse)


def test_fetch_with_room_for_nothing_waits_for_any_news() -> None:
    world = full_world(0)
    waiting = fetch(world, min_bytes=1, part_max=0)
    assert isinstance(waiting, Parked)

    world.produce(batch_of(b"a"))

    assert waiting.done


def test_fetch_that_read_nothing_is_not_full() -> None:
    """What the cleaner removed before the end looks like a batch that does not fit: an empty
    answer at once would be asked for again for ever."""
    empty = Readable(("t", 0), 0, 1_000, True, 500)

    assert not MissingBytes(1_000, [empty]).is_enough


def test_unknown_id_in_a_session_is_reported_each_time() -> None:
    world = World()
    world.create("good")
    bad = FetchTopic("", UUID(int=9), (wish(),))
    consumer = Consumer(world, BY_ID, (bad, named(world, "good", BY_ID, wish())))
    consumer.run(WAIT_MS)
    consumer.codes.clear()

    consumer.run(WAIT_MS)

    assert consumer.codes == {ErrorCode.unknown_topic_id}
