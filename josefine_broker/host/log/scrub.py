"""The scrub: reads sealed segments in the background and notes damage before a client meets it.

Rules: it has a thread and file handles of its own, a bounded rate, and pauses for the event loop
about every millisecond. Every batch's checksum is compared, then the one over the whole segment,
which also covers offsets and leader epochs, and the stored index. What to read next is in
`engine/partition/repair/scrub_plan.py`; the progress is stored about once a minute. `verify_now`
reads whole logs at once, active segments too, for `josefine log verify`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.ports import Clock, Files
from josefine_broker.engine.partition.repair.scrub_plan import ScrubProgress
from josefine_broker.engine.ports import WorkPort
from josefine_broker.host.disk.files import read_checked, write_checked
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.cleaned_sums import load_sums
from josefine_broker.host.log.damage import is_damage
from josefine_broker.host.log.index import SegmentSummary, load_index
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.pace import Pace
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment
from josefine_broker.records.batch import verify
from josefine_broker.records.crc import crc32c

SCRUB_FILE = "scrub.checkpoint"
KIND_SCRUB, VERSION = 13, 1
STORE_MS = 60_000
"""Time between two stores of the progress: so much is read again after a crash."""
BATCHES_PER_BREATH = 256

log = logging.getLogger(__name__)


BATCH_COST_BYTES = 640
"""A smaller batch counts as this many bytes of the rate: its header takes 1.5 microseconds of the
processor whatever its size, and one-record batches of 100 bytes took 10 % of a core at 10 MB/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    """The configuration of the scrub."""

    interval_ms: int = 604_800_000
    bytes_per_second_max: int = 10 * 1024 * 1024


class _Wanted(NamedTuple):
    """A segment to read, with what is expected of it."""

    tp: TopicPartition
    log: PartitionLog
    segment: Segment
    summary: SegmentSummary
    cuts: int
    is_sealed: bool


class Found(NamedTuple):
    """The first damage of a segment."""

    offset: int
    reason: str


class Scrub:
    """See the module. One per broker, on its thread; `step` is called once a second."""

    def __init__(
        self, manager: LogManager, work: WorkPort, clock: Clock, settings: ScrubSettings
    ) -> None:
        self.progress = _stored(manager.files, clock.now_ms())
        self._manager = manager
        self._work = work
        self._clock = clock
        self._settings = settings
        self._asked: deque[TopicPartition] = deque()
        self._segments: deque[_Wanted] = deque()
        """The segments of one asked log that are still to be read."""
        self._round: deque[TopicPartition] = deque()
        """The partitions that this round has not finished; empty until it continues."""
        self._reading: _Wanted | None = None
        self._is_stepping = False
        self._stored = self.progress, clock.now_ms()
        """The progress that was stored last, and when."""

    @property
    def asked_left(self) -> int:
        """The logs that `verify_now` has still to read."""
        return len(self._asked) + bool(self._segments)

    def verify_now(self, tps: Iterable[TopicPartition]) -> None:
        """Read these logs next, at full speed."""
        self._asked.extend(each for each in tps if each not in self._asked)
        self.step()

    def step(self) -> None:
        """Periodic: read the next segment, if none is being read and one is due."""
        now_ms = self._clock.now_ms()
        if self.progress != self._stored[0] and now_ms - self._stored[1] >= STORE_MS:
            self._manager.schedule(self.store)
        self._is_stepping = True
        # A worker that runs in line has finished when `_read` returns.
        while self._reading is None:
            wanted, rate = self._next_asked(), None
            if wanted is None:
                wanted, rate = self._next_due(now_ms), self._settings.bytes_per_second_max
            if wanted is None:
                break
            self._read(wanted, rate)
        self._is_stepping = False

    def store(self) -> None:
        """Store the progress; on any thread. A failure only means that a part is read again."""
        progress = self.progress
        self._stored = progress, self._clock.now_ms()
        try:
            write_checked(self._manager.files, SCRUB_FILE, KIND_SCRUB, VERSION, progress.to_bytes())
        except OSError as error:
            log.warning("progress of the scrub not stored", extra={"reason": error})

    def _next_asked(self) -> _Wanted | None:
        while self._asked and not self._segments:
            tp = self._asked.popleft()
            its_log = self._manager.get(tp)
            if its_log is not None:
                self._segments.extend(_segments_of(tp, its_log))
        return self._segments.popleft() if self._segments else None

    def _next_due(self, now_ms: int) -> _Wanted | None:
        before = self.progress
        self.progress = before.next_round(now_ms, self._settings.interval_ms)
        if self.progress.is_over:
            return None
        if not self._round:
            self._round.extend(self.progress.left_of(tp for tp, _ in self._manager))
        place = self.progress.place
        while self._round:
            tp = self._round[0]
            its_log = self._manager.get(tp)
            start = place.offset if tp == place.tp else 0
            for wanted in [] if its_log is None else _segments_of(tp, its_log):
                if wanted.is_sealed and wanted.summary.end_offset > start:
                    return wanted
            self._round.popleft()
        self.progress = self.progress.over()
        return None

    def _read(self, wanted: _Wanted, rate: int | None) -> None:
        self._reading = wanted
        files = self._manager.files

        def job(breathe: Callable[[], None]) -> Found | OSError | None:
            try:
                return first_damage(files, wanted.segment.stem, wanted.summary, rate, breathe,
                                    is_sealed=wanted.is_sealed)  # fmt: skip
            except OSError as error:
                return error

        def is_wanted() -> bool:
            return not wanted.log.cleaning.was_cut_since(wanted.cuts)

        self._work(job, is_wanted, lambda found: self._done(wanted, found, rate))

    def _done(self, wanted: _Wanted, found: Found | OSError | None, rate: int | None) -> None:
        self._reading = None
        its_log, summary = wanted.log, wanted.summary
        its_log.damage.every.bytes_verified += summary.log_bytes
        if rate is not None:
            self.progress = self.progress.passed(wanted.tp, summary.end_offset)
        is_same = not its_log.cleaning.was_cut_since(wanted.cuts)
        if isinstance(found, OSError) and is_damage(found):
            found = Found(summary.base_offset, f"{wanted.segment.stem}{LOG_SUFFIX}: {found}")
        elif isinstance(found, OSError):
            log.warning("segment not verified", extra={"log": str(wanted.tp), "reason": found})
        if isinstance(found, Found) and is_same:
            its_log.damage.note(wanted.segment, found.offset, found.reason)
        if not self._is_stepping:
            self.step()


