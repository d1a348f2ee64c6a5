"""How far retention may go in an archived topic."""

import pytest

from josefine_broker.base.archive_note import ArchivedRecord, ArchiveNote, archive_note
from josefine_broker.engine.partition.archived_end import (
    FRESH_MS,
    NONE,
    NOTHING,
    Bound,
    Committed,
    LogPart,
    Witness,
    archived_end,
    heard,
    smallest,
    table_end,
)

TOPIC = "topic-1"
LOG = LogPart(5, 20, lambda offset: 1 if offset < 12 else 3)
"""Another leader wrote the offsets from 12 on."""


def committed(
    offset: int,
    look: int,
    topic: str = TOPIC,
    stopped: str = "",
    last: tuple[int, int] | None = None,
) -> Committed:
    record = None if last is None else ArchivedRecord(*last)
    note = ArchiveNote(topic_id=topic, table_id="t", look=look, stopped=stopped, last=record)
    return Committed(offset, note.text())


def after(*answers: tuple[int, Committed]) -> Witness:
    """What a broker knows after these answers, each at its time."""
    witness = Witness()
    for now_ms, each in answers:
        witness = heard(witness, each, now_ms)
    return witness


LATE = 6 + FRESH_MS
FRESH = ((0, committed(10, 1)), (5, committed(20, 2)))


@pytest.mark.parametrize(
    ("witness", "now_ms", "end", "why"),
    [
        (Witness(), 0, NOTHING, "has nothing"),
        (after((0, NONE)), 0, NOTHING, "has nothing"),
        (after((0, Committed(10))), 0, NOTHING, "no valid note"),
        (after((0, Committed(10, '{"look": 1}'))), 0, NOTHING, "no valid note"),
        (after((0, committed(10, 1))), 0, NOTHING, "nobody has looked"),  # of any age
        (after((0, committed(10, 1)), (5, committed(20, 1))), 5, NOTHING, "nobody has looked"),
        (after(*FRESH), 5, 20, ""),
        (after(*FRESH), 5 + FRESH_MS, 20, ""),
        (after(*FRESH), 6 + FRESH_MS, NOTHING, "nobody has looked"),
        (after(*FRESH, (9, committed(20, 2))), 6 + FRESH_MS, NOTHING, "nobody has looked"),
        # A look that was made while nothing was heard may be old, as a dropped archive's is.
        (after(*FRESH, (LATE, committed(20, 3))), LATE, NOTHING, "nobody has looked"),
        (after(*FRESH, (LATE, committed(20, 3)), (LATE + 1, committed(20, 4))), LATE, 20, ""),
        (after(*FRESH, (9, committed(15, 3))), 9, 15, ""),  # a person set it back
        (after(*FRESH, (9, committed(20, 3, stopped="dropped"))), 9, NOTHING, "dropped"),
        (after(*FRESH, (9, committed(20, 3, "topic-0"))), 9, NOTHING, "earlier topic"),
        # Another topic's looks say nothing of this topic's archive.
        (after((0, committed(9, 1, "topic-0")), (5, committed(9, 2))), 5, NOTHING, "nobody"),
        (after(*FRESH, (9, NONE)), 9, NOTHING, "has nothing"),
        (after(*FRESH, (9, committed(21, 3))), 9, NOTHING, "ends at 21"),
        # The newest archived record is the log's, was deleted by retention, or is another one.
        (after(*FRESH, (9, committed(15, 3, last=(14, 3)))), 9, 15, ""),
        (after(*FRESH, (9, committed(12, 3, last=(11, 1)))), 9, 12, ""),
        (after(*FRESH, (9, committed(5, 3, last=(4, 0)))), 9, 5, ""),
        (after(*FRESH, (9, committed(15, 3, last=(14, 2)))), 9, NOTHING, "(leader epoch 3, not 2)"),
        (
            after(*FRESH, (9, committed(6, 3, last=(5, 0)))),
            9,
            NOTHING,
            "another record at offset 5",
        ),
    ],
)
def test_only_what_a_fresh_look_has_found_may_go(
    witness: Witness, now_ms: int, end: int, why: str
) -> None:
    bound = archived_end(witness, TOPIC, now_ms, LOG)

    assert bound.end == end
    assert why in bound.why
    assert bool(why) == bool(bound.why)


@pytest.mark.parametrize(
    ("offset", "end", "why"),
    [
        (NONE, NOTHING, "has nothing"),
        (Committed(7), 7, ""),
        (Committed(7, "offset 7: bad record"), NOTHING, "bad record"),
    ],
)
def test_table_that_stopped_or_has_nothing_is_waited_for(
    offset: Committed, end: int, why: str
) -> None:
    assert table_end(offset).end == end
    assert why in table_end(offset).why


def test_smallest_end_counts_and_the_first_reason() -> None:
    assert smallest([Bound(9), Bound(7)]) == Bound(7)
    assert smallest([Bound(9), Bound(NOTHING, "stopped")]) == Bound(NOTHING, "stopped")
    assert smallest([Bound(NOTHING, "a"), Bound(NOTHING, "b")]).why == "a"


ALL = '{"topic_id": "t", "table_id": "t", "look": 1, "stopped": "", "last": %s}'


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "7", "null", '{"topic_id": 1}', "[" * 5000, ALL % "[1]", ALL % "7", ALL % "{}"],
)
def test_metadata_of_others_is_no_note(text: str) -> None:
    assert archive_note(text) is None


def test_note_fits_into_a_committed_offset() -> None:
    last = ArchivedRecord(2**63, 2**31)
    note = ArchiveNote(
        topic_id="a" * 36, table_id="b" * 36, look=2**63, stopped="é" * 9000, last=last
    )

    assert len(note.text().encode()) <= 4096
    found = archive_note(note.text())
    assert found is not None
    assert found.last == last
