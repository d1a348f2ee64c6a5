"""PUBS topic message: writes to the partition of its key, through Produce on the leader.

Rules: messages that arrived together are sent together, one batch per partition and one request per
leader; the order of a partition's messages is that of their lines. A batch that a leader refused
without storing it is retried until the deadline; if it is unknown whether it was stored, the client
gets that error, and nothing is sent twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from josefine_broker.base.acls import Operation
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS, NO_LEADER
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.text.asking import Work, begin, deadline_of, finish, pause
from josefine_broker.text.creating import DONE, partition_count
from josefine_broker.text.errors import NOT_THE_LEADER, TextError, error, shown
from josefine_broker.text.front import Client, Front
from josefine_broker.text.messages import Message, parse_message, partition_of
from josefine_broker.wire import apis
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)

BATCH_BYTES_MAX = 512 * 1024
"""Limit of a batch of several messages: half of a topic's default limit."""

TURNS_MAX = 10_000
"""Topics whose partition turn is remembered; above that every topic starts again."""

NOT_STORED = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,  # its broker may not know it yet
        ErrorCode.unknown_topic_id,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
    }
)
"""Retriable refusals of a batch that is certainly not in the log."""


@dataclass(slots=True)
class _Chunk:
    """Messages for one partition, by their position among the lines."""

    topic: str
    index: int
    messages: list[tuple[int, Message]] = field(default_factory=list)
    size: int = 0
    refusal: str = ""
    """Why it was not stored at the last attempt."""


@dataclass(slots=True)
class _Run:
    """The lines that are published together."""

    replies: list[str]
    waiting: list[_Chunk]
    """Undecided chunks, in the order of their lines within each partition."""

    def settle(self, chunk: _Chunk, reply: str) -> None:
        for at, _ in chunk.messages:
            self.replies[at] = reply
        self.waiting.remove(chunk)


def publish(front: Front, _client: Client, lines: Sequence[list[str]]) -> Work[list[str]]:
    """A reply for each line, given by its fields."""
    run = _sort(front, lines)
    deadline_ms = deadline_of(front)
    while run.waiting:
        yield from _send(front, run, deadline_ms)
        if run.waiting and not (yield from pause(front, deadline_ms)):
            for chunk in list(run.waiting):
                why = chunk.refusal or "nobody leads it"
                run.settle(chunk, error(f"{_name(chunk)} took no message in time: {why}"))
    return run.replies


def _sort(front: Front, lines: Sequence[list[str]]) -> _Run:
    """Assign each message to its partition; invalid lines get their reply."""
    run = _Run([""] * len(lines), [])
    newest: dict[tuple[str, int], _Chunk] = {}
    for at, fields in enumerate(lines):
        try:
            topic, message = _parsed(fields)
            key = (topic, _partition(front, topic, message))
        except TextError as refusal:
            run.replies[at] = str(refusal)
            continue
        size = len(fields[1])
        chunk = newest.get(key)
        if chunk is None or chunk.size + size > BATCH_BYTES_MAX:
            chunk = newest[key] = _Chunk(*key)
            run.waiting.append(chunk)
        chunk.messages.append((at, message))
        chunk.size += size
    return run


def _parsed(fields: list[str]) -> tuple[str, Message]:
    """Raises TextError."""
    if not fields or not fields[0]:
        raise TextError(error("topic name is required field"))
    if len(fields) < 2 or not fields[1]:
        raise TextError(error("message is required field"))
    if fields[0] in INTERNAL_TOPICS:
        raise TextError(error(f"'{fields[0]}' is the broker's own topic"))
    return fields[0], parse_message(fields[1])


def _partition(front: Front, topic: str, message: Message) -> int:
    """Raises TextError."""
    count = partition_count(front, topic, Operation.WRITE)
    if message.key:
        return partition_of(message.key, count)
    if len(front.turns) >= TURNS_MAX:
        front.turns.clear()
    turn = front.turns.get(topic, -1) + 1
    front.turns[topic] = turn
    return turn % count


def _send(front: Front, run: _Run, deadline_ms: int) -> Work[None]:
    """One attempt for the first waiting chunk of each partition, at all leaders concurrently."""
    ctx = front.ctx
    firsts: dict[tuple[str, int], _Chunk] = {}
    for chunk in run.waiting:
        firsts.setdefault((chunk.topic, chunk.index), chunk)
    by_leader: dict[int, list[_Chunk]] = {}
    for chunk in firsts.values():
        entry = ctx.image.partition(chunk.topic, chunk.index)
        if entry is None:
            run.settle(chunk, error(f"there is no topic '{shown(chunk.topic)}'"))
        elif front.settings.is_strict and entry.leader != ctx.broker_id:
            run.settle(chunk, NOT_THE_LEADER)
        elif entry.leader != NO_LEADER:
            by_leader.setdefault(entry.leader, []).append(chunk)
    begun = []
    for leader, chunks in by_leader.items():
        request = _request(front, chunks)
        begun.append((chunks, begin(front, leader, apis.PRODUCE, request, deadline_ms)))
    for chunks, token in begun:
        answer = yield from finish(token)
        _settle(run, chunks, answer)


def _request(front: Front, chunks: Iterable[_Chunk]) -> ProduceRequest:
    now_ms = front.ctx.clock.now_ms()
    topics: dict[str, list[ProducePartition]] = {}
    for chunk in chunks:
        records: list[Record] = [message.as_record(now_ms) for _, message in chunk.messages]
        batch = memoryview(build_batch(records))
        topics.setdefault(chunk.topic, []).append(ProducePartition(chunk.index, batch))
    return ProduceRequest(
        None,
        front.settings.acks,
        front.settings.timeout_ms,
        tuple(
            ProduceTopic(name, _topic_id(front.ctx, name), tuple(parts))
            for name, parts in topics.items()
        ),
    )


def _topic_id(ctx: Context, name: str) -> Any:
    return ctx.image.topics[name].topic_id


def _settle(run: _Run, chunks: list[_Chunk], answer: Any) -> None:
    """`chunks` are in the order of the request, topic by topic."""
    if answer is None:
        for chunk in chunks:
            run.settle(
                chunk,
                error(f"the leader of {_name(chunk)} did not answer: nobody knows if it is stored"),
            )
        return
    parts = [part for topic in answer.topics for part in topic.partitions]
    names = dict.fromkeys(chunk.topic for chunk in chunks)
    in_order = [chunk for name in names for chunk in chunks if chunk.topic == name]
    for chunk, part in zip(in_order, parts, strict=True):
        _settle_one(run, chunk, part)


def _settle_one(run: _Run, chunk: _Chunk, part: ProducePartitionResponse) -> None:
    code = ErrorCode(part.error_code)
    if code is ErrorCode.none:
        run.settle(chunk, DONE)
    elif code in NOT_STORED:
        chunk.refusal = part.error_message or code.name.replace("_", " ")
    elif code is ErrorCode.message_too_large and len(chunk.messages) > 1:
        _halve(run, chunk)
    else:
        why = part.error_message or code.name.replace("_", " ")
        run.settle(chunk, error(f"{_name(chunk)} did not take it: {why}"))


def _halve(run: _Run, chunk: _Chunk) -> None:
    """Together they are too large for the topic, but perhaps not each half."""
    middle = len(chunk.messages) // 2
    at = run.waiting.index(chunk)
    halves = (chunk.messages[:middle], chunk.messages[middle:])
    run.waiting[at : at + 1] = [_Chunk(chunk.topic, chunk.index, half) for half in halves]


def _name(chunk: _Chunk) -> str:
    return f"{shown(chunk.topic)}-{chunk.index}"
