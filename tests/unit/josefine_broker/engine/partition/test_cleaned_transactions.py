"""Transactions of a log that is cleaned, held against a model: readers see what was committed and
nothing else, whatever a pass, a crash or a start from an old snapshot does. Checklist row 38."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.partition.batch_filter import BatchFilter, Breath, note_keys
from josefine_broker.engine.partition.cleaned_transactions import CleanedTransactions, facts_of
from josefine_broker.engine.partition.key_offsets import ENTRY_BYTES, KeyOffsets
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.records.batch import BatchHeader, parse_header, stamp, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.control import Marker, build_marker, read_marker
from josefine_broker.records.keyed import delete_horizon_ms
from josefine_broker.records.reader import read_records

RETENTION_MS = 100
PRODUCERS = (1, 2, 3)
Batch = tuple[BatchHeader, bytes]


class Replica:
    """A log and what is known of its producers. Mutable."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.producers = ProducerState()
        self.snapshots: dict[int, bytes] = {}

    @property
    def end_offset(self) -> int:
        return self.batches[-1][0].end_offset if self.batches else 0

    @property
    def stable(self) -> int:
        """The last stable offset; all is confirmed."""
        self.producers.transactions.committed(self.end_offset)
        return self.producers.transactions.stable_end(self.end_offset)

    def take(self, batch: Batch, now_ms: int) -> None:
        self.batches.append(batch)
        self.producers.take(*batch, now_ms)

    def snapshot(self) -> None:
        """As at a roll; two are kept."""
        self.snapshots[self.end_offset] = self.producers.snapshot()
        for old in sorted(self.snapshots)[:-2]:
            del self.snapshots[old]

    def restarted(self, offset: int | None, now_ms: int) -> ProducerState:
        """What a start knows that begins from the snapshot at `offset`, or has none."""
        found = ProducerState()
        if offset is not None:
            found.restore(self.snapshots[offset])
        for header, batch in self.batches:
            if header.base_offset >= (offset or 0):
                found.take(header, batch, now_ms)
        found.transactions.committed(self.end_offset)
        return found

    def read_committed(self, offset: int, rng: Random) -> list[Record]:
        """As Java's consumer reads: each fetch is told of the aborted transactions that its
        records may be of."""
        found: list[Record] = []
        stable = self.stable
        while True:
            ahead = [b for b in self.batches if offset < b[0].end_offset <= stable]
            fetched = ahead[: rng.randint(1, 5)]
            if not fetched:
                return found
            end = fetched[-1][0].end_offset
            told = self.producers.transactions.aborted_between(offset, end)
            dropped: set[int] = set()
            for header, batch in fetched:
                begun = [each for each in told if each.first_offset <= header.last_offset]
                dropped.update(each.producer_id for each in begun)
                told = [each for each in told if each not in begun]
                if header.is_control:
                    marker = read_marker(batch)
                    if marker is not None and not marker.is_commit:
                        dropped.discard(header.producer_id)
                elif not header.is_transactional or header.producer_id not in dropped:
                    found += [r for r in read_records(batch) if r.offset >= offset]
            offset = end


