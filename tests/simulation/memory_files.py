"""The `Files` port in memory, with what a power cut does to a disk.

Semantics: a write is durable after `sync` of its file; a new name after `sync_directory` or
`rename`, and the same goes for a removed one. `power_loss` keeps what is durable and, of everything
else, whatever the random source decides: each 512-byte sector of an unsynced write is there, is
zeros, or is garbage, and the size is anything between the synced and the written one.
`space_bytes` makes the disk full: a write that passes it is cut there and raises ENOSPC. So does
`full_at`, from the n-th operation on that needs room: a write, a new name, a new directory. Either
may be a quota instead (`full_errno`). From `no_handle_at` on nothing can be opened any more; files
whose descriptors were closed to make room (`evict`) are opened again by whatever uses them.
`stale` is a listing that misses a file which is there, or shows one that is gone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random

SECTOR_BYTES = 512

Buffer = bytes | bytearray | memoryview


class Inode:
    """A file's content: as written, and as the disk has it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.unreadable: set[int] = set()
        """Where sectors start that the disk cannot read any more."""
        self._freed: set[int] = set()
        """Of these, the ones that were cut off since the last sync: a power cut may undo that."""

    def free_from(self, size: int) -> None:
        """The file is cut. What is written there later is on other sectors of the disk, or on the
        same ones: a disk remaps a bad sector when it is written."""
        self._freed |= {each for each in self.unreadable if each >= size}
        self.unreadable -= self._freed

    def synced(self) -> None:
        """The disk has the file as it was written."""
        self.durable = bytes(self.data)
        self._freed.clear()

    def after_power_loss(self, rng: Random) -> Inode:
        durable, data = self.durable, self.data
        low, high = sorted((len(durable), len(data)))
        size = high if rng.random() < 0.3 else rng.randint(low, high)
        found = bytearray(size)
        for start in range(0, size, SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, size)
            if data[start:end] == durable[start:end]:
                found[start:end] = durable[start:end]
                continue
            fate = rng.random()
            if fate < 0.5:
                sector = bytes(data[start:end])
            elif fate < 0.8:
                sector = durable[start:end]
            else:
                # The sector under the disk's head: neither old nor new, but what was synced in it
                # is rewritten with the same bytes and so stays right.
                sector = durable[start:end] + rng.randbytes(max(0, end - max(start, len(durable))))
            found[start : start + len(sector)] = sector
        survivor = Inode()
        survivor.data = found
        survivor.durable = bytes(found)
        survivor.unreadable = {each for each in self.unreadable | self._freed if each < size}
        return survivor


