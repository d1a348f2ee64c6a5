"""Plain produce requests appended together to a partition with three replicas: the same logs, the
same answers and errors as one by one; acks=all is answered once the batch is committed."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.api.produce import refuse_late
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.replicas.committing import Together
from josefine_broker.engine.replicas.plain_batches import SENT, append_alone, append_groups
from josefine_broker.records.plain_produce import Key, PlainRequest, compiled
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import (
    decode_request,
    decode_response,
    encode_response,
    parse_request_header,
)
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import LISTENER
from tests.unit.josefine_broker.plain_frames import batch_with, frame_of

pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


class Asked(NamedTuple):
    """A request, and how to see its whole answer: None while it waits, b"" for a hangup."""

    number: int
    see: Any


def general(cluster: Replicas, leader: int, frame: memoryview) -> Asked:
    header = parse_request_header(frame)
    info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", LISTENER)
    request = decode_request(header, memoryview(bytearray(frame)))
    answer = SERVED[PRODUCE].handle(cluster.ctx[leader], info, request)

    def see() -> bytes | None:
        response = answer
        if isinstance(response, Parked):
            response = response.response if response.done else None
        if response is None or isinstance(response, Hangup):
            return None if response is None else b""
        whole = encode_response(PRODUCE, header.api_version, header.correlation_id, response)
        return b"".join(whole)

    return Asked(header.correlation_id, see)


def together(cluster: Replicas, leader: int, *frames: memoryview) -> list[Asked]:
    """By the plain path where it takes them, else one by one."""
    assert compiled is not None
    requests = [compiled.parse(frame) for frame in frames]
    groups: dict[Key, list[PlainRequest]] = {}
    for request in requests:
        assert request is not None
        groups.setdefault(request[0], []).append(request)
    ctx = cluster.ctx[leader]
    asked = []
    for key, stored in append_groups(ctx, compiled, groups).items():
        group = groups[key]
        if stored is None:
            asked += [general(cluster, leader, request[1]) for request in group]
            continue
        waits = {place: wait for wait in stored.waits for place in wait.ends}
        for place, (request, ready) in enumerate(zip(group, stored.answers, strict=True)):
            see = partial(_late, ctx, request, ready, place, waits.get(place))
            asked.append(Asked(request[2], see))
    return asked


def _late(ctx: Any, request: PlainRequest, ready: bytes, place: int, wait: Any) -> bytes | None:
    """What `host/net/late_answers.py` makes of the outcome."""
    if wait is None:
        return ready
    outcome = wait.token.response
    if not wait.token.done:
        return None
    if isinstance(outcome, Hangup):
        return b""
    assert isinstance(outcome, Together)
    if outcome.error is None or wait.ends[place] <= outcome.committed_end:
        return ready
    response = refuse_late(ctx, request, outcome.error, LISTENER)
    return b"".join(encode_response(PRODUCE, request[3], request[2], response))


def seen(asked: list[Asked]) -> dict[int, bytes | None]:
    return {each.number: each.see() for each in asked}


def error_of(asked: Asked, version: int = 9) -> ErrorCode | None:
    """None while it waits."""
    answer = asked.see()
    if answer is None:
        return None
    part = decode_response(PRODUCE, version, memoryview(bytearray(answer))[4:])[1].topics[0]
    return ErrorCode(part.partitions[0].error_code)


def state(cluster: Replicas) -> list[Any]:
    found: list[Any] = [cluster.entry().isr]
    for broker_id, ctx in cluster.ctx.items():
        for index in range(len(ctx.hosted.partitions)):
            partition = cluster.hosted(broker_id, index).partition
            found.append((broker_id, index, cluster.records(broker_id, index)))
            found.append((partition.high_watermark, partition.appended_bytes))
            found.append((partition.committed_bytes, partition.producers.snapshot()))
    return found


def three(**config: str) -> Replicas:
    """A partition led by broker 1, with a record and its followers at rest."""
    cluster = Replicas()
    cluster.create(min_insync_replicas="2", **config)
    cluster.lead(1)
    cluster.run()
    cluster.produce(1, b"first", acks=1)
    cluster.run()
    return cluster


REQUEST = st.tuples(
    st.sampled_from([1, -1, -1]), st.integers(1, 2), st.sampled_from([-1, 5, 5]),
    st.sampled_from([0, 0, 0, 1]),
)  # fmt: skip
"""acks, records, producer, gap before the sequence number."""
STEPS = st.lists(
    st.lists(REQUEST, min_size=1, max_size=4)
    | st.sampled_from(["run", "run", "run", "late", "depose", "lose a follower", "return"]),
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_replicas_and_answers_are_those_of_the_same_requests_one_by_one(steps: list[Any]) -> None:
    ours, theirs = three(), three()
    our_answers: list[Asked] = []
    their_answers: list[Asked] = []
    sequence = number = 0
    for step in steps:
        if isinstance(step, list):
            frames = []
            for acks, records, producer, gap in step:
                number += 1
                first = -1 if producer < 0 else sequence + gap
                epoch = -1 if producer < 0 else 0
                batch = batch_with(*[b"%d" % number] * records, producer=(producer, epoch, first))
                sequence += 0 if producer < 0 or gap else records
                frames.append(frame_of(batch, acks=acks, correlation_id=number))
            leader = ours.entry().leader
            our_answers += together(ours, leader, *frames)
            their_answers += [general(theirs, leader, frame) for frame in frames]
        for cluster in (ours, theirs):
            _act(cluster, step)
        assert seen(our_answers) == seen(their_answers), step
        assert ours.entry() == theirs.entry()
    for cluster in (ours, theirs):
        cluster.run()
        cluster.advance(2_000)
        cluster.run()
    assert seen(our_answers) == seen(their_answers)
    assert all(answer is not None for answer in seen(our_answers).values())
    assert state(ours) == state(theirs)


def _act(cluster: Replicas, step: Any) -> None:
    leader = cluster.entry().leader
    if step == "run":
        cluster.run()
    elif step == "late":
        cluster.advance(1_000)
    elif step == "depose":
        cluster.lead(leader % 3 + 1 if leader % 3 + 1 in cluster.ctx else leader)
    elif step == "lose a follower" and len(cluster.ctx) == 3:
        cluster.kill(leader % 3 + 1)
    elif step == "return":
        for broker_id in {1, 2, 3} - cluster.ctx.keys():
            cluster.start(broker_id)


def plain(number: int, *, acks: int = -1, **fields: Any) -> memoryview:
    return frame_of(batch_with(b"%d" % number), acks=acks, correlation_id=number, **fields)


def test_acks_all_is_answered_when_every_replica_in_sync_has_the_batch() -> None:
    cluster = three()

    asked = together(cluster, 1, plain(1), plain(2, acks=1), plain(3))
    assert [error_of(each) for each in asked] == [None, ErrorCode.none, None]
    assert cluster.high_watermark(1) == 1

    cluster.run()
    assert [error_of(each) for each in asked] == [ErrorCode.none] * 3
    assert [cluster.log_end(each) for each in (1, 2, 3)] == [4, 4, 4]
    assert len(cluster.ctx[1].parked) == 2, "the fetches of two followers, and no other wait"


def test_followers_are_woken_once_and_get_the_batches_of_all_partitions() -> None:
    cluster = Replicas()
    cluster.create(replicas=((1, 2, 3), (1, 2, 3)))
    for index in (0, 1):
        cluster.produce(1, b"first", acks=1, index=index)
    cluster.run()
    news = cluster.ctx[1].parked.followers.events

    together(cluster, 1, plain(1, acks=1), plain(2, acks=1, index=1), plain(3, acks=1))

    assert cluster.ctx[1].parked.followers.events == news + 2
    cluster.receive(cluster.waiting[0])
    follower = 2 if cluster.log_end(2) > 1 else 3
    assert [cluster.log_end(follower, index) for index in (0, 1)] == [3, 2]


def test_a_deposed_leader_acknowledges_only_what_was_committed() -> None:
    cluster = three()
    asked = together(cluster, 1, plain(1), plain(2))
    partition = cluster.hosted(1).partition
    for broker_id in (2, 3):
        _has(cluster, broker_id, 2)
    assert partition.high_watermark == 2
    cluster.ctx[1].parked.wake(("orders", 0), 0)

    cluster.lead(2)

    assert [error_of(each) for each in asked] == [
        ErrorCode.none, ErrorCode.not_leader_or_follower,
    ]  # fmt: skip


def test_of_batches_appended_together_those_that_are_committed_count_for_readers() -> None:
    cluster = three()
    partition = cluster.hosted(1).partition
    before = partition.committed_bytes
    size = len(batch_with(b"1"))
    together(cluster, 1, plain(1, acks=1), plain(2, acks=1), plain(3, acks=1))

    for broker_id in (2, 3):
        _has(cluster, broker_id, 3)

    assert partition.committed_bytes == before + 2 * size


def _has(cluster: Replicas, broker_id: int, end_offset: int) -> None:
    """A follower has confirmed the leader's records up to there."""
    cluster.hosted(1).partition.follower_fetched(
        broker_id, end_offset, 0, cluster.log_end(1), 0, may_join=True,
        broker_epoch=cluster.image.brokers[broker_id].epoch,
    )  # fmt: skip


