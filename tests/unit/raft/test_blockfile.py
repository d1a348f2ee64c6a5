"""The block file: what a crash, a damaged byte or a failing disk leaves of it.

Every test but the locking one runs on the in-memory files, whose crash forgets what was not synced.
"""

import errno
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from raft.block import Block, BlockKind, make_block
from raft.blockfile import BlockFile
from raft.disk_files import DiskFiles
from raft.errors import CorruptStore, StoreFailed
from raft.files import Crash, File, MemoryFiles
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.members import Members
from raft.segment import HEADER_BYTES, encode_frame, encode_header
from raft.state import Batch, Recovered, Snapshot, State

NODE = NodeId(1)


class Writer:
    """A store being written, and what it must give back."""

    def __init__(self, files: MemoryFiles, segment_bytes: int = 1 << 20) -> None:
        self.files = files
        self.store, recovered = BlockFile.open(files, NODE, segment_bytes=segment_bytes)
        self.state = recovered.state
        self.blocks = {block.id: block for block in recovered.blocks}
        self.states = [self.state]
        """Every state written so far; the last synced one is at index `synced`."""
        self.synced = 0

    def write(self, batch: Batch) -> None:
        self.states.append(batch.state)
        self.store.append(batch)
        self.blocks.update({block.id: block for block in batch.blocks})
        for id_ in batch.removed:
            del self.blocks[id_]
        root = batch.state.root
        self.blocks = {id_: b for id_, b in self.blocks.items() if id_.height > root.height}
        self.state = batch.state
        if batch.must_sync:
            self.store.sync()
            self.synced = len(self.states) - 1

    def extend(self, count: int, *, commit: Height | None = None, must_sync: bool = True) -> None:
        """A batch of blocks on the head."""
        run: list[Block] = []
        parent, term = self.state.head, Term(self.state.head.term + 1)
        for number in range(count):
            run.append(make_block(parent, term, BlockKind.DATA, b"payload %d" % number))
            parent = run[-1].id
        head = parent
        at = commit if commit is not None else self.state.commit.height
        path = {block.id.height: block.id for block in [*self.blocks.values(), *run]}
        state = State(
            term=term, vote=NODE, head=head, commit=path.get(at, GENESIS), root=self.state.root
        )
        self.write(Batch(state=state, blocks=tuple(run), must_sync=must_sync))

    def snapshot(self) -> None:
        """The commit becomes the root."""
        last = self.state.commit
        snapshot = Snapshot(
            last=last, cluster_id="c", members=Members(voters=frozenset({NODE})), data=b"s" * 50
        )
        state = State(term=self.state.term, vote=NODE, head=self.state.head, commit=last, root=last)
        self.write(Batch(state=state, snapshot=snapshot))


def reopen(files: MemoryFiles, segment_bytes: int = 1 << 20) -> Recovered:
    return BlockFile.open(files, NODE, segment_bytes=segment_bytes)[1]


def only_segment(files: MemoryFiles) -> tuple[str, bytes]:
    (name,) = (name for name in files.names() if name.endswith(".seg"))
    return name, files.read(name)


def replace(files: MemoryFiles, name: str, data: bytes) -> MemoryFiles:
    """The same files, one of them with other content."""
    copy = files.crash(lambda _, unsynced: unsynced, names_kept=True)
    file = copy.open(name)
    file.truncate(0)
    file.append(data)
    file.sync()
    return copy


def written(*sizes: int) -> Writer:
    writer = Writer(MemoryFiles())
    for size in sizes:
        writer.extend(size)
    return writer


def test_what_was_written_is_recovered() -> None:
    writer = written(1, 3, 2)

    recovered = reopen(writer.files)

    assert recovered.state == writer.state
    assert {block.id: block for block in recovered.blocks} == writer.blocks
    assert recovered.cut_bytes == 0


def test_a_new_store_is_empty() -> None:
    recovered = reopen(MemoryFiles())

    assert recovered == Recovered(state=State(), blocks=(), snapshot=None, segments=0, cut_bytes=0)


