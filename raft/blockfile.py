"""The durable store of a node: checksummed segments of batches.

Rules:
- One `append` is one frame: after a crash the whole batch is there or nothing. `sync` makes every
  frame so far durable, so that one fsync serves as many blocks as arrived during the last one.
- Each frame records what was synced before it. After each sync two marks record it at once, one
  of them in a separate file (`synced.py`). Recovery cuts a torn tail: an invalid frame of the last
  segment that no mark and no frame proves to have been synced. Any other damage is corruption:
  CorruptStore is raised and nothing is changed.
- Recovery syncs what it found before it returns it: after a killed process the data may be only in
  the page cache.
- A segment is synced before its successor is created. Segments are removed from the oldest end
  only, once they hold no live block; live blocks of a mostly dead one are copied to the end first.
- A write that meets a limit of the machine (space, quota, file handles) is undone, and StoreFull
  means that nothing has changed. What only reclaims space is left for later then. After any other
  failed write or sync the state of the disk is unknown: the store refuses all further work.
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from raft.block import Block
from raft.errors import CorruptStore, StoreFailed, StoreFull
from raft.files import File, Files
from raft.ids import GENESIS, BlockId, NodeId
from raft.promises import PROMISED_FILE, read_promised
from raft.segment import (
    HEADER_BYTES,
    Frame,
    decode_snapshot,
    encode_frame,
    encode_header,
    encode_mark,
    encode_snapshot,
    find_proof_after,
    read_frame,
    read_header,
)
from raft.state import Batch, Recovered, Snapshot, State
from raft.synced import WAY_OUT, Synced, SyncedMark

__all__ = ["BlockFile"]

SEGMENT_BYTES = 16 * 1024 * 1024
"""Roll size: what recovery reads at once, and the unit in which space is reclaimed."""

LIVE_SHARE_MIN = 0.5
"""The oldest segment is copied forward when less than this share of its blocks is still live."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Limits of the machine, which pass: space, quota, file handles."""
_TEMPORARY = ".tmp"
_SEGMENT = ".seg"
_SNAPSHOT = ".snap"


class _Segment:
    """In-memory bookkeeping of one segment: how many of its blocks are still needed."""

    __slots__ = ("is_removed", "live", "name", "number", "size", "synced", "written")

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"{number:016x}{_SEGMENT}"
        self.size = HEADER_BYTES
        self.synced = HEADER_BYTES  # synced up to here, as the next frame records
        self.written = 0  # blocks written to it
        self.live = 0  # of those, neither removed nor below the root
        self.is_removed = False  # its file is, and perhaps not durably yet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Torn:
    """The incomplete end of the last segment, written while the machine stopped."""

    name: str
    keep_bytes: int
    cut_bytes: int


