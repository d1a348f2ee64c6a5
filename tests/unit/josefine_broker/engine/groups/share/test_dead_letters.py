"""Dead letters of a share partition: what is due when, over random histories with deaths of the
leader; and what a letter says."""

from __future__ import annotations

from random import Random

import pytest

from josefine_broker.engine.groups.share.dead_letters import (
    EXHAUSTED,
    REJECTED,
    Letter,
    Origin,
    build_letters,
    letters_of,
)
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.spans import Span
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.stored import written
from josefine_broker.engine.groups.share.values import (
    Ack,
    AckType,
    Found,
    Limits,
    ShareState,
    StateBatch,
)
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records

LIMITS = Limits(lock_ms=100, deliveries_max=2, locks_max=20, has_dead_letters=True)
ORIGIN = Origin("orders", 3, "readers")
A = "a"
_ = RecordState


def new(*batches: StateBatch) -> SharePartition:
    return SharePartition(ShareState(start_offset=0, batches=batches), LIMITS)


def get(shared: SharePartition, last: int, now_ms: int = 0) -> None:
    at = shared.read_offset
    if at is not None:
        shared.acquire(A, at, [Found(0, last)], now_ms, records_max=100)


def due(shared: SharePartition, count: int = 100) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in shared.letters_due(count)]


def store(shared: SharePartition, *, is_stored: bool = True) -> ShareState:
    state = shared.begin_write()
    shared.end_write(is_stored=is_stored)
    return state


def test_letter_of_a_rejected_record_is_due_when_that_is_stored() -> None:
    shared = new()
    get(shared, 4)
    shared.acknowledge(A, [Ack(1, 2, [AckType.REJECT])], 0)
    assert due(shared) == []
    store(shared, is_stored=False)
    assert due(shared) == []
    shared.acknowledge(A, [Ack(1, 2, [AckType.REJECT])], 0)
    state = store(shared)
    assert StateBatch(1, 2, _.ARCHIVING, 1) in state.batches
    assert (due(shared), due(shared, 1)) == ([(1, 2)], [(1, 1)])
    assert not shared.is_idle
    shared.end_letters(1, 1)
    assert due(shared) == [(2, 2)]
    assert StateBatch(1, 1, _.ARCHIVED, 1) in store(shared).batches


def test_letter_of_an_exhausted_record_is_due_when_that_is_stored() -> None:
    shared = new(StateBatch(0, 0, _.AVAILABLE, 1))
    get(shared, 0)
    shared.begin_write()
    assert shared.expire(200) == 1
    # The open write knows nothing of it.
    shared.end_write(is_stored=True)
    assert due(shared) == []
    store(shared, is_stored=False)
    assert due(shared) == []
    store(shared)
    assert due(shared) == [(0, 0)]
    # Or the next session would begin anew, and write its letter once more.
    assert not shared.is_idle
    shared.end_letters(0, 0)
    assert shared.start_offset == 1


def test_record_whose_limit_was_lowered_gets_a_letter() -> None:
    shared = new(StateBatch(0, 0, _.AVAILABLE, 2))
    get(shared, 1)
    store(shared)
    assert due(shared) == [(0, 0)]


def test_gap_and_accepted_record_get_none() -> None:
    shared = new()
    get(shared, 1)
    shared.acknowledge(A, [Ack(0, 1, [AckType.GAP, AckType.ACCEPT])], 0)
    store(shared)
    assert due(shared) == []
    assert shared.start_offset == 2


def test_archiving_record_is_nothing_but_finished_by_a_late_write() -> None:
    before = ShareState(start_offset=0, batches=(StateBatch(0, 3, _.ARCHIVING, 1),))
    late = ShareState(
        start_offset=0,
        batches=(StateBatch(0, 1, _.AVAILABLE, 0), StateBatch(2, 2, _.ARCHIVED, 1)),
    )
    after = written(late)(before)
    assert after is not None
    assert after.batches == (
        StateBatch(0, 1, _.ARCHIVING, 1),
        StateBatch(2, 2, _.ARCHIVED, 1),
        StateBatch(3, 3, _.ARCHIVING, 1),
    )
    finished = ShareState(start_offset=0, batches=(StateBatch(0, 3, _.ACKNOWLEDGED, 1),))
    assert written(late)(finished).batches == finished.batches  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_archived_has_a_letter_and_nothing_else_has(seed: int) -> None:
    """Random answers, ends of locks, failures of writes, and leaders that die at any point."""
    rng = Random(seed)
    end, now_ms = 40, 0
    shared, stored = new(), ShareState(start_offset=0)
    letters: list[int] = []
    accepted: set[int] = set()
    for _step in range(600):
        now_ms += rng.randrange(30)
        what = rng.randrange(7)
        if what == 0:
            get(shared, end, now_ms)
        elif what == 1:
            held = [each for each in shared.spans if each.is_locked]
            if held:
                span = rng.choice(held)
                first = rng.randint(span.first, span.last)
                last = rng.randint(first, span.last)
                answer = rng.choice([AckType.ACCEPT, AckType.RELEASE, AckType.REJECT])
                shared.acknowledge(A, [Ack(first, last, [answer])], now_ms)
        elif what == 2:
            shared.expire(now_ms)
        elif what == 3 and shared.must_write:
            state = shared.begin_write()
            is_stored = rng.random() < 0.8
            if is_stored:
                after = written(state)(stored)
                assert after is not None
                stored = after
            # An answer that is lost leaves it stored all the same.
            shared.end_write(is_stored=is_stored and rng.random() < 0.8)
        elif what == 4:
            for first, last in due(shared, rng.randint(1, 5)):
                letters += range(first, last + 1)
                if rng.random() < 0.7:
                    shared.end_letters(first, last)
        elif what == 5 and rng.random() < 0.2:
            stored = stored._replace(leader_epoch=stored.leader_epoch + 1)
            shared = SharePartition(stored, LIMITS)
        accepted |= {
            offset
            for each in shared.spans
            if each.state is RecordState.ACKNOWLEDGED
            for offset in range(each.first, each.last + 1)
        }
        assert not accepted & set(letters)
        for each in stored.batches:
            if each.state is RecordState.ARCHIVED:
                assert set(range(each.first, each.last + 1)) <= set(letters)
    assert letters


def test_letters_fit_in_their_topic() -> None:
    letters = [Letter(n, 1, REJECTED) for n in range(5)]
    copies = {0: Record(b"k", b"x" * 500), 1: Record(b"k", b"y" * 9_000), 2: Record(None, b"z")}
    batch, count = build_letters(ORIGIN, letters, copies, 77, 1_000)
    assert (count, len(batch) <= 1_000) == (1, True)
    batch, count = build_letters(ORIGIN, letters[1:], copies, 77, 1_000)
    found = list(read_records(batch))
    assert (len(found), len(batch) <= 1_000) == (count, True)
    # Too large to be copied, and named all the same.
    assert (found[0].key, found[0].value, found[0].headers[2]) == (
        None,
        None,
        ("__dlq.errors.offset", b"1"),
    )
    assert found[1].value == b"z"
    assert {each.timestamp_ms for each in found} == {77}


def test_reason_is_known_or_follows_from_the_count() -> None:
    spans = [
        Span(0, 1, _.ARCHIVING, 2, is_rejected=True),
        Span(2, 2, _.ARCHIVING, 2),
        Span(3, 3, _.ARCHIVING, 1),
    ]
    assert letters_of(spans, 2) == [
        Letter(0, 2, REJECTED),
        Letter(1, 2, REJECTED),
        Letter(2, 2, EXHAUSTED),
        Letter(3, 1, REJECTED),
    ]
