"""More files than descriptors: which have one, and what is never lost on the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk import open_files as module
from josefine_broker.host.disk.files import RealFiles
from josefine_broker.host.disk.flusher import Flusher
from josefine_broker.host.disk.open_files import RealFile
from josefine_broker.host.log.log import PartitionLog
from tests.unit.josefine_broker.host.log.support import NOW_MS, append, read_all


def open_below(directory: Path) -> list[str]:
    """What the kernel says: names of open files of this process in `directory`."""
    links = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(each))
        except FileNotFoundError:
            continue
    return [Path(link).name for link in links if link.startswith(f"{directory}/")]


def descriptors_below(directory: Path) -> int:
    return len(open_below(directory))


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


def test_sync_reaches_what_was_written_before_the_descriptor_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By inode: a sync is of the file, whichever descriptor it came through."""
    unsynced: set[int] = set()
    pwrite, fdatasync = os.pwrite, os.fdatasync

    def write(fd: int, data: bytes, position: int) -> int:
        unsynced.add(os.fstat(fd).st_ino)
        return pwrite(fd, data, position)

    def sync(fd: int) -> None:
        fdatasync(fd)
        unsynced.discard(os.fstat(fd).st_ino)

    monkeypatch.setattr(module.os, "pwrite", write)
    monkeypatch.setattr(module.os, "fdatasync", sync)
    rng = Random(5)
    files = RealFiles(tmp_path, open_max=8)
    opened = made(files, 30)
    inodes = {file: os.stat(tmp_path / f"f{n}").st_ino for n, file in enumerate(opened)}
    for _ in range(500):
        file = rng.choice(opened)
        if rng.random() < 0.8:
            file.write_at_end((b"x",))
        else:
            file.sync()
            assert inodes[file] not in unsynced
        assert descriptors_below(tmp_path) <= 8


def test_files_without_unsynced_writes_go_first(tmp_path: Path) -> None:
    files = RealFiles(tmp_path, open_max=8)
    written = made(files, 4)
    for file in written:
        file.write_at_end((b"x",))
    read = [files.open(f"r{n}", create=True) for n in range(20)]
    for file in read:
        file.read_at(0, 1)

    assert {f"f{n}" for n in range(4)} <= set(open_below(tmp_path))


def test_files_in_use_keep_their_descriptors(tmp_path: Path) -> None:
    files = RealFiles(tmp_path, open_max=8)
    hot, cold = files.open("hot", create=True), made(files, 100)
    opens = 0
    open_ = os.open

    def counted(path: str, flags: int, mode: int = 0) -> int:
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

    with pytest.raises(OSError, match="first was replaced by another file"):
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


def test_failed_sync_is_told_to_every_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux tells it once: who asked again would acknowledge what the disk has lost."""
    files = RealFiles(tmp_path, open_max=4)
    file = files.open("a", create=True)
    file.write_at_end((b"lost",))
    made(files, 10)
    failures = [OSError(errno.EIO, "the disk is gone")]

    def sync(fd: int) -> None:
        if failures:
            raise failures.pop()

    monkeypatch.setattr(module.os, "fdatasync", sync)
    for _ in range(3):
        with pytest.raises(OSError, match="the disk is gone"):
            file.sync()
    assert file.read_at(0, 10) == b"lost"


def test_descriptor_that_another_thread_syncs_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number would be another file's by then."""
    files = RealFiles(tmp_path, open_max=2)
    file = files.open("a", create=True)
    file.write_at_end((b"x",))
    begun, may_end = Event(), Event()
    synced: list[int] = []

    def sync(fd: int) -> None:
        begun.set()
        assert may_end.wait(30)
        synced.append(os.fstat(fd).st_ino)

    monkeypatch.setattr(module.os, "fdatasync", sync)
    thread = Thread(target=file.sync)
    thread.start()
    assert begun.wait(30)
    made(files, 10)
    file.close()
    may_end.set()
    thread.join(30)

    assert synced == [os.stat(tmp_path / "a").st_ino]
    assert "a" not in open_below(tmp_path)


def test_logs_opened_on_another_thread_hold_no_descriptors(tmp_path: Path) -> None:
    """They are recovered there, by the thousand, and used here."""
    files = RealFiles(tmp_path, open_max=3)
    names = [f"many-{n}" for n in range(10)]
    for name in names:
        log = PartitionLog.open(files, name, LogConfig(), NOW_MS, True)
        append(log, [b"a"])
        log.abandon()
    logs: list[PartitionLog] = []

    def recover() -> None:
        logs.extend(PartitionLog.open(files, name, LogConfig(), NOW_MS, False) for name in names)

    thread = Thread(target=recover)
    thread.start()
    thread.join(30)

    assert open_below(tmp_path) == []
    assert [read_all(log) for log in logs] == [[(0, b"a")]] * 10
    assert descriptors_below(tmp_path) <= 3


def test_logs_work_with_fewer_descriptors_than_logs_while_a_flusher_syncs(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    flusher = Flusher(errors.append)
    files = RealFiles(tmp_path, open_max=3)
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


def test_sync_by_somebody_else_holds_the_descriptor_and_its_failure_is_final(
    tmp_path: Path,
) -> None:
    files = RealFiles(tmp_path, open_max=2)
    file = files.open("log", create=True)
    file.write_at_end((b"x",))
    fd = file.begin_sync()
    made(files, 8)
    assert "log" in open_below(tmp_path)  # not evicted

    with pytest.raises(OSError, match="Input/output error"):
        file.end_sync(fd, errno.EIO, 1)

    for call in (file.begin_sync, file.sync):
        with pytest.raises(OSError, match="an earlier sync of"):
            call()
    assert sum(files.open_files.syncs.buckets) == 1
    made(files, 8)
    assert "log" not in open_below(tmp_path)
    with pytest.raises(OSError, match="an earlier sync of"):
        file.hold()