class BlockFile:
    """Append batches, sync, recover. One owner at a time; calls may come from any one thread."""

    def __init__(
        self, files: Files, node_id: NodeId, *, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._files = files
        self._node_id = node_id
        self._segment_bytes = segment_bytes
        # Oldest first; the last one is open for appends.
        self._segments: list[_Segment] = []
        # Where the newest copy of each live block is.
        self._segment_of: dict[BlockId, _Segment] = {}
        # Of the last frame, synced or not.
        self._state = State()
        self._sequence = 0  # of the next frame, through all segments, so a missing one shows
        self._file: File | None = None
        # Whether a frame was appended since the last sync.
        self._unsynced = False
        # Files that go after the next sync, once the head has got so far: snapshots, promises.
        self._obsolete: list[tuple[BlockId, str]] = []
        self._mark = SyncedMark(files)
        # Why the store takes no more work; None while it does.
        self._failed: str | None = None

    @classmethod
    def open(
        cls, files: Files, node_id: NodeId, *, segment_bytes: int = SEGMENT_BYTES
    ) -> "tuple[BlockFile, Recovered]":
        """Recover, then be ready to append. Raises CorruptStore (nothing changed) or OSError."""
        store = cls(files, node_id, segment_bytes=segment_bytes)
        return store, store._recover()

    def append(self, batch: Batch) -> None:
        """Write one batch, atomically and not yet durably. Raises StoreFailed, StoreFull."""
        self._guard()
        try:
            with self._room_needed():
                # Durable before the frame that makes it the root: a root without its snapshot is
                # corruption.
                if batch.snapshot is not None:
                    self._write_snapshot(batch.snapshot)
                self._append_frame(batch)
            # Only after the frame is written: StoreFull above must leave the bookkeeping as it was.
            if batch.state.root != self._state.root:
                self._forget_below(batch.state.root)
                self._obsolete.append((GENESIS, _snapshot_name(self._state.root)))
            self._forget(batch.removed)
            self._state = batch.state
            self._reclaim()
        except OSError as error:
            raise self._fail(error) from error

    def sync(self) -> None:
        """Make every appended batch durable. Raises StoreFailed."""
        self._guard()
        if self._unsynced and self._file is not None:
            try:
                # The old snapshots go only after the sync: until then a crash returns to the old
                # root.
                self._sync_and_mark(self._file)
                self._remove_obsolete()
            except OSError as error:
                raise self._fail(error) from error

    def persist(self, batch: Batch) -> None:
        """`append`, and `sync` when the batch asks for it."""
        self.append(batch)
        if batch.must_sync:
            self.sync()

    def close(self) -> None:
        """Release files and lock; appended but unsynced data stays in the page cache."""
        self._failed = self._failed or "it is closed"
        if self._file is not None:
            self._file.close()
            self._file = None
        self._mark.close()
        self._files.close()

    @property
    def size_bytes(self) -> int:
        """Of all segments; snapshots do not count."""
        return sum(segment.size for segment in self._segments)

    @contextmanager
    def _room_needed(self) -> Iterator[None]:
        """A write in here happens whole or not at all; StoreFull: the same call may be retried."""
        try:
            yield
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise StoreFull(f"no room for the block file: {error}") from error

    def _guard(self) -> None:
        """Raises StoreFailed after a failure: the state of the disk is unknown, and only recovery
        reads it."""
        if self._failed is not None:
            raise StoreFailed(f"the block file takes no more work: {self._failed}")

    def _fail(self, error: OSError) -> StoreFailed:
        """Record the failure for good. After a failed fsync the kernel may drop the pages: a second
        fsync that succeeds would prove nothing."""
        self._failed = str(error)
        return StoreFailed(f"the block file failed: {error}")

    # -- writing

    def _append_frame(self, batch: Batch) -> None:
        """Write one frame; the segment's bookkeeping follows only when all of it is written."""
        if self._file is None or self._segments[-1].size >= self._segment_bytes:
            self._roll()
        assert self._file is not None
        segment = self._segments[-1]
        data = encode_frame(
            batch,
            number=segment.number,
            position=segment.size,
            sequence=self._sequence,
            synced=segment.synced,
        )
        self._append_whole(self._file, data, segment.size)
        segment.size += len(data)
        self._sequence += 1
        self._unsynced = True
        self._note_blocks(segment, batch.blocks)

    def _append_whole(self, file: File, data: bytes, size: int) -> None:
        """Append to a file of this size; if space runs out, truncate it back to that size."""
        try:
            file.append(data)
        except OSError as error:
            if error.errno in _NO_ROOM:
                file.truncate(size)
            raise

    def _sync_and_mark(self, file: File) -> None:
        """Sync, then write both marks. The marks themselves are not synced: they survive a killed
        process and usually a power loss. Without them only the proof is lost that no earlier frame
        is torn."""
        file.sync()
        self._unsynced = False
        segment = self._segments[-1]
        mark = encode_mark(number=segment.number, position=segment.size, sequence=self._sequence)
        segment.synced = segment.size  # the next frame records it too
        with suppress(StoreFull), self._room_needed():
            self._mark.write(Synced(segment.number, segment.size))
            self._append_whole(file, mark, segment.size)
            segment.size += len(mark)

    def _note_blocks(self, segment: _Segment, blocks: Iterable[Block]) -> None:
        """Count blocks into their segment; of a block written again, the newer copy counts."""
        for block in blocks:
            before = self._segment_of.get(block.id)
            if before is not None:  # a copied block: its older copy is garbage now
                before.live -= 1
            self._segment_of[block.id] = segment
            segment.written += 1
            segment.live += 1

    def _roll(self) -> None:
        """Continue in a new segment. The old one is synced first: a torn frame is allowed only in
        the last segment."""
        number = self._segments[-1].number + 1 if self._segments else 1
        if self._file is not None:
            self._sync_full(self._file)
            self._file.close()
            self._file = None
        segment = _Segment(number)
        file = self._files.open(segment.name)
        try:
            file.truncate(0)  # a full disk may have left a part of a header
            file.append(encode_header(self._node_id, number, self._sequence))
            # Synced separately, so that no later page of this file can outlive a lost header.
            file.sync()
            self._files.sync_names()
        except OSError:
            file.close()
            raise
        self._file = file
        self._segments.append(segment)

    def _sync_full(self, file: File) -> None:
        """Sync a segment before its successor exists. Raises StoreFailed also when the disk is
        full: the pages of a failed sync are lost, and a retry would not write them."""
        try:
            file.sync()
        except OSError as error:
            raise self._fail(error) from error
        self._unsynced = False

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        """Write under a temporary name, then rename: a snapshot is whole or not there."""
        name = _snapshot_name(snapshot.last)
        file = self._files.open(name + _TEMPORARY)
        try:
            file.truncate(0)
            file.append(encode_snapshot(snapshot))
            file.sync()
        finally:
            file.close()
        self._files.rename(name + _TEMPORARY, name)
        self._files.sync_names()

    # -- reclaiming space

    def _forget(self, ids: Iterable[BlockId]) -> None:
        """These blocks are needed no more. An id that is not stored is ignored: it may have gone
        with the root."""
        for id_ in ids:
            segment = self._segment_of.pop(id_, None)
            if segment is not None:
                segment.live -= 1

    def _forget_below(self, root: BlockId) -> None:
        """The snapshot replaces every block up to the root, on whatever branch."""
        self._forget([id_ for id_ in self._segment_of if id_.height <= root.height])

    def _reclaim(self) -> None:
        """Remove obsolete segments, after copying the live blocks of at most one segment."""
        oldest = self._segments[0]
        # The only segment is being appended to.
        if oldest is self._segments[-1]:
            return
        if 0 < oldest.live < LIVE_SHARE_MIN * oldest.written:
            # A frame like any other: it repeats the newest state, and recovery needs no rule for
            # copies.
            with suppress(StoreFull), self._room_needed():  # else at the next append
                blocks = tuple(self._live_blocks(oldest))
                self._append_frame(Batch(state=self._state, blocks=blocks))
        if self._segments[0].live:
            return
        # The frames that made these segments obsolete must be durable before the segments go.
        self.sync()
        with suppress(StoreFull), self._room_needed():  # else at the next append
            self._remove_dead()

    def _remove_dead(self) -> None:
        """Oldest first, each durably: a crash in between leaves no gap in the numbers."""
        while len(self._segments) > 1 and self._segments[0].live == 0:
            oldest = self._segments[0]
            if not oldest.is_removed:
                self._files.remove(oldest.name)
            oldest.is_removed = True
            self._files.sync_names()
            del self._segments[0]

    def _remove_obsolete(self) -> None:
        """Remove the files whose replacement is durable now."""
        gone = [name for needed, name in self._obsolete if self._state.head >= needed]
        if gone:
            with suppress(StoreFull), self._room_needed():  # else after the next sync
                present = self._files.names()
                self._obsolete = [each for each in self._obsolete if each[1] not in gone]
                for name in gone:
                    if name in present:
                        self._files.remove(name)

    def _live_blocks(self, segment: _Segment) -> Iterable[Block]:
        """Blocks of a segment that no later segment has a copy of."""
        data = self._files.read(segment.name)
        position = HEADER_BYTES
        seen: set[BlockId] = set()
        while frame := read_frame(data, position, number=segment.number):
            for block in frame.blocks:
                if self._segment_of.get(block.id) is segment and block.id not in seen:
                    seen.add(block.id)
                    yield block
            position = frame.end

    # -- recovery

    def _recover(self) -> Recovered:
        """Read all segments in order, check their claims about each other, then repair the end."""
        names = self._files.names()
        segment_names = [name for name in names if name.endswith(_SEGMENT)]
        promised = read_promised(self._files)
        if promised is not None:
            self._state = replace(self._state, term=promised.term, vote=promised.vote)
        blocks: dict[BlockId, Block] = {}
        torn: _Torn | None = None
        for name in segment_names:
            torn = self._recover_segment(name, blocks, is_last=name == segment_names[-1])
        if self._state == State() and segment_names and segment_names[0] != _Segment(1).name:
            # A segment is removed only after later frames repeat all it holds, the vote above all.
            # So a missing first segment without a later state means lost data.
            raise CorruptStore(
                f"the first segment is {segment_names[0]}: older ones are missing. {WAY_OUT}"
            )
        last = self._segments[-1] if self._segments else _Segment(0)
        # The separate mark shows a lost end that looks like a torn write, or a missing last
        # segment.
        self._mark.check(Synced(last.number, last.size))
        root = self._state.root
        # Blocks below the root may still be in old segments: the snapshot replaces them.
        self._forget_below(root)
        snapshot = None if root == GENESIS else self._recover_snapshot(root, names)
        # Every check has passed: only now does recovery change files.
        if torn is not None:
            self._cut(torn)
        self._remove_leftovers(names)
        # Not without a frame: until there is one, only this file has term and vote.
        if promised is not None and self._sequence and self._state.head >= promised.head:
            self._files.remove(PROMISED_FILE)
            promised = None
        if promised is not None:
            self._obsolete.append((promised.head, PROMISED_FILE))
        if self._segments:
            self._file = self._files.open(self._segments[-1].name)
            # What was read may be in the page cache only: nobody may build on it before it is
            # durable.
            if self._unsynced:
                self._sync_and_mark(self._file)
        return Recovered(
            state=self._state,
            blocks=tuple(block for block in blocks.values() if block.id in self._segment_of),
            snapshot=snapshot,
            segments=len(self._segments),
            cut_bytes=torn.cut_bytes if torn is not None else 0,
            promised=promised,
        )

    def _recover_segment(
        self, name: str, blocks: dict[BlockId, Block], *, is_last: bool
    ) -> _Torn | None:
        """Read one segment; return its torn tail, if it has one."""
        data = self._files.read(name)
        try:
            node_id, number, first_sequence = read_header(data, name)
        except CorruptStore:
            # `_roll` syncs the header before any frame: a last file no longer than a header never
            # held one.
            if is_last and len(data) <= HEADER_BYTES:  # the crash interrupted its creation
                return _Torn(name=name, keep_bytes=0, cut_bytes=len(data))
            raise
        segment = _Segment(number)
        if segment.name != name:
            raise CorruptStore(f"{name}: its header belongs to {segment.name}")
        if node_id != self._node_id:
            raise CorruptStore(f"{name} belongs to node {node_id}, not to node {self._node_id}")
        if self._segments and (
            number != self._segments[-1].number + 1 or first_sequence != self._sequence
        ):
            raise CorruptStore(f"{name} does not follow {self._segments[-1].name}: data is missing")
        self._sequence = first_sequence
        position = HEADER_BYTES
        while frame := read_frame(data, position, number=number):
            self._replay(frame, segment, blocks, name)
            # A mark is written after a sync: frames up to it are durable.
            self._unsynced = frame.state is not None
            segment.synced = frame.synced
            position = frame.end
        segment.size = position
        self._segments.append(segment)
        if position == len(data):
            return None
        # A torn write can only be the newest one. Damage before synced or later data is corruption.
        later = find_proof_after(data, position, number=number)
        if not is_last or later is not None:
            where = f"the frame at byte {later}" if later else "the later segment"
            raise CorruptStore(
                f"{name}: damaged at byte {position}, which was synced before {where} was written. "
                f"{WAY_OUT}"
            )
        return _Torn(name=name, keep_bytes=position, cut_bytes=len(data) - position)

    def _replay(
        self, frame: Frame, segment: _Segment, blocks: dict[BlockId, Block], name: str
    ) -> None:
        """Apply one frame as `append` did. Raises CorruptStore for a frame that does not follow its
        predecessor."""
        if frame.sequence != self._sequence:
            raise CorruptStore(f"{name}: frame {frame.sequence} found, {self._sequence} expected")
        if frame.state is None:
            return
        self._sequence += 1
        for block in frame.blocks:
            if blocks.setdefault(block.id, block) != block:
                raise CorruptStore(f"{name}: block {block.id} has two different contents")
        self._note_blocks(segment, frame.blocks)
        self._forget(frame.removed)
        self._state = frame.state

    def _cut(self, torn: _Torn) -> None:
        """Durably, before the first append: new frames must not follow torn bytes."""
        if not torn.keep_bytes:
            self._files.remove(torn.name)
            self._files.sync_names()
            return
        file = self._files.open(torn.name)
        file.truncate(torn.keep_bytes)
        file.sync()
        file.close()

    def _recover_snapshot(self, root: BlockId, names: list[str]) -> Snapshot:
        """The root's snapshot; without it the blocks after the root have no base. Raises
        CorruptStore."""
        name = _snapshot_name(root)
        if name not in names:
            raise CorruptStore(f"{name}, the snapshot of root {root}, is missing")
        snapshot = decode_snapshot(self._files.read(name), name)
        if snapshot.last != root:
            raise CorruptStore(f"{name}: it ends at {snapshot.last}, not at root {root}")
        return snapshot

    def _remove_leftovers(self, names: list[str]) -> None:
        """Remove files left by a crash: unfinished ones, and snapshots that no root references."""
        for name in names:
            unused = name.endswith(_SNAPSHOT) and name != _snapshot_name(self._state.root)
            if unused or name.endswith(_TEMPORARY):
                with suppress(FileNotFoundError):
                    self._files.remove(name)


def _snapshot_name(last: BlockId) -> str:
    """Named by the last block it replaces, in hex of fixed width."""
    return f"{last.term:016x}-{last.height:016x}{_SNAPSHOT}"