class World:
    """A leader, a follower that is behind by less than `delete.retention.ms`, and the truth."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.leader, self.follower = Replica(), Replica()
        self.raises_epoch = rng.random() < 0.5
        """At each end, as transactions of the second version do (KIP-890)."""
        self.now_ms = 1_000
        self.copied_ms = self.now_ms
        self.leader_epoch = 0
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.open: dict[int, list[int]] = {}
        """What each producer wrote in its open transaction: base offsets of batches."""
        self.history: list[Record | None] = []
        self.fate: dict[int, bool | None] = {}
        """Of each batch of records, by its base offset: committed, aborted, not known yet."""
        self.marked: dict[int, list[int]] = {}
        """By the offset of a marker: the batches of its transaction."""
        self.empty_since: dict[int, int] = {}
        self.cleaned_to = 0

    def step(self) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.35:
            self.write(rng.choice((-1, *PRODUCERS)))
        elif kind < 0.55 and self.open:
            self.end(rng.choice(sorted(self.open)), is_commit=rng.random() < 0.5)
        elif kind < 0.6:
            self.leader.snapshot()
        elif kind < 0.63:
            self.leader_epoch += rng.random() < 0.3
        elif kind < 0.7:
            self.copy(rng.randint(1, 6))
        elif kind < 0.73:
            self.restart()
        elif self.leader.batches:
            self.clean(rng.randint(0, 2), is_cut=rng.random() < 0.2)
            self.now_ms += rng.choice((0, 30, RETENTION_MS, 2 * RETENTION_MS))
            if self.now_ms - self.copied_ms >= RETENTION_MS:
                self.copy(len(self.history))

    def write(self, producer_id: int) -> None:
        rng = self.rng
        values = [None if rng.random() < 0.3 else b"%d" % rng.randint(0, 99) for _ in range(3)]
        records = [Record(rng.choice((b"a", b"b", b"c")), v) for v in values[: rng.randint(1, 3)]]
        is_transactional = producer_id >= 0
        base_offset = self.leader.end_offset
        batch = build_batch(
            records,
            compression=rng.choice((0, 1)),
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, -1),
            base_sequence=self.sequences.get(producer_id, -1),
            transactional=is_transactional,
        )
        self._append(batch)
        for at, each in enumerate(records):
            self.history.append(each._replace(offset=base_offset + at))
        self.fate[base_offset] = None if is_transactional else True
        if is_transactional:
            self.sequences[producer_id] += len(records)
            self.open.setdefault(producer_id, []).append(base_offset)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        if self.raises_epoch:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        marker = Marker(is_commit, 0)
        batches = self.open.pop(producer_id, [])
        self.marked[self.leader.end_offset] = batches
        for base_offset in batches:
            self.fate[base_offset] = is_commit
        self._append(build_marker(producer_id, self.epochs[producer_id], marker, self.now_ms))
        self.history.append(None)

    def _append(self, batch: bytearray) -> None:
        stamp(batch, 0, self.leader.end_offset, self.leader_epoch)
        self.leader.take((parse_header(batch), bytes(batch)), self.now_ms)

    def copy(self, count: int) -> None:
        """The follower fetches so many batches, as the leader has them now."""
        follower = self.follower
        ahead = [b for b in self.leader.batches if b[0].base_offset >= follower.end_offset]
        for batch in ahead[:count]:
            follower.take(batch, self.now_ms)
        if len(ahead) <= count:
            self.copied_ms = self.now_ms

    def restart(self) -> None:
        """The leader comes back from one of its snapshots, or from none."""
        leader = self.leader
        offset = self.rng.choice((None, *leader.snapshots))
        leader.producers = leader.restarted(offset, self.now_ms)

    def clean(
        self, left_out: int, *, is_cut: bool = False, group_max: int = 8, keys_max: int = 0
    ) -> None:
        """One pass by the leader, in groups of batches; the process may die between two."""
        leader, rng = self.leader, self.rng
        below = [b for b in leader.batches if b[0].end_offset <= leader.stable]
        stretch = below[: max(0, len(below) - left_out)]
        transactions = CleanedTransactions(facts_of(leader.producers))
        for offset, snapshot in leader.snapshots.items():
            transactions.counts_on(snapshot, offset)
        keys_max = keys_max or rng.choice((3, 6, 100))
        latest = KeyOffsets(keys_max * 4 * ENTRY_BYTES // 3 + ENTRY_BYTES, 10**6)
        end = self.cleaned_to
        for header, batch in stretch:
            if header.end_offset > self.cleaned_to:
                if not note_keys(latest, batch, header, Breath(), transactions):
                    break
                end = header.end_offset
        judge = BatchFilter(
            latest,
            end,
            leader.producers.last_batches(),
            transactions,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            breath=Breath(),
        )
        while stretch:
            count = rng.randint(group_max if group_max > 8 else 1, group_max)
            group, stretch = stretch[:count], stretch[count:]
            kept = []
            for header, batch in group:
                left = judge.keep(batch, header, is_last=header is group[-1][0])
                if left is not None:
                    kept.append((parse_header(left), bytes(left)))
                    verify(left, 0, kept[-1][0])
            at = leader.batches.index(group[0])
            leader.batches[at : at + len(group)] = kept
            leader.producers.transactions.forget_aborted(transactions.take_emptied())
            self.check()
            if is_cut and rng.random() < 0.5:
                return
        self.cleaned_to = end

    # What must be true at any time.

    def check(self) -> None:
        assert all(a[0].end_offset <= b[0].base_offset for a, b in pairwise(self.leader.batches))
        self._check_markers()
        self._check_newest()
        for replica in (self.leader, self.follower):
            offset = self.rng.randint(0, replica.end_offset)
            found = replica.read_committed(offset, self.rng)
            assert found == [
                record
                for header, batch in replica.batches
                if header.end_offset <= replica.stable and self._counts(header)
                for record in read_records(batch)
                if record.offset >= offset
            ]
        for snapshot in (None, *self.leader.snapshots):
            self._check_start(self.leader.restarted(snapshot, self.now_ms))

    def _counts(self, header: BatchHeader) -> bool:
        return not header.is_control and self.fate[header.base_offset] is True

    def _check_newest(self) -> None:
        """read_committed finds the last committed value of each key, or nothing for a tombstone;
        read_uncommitted the same where the log was cleaned."""
        stable = self.leader.stable
        bases = sorted(self.fate)
        newest: dict[bytes | None, bytes | None] = {}
        for base_offset, after in pairwise([*bases, len(self.history)]):
            if base_offset < stable and self.fate[base_offset]:
                of_batch = [r for r in self.history[base_offset:after] if r is not None]
                newest.update({r.key: r.value for r in of_batch})
        wanted = {key: value for key, value in newest.items() if value is not None}
        found = {r.key: r.value for r in self.leader.read_committed(0, self.rng)}
        assert {key: value for key, value in found.items() if value is not None} == wanted
        for header, _ in self.leader.batches:
            is_aborted = not header.is_control and self.fate[header.base_offset] is False
            is_clean = header.end_offset <= self.cleaned_to
            assert not (is_aborted and is_clean and header.record_count), header

    def _check_start(self, again: ProducerState) -> None:
        assert set(again.transactions.open_ids) == set(self.open)
        there = {header.base_offset for header, _ in self.leader.batches}
        told = {each.marker_offset for each in again.transactions.aborted}
        assert told <= there, "readers look for a marker that is gone"
        assert again.transactions.stable_end(self.leader.end_offset) <= self.leader.stable
        for producer_id in PRODUCERS:
            ours, theirs = self.leader.producers.entry(producer_id), again.entry(producer_id)
            assert (ours and ours.epoch) == (theirs and theirs.epoch)
            if ours is not None and ours.marks:
                assert theirs is not None
                assert theirs.marks[-1] == ours.marks[-1]

    def _check_markers(self) -> None:
        there = {header.base_offset for header, _ in self.leader.batches}
        for offset, batches in self.marked.items():
            is_empty = not there.intersection(batches)
            if offset in there:
                if is_empty:
                    self.empty_since.setdefault(offset, self.now_ms)
                continue
            assert is_empty, f"marker {offset} is gone before {batches}"
            since = self.empty_since.get(offset, self.now_ms)
            assert self.now_ms - since >= RETENTION_MS, f"marker {offset} is gone too soon"

    def settle(self) -> None:
        """Nobody writes any more, and time goes on."""
        for producer_id in sorted(self.open):
            self.end(producer_id, is_commit=True)
        self.write(-1)
        for _ in range(7):
            self.leader.snapshot()
            self.write(-1)
            self.copy(len(self.history))
            self.clean(1, group_max=len(self.history), keys_max=100)
            self.check()
            self.now_ms += RETENTION_MS


def world_of(seed: int) -> World:
    world = World(seed)
    for _ in range(world.rng.randint(5, 50)):
        world.step()
        world.check()
    return world


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_readers_see_what_was_committed_whatever_is_cleaned(seed: int) -> None:
    world_of(seed)


def batch_of(*records: Record, base_offset: int, producer_id: int = 1) -> Batch:
    batch = build_batch(
        records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    stamp(batch, 0, base_offset, 0)
    return parse_header(batch), bytes(batch)


def marker_at(offset: int, *, is_commit: bool, producer_id: int = 1, epoch: int = 0) -> Batch:
    batch = build_marker(producer_id, epoch, Marker(is_commit, 0), 7)
    stamp(batch, 0, offset, 0)
    return parse_header(batch), bytes(batch)


def judge_of(transactions: CleanedTransactions, *, now_ms: int) -> BatchFilter:
    """Of a log whose leader epoch began before, and the key `a` was written again behind."""
    latest = KeyOffsets(1 << 10, 10)
    latest.put(b"a", 1_000)
    judge = BatchFilter(
        latest, 2_000, {}, transactions,
        now_ms=now_ms, delete_retention_ms=RETENTION_MS, breath=Breath(),
    )  # fmt: skip
    judge.keep(*reversed(batch_of(Record(b"x"), base_offset=0, producer_id=9)), is_last=False)
    return judge


def judged(
    transactions: CleanedTransactions, *batches: Batch, now_ms: int = 0
) -> list[Batch | None]:
    """What a pass leaves of each."""
    judge = judge_of(transactions, now_ms=now_ms)
    left = [judge.keep(batch, header, is_last=False) for header, batch in batches]
    return [None if each is None else (parse_header(each), bytes(each)) for each in left]


def test_marker_with_a_horizon_stays_in_the_pass_that_takes_its_records() -> None:
    """A replica may have copied the records before its leader's cleaner came, the marker after."""
    record, marker = batch_of(Record(b"a"), base_offset=1), marker_at(2, is_commit=True)
    (aged,) = judged(CleanedTransactions(), marker)
    assert aged is not None
    assert delete_horizon_ms(aged[0]) == RETENTION_MS
    assert read_marker(aged[1]) == Marker(True, 0)

    late = 10 * RETENTION_MS
    assert judged(CleanedTransactions(), record, aged, now_ms=late) == [None, aged]
    assert judged(CleanedTransactions(), aged, now_ms=late) == [None]
    assert judged(CleanedTransactions(), aged, now_ms=RETENTION_MS - 1) == [aged]


