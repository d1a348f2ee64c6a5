"""A limit of the machine passes: the block file changes nothing until there is room again, or a
file handle, at every write."""

import errno
from random import Random

import pytest

from raft.errors import StoreFailed, StoreFull
from raft.files import MemoryFiles
from raft.state import Batch
from tests.unit.raft.test_blockfile import Writer, chain_is_whole, life, reopen

SEGMENT_BYTES = 300


class Patient(Writer):
    """Tries again what found no room, `tries` times in vain."""

    tries = 1
    refused = 0

    def write(self, batch: Batch) -> None:
        while True:
            try:
                super().write(batch)
            except StoreFull:
                self.states.pop()
                self.refused += 1
                self._look_at_what_a_crash_would_leave()
                if self.refused >= self.tries:
                    self.files.full_at = self.files.no_handle_at = None
            else:
                return

    def _look_at_what_a_crash_would_leave(self) -> None:
        rng = Random(self.files.growths)
        killed = self.files.crash(lambda _, unsynced: unsynced, names_kept=True)
        assert reopen(killed, SEGMENT_BYTES).state == self.state
        powerless = self.files.crash(
            lambda _, unsynced: rng.randint(0, unsynced), names_kept=rng.random() < 0.5
        )
        recovered = reopen(powerless, SEGMENT_BYTES)
        assert recovered.state in self.states[self.synced :]
        chain_is_whole(recovered)


def whole_life() -> MemoryFiles:
    files = MemoryFiles()
    for _ in life(Writer(files, SEGMENT_BYTES)):
        pass
    return files


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_store_goes_on_when_there_is_room_again_whichever_write_found_none(
    code: int, tries: int
) -> None:
    growths, refused = whole_life().growths, 0
    assert growths > 50

    for full_at in range(growths):
        files = MemoryFiles()
        writer = Patient(files, SEGMENT_BYTES)
        writer.tries = tries
        files.full_at, files.full_errno = full_at, code
        for _ in life(writer):
            pass
        files.full_at = None
        writer.extend(1)

        refused += writer.refused > 0
        recovered = reopen(files, SEGMENT_BYTES)
        assert recovered.state == writer.state
        assert {block.id: block for block in recovered.blocks} == writer.blocks
    assert refused > growths // 2


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_store_goes_on_when_there_are_file_handles_again_whichever_open_found_none(
    code: int, tries: int
) -> None:
    first, refused = MemoryFiles(), 0
    Writer(first, SEGMENT_BYTES)
    handles = whole_life().handles
    assert handles > first.handles + 20

    for no_handle_at in range(first.handles, handles):
        files = MemoryFiles()
        writer = Patient(files, SEGMENT_BYTES)
        writer.tries = tries
        files.no_handle_at, files.no_handle_errno = no_handle_at, code
        for _ in life(writer):
            pass
        files.no_handle_at = None
        writer.extend(1)
        writer.extend(1)

        refused += writer.refused > 0
        recovered = reopen(files, SEGMENT_BYTES)
        assert recovered.state == writer.state
        assert {block.id: block for block in recovered.blocks} == writer.blocks
    assert refused


def test_copy_of_live_blocks_that_finds_no_room_is_made_later() -> None:
    """The batch that made most of a segment needless is in the file before the copy, and stays."""
    waited = 0
    for room in range(8):
        files = MemoryFiles()
        writer = Patient(files, segment_bytes=2000)
        writer.extend(1)
        live = writer.state
        writer.extend(30)
        dead = [id_ for id_ in writer.blocks if id_.height > live.head.height]
        writer.extend(1)
        first = files.names()[0]
        files.full_at = files.growths + room
        writer.write(Batch(state=live, removed=tuple(reversed(dead)), must_sync=True))
        waited += files.full_at is not None and first in files.names()
        files.full_at = None

        writer.write(Batch(state=live, must_sync=True))
        writer.write(Batch(state=live, must_sync=True))

        assert first not in files.names()
        assert {block.id: block for block in reopen(files).blocks} == writer.blocks
    assert waited


def test_sync_that_finds_no_room_ends_the_store() -> None:
    """It has lost what it was to write: to try again would find nothing left to do."""
    files = MemoryFiles()
    writer = Writer(files, segment_bytes=SEGMENT_BYTES)
    writer.extend(9)  # the next batch begins another segment
    file = files.open(max(name for name in files.names() if name.endswith(".seg")))

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file.sync = full  # type: ignore[method-assign]
    with pytest.raises(StoreFailed, match="No space left"):
        writer.extend(9)
    with pytest.raises(StoreFailed, match="takes no more work"):
        writer.extend(2)
