"""What is remembered of journals is of one log, and bounded."""

from uuid import UUID

from josefine_journal.events import SeqNr
from josefine_journal.reduction import Last
from josefine_journal.remembered import Folded, Remembered

ONE, OTHER = UUID(int=1), UUID(int=2)
FOLDED = Folded(end_offset=7, last=Last(seq_nr=SeqNr(3), offset=2))


def test_what_is_remembered_is_of_one_topic_and_of_a_log_that_reaches_so_far() -> None:
    remembered = Remembered()

    remembered.put(b"a", ONE, FOLDED)

    assert remembered.get(b"a", ONE, 7) == FOLDED
    assert remembered.get(b"a", ONE, 6) is None
    assert remembered.get(b"a", OTHER, 7) is None
    assert remembered.get(b"a", None, 7) is None
    assert remembered.get(b"b", ONE, 7) is None
    remembered.forget(b"a")
    remembered.forget(b"b")
    assert remembered.get(b"a", ONE, 7) is None


def test_the_journal_that_was_not_asked_for_longest_is_forgotten_first() -> None:
    remembered = Remembered(journals_max=2)
    remembered.put(b"a", ONE, FOLDED)
    remembered.put(b"b", ONE, FOLDED)
    remembered.get(b"a", ONE, 7)

    remembered.put(b"c", ONE, FOLDED)

    there = [key for key in (b"a", b"b", b"c") if remembered.get(key, ONE, 7) is not None]
    assert there == [b"a", b"c"]
