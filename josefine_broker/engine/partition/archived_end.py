"""The decision how far retention may go in an archived topic: what archive and table have.

Rules: nothing is deleted at or above the smallest end that was committed; without a fresh word of
the archive's writer nothing is deleted at all. The writer's word is fresh while its `look` changes,
by this broker's own clock: a writer that ended, or whose archive was dropped, stops to change it.
A look that changed while this broker heard nothing may be of any age, like the first one.
After an unclean election the log may have other records at archived offsets: nothing is deleted if
the newest archived record is not the log's.
Time is an argument. Pure.
"""

from collections.abc import Callable
from typing import NamedTuple

from josefine_broker.base.archive_note import ArchiveNote, archive_note

FRESH_MS = 60_000
"""How long a look at the archive counts."""
HEARD_MS = 10_000
"""The longest pause between two answers of the coordinator after which a new look is fresh."""
NOTHING = 0
"""No record may be deleted."""
START = "start `josefine archive run`"


class Committed(NamedTuple):
    """A committed offset of a group; -1: it has none."""

    offset: int
    metadata: str = ""


NONE = Committed(-1)


class Witness(NamedTuple):
    """What this broker has heard of one archive."""

    committed: Committed = NONE
    note: ArchiveNote | None = None
    looked_ms: int | None = None
    """When this broker saw a look change; None: never, so the look may be of any age."""
    heard_ms: int | None = None
    """When the coordinator answered last."""


class Bound(NamedTuple):
    """Retention may delete below `end`. `why`: why it may not go further; empty if nothing is
    wrong."""

    end: int
    why: str = ""


def heard(before: Witness, committed: Committed, now_ms: int) -> Witness:
    """The witness after one more answer of the group's coordinator."""
    note = archive_note(committed.metadata)
    known = before.note
    if note is None or known is None or note.topic_id != known.topic_id:
        return Witness(committed, note, None, now_ms)
    has_listened = before.heard_ms is not None and now_ms - before.heard_ms <= HEARD_MS
    is_fresh = note.look != known.look and has_listened
    return Witness(committed, note, now_ms if is_fresh else before.looked_ms, now_ms)


class LogPart(NamedTuple):
    """The committed records of a log: their offsets, and the leader epoch that wrote each."""

    start_offset: int
    end_offset: int
    epoch_of: Callable[[int], int]


def archived_end(witness: Witness, topic_id: str, now_ms: int, log: LogPart) -> Bound:
    """How far the archive allows to delete."""
    committed, note, looked_ms, _ = witness
    if committed.offset < 0:
        return Bound(NOTHING, f"the archive has nothing of this partition yet: {START}")
    if note is None:
        return Bound(NOTHING, f"the archive's offset has no valid note of its writer: {START}")
    if note.topic_id != topic_id:
        why = "the archive is of an earlier topic of this name: see `josefine archive status`"
        return Bound(NOTHING, why)
    if note.stopped:
        return Bound(NOTHING, f"the archive's writer stopped: {note.stopped}")
    if looked_ms is None or now_ms - looked_ms > FRESH_MS:
        return Bound(NOTHING, f"nobody has looked at the archive lately: {START}")
    if committed.offset > log.end_offset:
        # After an unclean election the archive has other records at these offsets.
        why = f"the archive ends at {committed.offset}, after the log's {log.end_offset}"
        return Bound(NOTHING, why)
    last = note.last
    # A record that retention has deleted was the archived one when it did.
    if last is not None and last.offset >= log.start_offset:
        epoch = log.epoch_of(last.offset)
        if epoch != last.leader_epoch:
            why = f"the log has another record at offset {last.offset} than the archive"
            return Bound(NOTHING, f"{why} (leader epoch {epoch}, not {last.leader_epoch})")
    return Bound(committed.offset)


def reported_end(witness: Witness, topic_id: str, end_offset: int) -> int:
    """The end that the archive's writer has reported last, for a reader who wants to know what is
    archived. A report may be old, because records stay archived while no writer runs."""
    committed, note, _, _ = witness
    if note is None or note.topic_id != topic_id or note.stopped:
        return NOTHING
    return committed.offset if 0 < committed.offset <= end_offset else NOTHING


def table_end(committed: Committed) -> Bound:
    """How far the topic's own table allows to delete. Its offset is committed after its rows, so it
    is never ahead of them; its metadata is the reason why its writer stopped."""
    if committed.metadata:
        return Bound(NOTHING, f"the topic's table stopped: {committed.metadata}")
    if committed.offset < 0:
        return Bound(NOTHING, "the topic's table has nothing yet: start `josefine tables run`")
    return Bound(committed.offset)


def smallest(bounds: list[Bound]) -> Bound:
    """The bound that all allow; the first reason counts."""
    why = next((each.why for each in bounds if each.why), "")
    return Bound(min(each.end for each in bounds), why)
