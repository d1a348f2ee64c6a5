"""The reads of plain fetch requests, and their answers, encoded.

Rules: it reads only what `api/fetch.py` would read, and answers with the same bytes; a partition
with an error, or whose records may include an aborted transaction, is left to that path. So nothing
is refused here.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.fetch_session import Cached, Wanted
from josefine_broker.engine.partition.transactions import Transactions
from josefine_broker.records.crc import Buffer
from josefine_broker.records.plain_fetch import (
    ID_SINCE,
    AnsweredPart,
    PlainFetch,
    PlainFetchRequest,
)
from josefine_broker.wire.primitives import uuid_of

JOINED_BYTES_MAX = 16 * 1024
"""An answer of this size is copied into one buffer: cheaper than the write of several."""
ANSWERED_MAX = 64
"""Partitions of one answer that the extension encodes."""
_new = tuple.__new__
topic_id_of = lru_cache(1024)(uuid_of)
"""The id of 16 bytes (None: zero). The same object for the same topic, mostly: the identity of two
ids is then known without a hash."""


class PlainRead(NamedTuple):
    """The answer for one partition."""

    wanted: Wanted
    hosted: HostedPartition
    high_watermark: int
    log_start_offset: int
    records: Sequence[Buffer]
    size_bytes: int


class PlainRound(NamedTuple):
    """The result of reading every wanted partition."""

    news: list[PlainRead]
    """The partitions that have records, or other offsets than their reader knows."""
    got_bytes: int
    is_complete: bool
    """Whether everything that may be read now has been read, so that a wait is for new records."""


def read_plain(
    ctx: Context, partitions: Iterable[Cached], isolation: int, bytes_max: int
) -> PlainRound | None:
    """Read for a consumer that knows what `partitions` hold. None: the general path must read."""
    names, all_hosted = ctx.image.topic_names, ctx.hosted.partitions
    room, got, is_complete = min(bytes_max, ctx.settings.fetch.bytes_max), 0, True
    news: list[PlainRead] = []
    topic, last_id = "", None
    for wanted, known_watermark, known_start in partitions:
        name, topic_id, part = wanted
        index, leader_epoch, offset, _, _, part_max, _, _ = part
        if topic_id is None:
            topic = name
        elif topic_id is not last_id:
            topic, last_id = names.get(topic_id, ""), topic_id
        hosted = all_hosted.get((topic, index))
        if hosted is None or not hosted.partition.is_leader:
            return None
        partition, log = hosted.partition, hosted.log
        end_offset, log_start_offset = partition.high_watermark, log.log_start_offset
        # An error, records above the high watermark, or a search for aborted transactions.
        if (
            leader_epoch not in (-1, partition.leader_epoch)
            or not log_start_offset <= offset <= end_offset
            or (isolation and _may_hide(partition.producers.transactions, offset, end_offset))
        ):
            return None
        records: Sequence[Buffer] = ()
        size = 0
        if offset < end_offset:
            limit = part_max if part_max < room else room
            # KIP-74: the first partition with records gets a batch of any size.
            if not got or limit > 0:
                try:
                    records = log.read(offset, limit, end_offset=end_offset, at_least_one=not got)
                except KafkaError:
                    return None
                size = sum(map(len, records))
            is_complete &= size > 0
            got += size
            room -= size
        if size or end_offset != known_watermark or log_start_offset != known_start:
            found = wanted, hosted, end_offset, log_start_offset, records, size
            news.append(_new(PlainRead, found))
    return None if len(news) > ANSWERED_MAX else PlainRound(news, got, is_complete)


def answer_one(ctx: Context, plain: PlainFetch, request: PlainFetchRequest) -> list[Buffer] | None:
    """The whole response to a request of one partition, without a session, that finds enough
    records: what `read_plain` and `answer_plain` would make of it, in half the time. None: nothing
    was done."""
    (
        ((raw, index, epoch, offset, size_max),),
        _,
        version,
        _,
        min_bytes,
        max_bytes,
        isolation,
        _,
        _,
        _,
    ) = request
    if version < ID_SINCE:
        topic = raw.decode()
    else:
        topic_id = topic_id_of(raw)
        topic = "" if topic_id is None else ctx.image.topic_names.get(topic_id, "")
    hosted = ctx.hosted.partitions.get((topic, index))
    if hosted is None or not hosted.partition.is_leader:
        return None
    partition, log = hosted.partition, hosted.log
    transactions, end_offset = partition.producers.transactions, partition.high_watermark
    log_start_offset = log.log_start_offset
    # An error, a wait for records, or a search for aborted transactions.
    if (
        epoch not in (-1, partition.leader_epoch)
        or not log_start_offset <= offset < end_offset
        or (isolation and _may_hide(transactions, offset, end_offset))
    ):
        return None
    bytes_max = min(size_max, max_bytes, ctx.settings.fetch.bytes_max)
    try:
        records = log.read(offset, bytes_max, end_offset=end_offset)
    except KafkaError:
        return None
    size = sum(map(len, records))
    if not size or size < min(min_bytes, max_bytes):
        return None
    hosted.traffic.bytes_out += size
    stable = max(partition.last_stable_offset, log_start_offset)
    before, after = plain.answer(
        request, 0, [(raw, index, end_offset, stable, log_start_offset, size)]
    )
    if size <= JOINED_BYTES_MAX:
        return [b"".join((before, *records, after))]
    return [before, *records, after] if after else [before, *records]


def answer_plain(
    plain: PlainFetch, request: PlainFetchRequest, session_id: int, news: list[PlainRead]
) -> list[Buffer]:
    """The whole response."""
    if len(news) > 1:
        news = _by_topic(news)
    parts: list[AnsweredPart] = []
    total = 0
    topic, last_id = b"", None
    for (name, topic_id, part), hosted, high_watermark, log_start_offset, _, size in news:
        # A transaction that was open at a deletion would put the stable offset below the log start.
        stable = max(hosted.partition.last_stable_offset, log_start_offset)
        if topic_id is None:
            topic = name.encode()
        elif topic_id is not last_id:
            topic, last_id = topic_id.bytes, topic_id
        parts.append((topic, part.index, high_watermark, stable, log_start_offset, size))
        hosted.traffic.bytes_out += size
        total += size
    pieces = plain.answer(request, session_id, parts)
    buffers: list[Buffer] = []
    for piece, read in zip(pieces, news, strict=False):
        buffers.append(piece)
        buffers += read.records
    if pieces[-1]:
        buffers.append(pieces[-1])
    return [b"".join(buffers)] if total <= JOINED_BYTES_MAX else buffers


def _may_hide(transactions: Transactions, offset: int, end_offset: int) -> bool:
    """Whether read_committed may have to stop below `end_offset`, or to leave out records."""
    if not transactions.are_settled:
        return True
    return transactions.has_aborted and bool(transactions.aborted_between(offset, end_offset))


def _by_topic(news: list[PlainRead]) -> list[PlainRead]:
    """The partitions of each topic together, in the order of their first ones."""
    topics: dict[object, list[PlainRead]] = {}
    for each in news:
        wanted = each.wanted
        key = wanted.name if wanted.topic_id is None else wanted.topic_id
        topics.setdefault(key, []).append(each)
    return [each for topic in topics.values() for each in topic]
