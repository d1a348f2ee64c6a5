"""The end of a log that looks like the unfinished write of a killed process may be a file that
somebody has shortened: where other replicas exist, it is in doubt."""

from __future__ import annotations

from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.metadata_quorum.apply_committed import ToHost
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.records.batch import iter_batches
from tests.simulation.memory_files import MemoryFile, MemoryFiles
from tests.unit.josefine_broker.api.world import ManualClock
from tests.unit.josefine_broker.host.log.support import append

TP, ID = TopicPartition("t", 0), UUID(int=1)
LOG = f"{TP}/{0:020d}.log"
NOTE = f"{TP}/completeness.checkpoint"
COMPLETE, UNSYNCED = Completeness.COMPLETE, Completeness.UNSYNCED


class Disk:
    """The disk of a broker with one log of three unsynced batches, or of more."""

    def __init__(self, *, is_only_replica: bool = False) -> None:
        self.files = MemoryFiles()
        self.wanted = ToHost(TP, ID, TopicSettings(), is_only_replica=is_only_replica)
        self.claim()
        hosted = self.open()
        for value in (b"a", b"b", b"c"):
            append(hosted.log, [value])
        self.written = bytes(self.files.names[LOG].data)
        self.last = list(iter_batches(self.written))[-1][0]
        """The place of the last batch."""

    def claim(self) -> Completeness:
        """A process starts after a kill: what it reports of the log before it is registered."""
        self.manager = LogManager(self.files, boot_id="the same boot")
        self.hosting = Hosting(self.manager, ManualClock())
        return self.hosting.prepare([self.wanted]).of((ID, 0))

    def open(self) -> HostedPartition:
        """It is registered, and serves."""
        self.manager.marks.running(1)
        return self.hosting.open(*self.wanted[:3], 0)


def test_every_cut_inside_a_batch_is_a_doubt() -> None:
    disk = Disk()

    for size in range(disk.last + 1, len(disk.written)):
        disk.files.names[LOG].data[:] = disk.written[:size]
        assert disk.claim() is UNSYNCED, size
        hosted = disk.open()
        assert hosted.log.log_end_offset == 2
        assert not hosted.ends_in_damage, "a replica that is down is not waited for"
        assert not hosted.log.recovery_report.may_lack, "nobody is alerted"


def test_log_that_ends_with_a_batch_is_in_no_doubt() -> None:
    disk = Disk()

    assert disk.claim() is COMPLETE


def test_only_replica_has_nobody_to_ask() -> None:
    disk = Disk(is_only_replica=True)
    del disk.files.names[LOG].data[-1:]

    assert disk.claim() is COMPLETE
    assert NOTE not in disk.files.names
    assert disk.open().log.log_end_offset == 2


def test_kill_between_the_cut_and_the_registration_lifts_no_doubt() -> None:
    """The second start finds a log that ends with a batch. Once the image has the doubt, it keeps
    it until this replica was in sync."""
    disk = Disk()
    del disk.files.names[LOG].data[-1:]

    assert disk.claim() is UNSYNCED
    assert disk.claim() is UNSYNCED
    disk.open()
    assert disk.claim() is COMPLETE


def test_doubt_is_durable_before_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    del disk.files.names[LOG].data[-1:]
    noted: list[bool] = []
    truncate = MemoryFile.truncate

    def watching(file: MemoryFile, size: int) -> None:
        noted.append(NOTE in disk.files.durable_names)
        truncate(file, size)

    monkeypatch.setattr(MemoryFile, "truncate", watching)
    disk.claim()

    assert noted == [True]
