"""The header `journal.moved`: which record of an old partition another one stands for. Values only.

A copy says where it is from, and by which move, so that a move which died finds what it has copied;
the purge that ends a journal in its old partition says where it went, so that who still looks there
is told.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from josefine_journal.json_text import compact

MOVED_HEADER = "journal.moved"

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """From one number of partitions to another."""

    count_before: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy stands for."""

    move: Move
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a purge says that ends a journal in its old partition."""

    move: Move
    partition: int
    """Where it went."""


def encode_moved(moved: Copied | Left) -> bytes:
    """The header's value."""
    move = {"from": moved.move.count_before, "to": moved.move.count}
    if isinstance(moved, Left):
        return compact({**move, "left": moved.partition}).encode()
    return compact({**move, "partition": moved.partition, "offset": moved.offset}).encode()


def moved_of(headers: Headers) -> Copied | Left | None:
    """None: the record was not moved, or the header is somebody else's."""
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