def test_a_torn_tail_is_cut_at_every_byte_and_nothing_before_it_is_lost() -> None:
    before = written(2, 2)
    whole = written(2, 2)
    whole.extend(2, must_sync=False)
    name, data = only_segment(whole.files)
    kept = len(only_segment(before.files)[1])

    for size in range(kept, len(data)):
        files = replace(whole.files, name, data[:size])
        recovered = reopen(files)
        assert recovered.state == before.state
        assert {block.id: block for block in recovered.blocks} == before.blocks
        assert recovered.cut_bytes == size - kept
        assert len(files.read(name)) == kept


def test_writing_goes_on_after_a_torn_tail() -> None:
    whole = written(2, 2)
    whole.extend(2, must_sync=False)
    name, data = only_segment(whole.files)
    files = replace(whole.files, name, data[:-1])

    writer = Writer(files)
    writer.extend(3)

    recovered = reopen(files)
    assert recovered.state == writer.state
    assert {block.id: block for block in recovered.blocks} == writer.blocks


def test_a_tail_whose_pages_never_arrived_is_cut() -> None:
    whole = written(2)
    whole.extend(2, must_sync=False)
    name, data = only_segment(whole.files)
    kept = len(only_segment(written(2).files)[1])

    recovered = reopen(replace(whole.files, name, data[:kept] + b"\0" * (len(data) - kept)))

    assert recovered.state == written(2).state


def test_a_flipped_bit_in_the_middle_is_refused_and_nothing_is_changed() -> None:
    writer = written(2, 1, 1)
    name, data = only_segment(writer.files)
    last_frame = len(only_segment(written(2, 1).files)[1])

    for position in range(last_frame):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        files = replace(writer.files, name, bytes(damaged))
        with pytest.raises(CorruptStore, match=name):
            reopen(files)
        assert files.read(name) == damaged


def test_damage_before_a_later_segment_is_refused() -> None:
    files = MemoryFiles()
    writer = Writer(files, segment_bytes=200)
    for _ in range(5):
        writer.extend(2)
    first = files.names()[0]
    data = files.read(first)

    with pytest.raises(CorruptStore, match="the later segment"):
        reopen(replace(files, first, data[:-1]))
    missing = files.crash()
    missing.remove(files.names()[1])
    with pytest.raises(CorruptStore, match="does not follow"):
        reopen(missing)


@pytest.mark.parametrize("kept", [HEADER_BYTES, 7], ids=["begun", "being made"])
def test_an_empty_segment_does_not_make_a_node_without_a_past(kept: int) -> None:
    """Only what was written to the lost one knew of the node's vote."""
    files = MemoryFiles()
    writer = Writer(files, segment_bytes=200)
    while len(files.names()) < 3:
        writer.extend(1)
    first, second, mark = files.names()
    missing = replace(files, second, files.read(second)[:kept])
    missing.remove(mark)  # its name is not synced: a loss of power may take it
    missing.remove(first)

    with pytest.raises(CorruptStore, match=f"the first segment is {second}"):
        reopen(missing)
    assert missing.names() == [second], "nothing is changed"


def test_another_nodes_files_are_refused() -> None:
    writer = written(1)

    with pytest.raises(CorruptStore, match="belongs to node 1, not to node 2"):
        BlockFile.open(writer.files, NodeId(2))


def test_a_newer_format_version_is_refused() -> None:
    writer = written(1)
    name, data = only_segment(writer.files)
    header = bytearray(data[: HEADER_BYTES - 4])
    struct.pack_into(">H", header, 8, 3)
    newer = bytes(header) + struct.pack(">I", zlib.crc32(header)) + data[HEADER_BYTES:]

    with pytest.raises(CorruptStore, match="format version 3; this code reads 2"):
        reopen(replace(writer.files, name, newer))


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)

    with pytest.raises(BlockingIOError, match="used by another process"):
        DiskFiles(tmp_path)
    files.close()
    DiskFiles(tmp_path).close()


# -- crashes between any two file operations


