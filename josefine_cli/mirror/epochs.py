"""The source's leader epochs of a mirror's batches, which show whether the source still has them
when it has none of them to compare (KIP-101). Pure.

Rules: a note (offset, epoch) is made before the first batch of that epoch is appended, and again
while nothing is written and the source has another leader. It is made only when the source's log
was found to be the mirror's up to that offset, so a log with that epoch is too, up to the epoch's
end. Its batch may never have been appended, so a mirror that starts compares the noted checksum.
Batches at the target have the target's own epochs, so the notes are kept with the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from josefine_broker.records.batch import iter_batches
from josefine_cli.mirror.plan import Note, Verdict, Why

NO_EPOCH = -1


Notes = tuple[Note, ...]


class Answers(NamedTuple):
    """What the source knows of epochs."""

    start: int
    """Its log start."""
    first: int
    """The epoch at its log start; -1: unknown."""
    ends: Mapping[int, tuple[int, int]]
    """Epoch asked for → the largest one up to it, and where that ended."""


def parse(text: str) -> dict[int, Notes]:
    """By partition: the notes in the topic's config. Items that are none are left out."""
    found: dict[int, list[Note]] = {}
    for item in filter(None, text.split(",")):
        try:
            partition, offset, epoch, crc = map(int, item.split(":"))
        except ValueError:
            continue
        found.setdefault(partition, []).append(Note(offset, epoch, crc))
    return {partition: tuple(sorted(notes)) for partition, notes in found.items()}


def render(notes: Mapping[int, Notes]) -> str:
    """The config's text."""
    return ",".join(
        f"{partition}:{offset}:{epoch}:{crc}"
        for partition, each in sorted(notes.items())
        for offset, epoch, crc in each
    )


def noted(known: Notes, found: Iterable[Note]) -> Notes:
    """The notes with those of batches that come next; the same ones if no epoch is new. Of what is
    before, one note is kept, as the others can decide nothing any more. So is one of the same
    offset: the new batch may be refused, because the older one is here after all."""
    new = [each for each in found if each.epoch > NO_EPOCH]
    if not new:
        return known
    first = new[0]
    lower = [each for each in known if each.crc >= 0 and each.epoch <= first.epoch]
    last = [each for each in lower if each.offset < first.offset][-1:]
    if last and last[0].epoch == first.epoch:
        if len(new) == 1 and known[-1] == last[0]:
            return known
        del new[0]
    else:
        last += [n for n in lower if n.offset == first.offset and n.epoch < first.epoch][-1:]
    return (*last, *new)


def is_of(note: Note, target: memoryview) -> bool:
    """Whether the target's bytes from the note's offset on start with the batch that was noted."""
    header = next((header for _, header in iter_batches(target)), None)
    return header is not None and header.crc == note.crc


def to_ask(notes: Notes, end: int) -> list[int]:
    """The epochs to ask the source for: of a mirror that ends at `end`. Empty: nothing is noted of
    the batches that it has."""
    if not any(each.offset < end for each in notes):
        return []
    return [each.epoch for each in notes if each.offset <= end]


def check(notes: Notes, end: int, source: Answers) -> Verdict | None:
    """Whether the source's log is the mirror's up to `end`, by the answers to `to_ask`."""
    for note in reversed([each for each in notes if each.offset <= end]):
        epoch, epoch_end = source.ends[note.epoch]
        if epoch == note.epoch:
            if epoch_end < end:
                return _differs(note.epoch, epoch_end, end)
            # A source without the epoch answers with its log start, too.
            is_known = NO_EPOCH < source.first <= note.epoch
            if epoch_end == source.start and not is_known:
                return _unknown(end)
            return None
        if note.offset < end:
            return _differs(note.epoch, min(epoch_end, note.offset), end)
        # Nothing was written in this epoch: the one before it decides.
    return None


def _differs(epoch: int, epoch_end: int, end: int) -> Verdict:
    text = (
        f"the source's leader epoch {epoch} ends at offset {max(0, epoch_end)}, and the mirror has "
        f"its records to {end}"
    )
    return Verdict(Why.DIFFERENT, text)


def _unknown(end: int) -> Verdict:
    text = (
        f"the source has deleted everything before offset {end}, where the mirror ends, and has "
        "another leader since: whether it had the same records there is unknown"
    )
    return Verdict(Why.UNKNOWN, text)
