"""Real files behave as the port says, and as their twin in memory does."""

import os
from pathlib import Path
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk import files as files_module
from josefine_broker.host.disk.files import RealFiles, read_checked, write_checked
from josefine_broker.host.disk.flusher import Flusher, Job
from josefine_broker.host.log.log import PartitionLog
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    open_log,
    read_all,
)


@pytest.fixture(params=["real", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return RealFiles(tmp_path) if request.param == "real" else MemoryFiles()


def test_file_appends_and_reads_at_positions(files: Files) -> None:
    file = files.open("a", create=True)

    assert file.write_at_end((b"abc",)) == 0
    assert file.write_at_end((memoryview(b"def"), bytearray(b"ghi"))) == 3
    assert file.size() == 9
    assert file.read_at(2, 5) == b"cdefg"
    assert file.read_at(7, 5) == b"hi"
    assert file.read_at(9, 5) == b""
    file.truncate(4)
    assert file.write_at_end((b"X",)) == 4
    file.sync()
    file.close()
    assert files.open("a").read_at(0, 10) == b"abcdX"


def test_names_are_made_renamed_and_removed(files: Files) -> None:
    files.make_directory("d")
    files.open("d/b", create=True).close()
    files.open("d/a", create=True).close()

    assert files.list("d") == ["a", "b"]
    files.rename("d/a", "d/b")
    assert files.list("d") == ["b"]
    files.remove("d/b")
    files.remove("d/b")
    files.remove_tree("d")
    files.remove_tree("d")
    assert files.list("d") == []
    assert files.list("nowhere") == []
    with pytest.raises(FileNotFoundError):
        files.open("d/a")


def test_short_writes_go_on_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(1)
    pwrite, pwritev = os.pwrite, os.pwritev

    def short(fd: int, data: memoryview, position: int) -> int:
        return pwrite(fd, memoryview(data)[: rng.randint(1, len(data))], position)

    def shortv(fd: int, buffers: list[bytes], position: int) -> int:
        data = b"".join(buffers)
        return pwritev(fd, [data[: rng.randint(1, len(data))]], position)

    monkeypatch.setattr(files_module.os, "pwrite", short)
    monkeypatch.setattr(files_module.os, "pwritev", shortv)
    file = RealFiles(tmp_path).open("a", create=True)

    written = b""
    for size in range(1, 200):
        parts = [bytes([size]) * (size % 7), b"", rng.randbytes(size)][: 1 + size % 3]
        parts = [part for part in parts if part] or [b"x"]
        assert file.write_at_end(parts) == len(written)
        written += b"".join(parts)

    assert file.read_at(0, len(written) + 1) == written


def test_checked_file_is_replaced_whole_and_any_damage_is_noticed(files: Files) -> None:
    assert read_checked(files, "c", 1, 1) is None
    write_checked(files, "c", 1, 1, b"first")
    write_checked(files, "c", 1, 1, b"second")
    assert read_checked(files, "c", 1, 1) == b"second"

    file = files.open("c")
    content = file.read_at(0, file.size())
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        file.truncate(0)
        file.write_at_end((damaged,))
        with pytest.raises(CorruptData, match=r"^c: "):
            read_checked(files, "c", 1, 1)


def test_newer_format_is_refused_by_its_number(files: Files) -> None:
    write_checked(files, "c", 1, 2, b"from the future")

    with pytest.raises(CorruptData, match="format version 2; this code reads 1"):
        read_checked(files, "c", 1, 1)


def test_log_on_real_files_survives_a_kill_while_the_flusher_works(tmp_path: Path) -> None:
    """Checklist rows 30 and 31."""
    errors: list[BaseException] = []
    flusher = Flusher(errors.append)
    config = LogConfig(segment_bytes=2000, index_interval_bytes=300, flush_ms=5)
    log = PartitionLog.open(
        RealFiles(tmp_path), DIRECTORY, config, NOW_MS, True, schedule=flusher.submit
    )
    for n in range(500):
        append(log, [b"%d" % n], now_ms=NOW_MS + n)
        log.flush_if_due(NOW_MS + n)
        if n % 50 == 49:
            log.delete_before(n // 2)
    before = read_all(log)
    log.abandon()
    flusher.stop()

    again = open_log(RealFiles(tmp_path), config)

    assert errors == []
    assert read_all(again) == before
    assert again.log_start_offset == 249
    assert again.verify().problems == ()
    again.close()


def test_flusher_reports_a_job_that_failed_and_goes_on() -> None:
    errors: list[BaseException] = []
    done: list[int] = []
    flusher = Flusher(errors.append)

    def fail() -> None:
        raise OSError("disk")

    jobs: list[Job] = [fail, lambda: done.append(1)]
    for job in jobs:
        flusher.submit(job)
    flusher.stop()

    assert [str(error) for error in errors] == ["disk"]
    assert done == [1]
