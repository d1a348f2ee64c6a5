"""A power failure explains the damage of a log until a start, or its repair, finds the log whole:
a kill in between does not change what the failure took from all replicas alike."""

from __future__ import annotations

import errno
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.hosted import NOWHERE, HostedPartition
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.metadata_quorum.apply_committed import ToHost
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.records.batch import iter_batches
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import ManualClock
from tests.unit.josefine_broker.host.log.support import append

TP, ID = TopicPartition("t", 0), UUID(int=1)
WANTED = ToHost(TP, ID, TopicSettings(), is_only_replica=False)
LOG = f"{TP}/{0:020d}.log"
NOTE = f"{TP}/power-lost.checkpoint"


class Disk:
    """The disk of a broker with a log of four unsynced batches."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.hosting = Hosting(LogManager(self.files), ManualClock())
        for value in (b"a", b"b", b"c", b"d"):
            append(self.start("boot 1").log, [value])

    def start(self, boot_id: str) -> HostedPartition:
        """A process that serves, until the next one: it is killed. Another boot: the power failed
        before."""
        manager = LogManager(self.files, boot_id=boot_id)
        self.hosting = Hosting(manager, ManualClock())
        self.hosting.prepare([WANTED])
        manager.marks.running(1)
        return self.hosting.open(*WANTED[:3], 0)

    def flip(self) -> None:
        """A bit of the second batch."""
        data = self.files.names[LOG].data
        positions = [pos for pos, _ in iter_batches(bytes(data))]
        data[positions[2] - 1] ^= 1

    @property
    def is_explained(self) -> bool:
        damaged: Any = self.hosting.damaged.logs[TP]
        return bool(damaged.lost_power)


def test_kill_during_the_repair_does_not_change_what_a_power_failure_took() -> None:
    disk = Disk()
    disk.flip()

    for boot_id in ("boot 2", "boot 2", "boot 2"):
        hosted = disk.start(boot_id)
        assert disk.is_explained
        assert hosted.lost_from == 0


def test_damage_that_no_power_failure_explains_is_never_explained() -> None:
    disk = Disk()
    disk.flip()

    hosted = disk.start("boot 1")

    assert not disk.is_explained
    assert hosted.lost_from == NOWHERE


@pytest.mark.parametrize("by", ["the repair", "a start"])
def test_power_failure_explains_no_damage_of_a_log_that_was_whole_meanwhile(by: str) -> None:
    disk = Disk()
    intact = bytes(disk.files.names[LOG].data)
    disk.flip()
    disk.start("boot 2")
    assert NOTE in disk.files.names
    disk.files.names[LOG].data[:] = intact
    if by == "a start":
        disk.start("boot 2")
    else:
        damaged: Any = disk.hosting.damaged.logs[TP]
        damaged.has_batches_again()
    assert NOTE not in disk.files.names

    disk.flip()
    disk.start("boot 2")

    assert not disk.is_explained


def test_note_that_was_damaged_explains_nothing() -> None:
    """A person decides then, as about any hole."""
    disk = Disk()
    disk.flip()
    disk.start("boot 2")
    disk.files.names[NOTE].data[-1] ^= 1

    disk.start("boot 2")

    assert not disk.is_explained


def test_full_disk_stops_no_start_and_explains_the_damage_until_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk()
    disk.flip()
    monkeypatch.setattr(LogState, "note_power_lost", _refuse)

    disk.start("boot 2")
    assert disk.is_explained

    disk.start("boot 2")
    assert not disk.is_explained


def _refuse(_: LogState) -> None:
    raise OSError(errno.ENOSPC, "no space left")
