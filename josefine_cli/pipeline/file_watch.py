"""The watch over a pipeline file and the files that it names: when a save is complete.

Rules: an editor may write a file several times or replace it, so a change counts once two looks in
a row see the same; a file that is missing for a moment is not complete; a save during a round
starts another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

Signature = Mapping[Path, tuple[int, int, int] | None]
"""File → (time of change, size, inode); None: it is missing."""

_NAME = re.compile(r"[^\s\"'`:,{}\[\]()]+\.\w+")
"""What may be the name of a file in YAML: schemas, Python functions, records."""


class Watch:
    """The files at the last round and at the last look. Mutable."""

    def __init__(self, at_round: Signature) -> None:
        self._at_round = at_round
        self._last = at_round

    def is_saved(self, now: Signature) -> bool:
        """Whether a complete save came after the last round; a new round starts with it."""
        is_steady, self._last = now == self._last, now
        if not is_steady or None in now.values() or now == self._at_round:
            return False
        self._at_round = now
        return True


def signature_of(file: Path) -> Signature:
    """The file and each file that its text names, by the path from its folder."""
    found = {file: _state(file)}
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for name in _NAME.findall(text):
        path = file.parent / name
        try:
            if path not in found and path.is_file():
                found[path] = _state(path)
        except (OSError, ValueError):
            continue  # too long, or no file name at all
    return found


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def watch(
    look: Callable[[], Signature], pause: Callable[[], bool], do: Callable[[int], None]
) -> None:
    """Do round 1, and another one after each save, until `pause` returns False.

    `do` gets the number of the round and raises nothing that should not end the loop.
    """
    number, files = 1, look()
    watched = Watch(files)
    do(number)
    while pause():
        if watched.is_saved(look()):
            number += 1
            do(number)
