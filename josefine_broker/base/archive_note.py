"""The metadata of the group offsets by which the archive's writer reports to brokers what it has.

`look` changes with each look of the writer at the archive: a broker that sees it change knows that
somebody has just found the archive whole, without comparing clocks. The newest archived record
shows whether the log still has what the archive has: another one has another leader epoch.
"""

import json
from dataclasses import dataclass
from typing import NamedTuple

ARCHIVE_GROUP = "josefine-archive"
"""The group with the offsets that archives have reached. It has no members."""
STOPPED_CHARS_MAX = 600
"""Brokers refuse metadata over 4,096 bytes; a character has at most four, or six as JSON."""


class ArchivedRecord(NamedTuple):
    """The place of a record, and the leader epoch that wrote it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveNote:
    """`table_id`: of the Delta table. `stopped`: why the writer does not continue; empty if it
    does. `last`: the partition's newest archived record; None if it is not known."""

    topic_id: str
    table_id: str
    look: int
    stopped: str = ""
    last: ArchivedRecord | None = None

    def text(self) -> str:
        """The metadata of a committed offset."""
        fields = {
            "topic_id": self.topic_id,
            "table_id": self.table_id,
            "look": self.look,
            "stopped": self.stopped[:STOPPED_CHARS_MAX],
            **({} if self.last is None else {"last": [*self.last]}),
        }
        return json.dumps(fields)


def archive_note(text: str) -> ArchiveNote | None:
    """The note in a committed offset's metadata; None if there is none."""
    try:
        found = json.loads(text)
        return ArchiveNote(
            topic_id=str(found["topic_id"]),
            table_id=str(found["table_id"]),
            look=int(found["look"]),
            stopped=str(found["stopped"]),
            last=archived_record(found.get("last")),
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def archived_record(plain: object) -> ArchivedRecord | None:
    """The record of a pair in JSON. Raises ValueError, TypeError, OverflowError."""
    if plain is None:
        return None
    if not isinstance(plain, list):
        raise TypeError("expected a list")
    offset, leader_epoch = plain
    return ArchivedRecord(int(offset), int(leader_epoch))
