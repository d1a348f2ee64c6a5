"""Checksums on demand, of an open log and of a directory at rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.verify import verify_directory
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import DIRECTORY, append, log_file, open_log

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)


def stored(*, clean: bool) -> MemoryFiles:
    files = MemoryFiles()
    log = open_log(files, SMALL)
    for n in range(20):
        append(log, [b"%d" % n] * (1 + n % 3), leader_epoch=n // 5)
    if clean:
        log.close()
    else:
        log.abandon()
    return files


@pytest.mark.parametrize("clean", [True, False])
def test_directory_at_rest_is_right_and_stays_as_it_is(clean: bool) -> None:
    files = stored(clean=clean)
    before = {path: bytes(inode.data) for path, inode in files.names.items()}

    report = verify_directory(files, DIRECTORY, SMALL)

    assert report.problems == ()
    assert report.batches == 20
    assert {path: bytes(inode.data) for path, inode in files.names.items()} == before


@settings(max_examples=150, deadline=None)
@given(bit=st.integers(0, 10**6))
def test_flipped_bit_in_any_file_of_a_closed_log_is_detected(bit: int) -> None:
    """Checklist row 29."""
    files = stored(clean=True)
    indexed = sorted(path for path in files.names if path.endswith((".log", ".index", "index")))
    content = [(path, at) for path in indexed for at in range(len(files.names[path].data))]
    path, at = content[bit // 8 % len(content)]

    files.names[path].data[at] ^= 1 << bit % 8

    in_index_head = path.endswith(".index") and at < 88
    problems = verify_directory(files, DIRECTORY, SMALL).problems
    assert in_index_head or [problem.file[:29] for problem in problems] == [path[:29]]


def test_torn_tail_is_reported_with_its_place() -> None:
    files = stored(clean=False)
    last = max(path for path in files.names if path.endswith(".log"))
    size = len(files.names[last].data)
    del files.names[last].data[-2:]

    (problem,) = verify_directory(files, DIRECTORY, SMALL).problems

    assert problem.file == last
    assert 0 < problem.position < size
    assert "cut off after" in problem.reason


def test_every_damaged_segment_is_reported() -> None:
    files = stored(clean=True)
    logs = sorted(path for path in files.names if path.endswith(".log"))
    for path in logs:
        files.names[path].data[70] ^= 1

    report = verify_directory(files, DIRECTORY, SMALL)

    assert [problem.file for problem in report.problems] == logs
    assert logs[0] == log_file()
