"""The log cleaner on real segments: what is left, what readers see, what stays of the log's state.

Checklist row 38.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition import batch_filter
from josefine_broker.engine.partition.key_offsets import ENTRY_BYTES
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.cleaning_pass import Hands
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import BatchHeader, parse_header
from josefine_broker.records.builder import Record
from josefine_broker.records.crc import Buffer
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.cleaning import (
    COMPACT,
    append_keyed,
    begin_pass,
    clean,
    latest_of,
    read_from,
    records_of,
)
from tests.unit.josefine_broker.host.log.support import (
    NOW_MS,
    find_by_timestamp,
    max_timestamp,
    open_log,
)


def filled(
    files: MemoryFiles, batches: int = 30, config: LogConfig = COMPACT, **options: int
) -> PartitionLog:
    """Two records a batch, ten keys."""
    log = open_log(files, config)
    for n in range(batches):
        pairs = [(b"%d" % (n % 10), b"%d" % n), (b"%d" % (n % 7), b"and %d" % n)]
        append_keyed(log, pairs, epoch=n // 12, now_ms=NOW_MS + n, **options)
    return log


def test_only_the_last_record_of_each_key_is_left() -> None:
    files = MemoryFiles()
    log = filled(files)
    before = records_of(log)
    end = log.cleaning.sealed()[-1].end_offset

    report = clean(files, log)

    after = records_of(log)
    assert latest_of(after) == latest_of(before)
    below = [record for record in after if record.offset < end]
    assert len({record.key for record in below}) == len(below) == 10
    assert [record for record in after if record.offset >= end] == before[end:]
    assert log.cleaning.cleaned_to == end
    assert (report.is_whole, report.tally.records_kept) == (True, 10)
    assert report.bytes_removed > 0
    assert log.verify().problems == ()


def test_only_the_dirty_part_is_read_twice() -> None:
    files = MemoryFiles()
    log = filled(files)
    clean(files, log)
    clean_bytes = sum(each.size_bytes for each in log.cleaning.sealed())
    for n in range(12):
        append_keyed(log, [(b"new", b"%d" % n)], epoch=9)
    all_bytes = sum(each.size_bytes for each in log.cleaning.sealed())

    report = clean(files, log)

    assert report.bytes_read == all_bytes + (all_bytes - clean_bytes)
    assert report.keys > 1


def test_active_segment_and_what_is_past_the_high_watermark_are_left_alone() -> None:
    files = MemoryFiles()
    log = filled(files)
    active = log.cleaning.sealed()[-1].end_offset
    before = records_of(log)

    clean(files, log, high_watermark=17)

    assert log.cleaning.cleaned_to == 12
    assert records_of(log)[-(60 - 12) :] == before[12:]
    clean(files, log)
    assert log.cleaning.cleaned_to == active


def test_small_neighbours_become_one_segment() -> None:
    files = MemoryFiles()
    log = filled(files)
    count = log.segment_count

    report = clean(files, log)

    assert log.segment_count == count - report.segments_before + report.segments_after < count
    logs = [path for path in files.names if path.endswith(".log")]
    assert len(logs) == log.segment_count
    indexes = [path for path in files.names if path.endswith(".index")]
    assert {path.removesuffix(".index") for path in indexes} == {
        each.stem for each in log.cleaning.sealed()
    }
    assert not [path for path in files.names if path.endswith((".cleaned", ".swap"))]


def test_cleaned_segment_was_written_to_when_those_were_that_it_is_made_from() -> None:
    """Retention and `max.compaction.lag.ms` go by that."""
    files = MemoryFiles()
    log = filled(files)
    old = {each.base_offset: each for each in log.cleaning.sealed()}
    ends = {each.end_offset: each for each in old.values()}

    clean(files, log)

    for segment in log.cleaning.sealed():
        assert segment.first_append_ms == old[segment.base_offset].first_append_ms
        assert segment.last_append_ms == ends[segment.end_offset].last_append_ms
        assert segment.last_leader_epoch == ends[segment.end_offset].last_leader_epoch


def test_full_segment_is_not_cleaned_before_it_is_synced() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, COMPACT, schedule=jobs.append)
    for n in range(30):
        append_keyed(log, [(b"k", b"%d" % n)])
    assert begin_pass(files, log) is None
    for job in jobs[:2]:
        job()
    assert [each.base_offset for each in log.cleaning.sealed()] == [0, 6, 12, 18]


def test_segment_in_which_nothing_goes_is_not_written_again() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for n in range(30):
        append_keyed(log, [(b"%d" % n, bytes(200))])
    segments = list(log._segments)

    report = clean(files, log)

    assert (report.bytes_written, report.is_whole) == (0, True)
    assert list(log._segments) == segments


def test_cleaned_log_is_the_same_after_a_restart() -> None:
    files = MemoryFiles()
    log = filled(files)
    clean(files, log)
    found, end = records_of(log), log.log_end_offset
    log.close()

    again = open_log(files, COMPACT, clean=True)

    assert again.recovery_report.line is None
    assert (records_of(again), again.log_end_offset) == (found, end)
    assert again.cleaning.cleaned_to == log.cleaning.cleaned_to > 0


def test_log_is_found_again_from_its_batches_when_the_indexes_are_lost() -> None:
    files = MemoryFiles()
    log = filled(files)
    clean(files, log)
    found = records_of(log)
    log.abandon()
    for path in [path for path in files.names if path.endswith(("index", ".checkpoint"))]:
        del files.names[path]

    again = open_log(files, COMPACT)

    assert records_of(again) == found
    assert again.recovery_report.bytes_cut == 0
    assert again.cleaning.cleaned_to == 0
    assert again.verify().problems == ()


def test_hole_between_two_segments_is_damage_as_in_any_log() -> None:
    """A cleaned segment reaches as far as what it was made from."""
    files = MemoryFiles()
    log = filled(files, batches=200)
    clean(files, log)
    middle = log._segments[1]
    log.close()
    del files.names[f"{middle.stem}.log"]

    with pytest.raises(CorruptData, match="ends and the next segment starts"):
        open_log(files, COMPACT, clean=True)


def test_every_offset_can_be_read_from_and_nothing_comes_before_it() -> None:
    files = MemoryFiles()
    log = filled(files, batches=60)
    clean(files, log)
    whole = records_of(log)

    for offset in range(log.log_end_offset):
        for bytes_max in (1, 150, 10_000):
            found, at = [], offset
            while at < log.log_end_offset:
                more, after = read_from(log, at, bytes_max)
                assert after > at
                found, at = found + more, after
            assert found == [record for record in whole if record.offset >= offset]


def test_read_gives_a_record_where_there_is_one() -> None:
    """Clients that know no empty batches would ask for one for ever."""
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for n in range(40):
        append_keyed(log, [(b"same", b"%d" % n)], producer_id=n, producer_epoch=0, base_sequence=0)
    producers = {n: n for n in range(40)}
    clean(files, log, producers=producers)
    assert len(records_of(log)) < 10

    for offset in range(log.log_end_offset):
        for bytes_max in (1, 70, 10_000):
            assert read_from(log, offset, bytes_max)[0]


def test_producers_and_epochs_are_found_again_in_a_cleaned_log() -> None:
    files = MemoryFiles()
    log, producers = open_log(files, COMPACT), ProducerState()
    starts = {}
    for n in range(60):
        starts.setdefault(n // 9, log.log_end_offset)
        base = append_keyed(
            log, [(b"k", b"%d" % n)], epoch=n // 9,
            producer_id=n % 5, producer_epoch=0, base_sequence=n // 5,
        )  # fmt: skip
        batch = next(iter(log.read(base, 1)))
        producers.record(parse_header(batch), base, NOW_MS)

    clean(files, log, producers=producers.last_batches())

    again, epochs = ProducerState(), dict[int, int]()

    def on_batch(header: BatchHeader, batch: Buffer) -> None:
        again.take(header, batch, NOW_MS)
        epochs.setdefault(header.leader_epoch, header.base_offset)

    log.replay(None, on_batch)
    assert epochs == starts
    for producer in range(5):
        ours, theirs = producers.entry(producer), again.entry(producer)
        assert ours is not None
        assert theirs is not None
        assert ours.marks[-1] == theirs.marks[-1]


def test_keys_that_do_not_fit_take_several_passes() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for n in range(100):
        append_keyed(log, [(b"%d" % (n % 50), b"%d" % n)])
    before = latest_of(records_of(log))
    passes = 0

    while (found := begin_pass(files, log, map_bytes=16 * ENTRY_BYTES)) is not None:
        found.run(Hands())
        assert found.report.map_bytes <= 16 * ENTRY_BYTES
        assert latest_of(records_of(log)) == before
        passes += 1

    assert passes > 5
    sealed_end = log.cleaning.sealed()[-1].end_offset
    keys = [record.key for record in records_of(log) if record.offset < sealed_end]
    assert len(keys) == len(set(keys))


def test_offsets_by_timestamp_are_those_of_records_that_are_left() -> None:
    files = MemoryFiles()
    log = filled(files, batches=40, log_append_time=1)
    clean(files, log)
    found = records_of(log)

    for time_ms in range(NOW_MS - 1, NOW_MS + 41):
        wanted = next((each.offset for each in found if each.timestamp_ms >= time_ms), None)
        at = find_by_timestamp(log, time_ms)
        assert (at and at.offset) == wanted


def test_newest_timestamp_is_that_of_a_record_that_is_left() -> None:
    """The headers that stay alone have the times of records that are gone."""
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for n in range(24):
        append_keyed(log, [(b"k", b"%d" % n)], now_ms=NOW_MS + 100 - n)

    clean(files, log)

    newest = max(each.timestamp_ms for each in records_of(log))
    assert max_timestamp(log) == (17, newest)
    assert max(each.max_timestamp_ms for each in log.cleaning.sealed()) == newest


@pytest.mark.parametrize("time", range(0, 30, 3))
@pytest.mark.parametrize("is_indexed", [True, False])
def test_lookup_beside_a_cleaner_finds_the_record_or_is_to_be_repeated(
    time: int, is_indexed: bool
) -> None:
    """It looks at a file of the name that it knew, and by an index of before."""
    files = MemoryFiles()
    log = filled(files)
    if not is_indexed:
        for segment in log.cleaning.sealed():
            segment.cool()
    before = find_by_timestamp(log, NOW_MS + time)
    search = log.timestamp_search(NOW_MS + time)
    assert search is not None
    cleaned: list[str] = []

    def cleaned_at_opening(path: str) -> None:
        if path.endswith(".log") and not cleaned:
            cleaned.append(path)
            clean(files, log)

    files.on_open = cleaned_at_opening

    if before is not None and before.offset >= log._segments[-1].base_offset:
        assert search.run(lambda: None) == before
        return
    with pytest.raises(KafkaError, match=r"cleaned meanwhile|Errno 2"):
        search.run(lambda: None)
    again = find_by_timestamp(log, NOW_MS + time)
    assert again is not None
    assert again.offset in {record.offset for record in records_of(log)}


class Readers:
    """Consumers that began anywhere and are in the middle of the log; what each of them saw."""

    def __init__(self, rng: Random, log: PartitionLog) -> None:
        self.rng = rng
        self.log = log
        self.seen: list[tuple[int, int, list[Record]]] = []
        """(where it began, where it is, what it read)."""

    def step(self) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            start = rng.randint(0, self.log.log_end_offset)
            self.seen.append((start, start, []))
        if self.seen:
            self._read(rng.randrange(len(self.seen)), rng.choice((1, 200, 2_000)))

    def _read(self, at: int, bytes_max: int) -> None:
        start, offset, found = self.seen[at]
        more, after = read_from(self.log, offset, bytes_max)
        assert after > offset or offset == self.log.log_end_offset
        self.seen[at] = (start, after, found + more)

    def finish(self) -> None:
        for at in range(len(self.seen)):
            while self.seen[at][1] < self.log.log_end_offset:
                self._read(at, 2_000)

    def check(self, history: list[Record]) -> None:
        newest = {record.key: record for record in history}
        for start, _, found in self.seen:
            offsets = [record.offset for record in found]
            assert offsets == sorted(set(offsets)), "an offset came twice, or went back"
            assert all(history[record.offset] == record for record in found)
            missing = [
                record
                for record in newest.values()
                if record.offset >= start and record.offset not in offsets
            ]
            assert not missing, f"begun at {start}, not seen: {missing}"


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_reader_from_any_offset_sees_the_last_value_of_each_key_whatever_is_cleaned_meanwhile(
    seed: int,
) -> None:
    """And never an offset that goes back. Tombstones stay longer than anybody reads here."""
    rng = Random(seed)
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    history: list[Record] = []
    readers = Readers(rng, log)

    def write() -> None:
        pairs = [
            (b"%d" % rng.randrange(8), rng.choice((b"v%d" % len(history), None)))
            for _ in range(rng.randint(1, 3))
        ]
        base = append_keyed(log, pairs, compression=rng.choice((0, 0, 1, 4)))
        history.extend(
            Record(key, value, (), NOW_MS, base + at) for at, (key, value) in enumerate(pairs)
        )

    def others() -> None:
        for _ in range(rng.randint(0, 2)):
            rng.choice((write, readers.step))()

    def on_loop(ask: object) -> bool:
        others()
        done = ask()  # type: ignore[operator]
        others()
        return bool(done)

    before = batch_filter.STEPS_PER_BREATH
    batch_filter.STEPS_PER_BREATH = 3
    try:
        for _ in range(5):
            for _ in range(rng.randint(5, 25)):
                write()
            found = begin_pass(files, log, map_bytes=rng.choice((8, 1_000)) * ENTRY_BYTES)
            if found is not None:
                found.run(Hands(on_loop=on_loop, breathe=others))
    finally:
        batch_filter.STEPS_PER_BREATH = before
    readers.finish()

    readers.check(history)
    assert latest_of(records_of(log)) == latest_of(history)
    assert log.verify().problems == ()
    assert not [path for path in files.names if path.endswith((".cleaned", ".swap"))]
