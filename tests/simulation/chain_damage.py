"""What befalls the chain of a Raft node that is down, for both simulators: a bit flips, a sector is
torn, a file is gone. See raft/README.md, "The block file".

Damaged is only what the store can know to have been synced, so it must refuse to start, and leave
all as it is; somebody restores the files then. The rest looks like a write that a loss of power
interrupted. An oldest segment that is gone is missed if the head path leads through it.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from raft import BlockFile, CorruptStore, MemoryFiles, NodeId
from raft.segment import HEADER_BYTES, read_frame, read_header
from raft.synced import SyncedMark
from tests.simulation.memory_files import SECTOR_BYTES

__all__ = ["Restorable", "Spoilt", "spoilt"]

_SEGMENT, _SNAPSHOT = ".seg", ".snap"


class Spoilt(NamedTuple):
    """Files of which one is not what it was."""

    files: MemoryFiles
    what: str
    is_proven: bool
    """A start must refuse them."""


class Restorable:
    """What a node's files were before they were spoilt, until it started with them or somebody
    put them back."""

    def __init__(self) -> None:
        self._before: MemoryFiles | None = None
        self._spoilt: dict[str, bytes] = {}
        self._is_proven = False

    @property
    def is_spoilt(self) -> bool:
        return self._before is not None

    def spoil(self, before: MemoryFiles, found: Spoilt) -> MemoryFiles:
        """The files from now on."""
        self._before, self._is_proven = before, found.is_proven
        self._spoilt = _contents(found.files)
        return found.files

    def was_refused(self, files: MemoryFiles) -> None:
        """A start found them damaged: rightly, and it has changed nothing."""
        assert self.is_spoilt, "files are refused that are whole"
        assert not self._is_proven or _contents(files) == self._spoilt, "a refused start wrote"

    def was_replaced(self) -> None:
        """It starts with other files, and nobody puts back these."""
        self._before = None

    def was_taken(self) -> None:
        """A start did not find them damaged."""
        assert not (self.is_spoilt and self._is_proven), "a damaged chain is taken for a whole one"
        self._before = None

    def restored(self, files: MemoryFiles) -> MemoryFiles:
        """What they were; themselves if they are whole."""
        before, self._before = self._before, None
        if before is None:
            return files
        before.full_at = None  # whatever ailed the disk then is over
        return before


class _Target(NamedTuple):
    """A file that may be damaged: where damage may begin, and where it may end."""

    name: str
    begin: int
    end: int


def spoilt(files: MemoryFiles, rng: Random) -> Spoilt | None:
    """The files of a node that is down, one of them spoilt; None: nothing there may be."""
    targets = _targets(files)
    if not targets:
        return None
    copy = _copied(files)
    kind = rng.randrange(3)
    if kind == 2:
        return _without_one(copy, targets, rng)
    target = rng.choice(targets)
    data = bytearray(copy.read(target.name))
    at = rng.randrange(target.begin)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
        what = "bit flipped in a chain"
    else:
        at -= at % SECTOR_BYTES
        size = min(SECTOR_BYTES, target.end - at)
        data[at : at + size] = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
        what = "sector torn in a chain"
    # A torn sector may be what it was up to there: frames end in zeros. If all that it changed lies
    # behind, it is one of a frame that nothing knows to have been synced, and a start cuts that.
    before = copy.read(target.name)
    is_proven = data[: target.begin] != before[: target.begin]
    if not is_proven and data != before:
        return None
    _replace(copy, target.name, bytes(data))
    return Spoilt(copy, what, is_proven)


def _without_one(copy: MemoryFiles, targets: list[_Target], rng: Random) -> Spoilt | None:
    names = [each.name for each in targets if each.end == len(copy.read(each.name))]
    if not names:
        return None
    name = rng.choice(names)
    oldest, *later = (each for each in copy.names() if each.endswith(_SEGMENT))
    copy.remove(name)
    is_proven = name != oldest or not any(_has_frame(copy.read(each)) for each in later)
    return Spoilt(copy, "file of a chain lost", is_proven)


def _targets(files: MemoryFiles) -> list[_Target]:
    """Where damage is noticed for sure."""
    opened = _copied(files)
    try:
        _, recovered = BlockFile.open(opened, _owner(files))
    except (CorruptStore, StopIteration):
        return []  # it was damaged before, or is empty
    segments = [name for name in opened.names() if name.endswith(_SEGMENT)]
    if not segments:
        return []  # the first one was being made
    sizes = {name: len(files.read(name)) for name in files.names()}
    found = [_Target(name, sizes[name], sizes[name]) for name in segments[:-1]]
    last = segments[-1]
    synced = SyncedMark(files).read()
    if last == f"{synced.number:016x}{_SEGMENT}":
        found.append(_Target(last, synced.position, sizes[last]))
    elif proven := _proven(files.read(last)):
        found.append(_Target(last, proven, proven))
    root = recovered.state.root
    found += [
        _Target(name, sizes[name], sizes[name])
        for name in files.names()
        if name == f"{root.term:016x}-{root.height:016x}{_SNAPSHOT}"
    ]
    return found


def _owner(files: MemoryFiles) -> NodeId:
    name = next(name for name in files.names() if name.endswith(_SEGMENT))
    return read_header(files.read(name), name)[0]


def _proven(data: bytes) -> int:
    """Up to here its own frames and marks say that it was synced; 0: they do not."""
    number = read_header(data, "last segment")[1]
    proven, position = 0, HEADER_BYTES
    while frame := read_frame(data, position, number=number):
        proven, position = max(proven, frame.synced), frame.end
    return proven


def _has_frame(segment: bytes) -> bool:
    """It does not only begin."""
    if len(segment) <= HEADER_BYTES:
        return False
    number = read_header(segment, "later segment")[1]
    return read_frame(segment, HEADER_BYTES, number=number) is not None


def _contents(files: MemoryFiles) -> dict[str, bytes]:
    return {name: files.read(name) for name in files.names()}


def _copied(files: MemoryFiles) -> MemoryFiles:
    return files.crash(lambda _, unsynced: unsynced, names_kept=True)


def _replace(files: MemoryFiles, name: str, data: bytes) -> None:
    file = files.open(name)
    file.truncate(0)
    file.append(data)
    file.sync()
