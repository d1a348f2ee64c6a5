"""Dead letters of share groups at a broker in memory (KIP-1191): what they say, when they are
written, and what happens when they cannot be."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.coordinators import share_dead_letters, share_partitions_host
from josefine_broker.engine.coordinators.share_state_requests import write_state
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.engine.metadata.features import SHARE_VERSION
from josefine_broker.records.batch import iter_batches, parse_header
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records
from josefine_broker.wire.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from tests.unit.josefine_broker.api.share_members import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    Sharer,
    got,
)
from tests.unit.josefine_broker.api.test_group_configs import give
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

LETTERS = "dlq.orders"
TAKES = {"errors_deadletterqueue_group_enable": "true"}
LOCK_MS = 30_000
REJECTED = "Offset rejected by client."
EXHAUSTED = "Offset delivery count exceeded the threshold."


def lettered(
    *values: bytes,
    partitions: int = 1,
    copies: bool = False,
    exists: bool = True,
    level: int = 2,
    **topic: str,
) -> tuple[World, Sharer]:
    """A group with dead letters, and a member that waits for these records."""
    world = world_of()
    features = {**world.ctx.image.features, SHARE_VERSION: level}
    world.ctx.image = replace(world.ctx.image, features=features)
    if exists:
        world.create(LETTERS, partitions=partitions, **{**TAKES, **topic})
    give(world, errors_deadletterqueue_topic_name=LETTERS)
    if copies:
        give(world, errors_deadletterqueue_copy_record_enable="true")
    member = Sharer(world, "a").join()
    assert got(member.fetch()) == []
    for value in values:
        world.produce(batch_of(value))
    return world, member


def restarted(world: World) -> World:
    after = world.restart()
    features = {**after.ctx.image.features, SHARE_VERSION: 2}
    after.ctx.image = replace(after.ctx.image, features=features)
    after.advance(10)
    return after


def letters(world: World, partition: int = 0) -> list[Record]:
    log = world.ctx.hosted.partitions[LETTERS, partition].log
    found = []
    for buffer in log.read(0, 1 << 20, end_offset=log.log_end_offset, at_least_one=True):
        data = memoryview(buffer)
        for pos, header in iter_batches(data):
            found += list(read_records(data[pos : pos + header.size_bytes]))
    return found


def told(record: Record) -> dict[str, str]:
    prefix = "__dlq.errors."
    return {name.removeprefix(prefix): str(value or b"", "utf-8") for name, value in record.headers}


def offsets(world: World) -> list[str]:
    return [told(each)["offset"] for each in letters(world)]


def stored(world: World) -> list[tuple[int, int, RecordState]]:
    """What a next leader would know."""
    key = ShareKey(GROUP, world.ctx.image.topics["orders"].topic_id, 0)
    state = world.ctx.clients.shares.states.get(key)
    assert state is not None
    return [(each.first, each.last, each.state) for each in state.batches]


def counts(world: World) -> tuple[int, int]:
    found = world.ctx.clients.shares.counts.of(GROUP)
    return found.dead_letters, found.dead_letters_lost


def test_rejected_record_gets_a_letter_that_names_it() -> None:
    world, member = lettered(b"one", b"two")
    assert got(member.fetch()) == [(0, 1, 1)]
    assert member.acknowledge((0, 0, ACCEPT), (1, 1, REJECT)) is ErrorCode.none
    (letter,) = letters(world)
    assert (letter.key, letter.value) == (None, None)
    assert letter.timestamp_ms == world.clock.now_ms()
    assert told(letter) == {
        "topic": "orders",
        "partition": "0",
        "offset": "1",
        "group": GROUP,
        "delivery.count": "1",
        "message": REJECTED,
    }
    assert stored(world) == []
    assert counts(world) == (1, 0)


def test_letter_has_the_record_if_the_group_copies_it() -> None:
    world, member = lettered(b"one", b"two", copies=True)
    assert got(member.fetch()) == [(0, 1, 1)]
    assert member.acknowledge((0, 1, REJECT)) is ErrorCode.none
    assert [(each.key, each.value) for each in letters(world)] == [(b"k", b"one"), (b"k", b"two")]


def test_record_that_is_too_large_for_the_letters_is_only_named() -> None:
    world, member = lettered(b"x" * 2_000, b"y", copies=True, max_message_bytes="1000")
    assert got(member.fetch()) == [(0, 1, 1)]
    assert member.acknowledge((0, 1, REJECT)) is ErrorCode.none
    world.advance(1)
    assert [each.value for each in letters(world)] == [None, b"y"]


def replicated(world: World) -> None:
    """Another replica may have what is damaged here."""
    partition = world.ctx.hosted.partitions["orders", 0].partition
    partition.replicas = (*partition.replicas, 2)


@pytest.mark.parametrize("deleted", [False, True], ids=["unreadable", "deleted"])
def test_record_that_no_replica_can_give_is_only_named(deleted: bool) -> None:
    world, member = lettered(b"one", b"two", copies=True)
    assert got(member.fetch()) == [(0, 1, 1)]
    replicated(world)
    hosted = world.ctx.hosted.partitions["orders", 0]
    readable = share_dead_letters.read_records

    def read(batch: Any) -> Any:
        if not parse_header(batch).base_offset:
            raise CorruptData("its checksum is right")
        return readable(batch)

    if deleted:
        hosted.log.delete_before(1)
    with patch.object(share_dead_letters, "read_records", read):
        assert member.acknowledge((0, 1, REJECT)) is ErrorCode.none
    assert [each.value for each in letters(world)] == [None, b"two"]
    assert counts(world) == (2, 0)


@pytest.mark.parametrize(
    ("code", "replicas"), [(ErrorCode.kafka_storage_error, 1), (ErrorCode.corrupt_message, 2)]
)
def test_record_that_may_be_readable_later_is_copied_then(code: ErrorCode, replicas: int) -> None:
    world, member = lettered(b"one", copies=True)
    assert got(member.fetch()) == [(0, 0, 1)]
    if replicas > 1:
        replicated(world)
    hosted = world.ctx.hosted.partitions["orders", 0]
    with patch.object(type(hosted.log), "read", side_effect=KafkaError(code)):
        assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert letters(world) == []
    world.advance(1_000)
    assert [each.value for each in letters(world)] == [b"one"]


def test_letter_whose_record_is_deleted_while_it_waits_counts_as_lost() -> None:
    world, member = lettered(b"one", b"two", b"three")
    assert got(member.fetch()) == [(0, 2, 1)]
    events: list[dict[str, object]] = []
    refused = KafkaError(ErrorCode.not_enough_replicas)
    with patch.object(share_dead_letters, "append_built_batch", side_effect=refused):
        assert member.acknowledge((0, 0, ACCEPT), (1, 2, REJECT)) is ErrorCode.none
        world.ctx.ports.tell = lambda message, /, **fields: events.append(fields)
        world.ctx.hosted.partitions["orders", 0].log.delete_before(2)
        assert got(member.fetch()) == []
    assert counts(world) == (0, 1)
    assert [(each["records"], each["reason"]) for each in events] == [
        (1, "their records were deleted first")
    ]
    world.advance(1_000)
    assert (offsets(world), counts(world)) == (["2"], (1, 1))


def test_new_leader_that_does_not_know_the_high_watermark_copies_the_record() -> None:
    world, member = lettered(b"one", copies=True)
    assert got(member.fetch()) == [(0, 0, 1)]
    world.ctx.hosted.partitions["orders", 0].partition.high_watermark = 0
    assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert [each.value for each in letters(world)] == [b"one"]


def test_one_write_looks_at_few_records() -> None:
    world, member = lettered(b"one", b"two", b"three", copies=True)
    assert got(member.fetch()) == [(0, 2, 1)]
    with patch.object(share_dead_letters, "SEEN_MAX", 2):
        assert member.acknowledge((0, 2, REJECT)) is ErrorCode.none
        assert offsets(world) == ["0", "1"]
        world.advance(1)
    assert [each.value for each in letters(world)] == [b"one", b"two", b"three"]


def test_record_that_was_delivered_too_often_gets_a_letter() -> None:
    world, member = lettered(b"one")
    give(world, share_delivery_count_limit="2")
    assert got(member.fetch()) == [(0, 0, 1)]
    assert got(member.fetch((0, 0, RELEASE))) == [(0, 0, 2)]
    assert letters(world) == []
    world.advance(LOCK_MS)
    (letter,) = letters(world)
    assert (told(letter)["delivery.count"], told(letter)["message"]) == ("2", EXHAUSTED)
    assert got(member.fetch()) == []


def test_record_that_is_gone_gets_no_letter() -> None:
    world, member = lettered(b"one")
    assert got(member.fetch()) == [(0, 0, 1)]
    assert member.acknowledge((0, 0, 0)) is ErrorCode.none
    assert letters(world) == []
    assert stored(world) == []


def test_no_letter_is_written_before_its_record_is_stored_as_archiving() -> None:
    world, member = lettered(b"one")
    assert got(member.fetch()) == [(0, 0, 1)]
    heard: list[Any] = []

    def late(*args: Any) -> None:
        heard.append(args[-1])

    # Its answer does not come: another leader could still deliver the record.
    with patch.object(share_partitions_host, "write_state", late):
        member.acknowledge((0, 0, REJECT))
        assert letters(world) == []
        heard.pop()(Outcome(None, ErrorCode.coordinator_not_available))
        assert letters(world) == []


def test_next_leader_writes_the_letter_that_the_last_one_owed() -> None:
    world, member = lettered(b"one")
    assert got(member.fetch()) == [(0, 0, 1)]
    with patch.object(share_partitions_host, "write_letters"):
        assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert stored(world) == [(0, 0, RecordState.ARCHIVING)]
    after = restarted(world)
    assert letters(after) == []
    assert got(Sharer(after, "b").join().fetch()) == []
    assert offsets(after) == ["0"]
    assert stored(after) == []


def test_death_between_letter_and_archived_record_writes_the_letter_twice() -> None:
    world, member = lettered(b"one")
    assert got(member.fetch()) == [(0, 0, 1)]
    written: list[Any] = []

    def write(ctx: Any, key: Any, state: Any, heard: Any) -> None:
        written.append(state)
        if not letters(world):
            write_state(ctx, key, state, heard)

    # The write after the letter never arrives.
    with patch.object(share_partitions_host, "write_state", write):
        assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert offsets(world) == ["0"]
    assert stored(world) == [(0, 0, RecordState.ARCHIVING)]
    after = restarted(world)
    Sharer(after, "b").join().fetch()
    first, second = letters(after)
    assert first.headers == second.headers


@pytest.mark.parametrize(
    "code", [ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower], ids=str
)
def test_letter_that_may_be_written_later_is_repeated(code: ErrorCode) -> None:
    world, member = lettered(b"one")
    assert got(member.fetch()) == [(0, 0, 1)]
    calls = []

    def fails(*args: Any) -> None:
        calls.append(world.clock.monotonic_ms())
        raise KafkaError(code)

    with patch.object(share_dead_letters, "append_built_batch", fails):
        assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
        for _ in range(200):
            world.advance(1_000)
    assert stored(world) == [(0, 0, RecordState.ARCHIVING)]
    pauses = [after - before for before, after in pairwise(calls)]
    assert pauses[:7] == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert counts(world) == (0, 0)
    world.advance(30_000)
    assert (offsets(world), stored(world), counts(world)) == (["0"], [], (1, 0))


@pytest.mark.parametrize(
    "topic",
    [
        {"exists": False},
        {"errors_deadletterqueue_group_enable": "false"},
        {"cleanup_policy": "compact"},
        {"josefine_mirror_session": "a"},
    ],
    ids=["missing", "not enabled", "compacted", "mirror"],
)
def test_letter_that_can_never_be_written_holds_nothing_up(topic: dict[str, Any]) -> None:
    world, member = lettered(b"one", b"two", **topic)
    assert got(member.fetch()) == [(0, 1, 1)]
    events: list[tuple[str, dict[str, object]]] = []

    def tell(message: str, /, **fields: object) -> None:
        events.append((message, fields))

    world.ctx.ports.tell = tell
    assert member.acknowledge((0, 0, REJECT), (1, 1, ACCEPT)) is ErrorCode.none
    assert stored(world) == []
    assert counts(world) == (0, 1)
    ((message, fields),) = events
    assert message == "dead letters lost"
    assert (fields["group"], fields["topic"], fields["records"]) == (GROUP, "orders", 1)


def test_group_that_reads_its_own_dead_letters_writes_no_more_of_them() -> None:
    world, _ = lettered()
    world.produce(batch_of(b"one"), topic=LETTERS)
    reader = Sharer(world, "b", LETTERS).join()
    assert got(reader.fetch()) == []
    world.produce(batch_of(b"two"), topic=LETTERS)
    assert got(reader.fetch()) == [(1, 1, 1)]
    assert reader.acknowledge((1, 1, REJECT)) is ErrorCode.none
    assert len(letters(world)) == 2
    assert counts(world) == (0, 1)


def test_letters_of_a_group_that_wants_none_any_more_are_given_up() -> None:
    world, member = lettered(b"one", b"two")
    assert got(member.fetch()) == [(0, 1, 1)]
    refused = KafkaError(ErrorCode.not_enough_replicas)
    with patch.object(share_dead_letters, "append_built_batch", side_effect=refused):
        assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    give(world, errors_deadletterqueue_topic_name="")
    world.advance(1_000)
    assert (letters(world), counts(world)) == ([], (0, 1))
    assert member.acknowledge((1, 1, REJECT)) is ErrorCode.none
    assert (stored(world), counts(world)) == ([], (0, 1))


def test_letters_go_to_the_leader_on_another_broker() -> None:
    world, member = lettered(b"one", b"two")
    image = world.ctx.image
    entry = image.topics[LETTERS]
    far = replace(entry, partitions=(replace(entry.partitions[0], leader=2),))
    world.ctx.image = replace(image, topics={**image.topics, LETTERS: far})
    asked: list[Any] = []
    world.ctx.ports.forward = lambda *args: asked.append(args)
    assert got(member.fetch()) == [(0, 1, 1)]
    assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert member.acknowledge((1, 1, REJECT)) is ErrorCode.none
    # One write at a time: the second letter waits.
    ((broker, _, request, _, heard),) = asked
    assert (broker, request.acks) == (2, -1)

    def answer(code: ErrorCode) -> ProduceResponse:
        part = ProducePartitionResponse(0, code.value)
        return ProduceResponse((ProduceTopicResponse(LETTERS, entry.topic_id, (part,)),))

    heard(None)
    world.advance(1_000)
    asked[1][-1](answer(ErrorCode.not_leader_or_follower))
    world.advance(2_000)
    assert len(list(read_records(asked[2][2].topics[0].partitions[0].records))) == 2
    assert stored(world) == [(0, 1, RecordState.ARCHIVING)]
    asked[2][-1](answer(ErrorCode.none))
    assert stored(world) == []
    assert counts(world) == (2, 0)


def test_many_letters_are_written_in_several_steps() -> None:
    world, member = lettered(*[b"%d" % n for n in range(7)], copies=True)
    assert got(member.fetch()) == [(0, 6, 1)]
    with patch.object(share_partitions_host, "LETTERS_MAX", 3):
        assert member.acknowledge((0, 6, REJECT)) is ErrorCode.none
        assert offsets(world) == ["0", "1", "2"]
        for _ in range(2):
            world.advance(1)
    assert offsets(world) == [str(n) for n in range(7)]
    assert [each.value for each in letters(world)] == [b"%d" % n for n in range(7)]
    assert stored(world) == []


def test_letters_go_to_the_partition_of_their_number() -> None:
    world, member = lettered(b"one", partitions=3)
    assert got(member.fetch()) == [(0, 0, 1)]
    assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert [len(letters(world, index)) for index in range(3)] == [1, 0, 0]


def test_older_cluster_writes_no_letters() -> None:
    world, member = lettered(b"one", level=1)
    assert got(member.fetch()) == [(0, 0, 1)]
    assert member.acknowledge((0, 0, REJECT)) is ErrorCode.none
    assert (letters(world), stored(world), counts(world)) == ([], [], (0, 0))