def test_an_answer_that_names_another_leader_has_its_address_for_new_clients() -> None:
    cluster = three()
    topic_id = cluster.image.topics["orders"].topic_id
    (asked,) = together(cluster, 1, plain(1, version=13, topic_id=topic_id))

    cluster.lead(2)

    answer = decode_response(PRODUCE, 13, memoryview(bytearray(asked.see()))[4:])[1]
    part = answer.topics[0].partitions[0]
    assert (part.error_code, part.leader_id) == (ErrorCode.not_leader_or_follower, 2)
    assert [each.host for each in answer.node_endpoints] == ["host2"]


def test_requests_time_out_by_their_own_timeouts() -> None:
    cluster = three()
    asked = together(cluster, 1, plain(1), plain(2, timeout_ms=100), plain(3))

    cluster.advance(99)
    assert [error_of(each) for each in asked] == [None] * 3
    cluster.advance(1)
    assert [error_of(each) for each in asked] == [None, ErrorCode.request_timed_out, None]
    cluster.advance(900)
    assert [error_of(each) for each in asked] == [ErrorCode.request_timed_out] * 3


def test_too_few_replicas_in_sync_after_the_append_is_an_error() -> None:
    cluster = three()
    asked = together(cluster, 1, plain(1))

    cluster.lead(1, isr=(1,))

    assert error_of(asked[0]) is ErrorCode.not_enough_replicas_after_append


