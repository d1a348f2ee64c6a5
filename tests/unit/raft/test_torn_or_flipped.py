"""What recovery can tell apart: a write that a loss of power interrupted, and damage to what was
synced. The first was never promised and is cut; the second is refused."""

from dataclasses import replace

import pytest

from raft import (
    GENESIS,
    Batch,
    BlockFile,
    BlockKind,
    CorruptStore,
    MemoryFiles,
    NodeId,
    Recovered,
    State,
    Term,
)
from raft.block import make_block
from raft.segment import encode_mark
from raft.synced import ENTRIES_MAX, SYNCED_FILE, Synced, SyncedMark

NODE = NodeId(1)
SEGMENT = "0000000000000001.seg"
MARK_BYTES = len(encode_mark(number=1, position=0, sequence=0))


def state(term: int) -> State:
    return State(term=Term(term), vote=NODE)


def store_with(synced: int, unsynced: int = 0) -> tuple[MemoryFiles, list[int]]:
    """A store of so many frames, one per term; and where each of them ends."""
    files = MemoryFiles()
    store, _ = BlockFile.open(files, NODE)
    ends: list[int] = []
    for term in range(1, synced + unsynced + 1):
        store.append(Batch(state=state(term)))
        ends.append(len(files.read(SEGMENT)))
        if term <= synced:
            store.sync()
    return files, ends


def damaged(files: MemoryFiles, data: bytes, name: str = SEGMENT) -> MemoryFiles:
    """The same files with this segment, all of it on the disk."""
    copy = files.crash(lambda _, unsynced: unsynced, names_kept=True)
    file = copy.open(name)
    file.truncate(0)
    file.append(data)
    file.sync()
    return copy


def recover(files: MemoryFiles) -> Recovered:
    return BlockFile.open(files, NODE)[1]


def test_a_flipped_bit_in_the_very_last_synced_frame_is_refused() -> None:
    """Also in its length, which makes it look cut off: the mark behind it is the proof."""
    files, ends = store_with(synced=3)
    data = files.read(SEGMENT)

    for position in range(ends[1], ends[2]):
        for bit in (0x01, 0x80):
            flipped = bytearray(data)
            flipped[position] ^= bit
            copy = damaged(files, bytes(flipped))
            with pytest.raises(CorruptStore, match="was synced before the frame at byte"):
                recover(copy)
            assert copy.read(SEGMENT) == flipped, "nothing is changed"


def test_a_torn_or_flipped_mark_costs_nothing() -> None:
    files, ends = store_with(synced=3)
    data = files.read(SEGMENT)
    flipped = data[:-1] + bytes((data[-1] ^ 1,))
    torn = [data[:size] for size in range(ends[2], len(data))]

    for content in (flipped, *torn):
        assert recover(damaged(files, content)).state == state(3)


@pytest.mark.parametrize("spoilt", [b"\0", b"\xa5"], ids=["zeros", "garbage"])
def test_a_bad_sector_that_has_the_last_synced_frame_and_its_mark_is_refused(spoilt: bytes) -> None:
    """The other mark, in a file of its own, is the proof."""
    files, ends = store_with(synced=3)
    data = files.read(SEGMENT)

    for start in range(ends[1], len(data[: ends[2]].rstrip(spoilt))):
        copy = damaged(files, data[:start] + spoilt * (len(data) - start))
        with pytest.raises(CorruptStore, match=r"synced up to byte .* is damaged or missing"):
            recover(copy)
    copy = damaged(files, data[: ends[1]])
    with pytest.raises(CorruptStore, match="synced up to byte"):
        recover(copy)


def test_a_newest_segment_that_is_gone_is_missed() -> None:
    files = MemoryFiles()
    store, _ = BlockFile.open(files, NODE, segment_bytes=200)
    parent = GENESIS
    for term in range(1, 8):
        block = make_block(parent, Term(term), BlockKind.DATA, b"p")
        store.persist(Batch(state=replace(state(term), head=block.id), blocks=(block,)))
        parent = block.id
    segments = [name for name in files.names() if name.endswith(".seg")]
    assert len(segments) > 1

    for gone in (segments[-1:], segments):
        copy = files.crash(lambda _, unsynced: unsynced, names_kept=True)
        for name in gone:
            copy.remove(name)
        with pytest.raises(CorruptStore, match="missing"):
            recover(copy)


def test_a_mark_that_is_lost_torn_or_older_costs_nothing() -> None:
    files, _ = store_with(synced=3)
    data = files.read(SYNCED_FILE)
    older = store_with(synced=2)[0].read(SYNCED_FILE)
    whole = [data[:size] for size in range(len(data))]

    for content in (*whole, older, data[:-1] + b"?", b"?" * 600):
        copy = damaged(files, content, SYNCED_FILE)
        assert recover(copy).state == state(3)


def test_the_file_of_marks_stays_small_and_the_last_whole_mark_counts() -> None:
    files = MemoryFiles()
    mark = SyncedMark(files)
    for position in range(1, 3 * ENTRIES_MAX):
        mark.write(Synced(1, position))
        assert len(files.read(SYNCED_FILE)) <= 4096

    assert mark.read() == Synced(1, 3 * ENTRIES_MAX - 1)
    torn = damaged(files, files.read(SYNCED_FILE)[:-1], SYNCED_FILE)
    assert SyncedMark(torn).read() == Synced(1, 3 * ENTRIES_MAX - 2)


def test_pages_of_unsynced_frames_may_arrive_in_any_order() -> None:
    """A valid frame behind a lost one proves nothing when neither was synced."""
    files, ends = store_with(synced=2, unsynced=3)
    data = files.read(SEGMENT)
    lost = data[: ends[2]] + b"\0" * (ends[3] - ends[2]) + data[ends[3] :]

    recovered = recover(damaged(files, lost))

    assert recovered.state == state(3)
    assert recovered.cut_bytes == len(data) - ends[2]


def test_an_unsynced_frame_of_whole_length_and_wrong_content_is_cut() -> None:
    files, ends = store_with(synced=2, unsynced=1)
    data = files.read(SEGMENT)

    recovered = recover(damaged(files, data[:-3] + b"\xff" * 3))

    assert recovered.state == state(2)
    assert recovered.cut_bytes == len(data) - ends[1] - MARK_BYTES


def test_what_a_killed_process_left_unsynced_is_synced_before_it_is_given_out() -> None:
    """Else a vote in the system's memory only would be acted on, and be lost with the power."""
    files, _ = store_with(synced=1, unsynced=1)

    recovered = recover(files)  # the process was killed, the machine runs on

    assert recovered.state == state(2)
    assert recover(files.crash()).state == state(2)


def test_a_start_after_a_clean_stop_writes_nothing() -> None:
    files, _ = store_with(synced=2)
    before = files.read(SEGMENT)

    recover(files)
    recover(files)

    assert files.read(SEGMENT) == before
