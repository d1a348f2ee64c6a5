"""The log cleaner: selects the next log to clean, one at a time, outside the broker's thread.

Rules: logs are checked every `backoff_ms`, and again right after a pass; the dirtiest log that is
due goes first. A pass runs on its own thread and asks the broker's thread for each change of the
log (`log/cleaning_pass.py`). A log without enough disk space, or with a read error, is retried with
growing delays. So is a damaged log, once it has been verified and repaired from its other replicas;
until then health and metrics name it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.ports import Clock, Files
from josefine_broker.engine.partition.cleaned_transactions import facts_of
from josefine_broker.engine.partition.cleaning import Dirt, SegmentFacts, dirt_of, filthiest, is_due
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.host.log.cleaning_pass import CleaningPass, Hands
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.pace import Pace

TRY_AGAIN_MS_MIN = 60_000
TRY_AGAIN_MS_MAX = 3_600_000
"""A failed log is retried after twice the previous delay, up to this."""

T = TypeVar("T")
Breathe = Callable[[], None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The configuration of the cleaner; defaults as Kafka's, except for the map."""

    backoff_ms: int = 15_000
    map_bytes_max: int = 64 * 1024 * 1024
    bytes_per_second_max: int | None = None


@dataclass(slots=True)
class CleanerStats:
    """Metrics over all passes since the start. Written on the broker's thread."""

    passes: int = 0
    passes_failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_removed: int = 0
    records_read: int = 0
    records_removed: int = 0
    tombstones_removed: int = 0
    records_without_key: int = 0
    """Kept records, counted again in each pass; so are the"""
    batches_left_alone: int = 0
    seconds: float = 0.0
    map_bytes: int = 0
    """Memory of the running pass, or of the last one."""


@dataclass(slots=True)
class DirtCheck:
    """What the last check of all compacted logs found. Written on the broker's thread."""

    ratio_max: float = 0.0
    """Dirty ratio of the dirtiest log."""
    due: int = 0
    """Logs that were due."""


class Candidate(NamedTuple):
    """A log whose topic is compacted, with its decision logic."""

    tp: TopicPartition
    partition: Partition
    log: PartitionLog


class WorkerPort(Protocol):
    """A worker thread, as in `host/worker.py`."""

    def submit(
        self,
        job: Callable[[Breathe], T],
        is_wanted: Callable[[], bool],
        done: Callable[[T | None], None],
    ) -> None:
        """See `engine.ports.WorkPort`."""
        ...

    def on_loop(self, ask: Callable[[], T]) -> T:
        """From within a job: run this on the broker's thread."""
        ...


class _Trouble(NamedTuple):
    """The reason why a log is not cleaned."""

    log: PartitionLog
    reason: str
    is_damage: bool
    again_ms: int
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Permits:
    """What the broker allows a pass."""

    may_clean: Callable[[], bool]
    """Whether one may start now."""
    room_bytes: Callable[[], int | None]
    """Bytes that it may write; None: unlimited. Called on the worker's thread."""


