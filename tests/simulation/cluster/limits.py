"""Limits of a machine, and listings that are not up to date: faults in runs of their own.

A quota is exhausted, or no file handle is left, for a while: what needs one is refused, nothing is
lost, and all goes on afterwards. A directory listing misses a file that is there, or shows one that
is gone, as network file systems do: a start may then take a log for damaged, and must not take it
for whole and shorter, or write into a file that it believes to be new.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.cluster.damage import newest_segment

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import Machine
    from tests.simulation.cluster.view import PartitionFacts
    from tests.simulation.cluster.world import World
    from tests.simulation.memory_files import MemoryFiles

__all__ = ["LIMITS", "Limits", "end_limits", "without_limits"]

LIMITS = {
    "no_handles_per_second": 0.6,
    "over_quota_per_second": 0.4,
    "stale_listing_per_second": 3.0,
}
"""The faults of these runs, at their strength."""
LISTINGS_MAX = 3
"""So many listings of a directory in a row are stale."""


class Limits:
    """Draws them, by itself, so that other faults of a seed stay what they are."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    def act(self, every_ms: int) -> None:
        """Maybe one of each."""
        world, faults, rng = self._world, self._world.faults, self._rng
        machine = world.machines[rng.choice(world.broker_ids)]
        if rng.random() < faults.no_handles_per_second * every_ms / 1_000:
            self._take_handles(machine)
        if rng.random() < faults.over_quota_per_second * every_ms / 1_000:
            self._exhaust_quota(machine)
        for broker_id in world.broker_ids:
            is_down = world.machines[broker_id].process is None
            if is_down and rng.random() < faults.stale_listing_per_second * every_ms / 1_000:
                with without_limits(world):
                    self._make_stale(broker_id)

    def _take_handles(self, machine: Machine) -> None:
        """Nothing can be opened, of the logs or of the metadata; after the next few opens."""
        world, rng = self._world, self._rng
        code, spare = rng.choice((errno.EMFILE, errno.ENFILE)), rng.randrange(4)
        for files in (machine.disk.files, machine.raft_disk):
            files.no_handle_at, files.no_handle_errno = files.handles + spare, code
        machine.disk.files.evict()
        world.met["no file handles"] += 1
        world.scheduler.note(f"no file handles at {machine.id}")
        world.scheduler.at(1 + rng.randrange(2_000), lambda: end_limits(machine))

    def _exhaust_quota(self, machine: Machine) -> None:
        world, rng = self._world, self._rng
        machine.disk.files.full_errno = machine.raft_disk.full_errno = errno.EDQUOT
        machine.disk.fill(rng.randrange(600))
        machine.fill_metadata(rng.randrange(3))
        world.met["quota exhausted"] += 1
        world.scheduler.note(f"quota exhausted at {machine.id}")
        world.scheduler.at(1 + rng.randrange(2_000), lambda: end_limits(machine))

    def _make_stale(self, broker_id: int) -> None:
        """Of one log's directory, where the other replicas have what it has."""
        world, rng = self._world, self._rng
        files = world.machines[broker_id].disk.files
        found = [
            (facts, path)
            for facts in world.view.may_be_damaged(broker_id)
            if (path := newest_segment(files, facts.name)) is not None
        ]
        if not found:
            return
        facts, path = rng.choice(found)
        is_hidden = rng.random() < 0.5
        name = path.rpartition("/")[2]
        if not is_hidden:
            name = f"{rng.randrange(int(name[:20]) + 1):020d}.log"
            if f"{facts.name}/{name}" in files.names:
                return
        _show(files, facts, name, is_hidden=is_hidden, times=1 + rng.randrange(LISTINGS_MAX))
        what = "listing misses a segment" if is_hidden else "listing shows a segment that is gone"
        facts.damaged.add(broker_id)
        world.met[what] += 1
        world.scheduler.note(f"{what}: {facts.name}/{name} at {broker_id}")


def _show(
    files: MemoryFiles, facts: PartitionFacts, name: str, *, is_hidden: bool, times: int
) -> None:
    """The next listings of that directory lack this name, or have it."""
    left = [times]

    def stale(directory: str, names: list[str]) -> list[str]:
        if directory != facts.name or not left[0]:
            return names
        left[0] -= 1
        if is_hidden:
            return [each for each in names if each != name]
        return sorted({*names, name})

    files.stale = stale


@contextmanager
def without_limits(world: World) -> Iterator[None]:
    """Who only looks at the brokers' files from outside takes none of their handles."""
    if not world.faults.no_handles_per_second:
        yield
        return
    every = [
        m for machine in world.machines.values() for m in (machine.disk.files, machine.raft_disk)
    ]
    before = [each.no_handle_at for each in every]
    for each in every:
        each.no_handle_at = None
    try:
        yield
    finally:
        for each, limit in zip(every, before, strict=True):
            if each.no_handle_at is None:
                each.no_handle_at = limit


def end_limits(machine: Machine) -> None:
    """There are handles again, and the quota is raised."""
    machine.disk.files.no_handle_at = machine.raft_disk.no_handle_at = None
    machine.disk.empty()
    machine.empty_metadata()
    machine.disk.files.full_errno = machine.raft_disk.full_errno = errno.ENOSPC