class MemoryFile:
    """An open handle."""

    def __init__(self, files: MemoryFiles, inode: Inode, path: str) -> None:
        self._files = files
        self._inode = inode
        self._path = path
        self._closed = False
        self._evictions = files.evictions

    def write_at_end(self, buffers: Sequence[Buffer]) -> int:
        data = self._data()
        self._reopen()
        position = len(data)
        try:
            self._files.grow()
            if self._inode in self._files.failing or self._files.fails(self._path):
                raise OSError(errno.EIO, "write failed")
        except OSError:
            data += buffers[0][: len(buffers[0]) // 2]
            raise
        for buffer in buffers:
            room = self._files.room()
            if room is not None and len(buffer) > room:
                data += buffer[:room]
                raise self._files.full()
            data += buffer
        return position

    def read_at(self, position: int, size: int) -> bytes:
        self._reopen()
        for start in self._inode.unreadable:
            if start < position + size and position < start + SECTOR_BYTES:
                raise OSError(errno.EIO, "the disk cannot read a sector")
        return bytes(self._data()[position : position + size])

    def size(self) -> int:
        return len(self._data())

    def truncate(self, size: int) -> None:
        data = self._data()
        if size == len(data):
            return
        self._reopen()
        if size < len(data):
            del data[size:]
            self._inode.free_from(size)
        else:
            data += bytes(size - len(data))

    def sync(self) -> None:
        files = self._files
        self._reopen()
        if files.failing_sync or self._inode in files.failing or files.fails(self._path):
            raise OSError(errno.EIO, "sync failed")
        self._files.syncs += 1
        self._data()
        self._inode.synced()

    def hold(self) -> int:
        self._data()
        self._reopen()
        return self._files.hold(self._inode, self._path)

    def release(self, descriptor: int) -> None:
        del self._files.descriptors[descriptor]

    def begin_sync(self) -> int:
        return self.hold()

    def end_sync(self, descriptor: int, error: int, elapsed_ns: int) -> None:
        self.release(descriptor)
        if error:
            raise OSError(error, "sync failed")

    def close(self) -> None:
        self._closed = True

    def _reopen(self) -> None:
        """The set of open files may have closed this one since it was used."""
        if self._evictions != self._files.evictions:
            self._files.take_handle()
            self._evictions = self._files.evictions

    def _data(self) -> bytearray:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed")
        return self._inode.data


class MemoryFiles:
    """See the module. `names` is what a process sees, `durable_names` what the disk has."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.new_directories: set[str] = set()
        """Made since their parents were synced: a power cut may take them whole."""
        self.space_bytes: int | None = None
        self.growths = 0
        self.full_at: int | None = None
        self.full_errno = errno.ENOSPC
        """EDQUOT: the disk has room, and the quota has not."""
        self.handles = 0
        self.no_handle_at: int | None = None
        self.no_handle_errno = errno.EMFILE
        """ENFILE: the machine has none left, not this process."""
        self.evictions = 0
        self.stale: Callable[[str, list[str]], list[str]] = lambda directory, names: names
        """What a listing of the directory shows instead of these names."""
        self.failing_sync = False
        self.failing: set[Inode] = set()
        """Files that take no write and no sync."""
        self.fails: Callable[[str], bool] = lambda path: False
        """The same by path, also of files that come to be; of a directory, its path and a slash."""
        self.fails_to_open = ""
        """Files below it cannot be opened for now: too many are open."""
        self.fails_to_rename = False
        self.on_open: Callable[[str], None] = lambda path: None
        self.syncs = 0
        self.descriptors: dict[int, tuple[Inode, str]] = {}
        """Held by somebody, also after the file was closed."""
        self._descriptor = 0

    def power_loss(self, rng: Random) -> MemoryFiles:
        """The disk as the next start finds it."""
        survivor = MemoryFiles()
        names = dict(self.durable_names)
        for path, inode in self.names.items():
            if path not in names and rng.random() < 0.5:
                names[path] = inode
        for path in self.durable_names:
            if path not in self.names and rng.random() < 0.5:
                del names[path]
        lost = {each for each in sorted(self.new_directories) if rng.random() < 0.5}
        for path, inode in names.items():
            if path.rpartition("/")[0] not in lost:
                survivor.names[path] = inode.after_power_loss(rng)
        survivor.durable_names = dict(survivor.names)
        return survivor

    def copy(self) -> MemoryFiles:
        """The disk as another process finds it now, with room."""
        other = MemoryFiles()
        for path, inode in self.names.items():
            other.names[path] = twin = Inode()
            twin.data, twin.durable = bytearray(inode.data), inode.durable
        return other

    def grow(self) -> None:
        """Count an operation that needs room."""
        if self.full_at is not None and self.growths >= self.full_at:
            raise self.full()
        self.growths += 1

    def full(self) -> OSError:
        return OSError(self.full_errno, "no space left")

    def evict(self) -> None:
        """Every open file loses its descriptor, as one that was not used for long."""
        self.evictions += 1

    def take_handle(self) -> None:
        """Count an operation that opens something."""
        if self.no_handle_at is not None and self.handles >= self.no_handle_at:
            raise OSError(self.no_handle_errno, "too many open files")
        self.handles += 1

    def room(self) -> int | None:
        """Bytes left on the disk; None: endless."""
        if self.space_bytes is None:
            return None
        return max(0, self.space_bytes - sum(len(inode.data) for inode in self.names.values()))

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.on_open(path)
        self.take_handle()
        if self.fails_to_open and path.startswith(self.fails_to_open):
            raise OSError(errno.EMFILE, f"{path} cannot be opened")
        inode = self.names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, path)
            self.grow()
            inode = self.names[path] = Inode()
        return MemoryFile(self, inode, path)

    def list(self, directory: str) -> list[str]:
        self.take_handle()
        return self.stale(directory, self.names_in(directory))

    def names_in(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        below = (path[len(prefix) :] for path in self.names if path.startswith(prefix))
        return sorted({path.split("/", 1)[0] for path in below})

    def make_directory(self, directory: str) -> None:
        """Directories are implied by the paths below them; one that was made is durable, with all
        that is in it, when its parent is synced."""
        if not self.names_in(directory):
            self.grow()
            self.new_directories.add(directory)

    def rename(self, old: str, new: str, *, durable: bool = True) -> None:
        if self.fails_to_rename:
            raise OSError(errno.ENOSPC, f"{old} cannot be renamed")
        moved = [path for path in self.names if path == old or path.startswith(f"{old}/")]
        if not moved:
            raise FileNotFoundError(errno.ENOENT, old)
        self.grow()
        if durable:
            self.take_handle()
        for path in moved:
            target = new + path[len(old) :]
            inode = self.names[target] = self.names.pop(path)
            if durable:
                self.durable_names.pop(path, None)
                self.durable_names[target] = inode
        if old in self.new_directories:
            self.new_directories.remove(old)
            self.new_directories.add(new)
        if durable:
            self._sync_names(new.rpartition("/")[0])

    def remove(self, path: str) -> None:
        self.names.pop(path, None)

    def remove_tree(self, directory: str) -> None:
        self.new_directories.discard(directory)
        for path in [path for path in self.names if path.startswith(f"{directory}/")]:
            del self.names[path]

    def sync_directory(self, directory: str) -> None:
        self.take_handle()
        self._sync_names(directory)

    def hold(self, inode: Inode, path: str) -> int:
        self._descriptor += 1
        self.descriptors[self._descriptor] = inode, path
        return self._descriptor

    def sync_descriptor(self, descriptor: int) -> int:
        """Its errno: what the thread of a syncer does."""
        inode, path = self.descriptors[descriptor]
        if self.failing_sync or inode in self.failing or self.fails(path):
            return errno.EIO
        self.syncs += 1
        inode.synced()
        return 0

    def write_descriptor(self, descriptor: int, position: int, data: bytes) -> bool:
        """Whether all of it was written: what the thread of a syncer does after the sync."""
        inode, path = self.descriptors[descriptor]
        is_full = self.full_at is not None and self.growths >= self.full_at
        if is_full or inode in self.failing or self.fails(path):
            return False
        assert position <= len(inode.data), "a hole"
        inode.data[position : position + len(data)] = data
        return True

    def _sync_names(self, directory: str) -> None:
        prefix = f"{directory}/" if directory else ""
        if self.fails(f"{directory}/"):
            raise OSError(errno.EIO, "sync of a directory failed")
        self.new_directories = {
            each for each in self.new_directories if each.rpartition("/")[0] != directory
        }
        for path in [path for path in self.durable_names if path not in self.names]:
            if path.startswith(prefix):
                del self.durable_names[path]
        for path, inode in self.names.items():
            if path.startswith(prefix):
                self.durable_names[path] = inode
