"""A leader that was elected in doubt takes what other replicas have after the end of its log, and
serves afterwards (`engine/partition/catch_up.py`).

The image shows the doubt: the election has recorded its own epoch as that of an unclean election
(`metadata/apply.py`), because the log may lack acknowledged records.
"""

from __future__ import annotations

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.metadata.image import PartitionEntry
from josefine_broker.engine.partition.catch_up import CatchUp
from josefine_broker.engine.partition.repair.repair import order_of
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.replicas.following import append_fetched
from josefine_broker.engine.replicas.replica_reads import (
    ANSWER_MS,
    FETCH,
    Resume,
    is_answered,
    request_of,
)
from josefine_broker.records.batch import BatchHeader, iter_batches, parse_header
from josefine_broker.wire.fetch import FetchResponse


def must_catch_up(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, entry: PartitionEntry
) -> bool:
    """Whether this replica, which the image names as leader, has to ask the others first; notes
    that it does."""
    partition, every = hosted.partition, ctx.hosted.catching_up
    known = every.get(tp)
    is_in_doubt = entry.unclean_epoch == entry.leader_epoch and len(entry.replicas) > 1
    # A leader that served in the epoch before has nothing to learn.
    if not is_in_doubt or partition.is_leader or ctx.ports.forward is None:
        every.pop(tp, None)
        return False
    if known is not None and known.leader_epoch == entry.leader_epoch:
        return not known.is_over
    waits_for_all = hosted.ends_in_damage and not hosted.settings.unclean_leader_election
    every[tp] = CatchUp(entry.leader_epoch, waits_for_all=waits_for_all)
    return True


def forget_catch_up(ctx: Context, tp: TopicPartition) -> None:
    """This broker does not lead the partition: it has nothing to ask."""
    ctx.hosted.catching_up.pop(tp, None)


class CatchUps:
    """The leaders of this broker that still ask. One per broker, on its thread; `step` is called
    several times a second."""

    def __init__(self, ctx: Context, resume: Resume) -> None:
        self._ctx = ctx
        self._resume = resume

    def step(self) -> None:
        """Ask for those whose time has come."""
        now_ms = self._ctx.clock.monotonic_ms()
        for tp, each in list(self._ctx.hosted.catching_up.items()):
            hosted = self._ctx.hosted.partitions.get(tp)
            if hosted is None or each.is_over:
                continue
            if each.retry_at_ms is not None and now_ms >= each.retry_at_ms:
                self._ask(TopicPartition(*tp), hosted, each)

    def _ask(self, tp: TopicPartition, hosted: HostedPartition, each: CatchUp) -> None:
        """Ask the next replica for our last batch, and what follows it."""
        ctx, partition = self._ctx, hosted.partition
        now_ms = ctx.clock.monotonic_ms()
        replica = each.choose(
            order_of(partition.leader, partition.isr, partition.replicas, ctx.broker_id)
        )
        # While our last batch is damaged nobody can continue it: the repair comes first.
        try:
            last = _last_batch(hosted)
        except KafkaError:
            each.retry_at_ms = now_ms + ANSWER_MS
            return
        if replica is None:
            brokers = ctx.image.brokers
            alive = frozenset(key for key, broker in brokers.items() if not broker.fenced)
            if each.end_round(alive, now_ms):
                _end(ctx, tp, hosted, self._resume)
            return
        offset = hosted.log.log_end_offset if last is None else last.base_offset
        each.retry_at_ms = None

        def answered(answer: FetchResponse | None) -> None:
            if ctx.hosted.catching_up.get(tp) is each and not each.is_over:
                self._answered(tp, hosted, each, replica, last, answer)

        forward = ctx.ports.forward
        assert forward is not None
        request = request_of(hosted, tp.partition, offset)
        forward(replica, FETCH, request, now_ms + ANSWER_MS, answered)

    def _answered(
        self,
        tp: TopicPartition,
        hosted: HostedPartition,
        each: CatchUp,
        replica: int,
        last: BatchHeader | None,
        answer: FetchResponse | None,
    ) -> None:
        """Append what continues our log, and ask on."""
        ctx, before = self._ctx, hosted.log.log_end_offset
        # A batch that does not fit is damaged there: that replica may have an intact one later.
        if not is_answered(answer):
            each.silent(replica)
        else:
            assert answer is not None
            records = b"".join(answer.topics[0].partitions[0].records or ())
            try:
                append_fetched(ctx, tp, hosted, _continuing(records, last))
            except (KafkaError, CorruptData) as error:
                ctx.ports.tell(
                    "the end of a log was not copied: it is tried again",
                    gravity=Gravity.WARNING,
                    partition=str(tp),
                    reason=str(error),
                )
                each.silent(replica)
        end = hosted.log.log_end_offset
        if end > before:
            each.moved()
            ctx.ports.tell(
                "a leader in doubt took the end of its log from another replica",
                partition=str(tp),
                replica=replica,
                offsets=(before, end),
            )
        elif is_answered(answer):
            each.has_no_more(replica)
        self._ask(tp, hosted, each)


def give_up_end(ctx: Context, tp: TopicPartition, resume: Resume) -> None:
    """The operator waits no longer for replicas that do not answer."""
    each = ctx.hosted.catching_up.get(tp)
    if each is not None and not each.is_over:
        each.is_over = True
        _end(ctx, tp, ctx.hosted.partitions[tp], resume)


def _end(ctx: Context, tp: TopicPartition, hosted: HostedPartition, resume: Resume) -> None:
    """No replica has more: this log defines the partition."""
    if hosted.ends_in_damage:
        hosted.ends_in_damage = False
        ctx.ports.logs.is_complete(tp)
    resume(ctx, tp, hosted)


def _last_batch(hosted: HostedPartition) -> BatchHeader | None:
    """The header of the last batch; None: there is none. Raises KafkaError if it is damaged."""
    its_log = hosted.log
    end = its_log.log_end_offset
    if end <= its_log.log_start_offset:
        return None
    found = its_log.read(end - 1, 1, end_offset=end)
    return parse_header(found[0]) if found else None


def _continuing(records: bytes, last: BatchHeader | None) -> list[Buffer]:
    """The batches after our last one, if the other log has it, too."""
    if last is None:
        return [records] if records else []
    data = memoryview(records)
    for at, header in iter_batches(data):
        is_same = header[:4] == last[:4] and header.crc == last.crc
        return [data[at + header.size_bytes :]] if is_same else []
    return []
