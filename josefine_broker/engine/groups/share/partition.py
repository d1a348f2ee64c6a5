"""A share partition: which records of a partition are in flight in a group, and in which state
(KIP-932). Mutable; held by the partition's leader.

Rules: the records in flight are those from the start offset to the end offset, as spans of equal
state, without gaps between them. A record has one member at most until its lock ends. It is
finished for its member when the change is stored; until then it stays acquired ("settling"), and
a write that failed and is not repeated gives it back to its member. One write is open at a time:
`begin_write` takes all changes since the last one, `end_write` gets its result, and after
`repeat_write` the next one has the same changes. A record is acquired at most `deliveries_max`
times. The end of a lock and the end of a member's session give records back at
once, because nothing that was promised depends on it. If the group has dead letters, a record that
is rejected or was delivered too often is archiving until the host has written its letter, and that
not before the state is stored: a record that another leader could still deliver has no letter.

KIP-932 names the start offset SPSO, and the end offset SPEO. Both only grow while one leader uses
the partition. Nothing here reads a clock, the log or the network: the host
(`engine/coordinators/share_partitions_host.py`) passes times in monotonic milliseconds, offsets of
batches and the results of writes. The work of a call grows with the number of spans, not of
records.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.engine.groups.share.spans import (
    FIRST,
    NO_WRITE,
    Span,
    joined,
    not_acquired,
    runs_of,
)
from josefine_broker.engine.groups.share.states import (
    FINAL,
    IN_USE,
    LETTERED,
    RecordEvent,
    RecordState,
    next_record_state,
)
from josefine_broker.engine.groups.share.values import (
    EVENTS,
    Ack,
    Acquired,
    Found,
    Limits,
    ShareState,
    StateBatch,
)


class SharePartition:
    """The records in flight of one share partition."""

    __slots__ = (
        "_is_changed", "_open_start", "_open_write", "_spans", "_stored_start", "_write",
        "end_offset", "leader_epoch", "limits", "start_offset", "state_epoch",
    )  # fmt: skip

    def __init__(self, stored: ShareState, limits: Limits) -> None:
        """`stored` has a start offset. Records without a stored batch were never delivered."""
        self.limits = limits
        self.state_epoch = stored.state_epoch
        self.leader_epoch = stored.leader_epoch
        self.start_offset = self.end_offset = stored.start_offset
        self._spans: list[Span] = []
        self._write = 0
        """The number of the next write,"""
        self._open_write = NO_WRITE
        """and of the open one."""
        self._is_changed = False
        self._stored_start = self._open_start = stored.start_offset
        """Records below it are finished for every leader to come."""
        # Between two batches the records were never delivered: `_extend` makes them available.
        for first, last, state, deliveries in stored.batches:
            if last >= self.end_offset:
                self._extend(max(first, self.end_offset), last, state, deliveries)
        self._advance()

    # What it is.

    @property
    def spans(self) -> Sequence[Span]:
        """The records in flight, in order."""
        return self._spans

    @property
    def is_at_rest(self) -> bool:
        """Whether no record is in flight, and everything is stored."""
        return not (self._spans or self._is_changed or self._open_write != NO_WRITE)

    @property
    def is_full(self) -> bool:
        """Whether no further records may get in flight."""
        return self.end_offset - self.start_offset >= self.limits.locks_max

    @property
    def read_offset(self) -> int | None:
        """The offset from which records are to be read for the next member; None: every record is
        acquired, and no more may be."""
        # Records that came back are before new ones, or the start would not move while the end
        # does, until the partition is full.
        for each in self._spans:
            if each.state is RecordState.AVAILABLE:
                return each.first
        return None if self.is_full else self.end_offset

    def wake_at_ms(self) -> int | None:
        """When the next lock ends; None: no record is locked. A record whose answer waits for its
        write is not counted: the write decides about it, however long it takes."""
        return min((each.lock_end_ms for each in self._spans if each.is_locked), default=None)

    # Members.

    def acquire(
        self,
        member_id: str,
        read_from: int,
        found: Iterable[Found],
        now_ms: int,
        *,
        records_max: int,
        is_strict: bool = False,
    ) -> list[Acquired]:
        """Give a member the available records of these batches, which were read from `read_from`
        in the order of the log. Offsets between them have no record any more.

        About `records_max` records: whole batches, or (`is_strict`, KIP-1206) not one more. The
        result is in order, with neighbours of equal delivery counts joined. It can be empty though
        batches were read: nothing in them is available. Each lock ends `limits.lock_ms` after
        `now_ms`.
        """
        left, at = records_max, read_from
        acquired: list[Acquired] = []
        is_passed = False
        # What lies between two batches was compacted away, and would hold up the start for ever.
        for batch in found:
            if left <= 0:
                break
            is_passed |= self._discard(at, batch.first - 1)
            # No member sees markers and aborted records, so no member can answer for them (KIP-932,
            # "Reading transactional records").
            if not batch.is_data:
                is_passed |= self._discard(max(at, batch.first), batch.last)
                at = batch.last + 1
                continue
            last = batch.last
            # Beyond the records in flight: as many as there is room for.
            if last >= self.end_offset:
                first = max(batch.first, self.end_offset)
                # A batch that starts below the limit is taken whole unless the member is strict: it
                # is sent whole in any case, and sent again for each part of it.
                if self.is_full:
                    last = self.end_offset - 1
                elif is_strict:
                    room = self.limits.locks_max - (self.end_offset - self.start_offset)
                    last = min(last, first + room - 1)
                if last >= first:
                    self._extend(first, last)
            for got in self._take(member_id, max(at, batch.first), last, now_ms, left, is_strict):
                acquired.append(got)
                left -= got.last - got.first + 1
            # A cut batch is the last one: a later one would bring the rest of it in flight, too.
            if last < batch.last:
                break
            at = batch.last + 1
        # With records, their answers store it. Alone it is stored now, or the lag of a group that
        # has read everything would count the last marker until the next record.
        self._is_changed |= is_passed and not acquired
        self._advance()
        return joined(acquired)

    def _take(
        self, member_id: str, first: int, last: int, now_ms: int, left: int, is_strict: bool
    ) -> Iterator[Acquired]:
        """Acquire the available records of one batch; at most `left` of them if `is_strict`."""
        for each in self._within(first, last):
            if each.state is not RecordState.AVAILABLE:
                continue
            if each.deliveries >= self.limits.deliveries_max:
                # The limit was lowered since.
                if self.limits.has_dead_letters:
                    self._free(each, RecordEvent.DEAD_LETTER, each.deliveries)
                else:
                    self._is_changed |= self._discard(each.first, each.last)
                continue
            if is_strict:
                if left <= 0:
                    return
                each = each._replace(last=min(each.last, each.first + left - 1))
                left -= each.last - each.first + 1
            taken = each._replace(
                state=next_record_state(each.state, RecordEvent.ACQUIRE),
                deliveries=each.deliveries + 1,
                member_id=member_id,
                lock_end_ms=now_ms + self.limits.lock_ms,
            )
            self._put(taken)
            yield Acquired(taken.first, taken.last, taken.deliveries)

    def acknowledge(self, member_id: str, acks: Iterable[Ack], now_ms: int) -> int | None:
        """Take a member's answers, all or none; returns the number of the write after which they
        count, None: they count now.

        Records below the stored start offset are finished, and not looked at. Raises
        KafkaError(invalid_record_state) if the member has not acquired one of the records, and
        KafkaError(invalid_request) if the batches are not in order.
        """
        changed: list[Span] = []
        before = -1
        # `before` is the last offset so far. One that comes twice would have two answers.
        for first, last, ack_type in runs_of(acks):
            if first <= before or last < first:
                message = f"acknowledged offsets {first} to {last} are not in order"
                raise KafkaError(ErrorCode.invalid_request, message)
            before = last
            # A client may repeat an answer that was stored and whose response was lost.
            first = max(first, self._stored_start)
            if last < first:
                continue
            # What was given up since, after its last delivery, is not finished for the next leader.
            if first < self.start_offset or last >= self.end_offset:
                raise not_acquired(first, last)
            for each in self._within(first, last):
                if not each.is_locked or each.member_id != member_id:
                    raise not_acquired(each.first, each.last)
                changed.append(self._answered(each, EVENTS[ack_type], now_ms))
        # Only now: one record that is not the member's refuses them all.
        for each in changed:
            self._put(each)
        if all(each.settles is None for each in changed):
            return None
        self._is_changed = True
        return self._write

    def _answered(self, span: Span, event: RecordEvent, now_ms: int) -> Span:
        """The span after its member's answer. A record that is given back after its last delivery
        is archived: one that no member can process would go round for ever.

        A renewal (KIP-1222) only moves the end of the lock. It is not stored, as no lock is, so
        there is no write to wait for.
        """
        if event is RecordEvent.RELEASE and span.deliveries >= self.limits.deliveries_max:
            event = RecordEvent.EXHAUST
        after = next_record_state(span.state, self._ending(event))
        if event is RecordEvent.RENEW:
            return span._replace(lock_end_ms=now_ms + self.limits.lock_ms)
        is_rejected = event is RecordEvent.REJECT
        return span._replace(settles=after, write=self._write, is_rejected=is_rejected)

    def _ending(self, event: RecordEvent) -> RecordEvent:
        """What an event is in this group: one with dead letters writes one first."""
        if event in LETTERED and self.limits.has_dead_letters:
            return RecordEvent.DEAD_LETTER
        return event

    def release_all(self, member_id: str) -> bool:
        """Take back what a member has acquired and not answered for: it closed its session. That
        delivery does not count, as in Kafka. Returns whether there was any."""
        mine = [each for each in self._spans if each.is_locked and each.member_id == member_id]
        for each in mine:
            self._free(each, RecordEvent.RELEASE, each.deliveries - 1)
        return bool(mine)

    def expire(self, now_ms: int) -> int:
        """Take back the records whose lock has ended; returns how many there were."""
        # Unlike the end of a session this delivery counts: a record that stops each of its members
        # would be delivered without end.
        late = [each for each in self._spans if each.is_locked and each.lock_end_ms <= now_ms]
        for each in late:
            is_last = each.deliveries >= self.limits.deliveries_max
            event = RecordEvent.EXHAUST if is_last else RecordEvent.RELEASE
            self._free(each, self._ending(event), each.deliveries)
        self._advance()
        return sum(each.last - each.first + 1 for each in late)

    def _free(self, span: Span, event: RecordEvent, deliveries: int) -> None:
        """End the lock of a span. The new span has no member, no lock and no waiting answer."""
        state = next_record_state(span.state, event)
        # No letter before the next write is stored.
        write = self._write if state is RecordState.ARCHIVING else NO_WRITE
        self._put(Span(span.first, span.last, state, deliveries, write=write))
        self._is_changed = True

    # The log.

    def trim(self, log_start_offset: int) -> int:
        """The log starts there now: what was before is deleted, also if a member had it. Returns
        how many of these records have no dead letter yet."""
        if log_start_offset <= self.start_offset:
            return 0
        # They are nowhere: there is nothing to be stored first.
        self._stored_start = log_start_offset
        self._split(log_start_offset)
        gone = [each for each in self._spans if each.first < log_start_offset]
        self._spans = self._spans[len(gone) :]
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self._is_changed = True
        self._advance()
        owed = (each for each in gone if each.state is RecordState.ARCHIVING)
        return sum(each.last - each.first + 1 for each in owed)

    # Writes.

    @property
    def must_write(self) -> bool:
        """Whether there are changes to be stored, and no write is open."""
        return self._is_changed and self._open_write == NO_WRITE

    def touch(self) -> None:
        """Store the state at the next occasion, though nothing changed: it is new. A start offset
        that was chosen and not stored would be chosen differently by the next leader."""
        self._is_changed = True

    @property
    def open_write_from(self) -> int:
        """The number of the first write that has not ended. After `end_write`, answers of earlier
        ones are decided."""
        return self._write if self._open_write == NO_WRITE else self._open_write

    @property
    def is_idle(self) -> bool:
        """Whether no member has a record, no letter is due, and nothing is to be stored."""
        is_had = any(each.state in IN_USE for each in self._spans)
        return not (is_had or self._is_changed or self._open_write != NO_WRITE)

    def begin_write(self) -> ShareState:
        """What is to be stored now: everything, with the answers that wait for it.

        The whole state, not the changes: a write that was lost needs no repair, since the next one
        contains it. Answers that come while it is open get the next number. Raises Fatal if a write
        is open.
        """
        if self._open_write != NO_WRITE:
            raise Fatal("a share partition has one write at a time")
        self._open_write, self._write = self._write, self._write + 1
        self._is_changed = False
        start, batches, complete = self.start_offset, list[StateBatch](), 0
        for each in self._spans:
            state, deliveries = each.settles or each.state, each.deliveries
            if state is RecordState.ACQUIRED:
                # A delivery counts when it has ended: a new leader knows nothing of the lock.
                state, deliveries = RecordState.AVAILABLE, deliveries - 1
            if state in FINAL and each.first == start:
                start = each.last + 1
                continue
            # Finished records above the start: what the lag of a group leaves out (KIP-1226).
            complete += (each.last - each.first + 1) * (state in FINAL)
            # Neighbours that differ by their members alone are one batch in the log.
            if batches and batches[-1][1:] == (each.first - 1, state, deliveries):
                batches[-1] = batches[-1]._replace(last=each.last)
            else:
                batches.append(StateBatch(each.first, each.last, state, deliveries))
        self._open_start = start
        return ShareState(self.state_epoch, self.leader_epoch, start, tuple(batches), complete)

    def repeat_write(self) -> None:
        """The open write failed, and the next one has all of its changes again: its answers wait
        for that one."""
        self._open_write = NO_WRITE
        self._is_changed = True

    def end_write(self, *, is_stored: bool) -> None:
        """The open write is stored: its answers count. Or it is not, and they never came.

        Not stored may also mean that nobody knows. The records then return to their member, or to
        another one after their lock: delivered twice at worst, but never lost.
        """
        write, self._open_write = self._open_write, NO_WRITE
        for each in [each for each in self._spans if each.settles and each.write <= write]:
            if not is_stored:
                # Its lock may have ended meanwhile: then `expire` frees it next.
                self._put(each._replace(settles=None, write=NO_WRITE, is_rejected=False))
                continue
            assert each.settles is not None
            # Of interest to its letter alone.
            is_rejected = each.is_rejected and each.settles is RecordState.ARCHIVING
            settled = Span(each.first, each.last, each.settles, each.deliveries)
            self._put(settled._replace(is_rejected=is_rejected))
        if is_stored:
            for each in [each for each in self._spans if NO_WRITE < each.write <= write]:
                self._put(each._replace(write=NO_WRITE))
            # The larger one: `trim` may have moved it during the write.
            self._stored_start = max(self._stored_start, self._open_start)
        else:
            self._is_changed = True
        self._advance()

    # Dead letters.

    def letters_due(self, records_max: int) -> list[Span]:
        """Archiving records of which that is stored: the first ones, about so many. Each needs its
        dead letter, by this leader or, if it fails before `end_letters` is stored, once more by the
        next."""
        due: list[Span] = []
        for each in self._spans:
            if records_max > 0 and each.state is RecordState.ARCHIVING and each.write == NO_WRITE:
                due.append(each._replace(last=min(each.last, each.first + records_max - 1)))
                records_max -= due[-1].last - due[-1].first + 1
        return due

    def end_letters(self, first: int, last: int) -> None:
        """Archive these records, where they are archiving: their dead letters are written, or
        cannot be."""
        for each in self._within(first, last):
            if each.state is RecordState.ARCHIVING and each.write == NO_WRITE:
                self._free(each, RecordEvent.LETTER_ENDED, each.deliveries)
        self._advance()

    # Spans.

    def _extend(
        self,
        first: int,
        last: int,
        state: RecordState = RecordState.AVAILABLE,
        deliveries: int = 0,
    ) -> None:
        """Add records at the end; those that are left out in between are available."""
        if first > self.end_offset:
            self._spans.append(Span(self.end_offset, first - 1))
        self._spans.append(Span(first, last, state, deliveries))
        self.end_offset = last + 1

    def _discard(self, first: int, last: int) -> bool:
        """Finish the available records in this range, of which nobody is to see any; returns
        whether there were any."""
        if last < first:
            return False
        is_any = last >= self.end_offset
        for each in self._within(first, last):
            if each.state is RecordState.AVAILABLE:
                state = next_record_state(each.state, RecordEvent.DISCARD)
                self._put(each._replace(state=state))
                is_any = True
        if last >= self.end_offset:
            self._extend(max(first, self.end_offset), last, RecordState.ARCHIVED)
        return is_any

    def _within(self, first: int, last: int) -> list[Span]:
        """The spans of this range, cut to it."""
        # The span with `first` is the last one that does not start after it.
        at = max(0, bisect_right(self._spans, first, key=FIRST) - 1)
        found = []
        for each in self._spans[at:]:
            if each.first > last:
                break
            if each.last >= first:
                cut = each._replace(first=max(each.first, first), last=min(each.last, last))
                found.append(cut)
        return found

    def _put(self, span: Span) -> None:
        """Replace the records of one span, or of a part of it. `span` may not extend past the span
        that has its first record: callers pass a whole one, or what `_within` cut."""
        at = bisect_right(self._spans, span.first, key=FIRST) - 1
        whole = self._spans[at]
        # What is left of the span on both sides keeps its state.
        parts = [span]
        if whole.first < span.first:
            parts.insert(0, whole._replace(last=span.first - 1))
        if whole.last > span.last:
            parts.append(whole._replace(first=span.last + 1))
        self._spans[at : at + 1] = parts

    def _split(self, offset: int) -> None:
        """Let a span start at this offset, if it is in flight."""
        for each in self._within(offset, offset):
            self._put(each)

    def _advance(self) -> None:
        """Forget the finished records at the start, and join equal neighbours.

        Joined are those that are equal in all but their offsets, the end of the lock included, so
        no member loses time. Without this each partial answer would leave spans for good.
        """
        kept: list[Span] = []
        for each in self._spans:
            if not kept and each.state in FINAL:
                self.start_offset = each.last + 1
            elif kept and kept[-1][2:] == each[2:]:
                kept[-1] = kept[-1]._replace(last=each.last)
            else:
                kept.append(each)
        self._spans = kept
