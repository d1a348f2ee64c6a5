"""Produce request frames for the tests of the plain path: plain ones, and ones that nearly are."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hypothesis import strategies as st

from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.apis import APIS, PRODUCE
from josefine_broker.wire.codec import encode_request
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

NOW_MS = 1_700_000_000_000
VERSIONS = range(3, APIS[PRODUCE].max_version + 1)
ID_SINCE = 13
TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)


def frame_of(
    *batches: bytes,
    version: int = 9,
    topic: str = "orders",
    topic_id: UUID = TOPIC_ID,
    index: int = 0,
    acks: int = 1,
    client_id: str | None = "client",
    correlation_id: int = 7,
    transactional_id: str | None = None,
    timeout_ms: int = 1000,
) -> memoryview:
    """A request, without its length prefix, in memory that may be written to."""
    parts = tuple(ProducePartition(index + n, memoryview(each)) for n, each in enumerate(batches))
    by_id = version >= ID_SINCE
    named = ProduceTopic(None if by_id else topic, topic_id if by_id else None, parts)
    request = ProduceRequest(transactional_id, acks, timeout_ms, (named,))
    whole = b"".join(encode_request(PRODUCE, version, correlation_id, client_id, request))
    return memoryview(bytearray(whole[4:]))


Topics = Sequence[tuple[str | UUID, Sequence[tuple[int, bytes]]]]
"""Names or ids, each with partition indexes and batches."""


def frame_with(
    topics: Topics,
    *,
    version: int = 9,
    acks: int = 1,
    correlation_id: int = 7,
    transactional_id: str | None = None,
    timeout_ms: int = 1000,
) -> memoryview:
    """A request for several partitions, as `frame_of` for one."""
    named = tuple(
        ProduceTopic(
            None if isinstance(topic, UUID) else topic,
            topic if isinstance(topic, UUID) else None,
            tuple(ProducePartition(index, memoryview(batch)) for index, batch in parts),
        )
        for topic, parts in topics
    )
    request = ProduceRequest(transactional_id, acks, timeout_ms, named)
    whole = b"".join(encode_request(PRODUCE, version, correlation_id, "client", request))
    return memoryview(bytearray(whole[4:]))


def batch_with(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    key: bytes | None = b"k",
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """`producer`: its id, epoch and the batch's first sequence number."""
    records = [Record(key, value, (), timestamp_ms) for value in values]
    id_, epoch, sequence = producer
    return bytes(
        build_batch(records, producer_id=id_, producer_epoch=epoch, base_sequence=sequence)  # type: ignore[arg-type]
    )


RECORDS = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=3),
        value=st.none() | st.binary(max_size=90),
        headers=st.lists(
            st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2
        ),
        timestamp_ms=st.sampled_from([-1, NOW_MS, NOW_MS + 1, NOW_MS - 70]),
    ),
    min_size=1,
    max_size=3,
)


PLAIN_RECORDS = RECORDS.map(
    lambda records: sorted(
        (each._replace(timestamp_ms=abs(each.timestamp_ms)) for each in records),
        key=lambda each: each.timestamp_ms,
    )
)
"""The first timestamp is the smallest: otherwise the batch is for the general path."""


PRODUCERS = st.just((-1, -1, -1)) | st.tuples(
    st.sampled_from([0, 5, 2**63 - 1, -1, -2]),
    st.sampled_from([0, 1, 2**15 - 1, -1]),
    st.sampled_from([0, 7, 2**31 - 1, -1]),
)


@st.composite
def frames(draw: st.DrawFn) -> bytearray:
    """A request that is plain, or differs from a plain one in a field or two."""
    rarely = draw(st.integers(0, 5)) == 0
    id_, epoch, sequence = draw(PRODUCERS)
    batch = build_batch(
        draw(RECORDS),
        producer_id=id_,
        producer_epoch=epoch,
        base_sequence=sequence,  # type: ignore[arg-type]
    )
    batches = [bytes(batch)]
    if rarely and draw(st.booleans()):
        batches *= 2
    return bytearray(
        frame_of(
            *batches,
            version=draw(st.sampled_from(VERSIONS)),
            topic=draw(st.sampled_from(["orders", "o", "t" * 126, "t" * 127, "käse"])),
            index=draw(st.sampled_from([0, 1, 70_000])),
            acks=draw(st.sampled_from([1, -1, 1, -1, 0, 2])),
            client_id=draw(st.sampled_from([None, "", "client", "ä"])),
            correlation_id=draw(st.integers(-(2**31), 2**31 - 1)),
            transactional_id="t" if rarely and draw(st.booleans()) else None,
        )
    )


EDITS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(0, 2),
        st.binary(max_size=2) | st.sampled_from([b"\xff" * 11, b"\x80\0", b"\x80" * 4 + b"\x10"]),
    ),
    max_size=3,
)


def edited(frame: bytearray, edits: list[tuple[int, int, bytes]]) -> memoryview:
    """The frame with some bytes replaced, removed or inserted."""
    for at, removed, inserted in edits:
        place = at % (len(frame) + 1)
        frame[place : place + removed] = inserted
    return memoryview(frame)
