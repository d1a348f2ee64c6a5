"""The bound on a table's files: when small ones are rewritten, and which of them together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

FILE_BYTES = 64 << 20
FILES_MAX = 20
GROUPS_MAX = 8
"""Of one rewrite: the topic's next rows wait for it, also if somebody adopted a table of many small
files. The next commit continues."""


class Sized(Protocol):
    """A data file."""

    @property
    def size(self) -> int: ...


File = TypeVar("File", bound=Sized)


def is_due(files: int, bytes_: int) -> bool:
    """Whether a table has more files than its size and the bound allow. A commit adds one file, so
    the rewrite starts before the bound is passed."""
    return files >= bytes_ // FILE_BYTES + FILES_MAX


def groups(files: Iterable[File], file_bytes: int) -> list[list[File]]:
    """The small files to make one of each, in their order: an archive's stay sorted by time. A
    group is full once it is large enough, so that all but one of the new files are."""
    found: list[list[File]] = []
    waiting: list[File] = []
    for each in files:
        if each.size >= file_bytes:
            continue
        waiting.append(each)
        if sum(one.size for one in waiting) >= file_bytes:
            found.append(waiting)
            waiting = []
    found.append(waiting)
    return [each for each in found if len(each) > 1][:GROUPS_MAX]
