"""A replay passes on intact batches only, and reports or refuses the rest."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.replay import replay
from josefine_broker.records.batch import iter_batches
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import append, log_file, open_log

CHANGES = {
    "base offset": (7, b"\x7f"),
    "leader epoch": (12, b"\xff" * 4),
    "producer": (48, b"\x7f"),
}


def log_with(change: str) -> PartitionLog:
    """Three batches in the leader epochs 0, 1 and 2; a field of the second one has changed."""
    files = MemoryFiles()
    log = open_log(files)
    for epoch in range(3):
        append(log, [b"v"], leader_epoch=epoch)
    data = files.names[log_file()].data
    start = list(iter_batches(bytes(data)))[1][0]
    byte, value = CHANGES[change]
    data[start + byte : start + byte + len(value)] = value
    return log


@pytest.mark.parametrize("change", CHANGES)
def test_replay_ends_before_a_batch_that_has_changed(change: str) -> None:
    log = log_with(change)
    seen: list[int] = []

    with pytest.raises(CorruptData):
        replay(log._segments, log.state, log.config, None, lambda h, _: seen.append(h.base_offset))

    assert seen == [0]


@pytest.mark.parametrize("change", CHANGES)
def test_log_reports_that_its_replay_was_incomplete_and_has_the_damage_repaired(
    change: str,
) -> None:
    log = log_with(change)

    assert not log.replay(None, lambda header, batch: None)

    assert log.damage.found


def test_no_snapshot_is_stored_of_producers_that_lack_batches() -> None:
    """Cluster simulation with decaying disks, seed 126: the roll before a repair, or a clean stop,
    stored what a replay had passed over as if it had never been there; the next start believed it,
    and a producer was refused its next batch."""
    log = log_with("producer")
    log.snapshot_source = lambda: b"without the second batch"
    assert not log.replay(None, lambda header, batch: None)

    log.roll()
    log.close(b"without the second batch")

    assert log.state.snapshot_offsets() == []