def life(writer: Writer) -> Iterator[None]:
    """Blocks, writes without a sync, commits and snapshots, over several small segments."""
    for round_ in range(6):
        writer.extend(3)
        writer.extend(2, must_sync=False)
        writer.extend(1, commit=Height(writer.state.head.height - 1))
        if round_ % 2:
            writer.snapshot()
        yield


def operations_of_a_life() -> int:
    files = MemoryFiles()
    for _ in life(Writer(files, segment_bytes=300)):
        pass
    return files.operations


@pytest.mark.parametrize("names_kept", [False, True])
@pytest.mark.parametrize("keep", ["nothing", "all", "some"])
def test_a_crash_between_any_two_file_operations_loses_nothing_synced(
    keep: str, names_kept: bool
) -> None:
    """Checklist row 6."""
    rng = Random(1)
    kept = {
        "nothing": lambda _, unsynced: 0,
        "all": lambda _, unsynced: unsynced,
        "some": lambda _, unsynced: rng.randint(0, unsynced),
    }[keep]
    operations = operations_of_a_life()
    assert operations > 100

    for crash_at in range(operations):
        files = MemoryFiles()
        files.crash_at = crash_at
        writer = None
        try:
            writer = Writer(files, segment_bytes=300)
            for _ in life(writer):
                pass
        except Crash:
            pass
        after = files.crash(kept, names_kept=names_kept)
        recovered = reopen(after, segment_bytes=300)
        if writer is not None:
            allowed = writer.states[writer.synced :]
            assert recovered.state in allowed, f"crash before operation {crash_at}"
            chain_is_whole(recovered)
        resumed = Writer(after, segment_bytes=300)
        resumed.extend(2)
        assert reopen(after).state == resumed.state


def chain_is_whole(recovered: Recovered) -> None:
    """Every block from head back to root is there."""
    blocks = {block.id: block for block in recovered.blocks}
    id_ = recovered.state.head
    while id_ != recovered.state.root:
        id_ = blocks[id_].parent
    snapshot = recovered.snapshot
    assert (recovered.state.root == GENESIS) == (snapshot is None)


def test_term_and_vote_survive_a_loss_of_power() -> None:
    """Checklist row 6."""
    files = MemoryFiles()
    store, _ = BlockFile.open(files, NODE)

    store.persist(Batch(state=State(term=Term(7), vote=NodeId(3))))

    assert reopen(files.crash()).state == State(term=Term(7), vote=NodeId(3))


# -- space


def test_segments_below_a_snapshot_are_removed() -> None:
    files = MemoryFiles()
    writer = Writer(files, segment_bytes=400)
    sizes = []
    for _ in range(20):
        writer.extend(5, commit=Height(writer.state.head.height))
        writer.snapshot()
        sizes.append(writer.store.size_bytes)

    assert max(sizes[5:]) <= max(sizes[:5]) + 400
    assert len([name for name in files.names() if name.endswith(".snap")]) == 1
    recovered = reopen(files)
    assert recovered.state == writer.state
    assert {block.id: block for block in recovered.blocks} == writer.blocks


def test_a_mostly_dead_segment_is_copied_forward_and_removed() -> None:
    """GC of a long dead branch gives its space back though a live block shares its segment."""
    files = MemoryFiles()
    writer = Writer(files, segment_bytes=2000)
    writer.extend(1)
    live = writer.state
    writer.extend(30)
    dead = [id_ for id_ in writer.blocks if id_.height > live.head.height]
    writer.extend(1)
    first = files.names()[0]
    writer.write(Batch(state=live, removed=tuple(reversed(dead)), must_sync=True))
    writer.write(Batch(state=live, must_sync=True))

    assert first not in files.names()
    recovered = reopen(files)
    assert {block.id: block for block in recovered.blocks} == writer.blocks
    assert live.head in writer.blocks


# -- failing disks


