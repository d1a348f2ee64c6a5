"""Writes dead letters of a share group to the leader of their partition in the group's topic for
them, here or on another broker (KIP-1191).

Rules: the topic allows dead letters by `errors.deadletterqueue.group.enable`, and its name has the
broker's prefix; no broker creates it. A letter goes to the partition with the number of its
record's, modulo their count. A write is answered once, now or later. Without an answer nobody knows
whether the dead letters are there; who repeats it may write them twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.share.config import DeadLetters
from josefine_broker.engine.groups.share.dead_letters import (
    Letter,
    Origin,
    build_letters,
)
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.topic_config import TopicSettings, resolve
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.purgatory.promises import AwaitEach
from josefine_broker.engine.replicas.batches import append_built_batch
from josefine_broker.engine.replicas.committing import Appended
from josefine_broker.records.batch import iter_batches, last_offset_delta
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records
from josefine_broker.wire import apis
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

SEEN_MAX = 5_000
"""Records of the group's topic that one write looks at, about: some milliseconds of the loop."""
WRITE_TIMEOUT_MS = 10_000
"""How long dead letters wait for the replicas of their partition."""

WAITING, LOST = "dead letters not written yet", "dead letters lost"
Heard = Callable[[int, KafkaError | None], None]
"""Gets how many dead letters, from the first on, the write had; and why they are not there."""


def write_letters(
    ctx: Context,
    origin: Origin,
    source: HostedPartition,
    letters: Sequence[Letter],
    config: DeadLetters | None,
    heard: Heard,
) -> None:
    """Write the first of these dead letters: as many as fit in a batch."""
    try:
        tp, settings = _place(ctx, origin, config)
        records: Mapping[int, Record] = {}
        if config is not None and config.copies_records:
            letters, records = _copied(source, letters, settings.log.message_bytes_max)
    except KafkaError as error:
        heard(len(letters), error)
        return
    now_ms, bytes_max = ctx.clock.now_ms(), settings.log.message_bytes_max
    batch, count = build_letters(origin, letters, records, now_ms, bytes_max)
    leader = ctx.image.topics[tp.topic].partitions[tp.partition].leader
    if leader == ctx.broker_id:
        _append(ctx, tp, batch, now_ms, lambda error: heard(count, error))
    else:
        _send(ctx, tp, leader, batch, lambda error: heard(count, error))


def tell_of_letters(ctx: Context, origin: Origin, what: str, records: int, reason: str) -> None:
    """Log that dead letters wait, or are lost."""
    ctx.ports.tell(
        what,
        gravity=Gravity.ERROR if what is LOST else Gravity.WARNING,
        records=records,
        reason=reason,
        group=origin.group_id,
        topic=origin.topic,
        partition=origin.partition,
    )


def _place(
    ctx: Context, origin: Origin, config: DeadLetters | None
) -> tuple[TopicPartition, TopicSettings]:
    """Where the dead letters go. Raises KafkaError(invalid_config), like Kafka's checks before each
    write: group and topic may have other configurations by now."""
    if config is None:
        raise _invalid("the group has no topic for dead letters any more")
    if config.topic == origin.topic:
        raise _invalid(f"the group reads '{config.topic}' itself, and would get each letter again")
    topic = ctx.image.topics.get(config.topic)
    if topic is None:
        raise _invalid(f"the topic '{config.topic}' does not exist: create it")
    settings = resolve(topic.config, ctx.settings.defaults_of(topic.name))
    if not settings.takes_dead_letters:
        name = "errors.deadletterqueue.group.enable"
        raise _invalid(f"the topic '{topic.name}' takes no dead letters: set {name}=true on it")
    # A letter without a key would be refused, and one with the key of another replaces it.
    if "compact" in settings.log.cleanup_policy:
        raise _invalid(f"the topic '{topic.name}' is compacted, which deletes dead letters")
    return TopicPartition(topic.name, origin.partition % len(topic.partitions)), settings


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, message)