def test_marker_that_is_the_last_batch_of_its_segment_stays() -> None:
    header, batch = marker_at(2, is_commit=True)
    (aged,) = judged(CleanedTransactions(), (header, batch))
    assert aged is not None
    judge = judge_of(CleanedTransactions(), now_ms=10**6)

    assert judge.keep(aged[1], aged[0], is_last=True) is aged[1]
    assert judge.keep(aged[1], aged[0], is_last=False) is None


def test_no_marker_goes_while_a_snapshot_waits_to_be_stored() -> None:
    """It may say that the transaction is open."""
    (aged,) = judged(CleanedTransactions(), marker_at(2, is_commit=True))
    assert aged is not None

    assert judged(CleanedTransactions(may_lose=False), aged, now_ms=10**6) == [aged]


def header_of(world: World, offset: int) -> BatchHeader | None:
    return next((h for h, _ in world.leader.batches if h.base_offset == offset), None)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_markers_go_in_the_end_unless_something_of_their_transaction_stays(seed: int) -> None:
    world = world_of(seed)
    world.settle()

    there = {header.base_offset for header, _ in world.leader.batches}
    firsts: dict[int, int] = {}
    for header, _ in world.leader.batches:
        firsts.setdefault(header.leader_epoch, header.base_offset)
    for offset, batches in world.marked.items():
        header = header_of(world, offset)
        if header is None or there.intersection(batches) or offset in firsts.values():
            continue
        entry = world.leader.producers.entry(header.producer_id)
        assert entry is not None
        assert (entry.marks, entry.epoch) == ((), header.producer_epoch), f"marker {offset} stays"
    aborted = world.leader.producers.transactions.aborted
    assert all(there.intersection(world.marked[each.marker_offset]) for each in aborted)
