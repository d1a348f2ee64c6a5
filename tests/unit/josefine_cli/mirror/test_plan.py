"""What a mirror appends next, and when it stops."""

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.records.batch import iter_batches, stamp
from josefine_cli.mirror.plan import (
    EMPTY_OFFSETS_MAX,
    Append,
    Ends,
    Verdict,
    Why,
    append_failed,
    attach,
    check_tail,
    continue_with,
    fetch_failed,
    fill,
    group_moves,
    is_without_records,
    tail_of,
)
from tests.unit.josefine_broker.api.world import batch_of

TP = TopicPartition("t", 0)


def at(offset: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch as a log has it."""
    batch = bytearray(batch_of(*values))
    stamp(batch, 0, offset, LeaderEpoch(epoch))
    return bytes(batch)


def offsets_of(append: Append | Verdict | None) -> list[tuple[int, int, int]]:
    """Base offset, end offset and records of each batch to append."""
    assert isinstance(append, Append)
    data = memoryview(b"".join(append.parts))
    return [(h.base_offset, h.end_offset, h.record_count) for _, h in iter_batches(data)]


def why(found: object) -> Why | None:
    return found.why if isinstance(found, Verdict) else None


def test_complete_batches_are_appended_as_they_are() -> None:
    data = at(5, b"a", b"b") + at(7, b"c", epoch=3)
    found = continue_with(5, memoryview(data + at(8, b"d")[:40]))
    assert isinstance(found, Append)
    assert b"".join(found.parts) == data
    assert (found.position, found.epochs[0].epoch, found.epochs[-1].epoch) == (8, 0, 3)


def test_only_a_part_of_a_batch_is_nothing_yet() -> None:
    assert continue_with(5, memoryview(at(5, b"a")[:30])) is None
    assert continue_with(5, memoryview(b"")) is None


def test_gaps_become_batches_without_records() -> None:
    found = continue_with(5, memoryview(at(9, b"a") + at(12, b"b")))
    assert offsets_of(found) == [(5, 9, 0), (9, 10, 1), (10, 12, 0), (12, 13, 1)]


def test_gap_of_more_offsets_than_a_batch_can_have() -> None:
    end = 2 * EMPTY_OFFSETS_MAX + 7
    data = memoryview(b"".join(fill(0, end)))
    spans = [(h.base_offset, h.end_offset) for _, h in iter_batches(data)]
    assert spans[0] == (0, EMPTY_OFFSETS_MAX)
    assert spans[-1] == (2 * EMPTY_OFFSETS_MAX, end)
    assert is_without_records(data, end)
    assert not is_without_records(data, end + 1)


def test_batch_that_starts_before_the_position_is_of_another_history() -> None:
    assert why(continue_with(6, memoryview(at(5, b"a", b"b")))) is Why.DIFFERENT


def test_old_message_format_stops_the_mirror() -> None:
    old = bytearray(at(5, b"a"))
    old[16] = 1
    assert why(continue_with(5, memoryview(old))) is Why.OLD_FORMAT


def test_unreadable_batch_stops_the_mirror_after_those_before_it() -> None:
    bad = bytearray(at(6, b"b"))
    bad[16] = 9
    assert offsets_of(continue_with(5, memoryview(at(5, b"a") + bad))) == [(5, 6, 1)]
    assert why(continue_with(6, memoryview(bad))) is Why.REFUSED


def test_where_a_mirror_may_continue() -> None:
    assert attach(Ends(3, 9), Ends(0, 9), is_blank=False) is None
    assert attach(Ends(3, 9), Ends(0, 3), is_blank=False) is None
    assert why(attach(Ends(3, 9), Ends(0, 2), is_blank=False)) is Why.DELETED
    assert attach(Ends(3, 9), Ends(0, 2), is_blank=True) is None
    assert why(attach(Ends(3, 9), Ends(0, 10), is_blank=False)) is Why.SHORTER


def test_fetch_outside_of_the_source_tells_which_side_moved() -> None:
    out_of_range = ErrorCode.offset_out_of_range
    assert why(fetch_failed(out_of_range, 2, Ends(3, 9))) is Why.DELETED
    assert why(fetch_failed(out_of_range, 10, Ends(3, 9))) is Why.SHORTER
    assert fetch_failed(out_of_range, 5, Ends(3, 9)) is None
    assert why(fetch_failed(ErrorCode.topic_authorization_failed, 5, Ends(3, 9))) is Why.REFUSED


def test_refused_append_has_the_brokers_words() -> None:
    found = append_failed(ErrorCode.policy_violation, "another one does")
    assert found.why is Why.FENCED
    assert str(found).startswith("another one does: ")
    assert append_failed(ErrorCode.invalid_record, "x").why is Why.DIFFERENT
    assert append_failed(ErrorCode.topic_authorization_failed, "x").why is Why.REFUSED


@pytest.mark.parametrize(
    ("theirs", "ours", "copied", "moves"),
    [
        (7, None, None, True),
        (7, 5, 5, True),
        (7, 5, None, True),
        (7, 7, 7, False),
        (0, None, None, True),
        (3, 5, 5, True),  # moved back at the source
        (3, 5, None, False),  # whoever moved it further: it is read here already
        (3, 6, 5, False),
    ],
)
def test_group_that_reads_here_already_is_not_moved_back(
    theirs: int, ours: int | None, copied: int | None, moves: bool
) -> None:
    there, here, before = (
        {} if offset is None else {TP: offset} for offset in (theirs, ours, copied)
    )
    assert group_moves(there, here, before) == ({TP: theirs} if moves else {})


def test_source_is_recognized_by_the_last_batch_whatever_its_epoch() -> None:
    tail = tail_of(memoryview(at(3, b"x") + at(5, b"a", b"b", epoch=7)), 7)
    assert tail is not None
    assert tail.base_offset == 5
    assert check_tail(memoryview(at(5, b"a", b"b", epoch=2)), tail, compacts=False) is None
    other = memoryview(at(5, b"a", b"c"))
    assert why(check_tail(other, tail, compacts=False)) is Why.DIFFERENT
    moved = memoryview(at(4, b"a", b"b"))
    assert why(check_tail(moved, tail, compacts=True)) is Why.DIFFERENT
    assert why(check_tail(memoryview(b""), tail, compacts=False)) is Why.DIFFERENT


def test_compacted_source_may_have_removed_the_last_batch() -> None:
    tail = tail_of(memoryview(at(5, b"a", b"b")), 7)
    assert tail is not None
    assert check_tail(memoryview(at(9, b"z")), tail, compacts=True) is None
    assert check_tail(memoryview(at(5, b"a", b"c")), tail, compacts=True) is None
    assert why(check_tail(memoryview(at(9, b"z")), tail, compacts=False)) is Why.DIFFERENT


def test_batch_without_records_is_no_mark_of_the_source() -> None:
    assert tail_of(memoryview(b"".join(fill(0, 7))), 7) is None
    assert tail_of(memoryview(at(5, b"a")), 7) is None