def _copied(
    source: HostedPartition, letters: Sequence[Letter], bytes_max: int
) -> tuple[Sequence[Letter], Mapping[int, Record]]:
    """The first of them, and those of their records that are in the log. Stops when enough is read
    for one turn of the loop. A record that was deleted or cannot be read is only named. Raises
    KafkaError for what may be readable later: a damaged batch that is being repaired, a file that
    cannot be opened now."""
    wanted = {each.offset for each in letters}
    found: dict[int, Record] = {}
    log, end, size, seen = source.log, -1, 0, 0
    # A batch is read and opened once, for all of its records that are wanted: offsets only grow, so
    # those below the end of the last batch are found already, or are not there any more.
    for at, letter in enumerate(letters):
        # `end`: of the batch that was read last.
        if letter.offset < end:
            continue
        if size >= bytes_max or seen >= SEEN_MAX:
            return letters[:at], found
        end = letter.offset + 1
        try:
            # Not only below the high watermark, which a new leader may not know yet: what the group
            # got was committed.
            data = b"".join(log.read(letter.offset, 1, end_offset=log.log_end_offset))
            size += len(data)
            for pos, header in iter_batches(data):
                end, seen = max(end, header.end_offset), seen + header.record_count
                for record in read_records(memoryview(data)[pos : pos + header.size_bytes]):
                    if record.offset in wanted:
                        found[record.offset] = record
        except CorruptData:  # an intact batch of unreadable records: every replica has the same one
            continue
        except KafkaError as error:
            is_damaged = error.code is ErrorCode.corrupt_message
            is_deleted = error.code is ErrorCode.offset_out_of_range
            if not is_deleted and not (is_damaged and not source.may_be_repaired(letter.offset)):
                raise
    return letters, found


def _append(
    ctx: Context,
    tp: TopicPartition,
    batch: bytearray,
    now_ms: int,
    heard: Callable[[KafkaError | None], None],
) -> None:
    """Append to the partition, which is led here."""
    view = memoryview(batch)
    try:
        hosted = ctx.hosted_partition(tp.topic, tp.partition)
        hosted.partition.check_serves()
        base_offset, _ = append_built_batch(ctx, tp, hosted, view, ACKS_ALL, now_ms)
    except KafkaError as error:
        heard(error)
        return
    appended = Appended(ctx, tp, hosted, base_offset + last_offset_delta(view) + 1, heard)
    if not appended.decide():
        deadline_ms = ctx.clock.monotonic_ms() + WRITE_TIMEOUT_MS
        _AwaitLetters([appended], deadline_ms, lambda: None).park(ctx.parked)


class _AwaitLetters(AwaitEach):
    """The share partition needs the result, whichever client's request led to the write."""

    __slots__ = ()

    outlives_client = True


def _send(
    ctx: Context,
    tp: TopicPartition,
    leader: int,
    batch: bytearray,
    heard: Callable[[KafkaError | None], None],
) -> None:
    """Send to the partition's leader, as a producer does."""
    ask = ctx.ports.forward
    if leader < 0 or ask is None:
        heard(KafkaError(ErrorCode.leader_not_available, f"{tp} has no leader"))
        return
    part = ProducePartition(tp.partition, memoryview(batch))
    topic = ProduceTopic(tp.topic, ctx.image.topics[tp.topic].topic_id, (part,))
    request = ProduceRequest(None, ACKS_ALL, WRITE_TIMEOUT_MS, (topic,))

    def answered(answer: Any | None) -> None:
        if answer is None:
            heard(KafkaError(ErrorCode.network_exception, f"broker {leader} did not answer"))
            return
        result = answer.topics[0].partitions[0]
        code = ErrorCode(result.error_code)
        heard(None if code is ErrorCode.none else KafkaError(code, result.error_message or ""))

    deadline_ms = ctx.clock.monotonic_ms() + 2 * WRITE_TIMEOUT_MS
    ask(leader, apis.PRODUCE, request, deadline_ms, answered)
