"""A share partition against a model: one row a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.values import (
    Ack,
    AckType,
    Acquired,
    Found,
    Limits,
    ShareState,
    StateBatch,
)

LIMITS = Limits(lock_ms=100, deliveries_max=3, locks_max=20)
A, B = "a", "b"
ACCEPT, RELEASE, REJECT, RENEW = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW


def new(start: int = 0, *batches: StateBatch, limits: Limits = LIMITS) -> SharePartition:
    return SharePartition(ShareState(start_offset=start, batches=batches), limits)


def get(
    shared: SharePartition,
    *found: tuple[int, int],
    member_id: str = A,
    now_ms: int = 0,
    records_max: int = 100,
    is_strict: bool = False,
) -> list[Acquired]:
    read_from = shared.read_offset
    if read_from is None:
        return []
    batches = [Found(*each) for each in found if each[1] >= read_from]
    return shared.acquire(
        member_id, read_from, batches, now_ms, records_max=records_max, is_strict=is_strict
    )


def say(
    shared: SharePartition,
    first: int,
    last: int,
    *types: AckType,
    member_id: str = A,
    is_stored: bool = True,
) -> None:
    if shared.acknowledge(member_id, [Ack(first, last, types)], 0) is not None:
        shared.begin_write()
        shared.end_write(is_stored=is_stored)


def test_records_are_acquired_by_whole_batches_once() -> None:
    shared = new()
    assert get(shared, (0, 4), (5, 9), records_max=3) == [Acquired(0, 4, 1)]
    assert get(shared, (0, 4), (5, 9), member_id=B) == [Acquired(5, 9, 1)]
    assert (shared.read_offset, shared.end_offset, shared.start_offset) == (10, 10, 0)


def test_strict_limit_splits_a_batch() -> None:
    shared = new()
    assert get(shared, (0, 9), records_max=3, is_strict=True) == [Acquired(0, 2, 1)]
    assert get(shared, (0, 9), records_max=3, is_strict=True) == [Acquired(3, 5, 1)]


def test_accepted_records_move_the_start_once_they_are_stored() -> None:
    shared = new()
    get(shared, (0, 9))
    shared.acknowledge(A, [Ack(0, 4, [ACCEPT])], 0)
    stored = shared.begin_write()
    assert (stored.start_offset, stored.batches) == (
        5,
        (StateBatch(5, 9, RecordState.AVAILABLE, 0),),
    )
    assert shared.start_offset == 0
    shared.end_write(is_stored=True)
    assert shared.start_offset == 5


def test_a_partition_is_at_rest_with_nothing_in_flight_and_nothing_to_be_stored() -> None:
    shared = new()
    assert shared.is_at_rest
    shared.touch()
    assert not shared.is_at_rest
    shared.begin_write()
    assert not shared.is_at_rest
    shared.end_write(is_stored=True)
    assert shared.is_at_rest
    get(shared, (0, 3))
    assert not shared.is_at_rest
    say(shared, 0, 3, ACCEPT)
    assert shared.is_at_rest


def test_write_that_failed_leaves_the_records_with_their_member() -> None:
    shared = new()
    get(shared, (0, 9))
    say(shared, 0, 9, ACCEPT, is_stored=False)
    assert shared.start_offset == 0
    say(shared, 0, 9, ACCEPT)
    assert shared.start_offset == 10


def test_answers_of_a_repeated_write_count_with_the_next_one() -> None:
    shared = new()
    get(shared, (0, 9))
    assert shared.acknowledge(A, [Ack(0, 4, [ACCEPT])], 0) == 0
    lost = shared.begin_write()
    shared.repeat_write()
    assert shared.must_write
    assert shared.begin_write() == lost
    assert shared.acknowledge(A, [Ack(5, 9, [ACCEPT])], 0) == 2
    shared.repeat_write()
    assert (shared.must_write, shared.is_idle, shared.start_offset) == (True, False, 0)
    # Nobody else gets them meanwhile, however long it takes.
    assert (shared.wake_at_ms(), shared.expire(1_000)) == (None, 0)
    again = shared.begin_write()
    assert (lost.start_offset, again.start_offset) == (5, 10)
    shared.end_write(is_stored=True)
    assert shared.start_offset == 10
    assert shared.is_at_rest


def test_lock_that_ends_during_a_write_that_fails_frees_the_records_then() -> None:
    shared = new()
    get(shared, (0, 0))
    shared.acknowledge(A, [Ack(0, 0, [ACCEPT])], 0)
    shared.begin_write()
    assert not shared.expire(1_000)
    shared.end_write(is_stored=False)
    assert shared.expire(1_000)
    assert get(shared, (0, 0), member_id=B) == [Acquired(0, 0, 2)]


def test_each_record_may_have_its_own_type() -> None:
    shared = new()
    get(shared, (0, 4))
    say(shared, 0, 4, ACCEPT, RELEASE, REJECT, ACCEPT, RELEASE)
    assert shared.start_offset == 1
    assert get(shared, (0, 4), member_id=B) == [Acquired(1, 1, 2), Acquired(4, 4, 2)]


def test_record_is_archived_after_its_last_delivery() -> None:
    shared = new()
    for count in (1, 2, 3):
        assert get(shared, (0, 0)) == [Acquired(0, 0, count)]
        say(shared, 0, 0, RELEASE)
    assert get(shared, (0, 0)) == []
    assert shared.start_offset == 1


def test_limit_that_was_lowered_counts() -> None:
    shared = new(
        0, StateBatch(0, 0, RecordState.AVAILABLE, 3), StateBatch(1, 1, RecordState.AVAILABLE, 2)
    )
    assert get(shared, (0, 1)) == [Acquired(1, 1, 3)]
    assert shared.start_offset == 1


def test_lock_that_ended_gives_the_records_to_others() -> None:
    shared = new()
    get(shared, (0, 4), now_ms=0)
    assert shared.wake_at_ms() == 100
    assert not shared.expire(99)
    assert shared.expire(100)
    assert shared.must_write
    assert get(shared, (0, 4), member_id=B, now_ms=100) == [Acquired(0, 4, 2)]
    with pytest.raises(KafkaError) as refused:
        say(shared, 0, 4, ACCEPT)
    assert refused.value.code is ErrorCode.invalid_record_state


def test_renewed_lock_ends_later() -> None:
    shared = new()
    get(shared, (0, 4), now_ms=0)
    assert shared.acknowledge(A, [Ack(2, 2, [RENEW])], 50) is None
    assert shared.expire(100)
    assert shared.wake_at_ms() == 150
    say(shared, 2, 2, ACCEPT)


def test_session_that_closes_does_not_count_as_a_delivery() -> None:
    shared = new()
    get(shared, (0, 4))
    assert shared.release_all(A)
    assert not shared.release_all(A)
    assert get(shared, (0, 4), member_id=B) == [Acquired(0, 4, 1)]


def test_one_foreign_record_refuses_the_whole_acknowledgement() -> None:
    shared = new()
    get(shared, (0, 4))
    get(shared, (5, 9), member_id=B)
    for first, last in ((0, 5), (4, 9), (9, 12)):
        with pytest.raises(KafkaError) as refused:
            shared.acknowledge(A, [Ack(first, last, [ACCEPT])], 0)
        assert refused.value.code is ErrorCode.invalid_record_state
    assert not shared.must_write


def test_batches_of_an_acknowledgement_are_in_order() -> None:
    shared = new()
    get(shared, (0, 9))
    for acks in (
        [Ack(5, 9, [ACCEPT]), Ack(0, 4, [ACCEPT])],
        [Ack(0, 4, [ACCEPT]), Ack(4, 9, [ACCEPT])],
        [Ack(4, 3, [ACCEPT])],
        [Ack(0, 4, [ACCEPT, ACCEPT])],
    ):
        with pytest.raises(KafkaError) as refused:
            shared.acknowledge(A, acks, 0)
        assert refused.value.code is ErrorCode.invalid_request


def test_offsets_without_records_are_passed() -> None:
    shared = new()
    assert get(shared, (3, 4), (8, 9)) == [Acquired(3, 4, 1), Acquired(8, 9, 1)]
    say(shared, 3, 4, ACCEPT)
    say(shared, 8, 9, ACCEPT)
    assert shared.start_offset == 10


def test_markers_are_passed() -> None:
    shared = new()
    found = [Found(0, 1), Found(2, 2, is_data=False), Found(3, 4)]
    assert shared.acquire(A, 0, found, 0, records_max=9) == [Acquired(0, 1, 1), Acquired(3, 4, 1)]


def test_passed_markers_are_stored_unless_an_answer_will_store_them() -> None:
    shared = new()
    shared.acquire(A, 0, [Found(0, 0), Found(1, 1, is_data=False)], 0, records_max=10)
    assert not shared.must_write
    say(shared, 0, 0, ACCEPT)
    assert not shared.must_write
    shared.acquire(A, 2, [Found(2, 2, is_data=False)], 0, records_max=10)
    assert shared.must_write
    assert shared.begin_write().start_offset == 3


def test_records_in_flight_are_limited() -> None:
    shared = new()
    got = [get(shared, (at, at + 7)) for at in (0, 8, 16, 24)]
    assert got == [[Acquired(at, at + 7, 1)] for at in (0, 8, 16)] + [[]]
    assert shared.read_offset is None
    say(shared, 0, 7, ACCEPT)
    assert shared.read_offset == 24


def test_deleted_records_are_in_flight_no_more() -> None:
    shared = new()
    get(shared, (0, 9))
    shared.trim(5)
    assert (shared.start_offset, shared.end_offset) == (5, 10)
    say(shared, 0, 9, ACCEPT)  # those below are not looked at
    shared.trim(50)
    assert (shared.start_offset, shared.end_offset, shared.read_offset) == (50, 50, 50)


def test_stored_state_is_what_it_was_without_the_locks() -> None:
    shared = new()
    get(shared, (0, 9))
    say(shared, 2, 3, ACCEPT)
    say(shared, 5, 5, RELEASE)
    get(shared, (5, 5))
    stored = shared.begin_write()
    assert stored.complete_count == 2
    again = SharePartition(stored, LIMITS)
    assert get(again, (0, 9), member_id=B) == [
        Acquired(0, 1, 1), Acquired(4, 4, 1), Acquired(5, 5, 2), Acquired(6, 9, 1)
    ]  # fmt: skip


@dataclass
class Row:
    """A record in the model."""

    deliveries: int = 0
    member_id: str = ""
    lock_end_ms: int = -1
    is_done: bool = False
    """Promised to a member: its answer was stored."""


@dataclass
class World:
    """Members that fetch, answer in any way and late, a log that is compacted and cut, a store that
    fails, and leaders that lose their memory. Holds the promises to each of them."""

    rng: Random
    now_ms: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    batches: list[tuple[int, int]] = field(default_factory=list)
    stored: ShareState = field(default_factory=lambda: ShareState(start_offset=0))
    writing: ShareState | None = None
    waiting: list[tuple[int, list[tuple[int, AckType]]]] = field(default_factory=list)
    """Answers that are not stored yet, by the number of their write."""
    write: int = 0

    def __post_init__(self) -> None:
        at = 0
        for _ in range(self.rng.randint(3, 12)):
            at += self.rng.choice((0, 0, 0, 1, 5))
            size = self.rng.randint(1, 6)
            self.batches.append((at, at + size - 1))
            self.rows.update({offset: Row() for offset in range(at, at + size)})
            at += size
        self.shared = SharePartition(self.stored, LIMITS)

    def fetch(self, member_id: str) -> None:
        records_max, is_strict = self.rng.randint(1, 8), self.rng.random() < 0.5
        got = get(
            self.shared, *self.batches, member_id=member_id, now_ms=self.now_ms,
            records_max=records_max, is_strict=is_strict,
        )  # fmt: skip
        offsets = [at for each in got for at in range(each.first, each.last + 1)]
        assert len(offsets) <= records_max or not is_strict
        for each in got:
            assert each.deliveries <= LIMITS.deliveries_max
            for offset in range(each.first, each.last + 1):
                row = self.rows[offset]
                assert not row.is_done, f"{offset} was accepted and is delivered again"
                assert row.lock_end_ms <= self.now_ms, f"{offset} is acquired by two members"
                row.deliveries, row.member_id = each.deliveries, member_id
                row.lock_end_ms = self.now_ms + LIMITS.lock_ms

    def answer(self, member_id: str) -> None:
        mine = [at for at, row in self.rows.items() if row.member_id == member_id]
        if not mine:
            return
        chosen = sorted(self.rng.sample(mine, self.rng.randint(1, len(mine))))
        types = {at: self.rng.choice((ACCEPT, ACCEPT, RELEASE, REJECT, RENEW)) for at in chosen}
        if self.rng.random() < 0.7:
            types = {at: each for at, each in types.items() if each is not RENEW} or types
        acks = [Ack(at, at, [each]) for at, each in types.items()]
        try:
            write = self.shared.acknowledge(member_id, acks, self.now_ms)
        except KafkaError:
            return  # its lock is over for one of them
        for at, each in types.items():
            if each is RENEW and at >= self.shared.start_offset:
                self.rows[at].lock_end_ms = self.now_ms + LIMITS.lock_ms
            elif each is not RENEW:
                # What it waits for is the store: nobody may have it before.
                self.rows[at].lock_end_ms = 2**60
                self.rows[at].member_id = ""
        if write is not None:
            self.waiting.append((write, list(types.items())))
        else:
            self.settle([(at, each) for at, each in types.items()], is_stored=True)

    def settle(self, answers: list[tuple[int, AckType]], *, is_stored: bool) -> None:
        for at, each in answers:
            if each is RENEW:
                continue
            row = self.rows[at]
            row.lock_end_ms = self.now_ms
            row.is_done |= is_stored and each in (ACCEPT, REJECT)

    def store(self) -> None:
        if self.writing is None:
            if self.shared.must_write:
                self.writing, self.write = self.shared.begin_write(), self.write + 1
            return
        is_stored = self.rng.random() < 0.8
        if is_stored:
            self.stored = self.writing
        self.writing = None
        if not is_stored and self.rng.random() < 0.5:
            self.shared.repeat_write()
            return
        self.shared.end_write(is_stored=is_stored)
        now = [each for each in self.waiting if each[0] < self.write]
        self.waiting = [each for each in self.waiting if each[0] >= self.write]
        for _, answers in now:
            self.settle(answers, is_stored=is_stored)

    def fail_over(self) -> None:
        """A new leader knows what is stored; an open write may be, without an answer."""
        if self.writing is not None and self.rng.random() < 0.5:
            self.stored = self.writing
        self.writing, self.waiting, self.write = None, [], 0
        for row in self.rows.values():
            row.member_id, row.lock_end_ms = "", -1
        self.shared = SharePartition(self.stored, LIMITS)

    def step(self) -> None:
        member_id = self.rng.choice("abc")
        kind = self.rng.random()
        if kind < 0.3:
            self.fetch(member_id)
        elif kind < 0.6:
            self.answer(member_id)
        elif kind < 0.85:
            self.store()
        elif kind < 0.93:
            self.now_ms += self.rng.choice((1, 30, 120))
            self.shared.expire(self.now_ms)
        elif kind < 0.96:
            self.shared.release_all(member_id)
            for row in self.rows.values():
                if row.member_id == member_id:
                    row.member_id, row.lock_end_ms = "", -1
        elif kind < 0.98:
            self.fail_over()
        elif self.batches:
            del self.batches[self.rng.randrange(len(self.batches))]  # compacted
        self.check()

    def check(self) -> None:
        spans = self.shared.spans
        at = self.shared.start_offset
        for each in spans:
            assert each.first == at
            assert each.last >= each.first
            at = each.last + 1
        assert at == self.shared.end_offset

    def finish(self) -> None:
        """Everybody is patient now: every record gets finished."""
        for _ in range(2_000):
            self.now_ms += 200
            self.shared.expire(self.now_ms)
            while self.writing is not None or self.shared.must_write:
                self.store()
            got = get(self.shared, *self.batches, now_ms=self.now_ms)
            for each in got:
                say(self.shared, each.first, each.last, ACCEPT)
            end = self.batches[-1][1] + 1 if self.batches else 0
            if not got and self.shared.start_offset >= end:
                return
        raise AssertionError(f"stuck at {self.shared.start_offset}: {self.shared.spans}")


@pytest.mark.parametrize("seed", range(200))
def test_promises_hold_in_any_order_of_events(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(400):
        world.step()
    world.finish()


def test_record_is_archived_when_the_lock_of_its_last_delivery_ends() -> None:
    shared = new()
    for count in (1, 2, 3):
        assert get(shared, (0, 0), now_ms=count * 100) == [Acquired(0, 0, count)]
        assert shared.expire((count + 1) * 100)
    assert shared.start_offset == 1
    assert shared.must_write