def test_acks_all_with_too_few_replicas_in_sync_is_left_to_the_general_path() -> None:
    cluster = three()
    cluster.lead(1, isr=(1,))
    before = cluster.log_end(1)

    (asked,) = together(cluster, 1, plain(1))

    assert error_of(asked) is ErrorCode.not_enough_replicas
    assert cluster.log_end(1) == before


def test_a_stranded_leader_closes_the_connections_that_wait() -> None:
    cluster = three()
    asked = together(cluster, 1, plain(1))
    ctx = cluster.ctx[1]
    ctx.cluster.is_heard = False
    cluster.hosted(1).partition.is_stranded = True

    ctx.parked.wake(("orders", 0), 0)

    assert asked[0].see() == b""


def test_acks_all_of_a_topic_that_is_synced_is_left_to_the_general_path() -> None:
    assert compiled is not None
    cluster = three(flush_messages="1")
    request = compiled.parse(plain(1))
    assert request is not None

    assert append_groups(cluster.ctx[1], compiled, {request[0]: [request]}) == {request[0]: None}


def test_a_request_alone_is_answered_at_once_only_if_no_replica_must_have_its_batch() -> None:
    assert compiled is not None
    cluster = Replicas()
    cluster.create(replicas=((1, 2, 3),), min_insync_replicas="2")
    cluster.lead(1)
    cluster.run()
    cluster.produce(1, b"first", acks=1)
    cluster.run()
    ctx, sent = cluster.ctx[1], list[bytes]()
    for acks, is_sent in ((-1, False), (1, True)):
        request = compiled.parse(frame_of(batch_with(b"v"), acks=acks))
        assert request is not None
        stored = append_alone(ctx, compiled, request, sent.append)
        assert stored is not None
        assert (stored is SENT, bool(sent), bool(stored.waits)) == (is_sent, is_sent, not is_sent)
