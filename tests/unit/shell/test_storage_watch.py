"""Free space against the reserve: when records are refused, and `/health` says so; when it ends."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from josefine_broker import observe, storage_watch
from josefine_broker.base.errors import KafkaError
from josefine_broker.config import IdentitySection
from tests.unit.handlers.world import World

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

    assert observe.check_disk(ctx, reserve(GIB, tmp_path)).ok
    assert not observe.check_disk(ctx, reserve(GIB + 1, tmp_path)).ok
    free["bytes"] = 1
    assert observe.check_disk(ctx, reserve(1, tmp_path)).ok


def test_disk_that_was_full_is_well_again_when_records_are_taken_again(
    free: dict[str, int], tmp_path: Path
) -> None:
    ctx, config = World().ctx, reserve(GIB, tmp_path)
    seen = []
    for left in (GIB, GIB - 1, GIB, GIB * 5 // 4 - 1, GIB * 5 // 4, GIB):
        free["bytes"] = left
        storage_watch.look_at_storage(ctx, config)
        assert observe.check_disk(ctx, config).ok is not ctx.disk_full
        seen.append(ctx.disk_full)

    assert seen == [False, True, True, True, False, False]


def test_failed_log_is_trouble_with_a_name(tmp_path: Path) -> None:
    world = World()
    world.create()
    world.files.space_bytes = 0
    with pytest.raises(KafkaError, match="not begun anew"):
        world.ctx.partitions["orders", 0].log.restart_at(5)

    storage_watch.look_at_storage(world.ctx, reserve(1, tmp_path))

    assert world.ctx.storage_trouble == "storage failed: orders-0"
