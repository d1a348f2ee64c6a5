"""Protocols between the deciding layers and the outside, only where two implementations exist.

The real ones are in `host/`; the simulated ones in `tests/simulation/`. The storage port is at the
level of file operations so that recovery, torn tails and indexes run in the simulator too.
"""

from collections.abc import Sequence
from typing import Protocol


class Clock(Protocol):
    """Time in milliseconds: `now_ms` since the Unix epoch, `monotonic_ms` never going back."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class File(Protocol):
    """An open file of a log. Positions and sizes in bytes."""

    def write_at_end(self, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        """Append all buffers, return the position of the first byte. Raises OSError."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make every byte written so far durable (fdatasync)."""
        ...

    def hold(self) -> int:
        """The descriptor, which stays open until `release`, even if the file is closed. Raises
        OSError."""
        ...

    def release(self, descriptor: int) -> None: ...

    def begin_sync(self) -> int:
        """Like `sync`, but another part calls fdatasync on this descriptor, and nobody else syncs
        the file before `end_sync`. Raises OSError."""
        ...

    def end_sync(self, descriptor: int, error: int, elapsed_ns: int) -> None:
        """That call is over; `error` is its errno, or 0. Raises the OSError of an error."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """The file operations that a log needs, below one root directory; paths are relative to it."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; empty when it does not exist."""
        ...

    def make_directory(self, directory: str) -> None:
        """An existing directory is no error; durable once its parent is synced."""
        ...

    def rename(self, old: str, new: str, *, durable: bool = True) -> None:
        """Atomic replace; `durable` syncs the directory of the new name."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, directory: str) -> None: ...

    def sync_directory(self, directory: str) -> None: ...
