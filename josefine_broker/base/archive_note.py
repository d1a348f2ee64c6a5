"""The metadata of the group offsets by which the archive's writer reports to brokers what it has.

`look` changes with each look of the writer at the archive: a broker that sees it change knows that
somebody has just found the archive whole, without comparing clocks.
"""

import json
from dataclasses import dataclass

ARCHIVE_GROUP = "josefine-archive"
"""The group with the offsets that archives have reached. It has no members."""
STOPPED_CHARS_MAX = 600
"""Brokers refuse metadata over 4,096 bytes; a character has at most four, or six as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveNote:
    """`table_id`: of the Delta table. `stopped`: why the writer does not continue; empty if it
    does."""

    topic_id: str
    table_id: str
    look: int
    stopped: str = ""

    def text(self) -> str:
        """The metadata of a committed offset."""
        fields = {
            "topic_id": self.topic_id,
            "table_id": self.table_id,
            "look": self.look,
            "stopped": self.stopped[:STOPPED_CHARS_MAX],
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
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
