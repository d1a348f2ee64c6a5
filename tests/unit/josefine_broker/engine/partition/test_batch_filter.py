"""What the log cleaner keeps, held against a model: the last value of each key, and tombstones by
time. Checklist row 38."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.partition import batch_filter
from josefine_broker.engine.partition.batch_filter import BatchFilter, Breath, note_keys
from josefine_broker.engine.partition.cleaned_transactions import CleanedTransactions
from josefine_broker.engine.partition.key_offsets import ENTRY_BYTES, KeyOffsets
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.records.batch import BatchHeader, parse_header, stamp, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.keyed import delete_horizon_ms
from josefine_broker.records.reader import read_records

RETENTION_MS = 100
Batch = tuple[BatchHeader, bytes]


class Log:
    """Batches in memory, everything that was ever appended, and when a pass first met each."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.batches: list[Batch] = []
        self.history: list[Record] = []
        self.left_alone: set[int] = set()
        """Offsets of records that are judged by nobody."""
        self.producers = ProducerState()
        self.sequences = [0, 0]
        self.epoch = 0
        self.epoch_starts: dict[int, int] = {}
        self.cleaned_to = 0
        self.now_ms = 1_000
        self.met_ms: dict[int, int] = {}
        """Offset of a tombstone: when it could be counted from."""

    @property
    def end_offset(self) -> int:
        return self.batches[-1][0].end_offset if self.batches else 0

    def append(self) -> None:
        rng = self.rng
        if rng.random() < 0.15:
            self.epoch += 1
        records = [
            Record(
                key=rng.choice((b"a", b"b", b"c", b"d", b"", None)),
                value=None if rng.random() < 0.3 else b"%d" % (len(self.history) + at),
                headers=(("h", b"x"),) if rng.random() < 0.1 else (),
                timestamp_ms=rng.randint(-1, 5_000),
            )
            for at in range(rng.randint(1, 4))
        ]
        producer = rng.choice((-1, -1, 0, 1))
        is_special = producer < 0 and rng.random() < 0.15
        is_control = is_special and rng.random() < 0.5
        batch = build_batch(
            records,
            compression=0 if is_control else rng.choice((0, 0, 1, 2, 3, 4)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences[producer] if producer >= 0 else -1,
            transactional=is_special and not is_control,
            control=is_control,
        )
        base_offset = self.end_offset
        self.epoch_starts.setdefault(self.epoch, base_offset)
        stamp(batch, 0, base_offset, self.epoch)
        header = parse_header(batch)
        if producer >= 0:
            self.sequences[producer] += len(records)
            self.producers.record(header, base_offset, self.now_ms)
        self.batches.append((header, bytes(batch)))
        for at, record in enumerate(records):
            if is_control:
                self.left_alone.add(base_offset + at)
            self.history.append(record._replace(offset=base_offset + at))

    def clean(self, keys_max: int) -> None:
        """One pass, over all but some of the newest batches, into segments of some batches."""
        uncleanable = self.rng.randint(0, 2)
        stretch = self.batches[: len(self.batches) - uncleanable]
        transactions = CleanedTransactions()
        latest = KeyOffsets(keys_max * 4 * ENTRY_BYTES // 3 + ENTRY_BYTES, 10**6)
        end = self.cleaned_to
        for header, batch in stretch:
            if header.end_offset > self.cleaned_to:
                if not note_keys(latest, batch, header, Breath(), transactions):
                    break
                end = header.end_offset
        self._note_met(end)
        judge = BatchFilter(
            latest,
            end,
            self.producers.last_batches(),
            transactions,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            breath=Breath(),
        )
        kept: list[Batch] = []
        for header, batch in stretch:
            is_last = header is stretch[-1][0] or self.rng.random() < 0.2
            left = judge.keep(batch, header, is_last=is_last)
            if left is not None:
                kept.append((parse_header(left), bytes(left)))
                verify(left, 0, kept[-1][0])
            else:
                assert not is_last
        assert self.cleaned_to <= end
        self.cleaned_to = end
        self.batches = kept + self.batches[len(stretch) :]

    def _note_met(self, end: int) -> None:
        for record in self.history[:end]:
            self.met_ms.setdefault(record.offset, self.now_ms)

    def records(self) -> list[Record]:
        return [record for _, batch in self.batches for record in read_records(batch)]

    # What must be true at any time.

    def check(self) -> None:
        found = self.records()
        by_offset = {record.offset: record for record in found}
        assert [record.offset for record in found] == sorted(by_offset), "offsets grow"
        assert all(self.history[offset] == record for offset, record in by_offset.items())
        assert all(offset in by_offset for offset in self.left_alone)
        judged = [record for record in self.history if record.offset not in self.left_alone]
        assert all(record.offset in by_offset for record in judged if record.key is None)
        self._check_keys([record for record in judged if record.key is not None], by_offset)
        self._check_batches()

    def _check_keys(self, judged: Sequence[Record], found: dict[int, Record]) -> None:
        newest = {record.key: record for record in judged}
        for record in newest.values():
            if record.offset in found:
                continue
            assert record.value is None, f"{record} was the last of its key"
            assert self.now_ms >= self.met_ms[record.offset] + RETENTION_MS
            same = [each for each in found.values() if each.key == record.key]
            older = [each for each in same if each.offset < record.offset]
            older = [each for each in older if each.offset not in self.left_alone]
            assert not older, f"{record} is gone, and {older} came back"
        clean = [record for record in judged if record.offset < self.cleaned_to]
        newest_clean = {record.key: record.offset for record in clean}
        for record in clean:
            if record.offset in found:
                assert newest_clean[record.key] == record.offset, f"{record} was replaced"

    def _check_batches(self) -> None:
        headers = [header for header, _ in self.batches]
        assert all(a.end_offset <= b.base_offset for a, b in pairwise(headers))
        starts = {header.leader_epoch: header.base_offset for header in reversed(headers)}
        assert starts == self.epoch_starts
        again = ProducerState()
        for header in headers:
            again.record(header, header.base_offset, self.now_ms)
        for producer in (0, 1):
            ours, theirs = self.producers.entry(producer), again.entry(producer)
            assert (ours and ours.marks[-1][:3]) == (theirs and theirs.marks[-1][:3])


def log_of(seed: int) -> Log:
    """A log's life: appends and passes in any order, time going on."""
    rng = Random(seed)
    log = Log(rng)
    for _ in range(rng.randint(5, 60)):
        if rng.random() < 0.7 or not log.batches:
            log.append()
        else:
            log.clean(keys_max=rng.choice((4, 5, 100)))
            log.now_ms += rng.choice((0, 30, RETENTION_MS, 5 * RETENTION_MS))
        log.check()
    return log


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_any_passes_leave_the_last_value_of_each_key(seed: int) -> None:
    log_of(seed)


def batch_of(*records: Record, base_offset: int = 0, **options: int) -> Batch:
    batch = build_batch(records, **options)
    stamp(batch, 0, base_offset, 0)
    return parse_header(batch), bytes(batch)


def judge_of(
    *batches: Batch, now_ms: int = 0, end: int = 10**6, keys_max: int = 10**4
) -> BatchFilter:
    """That has met these."""
    latest = KeyOffsets(1 << 20, keys_max)
    for header, batch in batches:
        assert note_keys(latest, batch, header, Breath(), CleanedTransactions())
    return BatchFilter(
        latest,
        end,
        {},
        CleanedTransactions(),
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        breath=Breath(),
    )


def test_tombstone_stays_for_delete_retention_from_the_first_pass_on() -> None:
    first = batch_of(Record(b"a", b"1"), Record(b"a", None), Record(b"b", b"2"))
    left = judge_of(first, now_ms=5).keep(first[1], first[0], is_last=False)
    assert left is not None
    header = parse_header(left)

    early = judge_of((header, bytes(left)), now_ms=4 + RETENTION_MS)
    assert early.keep(left, header, is_last=False) is left
    late = judge_of((header, bytes(left)), now_ms=5 + RETENTION_MS)
    gone = late.keep(left, header, is_last=False)

    assert gone is not None
    assert [(r.key, r.offset) for r in read_records(left)] == [(b"a", 1), (b"b", 2)]
    assert [(r.key, r.offset) for r in read_records(gone)] == [(b"b", 2)]
    assert late.tally.tombstones_dropped == 1


def test_tombstone_stays_behind_a_batch_that_nobody_can_judge() -> None:
    """That one may have a value of the key."""
    header, batch = batch_of(Record(b"a", b"1"))
    old = header._replace(attributes=5), batch  # a codec that nobody knows
    dead = batch_of(Record(b"a", None), base_offset=1)
    left = judge_of(dead).keep(dead[1], dead[0], is_last=False)
    assert left is not None
    judge = judge_of(now_ms=10**6)

    assert judge.keep(old[1], old[0], is_last=False) is old[1]
    assert judge.keep(left, parse_header(left), is_last=False) is left
    assert judge.tally.batches_left_alone == 1


def test_nothing_changes_from_where_the_keys_were_not_noted() -> None:
    """Tombstones get no time there: their older values are still to be read."""
    known = batch_of(Record(b"a", b"1"))
    behind = batch_of(Record(b"a", b"2"), Record(b"a", None), base_offset=1)
    judge = judge_of(known, end=1)

    assert judge.keep(known[1], known[0], is_last=False) is known[1]
    assert judge.keep(behind[1], behind[0], is_last=False) is behind[1]


@pytest.mark.parametrize(
    "harm",
    [
        {"record_count": 3},
        {"attributes": 5},
    ],
    ids=["lies about its count", "unknown codec"],
)
def test_batch_that_cannot_be_read_is_left_and_replaces_nothing(harm: dict[str, int]) -> None:
    older = batch_of(Record(b"a", b"1"))
    header, batch = batch_of(Record(b"a", b"2"), Record(b"a", b"3"), base_offset=1)
    harmed = header._replace(**harm)
    judge = judge_of(older, (harmed, batch), keys_max=10**6)

    assert judge.keep(older[1], older[0], is_last=False) is older[1]
    assert judge.keep(batch, harmed, is_last=False) is batch
    assert judge.tally.batches_left_alone == 1


@pytest.mark.parametrize(("records_max", "keys_max"), [(10**4, 2), (3, 10**4)])
def test_batch_of_more_records_than_are_judged_at_once_is_left(
    monkeypatch: pytest.MonkeyPatch, records_max: int, keys_max: int
) -> None:
    """A bound of the memory, and one of the map: else a pass would never get past it."""
    monkeypatch.setattr(batch_filter, "CLEANED_BATCH_RECORDS_MAX", records_max)
    older = batch_of(Record(b"a", b"1"))
    large = batch_of(*[Record(b"a", b"2")] * 4, base_offset=1)
    judge = judge_of(older, large, keys_max=keys_max)

    assert judge.keep(older[1], older[0], is_last=False) is older[1]
    assert judge.keep(large[1], large[0], is_last=False) is large[1]


def test_header_that_stayed_alone_stays_as_it_is() -> None:
    """So that a segment in which nothing goes is not written again."""
    first = batch_of(Record(b"a", b"1"), Record(b"a", b"2"))
    newer = batch_of(Record(b"a", b"3"), base_offset=2)
    alone = judge_of(first, newer).keep(first[1], first[0], is_last=True)
    assert alone is not None

    assert judge_of(newer).keep(alone, parse_header(alone), is_last=True) is alone
    judge = judge_of(newer)
    assert judge.keep(newer[1], newer[0], is_last=False) is newer[1]
    assert judge.keep(alone, parse_header(alone), is_last=False) is None


def test_tombstones_may_be_kept_for_ever() -> None:
    header, batch = batch_of(Record(b"a", None, (), 7))
    judge = BatchFilter(
        KeyOffsets(1 << 10, 1),
        1,
        {},
        CleanedTransactions(),
        now_ms=1_000,
        delete_retention_ms=2**63 - 1,
        breath=Breath(),
    )

    left = judge.keep(batch, header, is_last=False)

    assert left is not None
    assert delete_horizon_ms(parse_header(left)) == 2**63 - 1
    assert [record.timestamp_ms for record in read_records(left)] == [7]


def test_batch_that_expands_too_far_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_filter, "CLEANED_BATCH_BYTES_MAX", 1_000)
    small = batch_of(Record(b"a", bytes(500)), compression=1)
    large = batch_of(Record(b"a", bytes(2_000)), base_offset=1, compression=1)
    judge = judge_of(small, large)

    assert judge.keep(small[1], small[0], is_last=False) is small[1]
    assert judge.keep(large[1], large[0], is_last=False) is large[1]


def test_keys_that_have_no_room_are_left_for_the_next_pass() -> None:
    latest = KeyOffsets(1 << 20, 3)
    one = batch_of(Record(b"a"), Record(b"b"))
    two = batch_of(Record(b"a"), Record(b"c"), Record(b"d"), base_offset=2)

    assert note_keys(latest, one[1], one[0], Breath(), CleanedTransactions())
    assert not note_keys(latest, two[1], two[0], Breath(), CleanedTransactions())
    assert latest.get(b"a") == 0


def test_breathes_in_the_middle_of_a_large_batch() -> None:
    breaths = [0]

    def breathe() -> None:
        breaths[0] += 1

    breath = Breath(breathe)
    header, batch = batch_of(*[Record(b"%d" % n, b"v") for n in range(1_000)])
    latest = KeyOffsets(1 << 20, 10**4)
    none = CleanedTransactions()
    note_keys(latest, batch, header, breath, none)
    judge = BatchFilter(latest, 1_000, {}, none, now_ms=0, delete_retention_ms=0, breath=breath)
    judge.keep(batch, header, is_last=True)
    assert 9 <= breaths[0] <= 12

    small = [batch_of(Record(b"%d" % n, b"v"), base_offset=n) for n in range(1_000)]
    for header, batch in small:
        judge.keep(batch, header, is_last=True)
    assert 12 <= breaths[0] <= 17
