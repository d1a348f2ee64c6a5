"""More files than descriptors: which have one, and what is never lost on the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from josefine_broker.core.log_config import LogConfig
from josefine_broker.shell import open_files as module
from josefine_broker.shell.files import RealFiles
from josefine_broker.shell.flusher import Flusher, Job
from josefine_broker.shell.log import PartitionLog
from josefine_broker.shell.open_files import RealFile
from tests.unit.log.support import NOW_MS, append, read_all


def descriptors_below(directory: Path) -> int:
    """What the kernel says: open files of this process in `directory`."""
    links = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(each))
        except FileNotFoundError:
            continue
    return sum(link.startswith(f"{directory}/") for link in links)


def made(files: RealFiles, count: int) -> list[RealFile]:
    return [files.open(f"f{n}", create=True) for n in range(count)]


def test_fifty_files_share_three_descriptors_and_keep_what_was_written(tmp_path: Path) -> None:
    rng = Random(4)
    files = RealFiles(tmp_path, open_max=3)
    opened = made(files, 50)
    content = [bytearray() for _ in opened]

    for _ in range(2_000):
        at = rng.randrange(50)
        match rng.randrange(5):
            case 0 | 1:
                data = rng.randbytes(rng.randint(1, 20))
                assert opened[at].write_at_end((data,)) == len(content[at])
                content[at] += data
            case 2:
                assert opened[at].read_at(0, 10_000) == content[at]
            case 3:
                size = rng.randint(0, len(content[at]))
                opened[at].truncate(size)
                del content[at][size:]
            case 4:
                opened[at].sync()
        assert descriptors_below(tmp_path) <= 3
        assert opened[at].size() == len(content[at])

    for file in opened:
        file.close()
    assert descriptors_below(tmp_path) == 0


def test_written_file_is_closed_only_after_it_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsynced: set[int] = set()
    pwrite, fdatasync, close = os.pwrite, os.fdatasync, os.close

    def write(fd: int, data: bytes, position: int) -> int:
        unsynced.add(fd)
        return pwrite(fd, data, position)

    def sync(fd: int) -> None:
        fdatasync(fd)
        unsynced.discard(fd)

    def checked_close(fd: int) -> None:
        assert fd not in unsynced
        close(fd)

    monkeypatch.setattr(module.os, "pwrite", write)
    monkeypatch.setattr(module.os, "fdatasync", sync)
    monkeypatch.setattr(module.os, "close", checked_close)
    rng = Random(5)
    for jobs_behind in (0, 1, 100):
        jobs: list[Job] = []
        files = RealFiles(tmp_path, open_max=8, schedule=jobs.append)
        opened = made(files, 30)
        for _ in range(500):
            opened[rng.randrange(30)].write_at_end((b"x",))
            while len(jobs) > jobs_behind:
                jobs.pop(0)()
            assert descriptors_below(tmp_path) <= 8
        for file in opened:
            file.sync()
            file.close()
        for job in jobs:
            job()


def test_files_in_use_keep_their_descriptors(tmp_path: Path) -> None:
    files = RealFiles(tmp_path, open_max=8)
    hot, cold = files.open("hot", create=True), made(files, 100)
    opens = 0
    open_ = os.open

    def counted(path: str, flags: int, mode: int) -> int:
        nonlocal opens
        opens += path.endswith("hot")
        return open_(path, flags, mode)

    with pytest.MonkeyPatch.context() as patched:
        hot.write_at_end((b"x",))
        patched.setattr(module.os, "open", counted)
        for file in cold * 3:
            hot.write_at_end((b"x",))
            file.read_at(0, 1)

    assert opens == 0


def test_file_put_in_the_place_of_one_without_descriptor_is_not_written(tmp_path: Path) -> None:
    files = RealFiles(tmp_path, open_max=2)
    first = files.open("first", create=True)
    made(files, 4)
    (tmp_path / "new").write_bytes(b"of somebody else")
    os.replace(tmp_path / "new", tmp_path / "first")

    with pytest.raises(OSError, match="first is another file"):
        first.write_at_end((b"x",))

    assert (tmp_path / "first").read_bytes() == b"of somebody else"


def test_closed_file_does_not_come_back(tmp_path: Path) -> None:
    files = RealFiles(tmp_path, open_max=2)
    file = files.open("a", create=True)
    made(files, 4)
    file.close()
    file.close()

    for use in (lambda: file.read_at(0, 1), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError, match="was closed"):
            use()


def test_failed_sync_before_a_file_is_closed_is_told_to_every_later_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux tells it once: who swallowed it here would acknowledge what the disk has lost."""
    files = RealFiles(tmp_path, open_max=4)
    file = files.open("a", create=True)
    file.write_at_end((b"lost",))
    failures = [OSError(errno.EIO, "the disk is gone")]

    def sync(fd: int) -> None:
        if failures:
            raise failures.pop()

    monkeypatch.setattr(module.os, "fdatasync", sync)
    made(files, 10)
    assert not failures, "the set wanted to close it"

    with pytest.raises(OSError, match="the disk is gone"):
        file.write_at_end((b"more",))
    with pytest.raises(OSError, match="the disk is gone"):
        file.sync()
    assert file.read_at(0, 10) == b"lost"


def test_logs_work_with_fewer_descriptors_than_logs_while_a_flusher_syncs(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    flusher = Flusher(errors.append)
    files = RealFiles(tmp_path, open_max=3, schedule=flusher.submit)
    config = LogConfig(segment_bytes=1_000, index_interval_bytes=200, flush_ms=1)
    logs = [
        PartitionLog.open(files, f"many-{n}", config, NOW_MS, True, schedule=flusher.submit)
        for n in range(20)
    ]
    rng = Random(6)
    for n in range(300):
        log = logs[rng.randrange(20)]
        append(log, [b"%d" % n], now_ms=NOW_MS + n)
        log.flush_if_due(NOW_MS + n + 1)
        if n % 10 == 0:
            assert read_all(log)
        assert len(files.open_files) <= 3
    before = [read_all(log) for log in logs]
    for log in logs:
        log.abandon()
    flusher.stop()

    again = [PartitionLog.open(files, f"many-{n}", config, NOW_MS, False) for n in range(20)]

    assert errors == []
    assert [read_all(log) for log in again] == before
    assert descriptors_below(tmp_path) <= 3