def _segments_of(tp: TopicPartition, its_log: PartitionLog) -> list[_Wanted]:
    return [
        _Wanted(tp, its_log, each, each.summary(), its_log.cleaning.cuts, each.is_sealed)
        for each in its_log.damage.undamaged()
    ]


def _stored(files: Files, now_ms: int) -> ScrubProgress:
    """A progress that is missing or damaged only means that a part is read again."""
    try:
        data = read_checked(files, SCRUB_FILE, KIND_SCRUB, VERSION)
        return ScrubProgress.new(now_ms) if data is None else ScrubProgress.from_bytes(data)
    except (CorruptData, OSError, UnicodeDecodeError):
        return ScrubProgress.new(now_ms)


def first_damage(
    files: Files,
    stem: str,
    summary: SegmentSummary,
    rate: int | None,
    breathe: Callable[[], None],
    *,
    is_sealed: bool,
) -> Found | None:
    """Read a segment through a handle of its own; None: it is as expected. On any thread. Raises
    OSError, and KafkaError from `breathe`."""
    pace, crc, end_offset, count = Pace(rate, breathe), 0, summary.base_offset, 0
    with closing(files.open(stem + LOG_SUFFIX)) as file:
        try:
            for _, header, batch in walk_batches(file, 0, summary.log_bytes):
                verify(batch, 0, header)
                if not end_offset <= header.base_offset <= header.last_offset < summary.end_offset:
                    raise CorruptData(f"a batch with base offset {header.base_offset}")
                crc, end_offset = crc32c(batch, crc), header.end_offset
                pace.moved(max(len(batch), BATCH_COST_BYTES))
                count += 1
                if count % BATCHES_PER_BREATH == 0:
                    breathe()
        except CorruptData as error:
            return Found(end_offset, f"{stem}{LOG_SUFFIX}: {error}")
    # It covers what no batch's own checksum does: offsets, leader epochs, the order of batches.
    sums = load_sums(files, stem, summary.log_bytes)
    if sums is not None and (reason := sums.why_not(summary.log_bytes, crc)):
        return Found(summary.base_offset, f"{stem}{LOG_SUFFIX}: {reason}")
    if crc != summary.log_crc or end_offset != summary.end_offset:
        reason = f"CRC {crc:08x} over all bytes, expected {summary.log_crc:08x}"
        return Found(summary.base_offset, f"{stem}{LOG_SUFFIX}: {reason}")
    if is_sealed and load_index(files, stem, summary) is None:
        return Found(summary.base_offset, f"{stem}: its index is missing or damaged")
    return None
