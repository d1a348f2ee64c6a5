"""A leader that was elected in doubt takes what other replicas have after the end of its log, and
serves afterwards (`engine/partition/catch_up.py`).

The image shows the doubt: the election has recorded its own epoch as that of an unclean election
(`metadata/apply.py`), because the log may lack acknowledged records. Images below that feature
level record none, so there a leader goes by what its own start found.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import PartitionEntry
from josefine_broker.engine.partition.catch_up import RETRY_MS, CatchUp, Offer
from josefine_broker.engine.partition.repair.flipped_epochs import with_rising_epochs
from josefine_broker.engine.partition.repair.repair import order_of
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.replicas.following import HaltError, append_fetched, restart
from josefine_broker.engine.replicas.replica_reads import (
    ANSWER_MS,
    FETCH,
    Resume,
    is_answered,
    request_of,
)
from josefine_broker.records.batch import BatchHeader, build_empty_batch, iter_batches, parse_header
from josefine_broker.wire.fetch import FetchPartitionResponse, FetchResponse


def must_catch_up(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, entry: PartitionEntry
) -> bool:
    """Whether this replica, which the image names as leader, has to ask the others first; notes
    that it does."""
    partition, every = hosted.partition, ctx.hosted.catching_up
    known = every.get(tp)
    # It may be elected again before it has asked, after a kill for example: the image records no
    # doubt then. A leader that has served wrote its epoch, or others have got in sync with it.
    is_unasked = entry.unclean_epoch > partition.epochs.latest and len(entry.isr) == 1
    is_recorded = entry.unclean_epoch == entry.leader_epoch or is_unasked
    # Images below the feature level that keeps doubts do not record it.
    has_doubt = is_recorded or (hosted.ends_in_damage and not ctx.image.keeps_doubts)
    is_in_doubt = has_doubt and len(entry.replicas) > 1
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


class _Question(NamedTuple):
    """A question to one replica."""

    tp: TopicPartition
    hosted: HostedPartition
    each: CatchUp
    replica: int
    last: BatchHeader | None
    """Our last batch."""
    is_taking: bool
    """Whether to append what it has: all were asked, and it has the latest."""


class _Skip(NamedTuple):
    """A search for the first intact batch after damaged ones, offset by offset: no intact one may
    be passed over."""

    tp: TopicPartition
    hosted: HostedPartition
    each: CatchUp
    replicas: list[int]
    """Those that have committed batches there."""
    offset: int
    asked: int = 0
    """How many of them were asked for this offset."""
    high_watermark: int = 0
    """The largest one of those that answered."""


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
        # While our last batch is damaged nobody can continue it: the repair comes first.
        try:
            last = _last_batch(hosted)
        except KafkaError:
            each.retry_at_ms = now_ms + ANSWER_MS
            return
        order = order_of(partition.leader, partition.isr, partition.replicas, ctx.broker_id)
        replica, is_taking = each.choose(order), False
        if replica is None and (holders := each.given_up()):
            self._skip(_Skip(tp, hosted, each, holders, hosted.log.log_end_offset + 1))
            return
        if replica is None:
            brokers = ctx.image.brokers
            alive = frozenset(key for key, broker in brokers.items() if not broker.fenced)
            replica, is_taking = each.end_round(alive, now_ms), True
        if each.is_over:
            _end(ctx, tp, hosted, self._resume)
        elif replica is not None:
            self._read(_Question(tp, hosted, each, replica, last, is_taking=is_taking))

    def _read(self, asked: _Question, *, has_ours: bool = False, lost_ours: bool = False) -> None:
        """Send the request. `has_ours`: the replica is known to have our last batch; `lost_ours`:
        it is damaged there. Both are asked for the next one."""
        ctx, (tp, hosted, each, replica, last, _) = self._ctx, asked
        its_log = hosted.log
        is_next = has_ours or lost_ours
        offset = its_log.log_end_offset if last is None or is_next else last.base_offset
        each.retry_at_ms = None

        def answered(answer: FetchResponse | None) -> None:
            if ctx.hosted.catching_up.get(tp) is each and not each.is_over:
                if lost_ours:
                    self._answered_in_doubt(asked, answer)
                else:
                    self._answered(asked, answer, has_ours=has_ours)

        forward = ctx.ports.forward
        assert forward is not None
        request = request_of(hosted, tp.partition, offset)
        forward(replica, FETCH, request, ctx.clock.monotonic_ms() + ANSWER_MS, answered)

    def _answered(self, asked: _Question, answer: FetchResponse | None, *, has_ours: bool) -> None:
        """Note what the replica has after our log, or append it, and ask on."""
        tp, hosted, each, replica, last, is_taking = asked
        if answer is None or not is_answered(answer):
            each.silent(replica)
            self._ask(tp, hosted, each)
            return
        found_there = answer.topics[0].partitions[0]
        if found_there.error_code == ErrorCode.offset_out_of_range:
            self._answered_out_of_range(asked, found_there, has_ours=has_ours)
            return
        if has_ours and _holds_back(hosted, found_there):
            self._wait_for(asked)
            return
        if _is_damaged_there(found_there, last, has_ours):
            self._read(asked, lost_ours=True)
            return
        records = b"".join(found_there.records or ())
        # A batch that does not fit is damaged there: that replica may have an intact one later.
        try:
            found = _continuing(records, last, has_ours=has_ours)
            if found is not None and not found and not has_ours:
                # Our last batch may fill an answer alone.
                self._read(asked, has_ours=True)
                return
            if not found:
                each.has_no_more(replica)
            elif is_taking:
                self._take(asked, found)
            else:
                each.offers(replica, _offer_of(found, records))
        except (KafkaError, CorruptData) as error:
            self._ctx.ports.tell(
                "the end of a log was not copied: it is tried again",
                gravity=Gravity.WARNING,
                partition=str(tp),
                reason=str(error),
            )
            each.silent(replica)
        self._ask(tp, hosted, each)

    def _answered_in_doubt(self, asked: _Question, answer: FetchResponse | None) -> None:
        """Our last batch is damaged there. If the next one is not, that replica is waited for: it
        copies our batch, and offers what follows it. If it is, the replica cannot have it sooner
        than we: its repair waits for a leader, and to wait for it would be a deadlock."""
        tp, hosted, each, replica, _, _ = asked
        if answer is None or not is_answered(answer) or answer.topics[0].partitions[0].records:
            each.silent(replica)
        elif _holds_back(hosted, answer.topics[0].partitions[0]):
            self._wait_for(asked)
            return
        else:
            each.has_no_more(replica)
        self._ask(tp, hosted, each)

    def _answered_out_of_range(
        self, asked: _Question, found: FetchPartitionResponse, *, has_ours: bool
    ) -> None:
        """The replica does not have that offset any more, or not yet. What it deleted was
        committed, so a log that starts after ours is further than ours, whatever ours has."""
        tp, hosted, each, replica, last, is_taking = asked
        start, end = found.log_start_offset, hosted.log.log_end_offset
        if not has_ours and last is not None and last.base_offset < start <= end:
            self._read(asked, has_ours=True)
            return
        try:
            if start <= end:
                each.has_no_more(replica)
            elif is_taking:
                restart(self._ctx, tp, hosted, start, found.high_watermark)
                each.moved()
            else:
                each.offers(
                    replica, Offer(each.leader_epoch)
                )  # before any batch that continues ours
        except (KafkaError, HaltError):
            each.silent(replica)
        self._ask(tp, hosted, each)

    def _wait_for(self, asked: _Question) -> None:
        """The replica has committed records after our log, and its batch there is damaged."""
        tp, hosted, each, replica, _, _ = asked
        if each.damaged(replica):
            self._ctx.ports.tell(
                "a leader in doubt waits: another replica has committed records after its log, and "
                "the next of them are damaged",
                gravity=Gravity.WARNING,
                partition=str(tp),
                replica=replica,
                offset=hosted.log.log_end_offset,
                next=f"restore a replica, or run: josefine log repair {tp} --accept-loss",
            )
        self._ask(tp, hosted, each)

    def _skip(self, skip: _Skip) -> None:
        """Ask the next replica for the batch with this offset."""
        tp, hosted, each, replicas, offset, asked, _ = skip
        ctx = self._ctx
        each.retry_at_ms = None

        def answered(answer: FetchResponse | None) -> None:
            if ctx.hosted.catching_up.get(tp) is each and not each.is_over:
                self._skipped(skip, answer)

        forward = ctx.ports.forward
        assert forward is not None
        request = request_of(hosted, tp.partition, offset)
        deadline_ms = ctx.clock.monotonic_ms() + ANSWER_MS
        forward(replicas[asked], FETCH, request, deadline_ms, answered)

    def _skipped(self, skip: _Skip, answer: FetchResponse | None) -> None:
        """Take what the replica has there, or ask for the next offset."""
        tp, hosted, each, replicas, offset, asked, highest = skip
        if answer is None or not is_answered(answer):
            each.retry_at_ms = self._ctx.clock.monotonic_ms() + ANSWER_MS  # ask everyone again
            each.moved()
            return
        found = answer.topics[0].partitions[0]
        highest = max(highest, found.high_watermark)
        if found.records:
            self._fill(skip, memoryview(b"".join(found.records)))
        elif asked + 1 < len(replicas):
            self._skip(skip._replace(asked=asked + 1, high_watermark=highest))
        elif offset + 1 < highest:
            self._skip(skip._replace(offset=offset + 1, asked=0, high_watermark=highest))
        else:
            each.has_nothing_after(replicas)
            self._ask(tp, hosted, each)

    def _fill(self, skip: _Skip, found: memoryview) -> None:
        """Batches without records take the place of those that the operator gave up."""
        ctx, (tp, hosted, each, *_) = self._ctx, skip
        header, end = parse_header(found), hosted.log.log_end_offset
        lost = build_empty_batch(end, header.base_offset, header.leader_epoch)
        try:
            append_fetched(ctx, tp, hosted, [lost, found])
        except (KafkaError, CorruptData) as error:
            ctx.ports.tell(
                "the end of a log was not copied: it is tried again",
                gravity=Gravity.WARNING,
                partition=str(tp),
                reason=str(error),
            )
        if hosted.log.log_end_offset > end:
            ctx.ports.tell(
                "lost records given up",
                gravity=Gravity.WARNING,
                partition=str(tp),
                offsets=(end, header.base_offset),
            )
        each.moved()
        each.retry_at_ms = ctx.clock.monotonic_ms() + RETRY_MS
        if hosted.log.log_end_offset > header.base_offset:
            self._ask(tp, hosted, each)

    def _take(self, asked: _Question, found: memoryview) -> None:
        """Append what continues our log, as far as it was compared with the batches of the other
        replicas. Raises KafkaError, CorruptData."""
        tp, hosted, each, replica, _, _ = asked
        before = hosted.log.log_end_offset
        try:
            append_fetched(self._ctx, tp, hosted, [_compared(found, each)])
        finally:
            end = hosted.log.log_end_offset
            if end > before:
                each.moved()
                self._ctx.ports.tell(
                    "a leader in doubt took the end of its log from another replica",
                    partition=str(tp),
                    replica=replica,
                    offsets=(before, end),
                )
        if end == before:
            each.has_no_more(replica)


def give_up_end(ctx: Context, tp: TopicPartition) -> None:
    """The operator waits no longer for silent replicas, nor for damaged batches."""
    each = ctx.hosted.catching_up.get(tp)
    if each is not None:
        each.waits_for_nobody = True


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


def _continuing(records: bytes, last: BatchHeader | None, *, has_ours: bool) -> memoryview | None:
    """The batches after our last one; None: the other log does not have that one. `has_ours`: it
    has, and they start after it. Raises CorruptData."""
    if last is None:
        return memoryview(with_rising_epochs(records))
    if has_ours or _is_same(records, last):
        records = with_rising_epochs(records, last.leader_epoch)
    else:  # its epoch may have flipped there
        records = with_rising_epochs(records)
    if has_ours:
        return memoryview(records)
    if not _is_same(records, last):
        return None
    return memoryview(records)[last.size_bytes :]


def _is_same(records: bytes, last: BatchHeader) -> bool:
    """Whether the first batch there is our last one. Raises CorruptData."""
    for _, header in iter_batches(memoryview(records)):
        return header[:4] == last[:4] and header.crc == last.crc
    return False


def _offer_of(found: memoryview, records: bytes) -> Offer:
    """The first batches in `found` that have one epoch, also as they were sent: at the end of
    `records`. Raises CorruptData."""
    epochs, end_offset = None, -1
    sent = memoryview(records)[len(records) - len(found) :]
    with suppress(CorruptData):  # the batches before it count
        for at, header in iter_batches(found):
            its_epochs = header.leader_epoch, parse_header(sent, at).leader_epoch
            if epochs not in (None, its_epochs):
                break
            epochs, end_offset = its_epochs, header.end_offset
    if epochs is None:
        raise CorruptData("no record batch follows")
    return Offer(*epochs, end_offset)


def _compared(found: memoryview, each: CatchUp) -> memoryview:
    """The first batch in `found`, and those after it that were compared, too."""
    end_offset = each.compared_to(parse_header(found).leader_epoch)
    with suppress(CorruptData):  # the batches before it are appended
        for at, header in iter_batches(found):
            if at and header.base_offset >= end_offset:
                return found[:at]
    return found


def _holds_back(hosted: HostedPartition, found: FetchPartitionResponse) -> bool:
    """Whether the batch at our end is damaged there, and known to be committed. Where unclean
    elections are allowed a high watermark may be that of a log that was given up."""
    is_missing = not found.records and not hosted.settings.unclean_leader_election
    return is_missing and found.high_watermark > hosted.log.log_end_offset


def _is_damaged_there(
    found: FetchPartitionResponse, last: BatchHeader | None, has_ours: bool
) -> bool:
    """Whether our last batch is damaged in the other log: that replica will copy ours, and have
    what follows it afterwards."""
    if last is None or has_ours or found.records:
        return False
    # Without an error while it is repaired, as to any consumer.
    is_held_back = not found.error_code and found.high_watermark > last.base_offset
    return is_held_back or found.error_code == ErrorCode.corrupt_message
