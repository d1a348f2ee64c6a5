"""The header `journal.moved` of records that a move has written. Values only.

A copy has its original's place and the move, so that a restarted move finds its own copies. The
purge that ends a journal in its old partition has the new partition, so that readers of the old one
get a clear error.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from josefine_journal.json_text import compact

MOVED_HEADER = "journal.moved"

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move from one partition count to another."""

    count_before: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The header of a copy: the place of its original."""

    move: Move
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The header of the purge that ends a journal in its old partition."""

    move: Move
    partition: int
    """The journal's new partition."""


def encode_moved(moved: Copied | Left) -> bytes:
    """The header's value."""
    move = {"from": moved.move.count_before, "to": moved.move.count}
    if isinstance(moved, Left):
        return compact({**move, "left": moved.partition}).encode()
    return compact({**move, "partition": moved.partition, "offset": moved.offset}).encode()


def moved_of(headers: Headers) -> Copied | Left | None:
    """The header's value; None: the record was not moved, or the header is foreign."""
    for name, value in headers:
        if name != MOVED_HEADER:
            continue
        try:
            fields = json.loads(value or b"")
            move = Move(count_before=int(fields["from"]), count=int(fields["to"]))
            if "left" in fields:
                return Left(move=move, partition=int(fields["left"]))
            partition, offset = int(fields["partition"]), int(fields["offset"])
            return Copied(move=move, partition=partition, offset=offset)
        except (ValueError, KeyError, TypeError):
            return None
    return None