class Cleaner:
    """See the module. One per broker; mutable, on the broker's thread."""

    def __init__(
        self,
        files: Files,
        candidates: Callable[[], Iterator[Candidate | None]],
        worker: WorkerPort,
        clock: Clock,
        settings: CleanerSettings,
        *,
        may_clean: Callable[[], bool] = lambda: True,
        room_bytes: Callable[[], int | None] = lambda: None,
        on_damage: Callable[[TopicPartition], None] = lambda tp: None,
    ) -> None:
        """`candidates` yields None where other work may run; `room_bytes` is called on the worker's
        thread."""
        self.stats = CleanerStats()
        self.check = DirtCheck()
        self._files = files
        self._candidates = candidates
        self._worker = worker
        self._clock = clock
        self._settings = settings
        self._permits = Permits(may_clean, room_bytes)
        self._on_damage = on_damage
        self._next_look_ms = 0
        self._under_way: CleaningPass | None = None
        self._troubles: dict[TopicPartition, _Trouble] = {}

    @property
    def damaged(self) -> dict[TopicPartition, str]:
        """Logs that a pass found damaged, with the reason."""
        return {tp: each.reason for tp, each in self._troubles.items() if each.is_damage}

    def step(self) -> Iterator[object]:
        """Periodic, in steps: start a pass if one is due."""
        now_ms = self._clock.monotonic_ms()
        if self._under_way is not None or now_ms < self._next_look_ms:
            return
        if not self._permits.may_clean():
            return
        self._next_look_ms = now_ms + self._settings.backoff_ms
        found: dict[TopicPartition, tuple[Candidate, Dirt]] = {}
        seen: dict[TopicPartition, PartitionLog] = {}
        self.check.ratio_max = 0.0
        for candidate in self._candidates():
            if candidate is None:
                yield None
                continue
            seen[candidate.tp] = candidate.log
            dirt = self._dirt_of(candidate)
            if dirt is not None:
                found[candidate.tp] = candidate, dirt
        self.check.due = len(found)
        self._forget_troubles(seen)
        chosen = filthiest((tp, dirt) for tp, (_, dirt) in found.items())
        if chosen is not None:
            self._begin(*found[chosen])

    def _forget_troubles(self, seen: Mapping[TopicPartition, PartitionLog]) -> None:
        """Drop the troubles of logs that are gone or were reopened."""
        for tp, trouble in list(self._troubles.items()):
            if seen.get(tp) is not trouble.log:
                del self._troubles[tp]

    def _dirt_of(self, candidate: Candidate) -> Dirt | None:
        """The dirty part of the log; None: nothing is to be cleaned."""
        its_log, config = candidate.log, candidate.log.config
        if its_log.failure or its_log.damage.found or self._waits(candidate.tp):
            return None
        now_ms = self._clock.now_ms()
        if config.max_compaction_lag_ms is not None:
            try:
                # Only full segments are cleaned: without a roll an idle log would exceed the lag.
                its_log.roll_if_older(config.max_compaction_lag_ms, now_ms)
            except KafkaError:
                return None
        facts = [
            SegmentFacts(
                each.base_offset,
                each.end_offset,
                each.size_bytes,
                each.age().newest_ms,
                each.first_append_ms,
            )
            for each in its_log.cleaning.sealed()
        ]
        dirt = dirt_of(
            facts,
            config,
            now_ms=now_ms,
            log_start_offset=its_log.log_start_offset,
            cleaned_to=its_log.cleaning.cleaned_to,
            end_offset_max=candidate.partition.last_stable_offset,
        )
        if dirt is None:
            return None
        self.check.ratio_max = max(self.check.ratio_max, dirt.ratio)
        return dirt if is_due(dirt, config) else None

    def _waits(self, tp: TopicPartition) -> bool:
        trouble = self._troubles.get(tp)
        return trouble is not None and self._clock.monotonic_ms() < trouble.again_ms

    def _begin(self, candidate: Candidate, dirt: Dirt) -> None:
        its_log, clock = candidate.log, self._clock
        producers = candidate.partition.producers
        if candidate.partition.last_stable_offset < dirt.end:
            return  # truncated since the check
        pass_ = self._under_way = CleaningPass(
            self._files,
            its_log,
            dirt,
            producers.last_batches(),
            transactions=facts_of(producers),
            now_ms=clock.now_ms(),
            map_bytes_max=self._settings.map_bytes_max,
        )
        begun_ms = clock.monotonic_ms()

        def is_wanted() -> bool:
            return not its_log.failure and its_log.config.compacts

        def job(breathe: Breathe) -> Exception | None:
            pace = Pace(self._settings.bytes_per_second_max, breathe)
            try:
                pass_.run(
                    Hands(
                        on_loop=self._worker.on_loop,
                        breathe=breathe,
                        moved=pace.moved,
                        room_bytes=self._permits.room_bytes,
                        forget_aborted=producers.transactions.forget_aborted,
                    )
                )
            except (CorruptData, OSError, KafkaError) as error:
                return error
            return None

        def done(error: Exception | None) -> None:
            self.stats.seconds += (clock.monotonic_ms() - begun_ms) / 1_000
            self._ended(candidate, pass_, error, is_wanted=is_wanted())

        self._worker.submit(job, is_wanted, done)

    def _ended(
        self,
        candidate: Candidate,
        pass_: CleaningPass,
        error: Exception | None,
        *,
        is_wanted: bool,
    ) -> None:
        self._under_way = None
        self._next_look_ms = 0
        tp, stats, report = candidate.tp, self.stats, pass_.report
        tally = report.tally
        stats.bytes_read += report.bytes_read
        stats.bytes_written += report.bytes_written
        stats.bytes_removed += report.bytes_removed
        stats.records_read += tally.records_read
        stats.records_removed += tally.records_read - tally.records_kept
        stats.tombstones_removed += tally.tombstones_dropped
        stats.map_bytes = report.map_bytes
        if report.is_whole:
            stats.passes += 1
            stats.records_without_key += tally.records_without_key
            stats.batches_left_alone += tally.batches_left_alone
            self._troubles.pop(tp, None)
            log.info("log cleaned", extra=_told(tp, pass_))
        elif is_wanted:
            self._failed(tp, candidate.log, error)

    def _failed(self, tp: TopicPartition, its_log: PartitionLog, error: Exception | None) -> None:
        """Retry later; a damaged log is to be verified and repaired until then."""
        before = self._troubles.get(tp)
        wait_ms = TRY_AGAIN_MS_MIN if before is None else 2 * before.wait_ms
        wait_ms = min(wait_ms, TRY_AGAIN_MS_MAX)
        reason = "the log changed meanwhile, or the disk is full" if error is None else str(error)
        is_damage = isinstance(error, CorruptData)
        self._troubles[tp] = _Trouble(
            its_log, reason, is_damage, self._clock.monotonic_ms() + wait_ms, wait_ms
        )
        self.stats.passes_failed += 1
        if is_damage:
            self._on_damage(tp)
        level = logging.ERROR if is_damage else logging.WARNING
        log.log(level, "log not cleaned", extra={"log": str(tp), "reason": reason})


def _told(tp: TopicPartition, pass_: CleaningPass) -> dict[str, object]:
    report = pass_.report
    return {
        "log": str(tp),
        "bytes_read": report.bytes_read,
        "bytes_removed": report.bytes_removed,
        "records": report.tally.records_read,
        "kept": report.tally.records_kept,
    }
