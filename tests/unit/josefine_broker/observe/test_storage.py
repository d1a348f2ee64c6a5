"""Free space against the reserve: when records are refused, and `/health` says so; when it ends."""

import errno
import os
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.config.sections import IdentitySection
from josefine_broker.host.metrics import Metrics
from josefine_broker.observe import health, storage
from josefine_broker.observe.metrics import register_metrics
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import World

GIB = 2**30


def reserve(bytes_min: int, directory: Path) -> IdentitySection:
    return IdentitySection(data_dir=directory, disk_free_bytes_min=bytes_min)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The file system's answer, which a test sets."""
    left = {"bytes": GIB}
    answer = lambda _path: SimpleNamespace(f_bavail=left["bytes"], f_frsize=1)  # noqa: E731
    monkeypatch.setattr(os, "statvfs", answer)
    return left


def test_disk_is_well_with_the_reserve_of_the_configuration(
    free: dict[str, int], tmp_path: Path
) -> None:
    ctx = World().ctx

    assert health.check_disk(ctx, reserve(GIB, tmp_path)).ok
    assert not health.check_disk(ctx, reserve(GIB + 1, tmp_path)).ok
    free["bytes"] = 1
    assert health.check_disk(ctx, reserve(1, tmp_path)).ok


def test_disk_that_was_full_is_well_again_when_records_are_taken_again(
    free: dict[str, int], tmp_path: Path
) -> None:
    ctx, config = World().ctx, reserve(GIB, tmp_path)
    logs = storage.FailedLogs(MemoryFiles())
    seen = []
    for left in (GIB, GIB - 1, GIB, GIB * 5 // 4 - 1, GIB * 5 // 4, GIB):
        free["bytes"] = left
        storage.look_at_storage(ctx, config, logs)
        assert health.check_disk(ctx, config).ok is not ctx.storage.is_full
        seen.append(ctx.storage.is_full)

    assert seen == [False, True, True, True, False, False]


def test_lack_of_file_handles_is_told_with_its_limit(tmp_path: Path) -> None:
    assert storage.no_handle(tmp_path) == ""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(tmp_path, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, limits[1]))  # the lowest that is free
    try:
        told = storage.no_handle(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert told.startswith("no file can be opened: Too many open files, the limit of this process")
    assert str(probe) in told


def test_failed_log_is_trouble_with_a_name(tmp_path: Path) -> None:
    world = World()
    world.create()
    world.files.failing_sync = True
    with pytest.raises(KafkaError, match="restart failed"):
        world.ctx.hosted.partitions["orders", 0].log.restart_at(5)

    storage.look_at_storage(world.ctx, reserve(1, tmp_path), storage.FailedLogs(MemoryFiles()))

    assert world.ctx.storage.trouble == "storage failed: orders-0"


def test_damaged_log_is_told_and_no_reason_to_hand_over_the_others(tmp_path: Path) -> None:
    """It would take a broker out of the cluster for good, whose disk is well."""
    world = World()
    world.create()
    world.create("another")
    world.produce()
    world.produce(topic="another")
    world.hosting.close(1)
    world.files.remove("orders-0/00000000000000000000.log")

    again = World(world.settings, files=world.files, history=world.raft.committed)
    storage.look_at_storage(again.ctx, reserve(1, tmp_path), storage.FailedLogs(MemoryFiles()))

    assert again.produce(topic="another").error_code == 0
    assert again.ctx.storage.trouble == ""
    check = health.check_logs(again.ctx, again.manager)
    assert not check.ok
    assert "offline, for the log is damaged: orders-0; " in check.detail
    assert "had been synced from 0 to 1: restore the file" in check.detail


def test_log_that_was_cut_is_told_while_the_process_lives() -> None:
    world = World()
    world.create()
    world.create("another")
    for _ in range(3):
        world.produce()
        world.produce(topic="another")
    data = world.files.names["orders-0/00000000000000000000.log"].data
    data[len(data) // 2] ^= 1
    torn = world.files.names["another-0/00000000000000000000.log"].data
    del torn[-1:]

    again = World(world.settings, files=world.files, history=world.raft.committed)

    check = health.check_logs(again.ctx, again.manager)
    assert check.ok
    assert check.detail == "cut at this start, records may be lost: orders-0"
    metrics = Metrics()
    register_metrics(metrics, again.ctx, again.manager)
    values = metrics._read
    assert list(values["recovery_logs_cut"]()) == [({}, 1)]
    ((_, cut_bytes),) = values["recovery_bytes_cut"]()
    assert cut_bytes > len(data)
    assert list(values["logs_offline"]()) == [({}, 0)]


@pytest.mark.parametrize("limit", ["quota", "file handles"])
def test_leader_at_a_limit_that_lasts_hands_over_and_says_why_until_it_has_passed(
    limit: str, tmp_path: Path
) -> None:
    """Its producers were blocked for as long as the limit lasted."""
    world, config = World(), reserve(1, tmp_path)
    world.create()
    assert world.produce().error_code == 0
    ctx, files, logs = world.ctx, world.files, storage.FailedLogs(world.files)
    if limit == "quota":
        files.full_errno, files.full_at = errno.EDQUOT, files.growths
    else:
        ctx.hosted.partitions["orders", 0].log.roll()
        files.evict()
        files.no_handle_at = files.handles

    def look(for_ms: int) -> None:
        for _ in range(0, for_ms, 500):
            world.clock.elapsed_ms += 500
            storage.look_at_storage(ctx, config, logs)

    for _ in range(4):
        assert ctx.storage.trouble == "", "a limit that passes soon is none"
        assert world.produce().error_code == ErrorCode.kafka_storage_error
        look(1_000)
    assert ctx.storage.trouble.startswith("a limit of this machine keeps records out: ")
    told = health.check_disk(ctx, config)
    assert not told.ok
    assert told.detail == ctx.storage.trouble

    look(20_000)
    assert ctx.storage.trouble, "nobody writes any more, and it lasts"
    files.full_at = files.no_handle_at = None
    look(20_000)

    assert ctx.storage.trouble == ""
    assert world.produce().error_code == 0
    assert health.check_disk(ctx, config).ok
    assert storage.PROBE_FILE not in files.names


def test_log_that_cannot_be_synced_for_lack_of_handles_is_at_a_limit(tmp_path: Path) -> None:
    """Its appends succeed, and are never acknowledged."""
    world, config = World(), reserve(1, tmp_path)
    world.create()
    assert world.produce().error_code == 0
    ctx, files, logs = world.ctx, world.files, storage.FailedLogs(world.files)
    its_log: Any = ctx.hosted.partitions["orders", 0].log
    files.evict()
    files.no_handle_at = files.handles
    its_log._sync._directory_dirty = True
    with pytest.raises(OSError, match="too many open files"):
        its_log._sync.sync_later()

    for _ in range(8):
        world.clock.elapsed_ms += 500
        storage.look_at_storage(ctx, config, logs)
    assert "sync failed" in ctx.storage.trouble

    files.no_handle_at = None
    its_log._sync.sync_later()
    for _ in range(20):
        world.clock.elapsed_ms += 500
        storage.look_at_storage(ctx, config, logs)
    assert ctx.storage.trouble == ""


def test_broker_that_cannot_write_metadata_hands_over(tmp_path: Path) -> None:
    """It would not learn that it leads, and the controller hears it (seed 107 of `--limits`)."""
    world, config = World(), reserve(1, tmp_path)
    ctx, logs = world.ctx, storage.FailedLogs(world.files)
    ctx.storage.metadata_lacks = "Disk quota exceeded"

    def look(for_ms: int) -> None:
        for _ in range(0, for_ms, 500):
            world.clock.elapsed_ms += 500
            storage.look_at_storage(ctx, config, logs)

    look(2_500)
    assert ctx.storage.trouble == ""
    look(20_000)
    assert "Disk quota exceeded" in ctx.storage.trouble, "that the logs can be written is no end"

    ctx.storage.metadata_lacks = ""
    look(20_000)
    assert ctx.storage.trouble == ""