class FailingDisk(MemoryFiles):
    """Writes half of what is asked and fails, once told to."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def open(self, name: str) -> File:
        return _FullFile(self, super().open(name))


class _FullFile:
    def __init__(self, disk: FailingDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.sync = file.sync
        self.truncate = file.truncate
        self.close = file.close

    def append(self, data: bytes) -> None:
        if self._disk.full:
            self._file.append(data[: len(data) // 2])
            raise OSError(errno.EIO, "Input/output error")
        self._file.append(data)


def test_after_a_failed_write_the_store_takes_no_more_work() -> None:
    files = FailingDisk()
    writer = Writer(files)
    writer.extend(2)
    good = writer.state
    files.full = True
    with pytest.raises(StoreFailed, match="Input/output error"):
        writer.extend(2)
    files.full = False

    with pytest.raises(StoreFailed, match="takes no more work"):
        writer.extend(2)
    with pytest.raises(StoreFailed, match="takes no more work"):
        writer.store.sync()

    recovered = reopen(files.crash(lambda _, unsynced: unsynced))
    assert recovered.state == good
    assert recovered.cut_bytes > 0


def test_a_block_id_with_two_contents_in_the_store_is_refused() -> None:
    """Checklist row 5."""
    files = MemoryFiles()
    store, _ = BlockFile.open(files, NODE)
    one = make_block(GENESIS, Term(1), BlockKind.DATA, b"one")
    two = make_block(GENESIS, Term(1), BlockKind.DATA, b"two")
    state = State(term=Term(1), head=one.id)
    store.persist(Batch(state=state, blocks=(one,)))
    store.persist(Batch(state=state, blocks=(two,)))

    with pytest.raises(CorruptStore, match="two different contents"):
        reopen(files)


def test_a_frame_out_of_sequence_is_refused() -> None:
    files = MemoryFiles()
    file = files.open("0000000000000001.seg")
    file.append(encode_header(NODE, 1, 0))
    place = {"number": 1, "position": HEADER_BYTES, "synced": HEADER_BYTES}
    file.append(encode_frame(Batch(state=State()), sequence=1, **place))

    with pytest.raises(CorruptStore, match="frame 1 found, 0 expected"):
        reopen(files)


def test_blocks_below_the_root_are_not_given_back() -> None:
    files = MemoryFiles()
    writer = Writer(files)
    writer.extend(5, commit=Height(3))
    writer.snapshot()

    recovered = reopen(files)

    assert sorted(block.id.height for block in recovered.blocks) == [4, 5]
    assert recovered.snapshot is not None
    assert recovered.snapshot.last == writer.state.root


def test_a_sync_with_nothing_to_sync_touches_no_file() -> None:
    writer = written(1)
    before = writer.files.operations

    writer.store.sync()

    assert writer.files.operations == before


def test_a_missing_snapshot_is_refused() -> None:
    files = MemoryFiles()
    writer = Writer(files)
    writer.extend(3, commit=Height(2))
    writer.snapshot()
    (name,) = (name for name in files.names() if name.endswith(".snap"))
    assert BlockId(*(int(part, 16) for part in name[:-5].split("-"))) == writer.state.root

    damaged = replace(files, name, b"\0" + files.read(name)[1:])
    missing = files.crash()
    missing.remove(name)

    with pytest.raises(CorruptStore, match="wrong checksum"):
        reopen(damaged)
    with pytest.raises(CorruptStore, match="missing"):
        reopen(missing)


def frame_of(body: bytes) -> bytes:
    """A segment whose one frame has this body and a right checksum."""
    place = struct.pack(">QQQQI", 1, HEADER_BYTES, 0, HEADER_BYTES, len(body))
    checksum = zlib.crc32(body, zlib.crc32(place))
    head = struct.pack(">4sIQQI", b"\xc4FR\n", len(body), 0, HEADER_BYTES, checksum)
    return encode_header(NODE, 1, 0) + head + body


def test_a_frame_that_was_written_wrongly_is_refused_though_its_checksum_holds() -> None:
    for body, reason in ((b"\x09", "unknown entry 9"), (b"\x01abc", "cut off")):
        files = MemoryFiles()
        files.open("0000000000000001.seg").append(frame_of(body))

        with pytest.raises(CorruptStore, match=reason):
            reopen(files)
