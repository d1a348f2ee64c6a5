"""Carries out the repairs of this broker's logs (`engine/partition/repair`): copy, fetch, swap.

Rules: a missing batch is read by Fetch, without waiting, as a consumer reads it that may see all of
a log: every replica answers, whatever its role is; one whose own batch is damaged answers with
nothing. Above the high watermark of the other replica its log may differ from the leader's, so such
a batch counts only if the leader sent it, or is repaired. The answer is verified before it is used.
Copies are made outside the broker's thread; the log is changed on it. A few repairs run at a time,
so that a broker with much damage still serves.

Nothing here changes leaders or epochs. A leader repairs its own log from its followers while it
leads, so producers are not interrupted, and damage at a different place of each replica needs no
order in which the replicas are made whole. Where a replay passed over damage, the replica takes its
role only after the repair. If its leader does not have the batch either, it follows all the same:
its log may differ from the leader's there, and only a follower learns where to cut it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.engine.partition.repair.ports import DamagedLog, DamagePort
from josefine_broker.engine.partition.repair.repair import (
    Repair,
    RepairEvent,
    RepairState,
    order_of,
)
from josefine_broker.engine.ports import Gravity, WorkPort
from josefine_broker.engine.replicas.catching_up import give_up_end
from josefine_broker.engine.replicas.leading import begin_to_follow
from josefine_broker.engine.replicas.repair.cuts import (
    cut,
    is_unacknowledged,
    may_cut_for_leader,
    may_end_as,
)
from josefine_broker.engine.replicas.repair.deleted_records import follows_deletion, note_refusal
from josefine_broker.engine.replicas.repair.repaired_log import replay_repaired
from josefine_broker.engine.replicas.repair.substitute_reads import ask_for_substitutes
from josefine_broker.engine.replicas.repair.work import RepairCounters, RepairWork
from josefine_broker.engine.replicas.replica_reads import (
    ANSWER_MS,
    FETCH,
    Resume,
    ends_at,
    is_answered,
    records_of,
    request_of,
)
from josefine_broker.records.crc import Buffer
from josefine_broker.wire.fetch import FetchResponse

NOBODY = -1
RUNNING_MAX = 4
"""Repairs that copy or ask at the same time."""

Key = tuple[TopicPartition, int]
"""A partition, and the base offset of the damaged segment."""


class Repairs:
    """See the module. One per broker, on its thread; `step` is called several times a second."""

    def __init__(self, ctx: Context, damaged: DamagePort, work: WorkPort, resume: Resume) -> None:
        """`resume` lets a repaired replica take its role."""
        self.counters = RepairCounters()
        self._resume = resume
        self._ctx = ctx
        self._damaged = damaged
        self._work = work
        self._open: dict[Key, RepairWork] = {}
        """The repairs that are not over: one for each damaged segment."""

    def __iter__(self) -> Iterator[tuple[TopicPartition, Repair]]:
        """The repairs that are not over."""
        return ((each.tp, each.repair) for each in self._open.values())

    @property
    def lost(self) -> list[tuple[TopicPartition, tuple[int, int]]]:
        """The offset ranges that no replica has."""
        return [(tp, repair.lost) for tp, repair in self if repair.lost is not None]

    def step(self) -> None:
        """Start repairs of new damage, and continue those whose time has come."""
        if not self._damaged.logs and not self._open:
            return
        now_ms = self._ctx.clock.monotonic_ms()
        self._drop_gone()
        for tp, its_log in list(self._damaged.logs.items()):
            hosted = self._ctx.hosted.partitions.get(tp)
            if hosted is None:
                continue
            for base_offset, damage in list(its_log.found.items()):
                if (tp, base_offset) not in self._open:
                    self._found(tp, hosted, its_log, damage)
        running = sum(each.rebuild is not None for each in self._open.values())
        for each in list(self._open.values()):
            if not each.repair.is_due(now_ms):
                continue
            # It waited because no replica could help. Its copy is still there: batches that it has
            # are not fetched again.
            if each.rebuild is not None:
                each.repair.on(RepairEvent.DUE)
                self._ask(each)
            elif running < RUNNING_MAX:
                running += 1
                self._begin(each, now_ms)
        for each in list(self._open.values()):  # a repair takes long where its segment is large
            ask_for_substitutes(self._ctx, each.tp, each.hosted)

    def accept_loss(self, tp: TopicPartition) -> list[tuple[int, int]]:
        """The operator gives up what no replica has; returns the offset ranges. Only the leader
        takes this: the others copy from it what takes their place. Raises KafkaError."""
        hosted = self._ctx.hosted_partition(*tp)
        # A leader that does not serve yet waits for what is given up here.
        if hosted.partition.leader != self._ctx.broker_id:
            hosted.partition.check_serves()
        given_up = []
        for each in self._open.values():
            repair, rebuild = each.repair, each.rebuild
            if each.tp != tp:
                continue
            is_waiting = hosted.partition.awaits_repair and repair.state is RepairState.WAITING
            if repair.lost is None and is_waiting and rebuild is not None:
                try:
                    repair.lost = rebuild.wanted, rebuild.next_intact()
                except OSError as error:
                    raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
            if repair.lost is not None:
                repair.given_up_to = repair.lost[1]
                given_up.append(repair.lost)
        self.step()
        give_up_end(self._ctx, tp)
        return given_up

    def _found(
        self, tp: TopicPartition, hosted: HostedPartition, its_log: DamagedLog, damage: Damage
    ) -> None:
        """Open the repair of a damaged segment, and log what will happen with it."""
        work = RepairWork(tp, hosted, its_log, Repair(damage))
        self._open[tp, damage.base_offset] = work
        others = len(hosted.partition.replicas) > 1
        plan = "repaired from the other replicas" if others else "no other replica has it"
        work.tell(
            self._ctx, "damaged segment found", Gravity.ERROR, reason=damage.reason, next=plan
        )

    def _drop_gone(self) -> None:
        """Forget repairs of logs and segments that are gone."""
        for key, each in list(self._open.items()):
            its_log = self._damaged.logs.get(each.tp)
            is_hosted = self._ctx.hosted.partitions.get(each.tp) is each.hosted
            # Also damage that is another one by now: the segment was cut, and found damaged again.
            is_same = its_log is not None and its_log.found.get(key[1]) == each.repair.damage
            if is_hosted and is_same:
                continue
            # A copy in the making is closed by the job that makes it.
            if each.repair.state is not RepairState.COPYING:
                each.repair.on(RepairEvent.CHANGED)
                self._end(each)
                if is_hosted:
                    self._replay_if_whole(each)

    def _end(self, work: RepairWork) -> None:
        """The repair is over: its segment was replaced, or is gone."""
        self._close(work)
        hosted = work.hosted
        hosted.substitutes = None
        self._open.pop((work.tp, work.repair.damage.base_offset), None)
        self._note_lost(work)

    def _close(self, work: RepairWork) -> None:
        """Release the files of the copy. What it fetched is counted also if it was in vain."""
        if work.rebuild is not None:
            self.counters.bytes_fetched += work.rebuild.bytes_fetched
            work.rebuild.close()
            work.rebuild = None

    def _note_lost(self, work: RepairWork) -> None:
        """Publish the lost ranges with the hosted partition, where fetches read them: a consumer
        gets an error there instead of waiting for a repair."""
        hosted = work.hosted
        hosted.lost = tuple(
            each.repair.lost
            for each in self._open.values()
            if each.hosted is hosted and each.repair.lost is not None
        )

    def _begin(self, work: RepairWork, now_ms: int) -> None:
        """Start the copy, up to the first batch that is missing. A segment that is being synced is
        tried again later, as after a failure."""
        its_log = self._damaged.logs[work.tp]
        base, partition = work.repair.damage.base_offset, work.hosted.partition
        is_leader = partition.leader == self._ctx.broker_id  # its log is the partition's
        equal_to = base if is_leader else partition.high_watermark
        try:
            work.rebuild = its_log.rebuild(base, partition.epochs, equal_to)
        except (KafkaError, OSError) as error:
            self._failed(work, error)
            return
        if work.rebuild is None:  # it is being synced
            work.repair.failed(now_ms)
            return
        work.repair.on(RepairEvent.BEGUN)
        self._copy(work)

    def _copy(self, work: RepairWork, records: Buffer = b"", sender: int = NOBODY) -> None:
        """Use what a replica sent and copy on, on the worker's thread; `_copied` continues."""
        rebuild = work.rebuild
        assert rebuild is not None
        # If it changes, what the replica sent was of use.
        before = rebuild.progress

        # On the thread of the worker: it touches the copy alone, nothing of the broker.
        def job(breathe: Callable[[], None]) -> bool | Exception:
            try:
                with suppress(CorruptData):  # a batch that does not belong there counts as none
                    rebuild.supply(records)
                while rebuild.copy(breathe) is None:
                    if rebuild.finish():
                        return True
            except (CorruptData, OSError) as error:
                return error
            return False

        def done(result: bool | Exception | None) -> None:
            has_moved = result is True or rebuild.progress != before
            self._copied(work, result, sender, has_moved=has_moved)

        try:
            self._work(job, lambda: not work.repair.is_over, done)
        except KafkaError as error:  # the worker has too much to do
            self._failed(work, error)

    def _copied(
        self, work: RepairWork, result: bool | Exception | None, sender: int, *, has_moved: bool
    ) -> None:
        """The copy has stopped; on the broker's thread again. `result`: True when it is complete,
        False when it needs a batch, else the error. `sender`: the replica whose answer it used, if
        any; `has_moved`: whether that got it further."""
        # Dropped while the job used its files, which may be closed only now.
        if self._open.get((work.tp, work.repair.damage.base_offset)) is not work:
            self._close(work)
            return
        assert work.rebuild is not None
        wanted = work.rebuild.wanted
        if sender != NOBODY and has_moved:
            work.repair.helped(sender)
            self._note_lost(work)
        elif sender != NOBODY:
            work.repair.refused(sender)
            # What it sent is the log of the partition, and ours goes another way from there.
            is_misfit = result is False and work.rebuild.is_misfit
            if is_misfit and self._is_cut_for_leader(work, sender, wanted):
                return
            self._follow_if_leader(work, sender)
        if result is True:
            self._install(work)
        elif result is False:
            work.repair.on(RepairEvent.STOPPED)
            self._ask(work)
        else:
            self._failed(work, result)

    def _install(self, work: RepairWork) -> None:
        """Let the copy take the place of the damaged segment. Where the log changed meanwhile it
        does not, and damage that is left is found again."""
        rebuild, repair = work.rebuild, work.repair
        assert rebuild is not None
        try:
            is_installed = rebuild.install()
        except KafkaError as error:
            self._failed(work, error)
            return
        repair.on(RepairEvent.INSTALLED if is_installed else RepairEvent.CHANGED)
        if is_installed:
            self.counters.repaired += 1
            work.tell(self._ctx, "segment repaired", bytes_fetched=rebuild.bytes_fetched)
        else:
            if (its_log := self._damaged.logs.get(work.tp)) is not None:
                its_log.forget(repair.damage.base_offset)  # what is left of it is found again
        self._end(work)
        self._replay_if_whole(work)
        # Fetches that waited for the missing batches, see `fetch_follower.read_or_wait`.
        self._ctx.hosted.restored += 1
        self._ctx.parked.wake(work.tp, self._ctx.clock.monotonic_ms())

    def _replay_if_whole(self, work: RepairWork) -> None:
        """The last damage of a log is repaired: what could not be read when it was opened counts
        now, and the replica takes its role."""
        ctx, tp, hosted = self._ctx, work.tp, work.hosted
        is_damaged = any(each.hosted is hosted for each in self._open.values())
        if is_damaged or not hosted.partition.awaits_repair:
            return
        if replay_repaired(ctx, tp, hosted, work.log):  # else the repair of new damage comes here
            self._resume(ctx, tp, hosted)

    def _follow_if_leader(self, work: RepairWork, replica: int) -> None:
        """This replica answered, and does not have the batch. If it is the leader, the log here may
        differ from its log."""
        ctx, hosted = self._ctx, work.hosted
        key = (hosted.topic_id, work.tp.partition)
        is_its_leader = hosted.partition.awaits_repair and replica == hosted.partition.leader
        if is_its_leader and ctx.hosted.fetchers.of(key) is None:
            begin_to_follow(ctx, work.tp, hosted)

    def _ask(self, work: RepairWork) -> None:
        """Ask the next replica for the missing batch."""
        ctx, repair, partition = self._ctx, work.repair, work.hosted.partition
        now_ms = ctx.clock.monotonic_ms()
        assert work.rebuild is not None
        wanted = work.rebuild.wanted
        replicas = order_of(partition.leader, partition.isr, partition.replicas, ctx.broker_id)
        replica = repair.choose(replicas)
        if replica is None or ctx.ports.forward is None:
            self._exhausted(work, now_ms, is_only=not replicas)
            return
        request = request_of(work.hosted, work.tp.partition, wanted)

        def answered(answer: FetchResponse | None) -> None:
            self._answered(work, replica, wanted, answer)

        ctx.ports.forward(replica, FETCH, request, now_ms + ANSWER_MS, answered)

    def _answered(
        self, work: RepairWork, replica: int, wanted: int, answer: FetchResponse | None
    ) -> None:
        """`wanted` is the offset of the request: the answer is judged by it, not by where the copy
        is now."""
        if self._open.get((work.tp, work.repair.damage.base_offset)) is not work:
            return  # it was dropped meanwhile
        partition, own_id = work.hosted.partition, self._ctx.broker_id
        has_ours = work.rebuild is not None and work.rebuild.has_ours
        takes_all = work.hosted.takes_all_from(replica, own_id, has_ours=has_ours)
        records, may_have_it = records_of(answer, wanted, is_all_of_use=takes_all)
        if records:
            work.repair.on(RepairEvent.ANSWERED)
            self._copy(work, records, replica)
            return
        if is_answered(answer):
            self._follow_if_leader(work, replica)
            if may_end_as(self._ctx, work, replica, wanted):
                if may_have_it:
                    self._ask_for_end(work, replica, wanted)
                    return
                if ends_at(answer, wanted) and self._is_cut_for_leader(work, replica, wanted):
                    return
        # What this leader does not give them, its followers do not get later.
        is_leader = partition.leader == self._ctx.broker_id
        if may_have_it and not (is_leader and is_answered(answer)):
            work.repair.silent(replica)
        else:
            note_refusal(work.repair, replica, answer, wanted)
        self._ask(work)

    def _ask_for_end(self, work: RepairWork, leader: int, wanted: int) -> None:
        """The leader serves, and has no batch there: does its log end at that offset? Then it ends
        there, too: what is after it here, nobody will ever send."""
        now_ms, hosted = self._ctx.clock.monotonic_ms(), work.hosted
        request = request_of(hosted, work.tp.partition, wanted + 1)

        def answered(answer: FetchResponse | None) -> None:
            if self._open.get((work.tp, work.repair.damage.base_offset)) is not work:
                return
            is_end = ends_at(answer, wanted) and may_end_as(self._ctx, work, leader, wanted)
            if not is_end or not self._is_cut_for_leader(work, leader, wanted):
                work.repair.silent(leader)
                self._ask(work)

        forward = self._ctx.ports.forward
        assert forward is not None
        forward(leader, FETCH, request, now_ms + ANSWER_MS, answered)

    def _exhausted(self, work: RepairWork, now_ms: int, *, is_only: bool) -> None:
        """No replica has the missing batch now."""
        try:
            self._use_what_is_left(work, now_ms, is_only=is_only)
        except OSError as error:  # its own segment cannot be read now: no file handle
            self._failed(work, error)

    def _use_what_is_left(self, work: RepairWork, now_ms: int, *, is_only: bool) -> None:
        """Its own batch, an accepted loss, or a cut; else the range is lost, or waited for. Raises
        OSError."""
        repair, rebuild = work.repair, work.rebuild
        assert rebuild is not None
        # A batch that only looks wrong together with the others is better than none.
        if rebuild.keep_ours() or follows_deletion(self._ctx, work.tp, repair, rebuild.wanted):
            self._go_on(work)
            return
        if is_only:
            repair.refused(self._ctx.broker_id)
        if not repair.exhausted(now_ms) and rebuild.wanted >= repair.given_up_to:
            return
        lost = rebuild.wanted, rebuild.next_intact()
        # The operator accepted the loss up to there, and of nothing after it: no cut.
        if rebuild.wanted < repair.given_up_to:
            work.tell(self._ctx, "lost record given up", Gravity.WARNING, at=rebuild.wanted)
            rebuild.give_up()
            repair.on(RepairEvent.DUE)
            self._go_on(work)
            return
        if is_unacknowledged(work, rebuild.wanted, self._ctx.broker_id):
            what = "the end of a log was cut: no replica has what is missing"
            self._cut(work, rebuild.wanted, what)
            return
        # Logged once for each range, not at every attempt.
        if repair.lost != lost:
            repair.lost = lost
            advice = f"restore a replica, or run: josefine log repair {work.tp} --accept-loss"
            what = "records lost: no replica has them"
            work.tell(self._ctx, what, Gravity.ERROR, lost=lost, next=advice)
        self._note_lost(work)

    def _is_cut_for_leader(self, work: RepairWork, sender: int, offset: int) -> bool:
        """Whether our log was cut there, because its leader's ends there or goes another way."""
        if not may_cut_for_leader(self._ctx, work, sender, offset):
            return False
        return self._cut(work, offset, "a log was cut where it differs from its leader's")

    def _cut(self, work: RepairWork, offset: int, message: str) -> bool:
        """End the log before the hole: then there is nothing to repair. Returns whether it was."""
        if not cut(self._ctx, work, offset, message):
            return False
        work.repair.on(RepairEvent.CHANGED)
        self._end(work)
        self._replay_if_whole(work)
        return True

    def _go_on(self, work: RepairWork) -> None:
        """The copy has moved without another replica."""
        work.repair.on(RepairEvent.ANSWERED)
        work.repair.helped(self._ctx.broker_id)
        self._note_lost(work)
        self._copy(work)

    def _failed(self, work: RepairWork, error: Exception | None) -> None:
        """Give up this attempt. The next one starts the copy from the beginning, after a delay: a
        full disk or a busy worker may have been the reason."""
        self.counters.failed += 1
        message = "repair of a segment failed: it is tried again"
        work.tell(self._ctx, message, Gravity.WARNING, reason=error)
        self._close(work)
        work.repair.failed(self._ctx.clock.monotonic_ms())
