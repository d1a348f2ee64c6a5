"""The bound on a table's files: when small files are rewritten into larger ones. Pure."""

from __future__ import annotations

FILE_BYTES = 64 << 20
FILES_MAX = 20


def is_due(files: int, bytes_: int) -> bool:
    """Whether a table has more files than its size and the bound allow. A commit adds one file, so
    the rewrite starts before the bound is passed."""
    return files >= bytes_ // FILE_BYTES + FILES_MAX
