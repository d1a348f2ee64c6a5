"""Random lives of the threads that sync files, each judged by what it must have done."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from functools import partial
from random import Random

from josefine_broker.host.disk.sync_pipes import Start, open_pipes
from josefine_broker.host.disk.synced_mark import NO_ENTRY, NOTHING_KNOWN, Entry

ENTRIES = 100
ENTRY_BYTES = 20
CLOSED = 9_999
"""A descriptor that nobody has."""


def live(start: Start, rng: Random) -> None:
    """Syncs of files, a pipe and nothing at all, handed over and waited for at any time."""
    asyncio.run(_live(start, rng))


async def _turn() -> None:
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_soon(over.set_result, None)
    await over


async def _live(start: Start, rng: Random) -> None:
    failed: list[BaseException] = []
    pipes = open_pipes(asyncio.get_running_loop(), failed.append, start)
    assert pipes is not None
    ended: dict[int, tuple[int, bool]] = {}
    wanted: dict[int, tuple[int, bool]] = {}
    done: list[int] = []
    written: dict[int, set[bytes]] = {}

    def end(nth: int, error: int, elapsed_ns: int, has_entry: bool) -> None:
        assert nth not in ended
        assert elapsed_ns > 0
        ended[nth] = error, has_entry

    with tempfile.TemporaryDirectory(prefix="josefine-syncs-") as folder:
        files = [os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT) for name in range(4)]
        reader, writer = os.pipe()
        codes = {writer: errno.EINVAL, CLOSED: errno.EBADF}
        for nth in range(rng.randrange(1, 300)):
            fd = rng.choice((*files, writer, CLOSED))
            entry = NO_ENTRY
            if rng.random() < 0.5:
                place, data = rng.randrange(ENTRIES), rng.randbytes(ENTRY_BYTES)
                to = rng.choice((files[0], files[0], reader, CLOSED))
                entry = Entry(to, place * ENTRY_BYTES, data, NOTHING_KNOWN)
                if to == files[0] and fd in files:
                    written.setdefault(place, set()).add(data)
            wanted[nth] = codes.get(fd, 0), fd in files and entry.descriptor == files[0]
            number = pipes.submit(fd, entry, partial(end, nth), partial(done.append, nth))
            chance = rng.random()
            if chance < 0.2:
                pipes.flush()
            elif chance < 0.25:
                pipes.wait(number)
                assert nth in ended
            elif chance < 0.4:
                await _turn()
        pipes.flush()
        await pipes.stop()
        await _turn()  # what was waited for is done a turn later
        assert ended == wanted
        assert sorted(done) == sorted(wanted)
        for place, data in written.items():
            assert os.pread(files[0], ENTRY_BYTES, place * ENTRY_BYTES) in data
        for each in (*files, reader, writer):
            os.close(each)
