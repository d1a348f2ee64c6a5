"""The stored state of a share partition: who may change it, what survives, and its bytes."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.state_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from josefine_broker.engine.groups.share.states import FINAL, RecordState
from josefine_broker.engine.groups.share.stored import initialized, read, written
from josefine_broker.engine.groups.share.values import (
    Ack,
    AckType,
    Found,
    Limits,
    ShareKey,
    ShareState,
    StateBatch,
)

KEY = ShareKey("g", UUID(int=7), 3)
AVAILABLE, DONE, ARCHIVED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def state(start: int, *batches: StateBatch, leader: int = 1, epoch: int = 0) -> ShareState:
    return ShareState(epoch, leader, start, batches, 0)


def rows(of: ShareState) -> dict[int, tuple[RecordState, int]]:
    """The state by offset."""
    return {
        offset: (each.state, each.deliveries)
        for each in of.batches
        for offset in range(each.first, each.last + 1)
    }


def test_batches_replace_what_is_stored_of_their_records() -> None:
    before = state(0, StateBatch(0, 9, AVAILABLE, 1))
    after = written(state(0, StateBatch(3, 5, DONE, 2)))(before)
    assert after is not None
    assert after.batches == (
        StateBatch(0, 2, AVAILABLE, 1), StateBatch(3, 5, DONE, 2), StateBatch(6, 9, AVAILABLE, 1)
    )  # fmt: skip
    assert after.complete_count == 3


@pytest.mark.parametrize("seed", range(50))
def test_what_is_finished_stays_so_in_any_order_of_writes(seed: int) -> None:
    """A write may be on its way for long, and come after later ones of the same leader."""
    rng = Random(seed)
    known = state(0)
    finished: set[int] = set()
    for _ in range(20):
        at, batches = rng.randint(0, 5), list[StateBatch]()
        for _ in range(rng.randint(0, 5)):
            last = at + rng.randint(0, 4)
            kind = rng.choice((AVAILABLE, DONE, ARCHIVED))
            batches.append(StateBatch(at, last, kind, rng.randint(1, 3)))
            at = last + 1 + rng.randint(0, 2)
        start = rng.randint(0, 4)
        after = written(state(start, *batches))(known)
        assert after is not None
        assert after.start_offset >= known.start_offset
        found = rows(after)
        assert len(found) == sum(each.last - each.first + 1 for each in after.batches)
        assert min(found, default=after.start_offset) >= after.start_offset
        finished |= {offset for offset, each in rows(state(start, *batches)).items()
                     if each[0] in FINAL}  # fmt: skip
        for offset in finished:
            assert offset < after.start_offset or found[offset][0] in FINAL
        known = after


def test_older_leaders_and_state_epochs_are_fenced() -> None:
    before = state(5, leader=3, epoch=2)
    for change in (read(2), written(state(5, leader=2, epoch=2))):
        with pytest.raises(KafkaError) as refused:
            change(before)
        assert refused.value.code is ErrorCode.fenced_leader_epoch
    for change in (initialized(1, 0), written(state(5, leader=3, epoch=1))):
        with pytest.raises(KafkaError) as refused:
            change(before)
        assert refused.value.code is ErrorCode.fenced_state_epoch
    assert read(3)(before) is before
    assert read(4)(before) == before._replace(leader_epoch=4)


def test_write_does_not_bring_back_what_was_deleted() -> None:
    with pytest.raises(KafkaError) as refused:
        written(state(5))(None)
    assert refused.value.code is ErrorCode.invalid_request


def test_records_are_read_as_they_were_written() -> None:
    stored = state(5, StateBatch(5, 6, AVAILABLE, 2), StateBatch(7, 9, DONE, 1), leader=4, epoch=3)
    assert decode_key(encode_key(KEY)) == KEY
    for each in (stored, stored._replace(complete_count=-1), ShareState()):
        assert decode_value(encode_value(each, 99)) == each


def test_records_are_those_of_kafka() -> None:
    """Bytes that the classes of kafka-share-coordinator 4.4.0 made of the same fields."""
    key = ShareKey("readers", UUID(int=(1 << 64) + 2), 7)
    assert encode_key(key).hex() == (
        "00000007726561646572730000000000000001000000000000000200000007"
    )
    batches = (
        StateBatch(1000, 1004, AVAILABLE, 2),
        StateBatch(1005, 1007, DONE, 1),
        StateBatch(1010, 1011, ARCHIVED, 5),
    )
    fields = (
        "0000"  # version
        "00000000"  # snapshot epoch
        "00000003"  # state epoch
        "00000009"  # leader epoch
        "00000000000003e8"  # start offset
        "0000018bcfe56800"  # created
        "0000018bcfe56800"  # written
        "04"  # three batches
        "00000000000003e8" "00000000000003ec" "00" "0002" "00"
        "00000000000003ed" "00000000000003ef" "02" "0001" "00"
        "00000000000003f2" "00000000000003f3" "04" "0005" "00"
    )  # fmt: skip
    for count, tags in ((-1, "00"), (5, "01000400000005")):
        stored = ShareState(3, 9, 1000, batches, count)
        assert encode_value(stored, 1_700_000_000_000).hex() == fields + tags
        assert decode_value(bytes.fromhex(fields + tags)) == stored


def test_damaged_records_are_refused() -> None:
    key, value = encode_key(KEY), encode_value(state(5, StateBatch(5, 6, DONE, 2)), 99)
    for cut in range(len(value)):
        with pytest.raises(CorruptData):
            decode_value(value[:cut])
    for cut in range(len(key)):
        with pytest.raises(CorruptData):
            decode_key(key[:cut])
    with pytest.raises(CorruptData):
        decode_value(b"\0\x09" + value[2:])
    with pytest.raises(CorruptData, match="difference"):
        decode_key(b"\0\x01" + key[2:])
    assert decode_key(b"\0\x07" + key[2:]) is None


@pytest.mark.parametrize("seed", range(50))
def test_late_and_repeated_writes_of_a_leader_take_nothing_back(seed: int) -> None:
    """The writes of one leader come in any order, some of them twice: in the end each record is as
    far as in the furthest of them, and never less far in between."""
    rng = Random(seed)
    shared = SharePartition(state(0), Limits(deliveries_max=3, has_dead_letters=seed % 2 == 0))
    writes = [shared.begin_write()]
    shared.end_write(is_stored=True)
    for now_ms in range(0, rng.randint(3, 12) * 10_000, 10_000):
        shared.acquire(
            "a", 0, [Found(0, 19)], now_ms, records_max=rng.randint(1, 9), is_strict=True
        )
        for each in [span for span in shared.spans if span.is_locked and rng.random() < 0.5]:
            ack = rng.choice((AckType.ACCEPT, AckType.REJECT, *[AckType.RELEASE] * 4))
            shared.acknowledge("a", [Ack(each.first, each.last, [ack])], now_ms)
        if rng.random() < 0.1:
            shared.release_all("a")
        shared.expire(now_ms)
        writes.append(shared.begin_write())
        shared.end_write(is_stored=rng.random() < 0.8)
        for each in shared.letters_due(5):
            shared.end_letters(each.first, each.last)

    def progress(of: ShareState) -> list[tuple[int, int]]:
        known, done = rows(of), (2, 0)
        found = [known.get(offset, (AVAILABLE, 0)) for offset in range(20)]
        return [
            done if at < of.start_offset or each[0] in FINAL
            else (int(each[0] is RecordState.ARCHIVING), each[1])
            for at, each in enumerate(found)
        ]  # fmt: skip

    late = rng.sample(writes, len(writes)) + rng.choices(writes, k=10)
    after = state(0)
    for write in late:
        before, changed = progress(after), written(write)(after)
        assert changed is not None
        assert changed.start_offset >= after.start_offset
        after = changed
        assert progress(after) == list(map(max, before, progress(write)))
    assert progress(after) == [max(each) for each in zip(*map(progress, writes), strict=True)]


def test_late_write_of_a_deleted_state_does_not_bring_it_back() -> None:
    """Its group started again, without offsets: the old start would skip records."""
    again = read(1)(None)
    assert again is not None
    with pytest.raises(KafkaError) as refused:
        written(state(100, epoch=1))(again)
    assert refused.value.code is ErrorCode.invalid_request


def test_late_repetition_of_an_alteration_does_not_undo_what_came_after_it() -> None:
    altered = initialized(3, 7)(state(50, StateBatch(52, 59, DONE, 1), epoch=2))
    assert altered == state(7, epoch=3)
    # Nobody has used it: the answer of the first one may have been lost.
    assert initialized(3, 7)(altered) is altered
    used = written(state(7, StateBatch(8, 9, DONE, 1), epoch=3))(altered)
    for start, stored in ((7, used), (8, altered)):
        with pytest.raises(KafkaError) as refused:
            initialized(3, start)(stored)
        assert refused.value.code is ErrorCode.fenced_state_epoch
    assert initialized(0, 7)(read(1)(None)) == state(7)
