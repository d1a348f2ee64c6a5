"""A plain fetch is answered with the bytes of the general path, at once or after its wait; what has
an error or may hide records is left to that path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.api.plain_fetch import WaitingPlain, fetch_plain
from josefine_broker.api.table import SERVED
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.partition.transactions import AbortedRange
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.plain_reads import JOINED_BYTES_MAX
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.records.plain_fetch import compiled
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import (
    decode_request,
    encode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

VERSIONS = range(4, 19)
PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def frame_of(world: World, offset: int, *, version: int = 12, **changes: Any) -> memoryview:
    topic_id = world.ctx.image.topics["orders"].topic_id
    part = FetchPartition(0, -1, offset, -1, -1, 1 << 20)  # type: ignore[arg-type]
    part = part._replace(**changes.pop("part", {}))
    named = (
        FetchTopic("", topic_id, (part,)) if version >= 13 else FetchTopic("orders", None, (part,))
    )
    request = FetchRequest(-1, 500, 1, 1 << 20, 0, 0, -1, (named,))._replace(**changes)
    return memoryview(b"".join(encode_request(FETCH, version, 7, "client", request))[4:])


def general(world: World, frame: memoryview) -> bytes | None:
    """The general path's whole response; None: it waits."""
    header = parse_request_header(frame)
    info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", "PLAINTEXT")
    answer = SERVED[FETCH].handle(world.ctx, info, decode_request(header, frame))
    if isinstance(answer, Parked):
        return None
    return b"".join(encode_response(FETCH, header.api_version, 7, answer))


def plain(world: World, frame: memoryview) -> bytes | None:
    """The plain path's whole response; None: it is left to the general path, or waits."""
    assert compiled is not None
    answer = fetch_plain(world.ctx, compiled, frame, PEER)
    return None if answer is None or isinstance(answer, WaitingPlain) else b"".join(answer)


def filled(**topic: str) -> World:
    world = world_of(**topic)
    for n in range(5):
        world.produce(batch_of(b"v" * n, b"w"))
    return world


def sent(world: World) -> int:
    return world.ctx.hosted.partitions["orders", 0].traffic.bytes_out


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_answered_with_the_bytes_of_the_general_path(version: int) -> None:
    world = filled()
    for offset in range(10):
        for changes in (
            {}, {"isolation_level": 1}, {"min_bytes": 70}, {"part": {"max_bytes": 1}},
            {"max_bytes": 200}, {"max_wait_ms": 0},
        ):  # fmt: skip
            frame = frame_of(world, offset, version=version, **changes)
            before = sent(world)

            found = plain(world, frame)

            assert found is not None
            plain_bytes = sent(world) - before
            assert found == general(world, frame)
            assert sent(world) - before == 2 * plain_bytes


def test_a_large_answer_is_sent_without_a_copy_and_has_the_same_bytes() -> None:
    world = world_of()
    world.produce(batch_of(b"v" * JOINED_BYTES_MAX))
    assert compiled is not None
    for version in (11, 12):
        frame = frame_of(world, 0, version=version)

        buffers = fetch_plain(world.ctx, compiled, frame, PEER)

        assert isinstance(buffers, list)
        assert len(buffers) == (3 if version == 12 else 2)
        assert b"".join(buffers) == general(world, frame)


def test_reading_starts_within_a_batch_and_ends_at_the_high_watermark() -> None:
    world = filled()
    world.ctx.hosted.partitions["orders", 0].partition.high_watermark = 6
    for offset in (1, 3, 5):
        assert plain(world, frame_of(world, offset)) == general(world, frame_of(world, offset))
    assert plain(world, frame_of(world, 6)) is None


def nothing(world: World) -> None:
    pass


def does_not_lead(world: World) -> None:
    entry = world.ctx.image.partition("orders", 0)
    assert entry is not None
    partition = world.ctx.hosted.partitions["orders", 0].partition
    partition.follow(replace(entry, leader=2), 10)


def has_access_control(world: World) -> None:
    world.ctx.clients.authorizer = Any  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (nothing, {"offset": 11}),
        (nothing, {"offset": -1}),
        (nothing, {"min_bytes": 10_000}),
        (nothing, {"part": {"current_leader_epoch": 9}}),
        (nothing, {"part": {"current_leader_epoch": -2}}),
        (nothing, {"part": {"index": 1}}),
        (does_not_lead, {}),
        (has_access_control, {}),
    ],
)
def test_what_has_some_records_or_an_error_is_left_to_the_general_path(
    change: Any, fields: dict[str, Any]
) -> None:
    world = filled()
    change(world)
    fields = dict(fields)
    frame = frame_of(world, fields.pop("offset", 0), **fields)
    before, waiting = sent(world), len(world.ctx.parked)

    assert plain(world, frame) is None

    assert (sent(world), len(world.ctx.parked)) == (before, waiting)


def test_read_committed_next_to_aborted_transactions_is_left_to_the_general_path() -> None:
    world = filled()
    transactions = world.ctx.hosted.partitions["orders", 0].partition.producers.transactions
    aborted = AbortedRange(7, 2, 5)  # type: ignore[arg-type]
    transactions._aborted.append(aborted)

    found = {at: plain(world, frame_of(world, at, isolation_level=1)) for at in range(10)}

    assert [at for at, answer in found.items() if answer is None] == [0, 1, 2, 3, 4, 5]
    for at in range(6, 10):
        assert found[at] == general(world, frame_of(world, at, isolation_level=1))
    assert plain(world, frame_of(world, 0)) is not None


def test_topic_id_of_zeros_is_not_kept_in_a_session() -> None:
    world = filled()
    first = frame_of(world, 0, version=13, session_epoch=0)
    assert general(world, first) is not None
    ((session_id, session),) = world.ctx.clients.sessions._sessions.items()
    known = dict(session.partitions)
    part = FetchPartition(0, -1, 0, -1, -1, 1 << 20)  # type: ignore[arg-type]
    unknown = (FetchTopic("", UUID(int=0), (part,)),)

    changes = {"session_id": session_id, "session_epoch": 1, "topics": unknown}
    assert plain(world, frame_of(world, 0, version=13, **changes)) is None

    assert session.partitions == known
