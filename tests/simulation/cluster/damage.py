"""What befalls one replica's log while its broker is down: a bit flips, or its directory is gone.

Only the newest segment is damaged: an older one has an index that says it was synced, and recovery
does not read it again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from josefine_broker.shell.high_watermarks import HighWatermarks
from tests.simulation.memory_files import MemoryFiles

if TYPE_CHECKING:
    from tests.simulation.cluster.view import PartitionFacts
    from tests.simulation.cluster.world import World

__all__ = ["flip_bit", "flip_one", "lose_directory", "lose_one", "newest_segment"]

_LOG_SUFFIX, _INDEX_SUFFIX = ".log", ".index"


def newest_segment(files: MemoryFiles, directory: str) -> str | None:
    """The path of the segment that was written last, if it holds anything and has no index."""
    logs = [name for name in files.list(directory) if name.endswith(_LOG_SUFFIX)]
    if not logs:
        return None
    path = f"{directory}/{max(logs)}"
    is_sealed = path.removesuffix(_LOG_SUFFIX) + _INDEX_SUFFIX in files.names
    return None if is_sealed or not files.names[path].data else path


def flip_bit(files: MemoryFiles, path: str, rng: Random) -> None:
    """One bit anywhere in the file, on the disk too."""
    inode = files.names[path]
    bit = rng.randrange(8 * len(inode.data))
    inode.data[bit // 8] ^= 1 << bit % 8
    if bit // 8 < len(inode.durable):
        durable = bytearray(inode.durable)
        durable[bit // 8] ^= 1 << bit % 8
        inode.durable = bytes(durable)


def lose_directory(files: MemoryFiles, directory: str) -> None:
    """As if it never had been."""
    files.remove_tree(directory)
    files.sync_directory("")


def flip_one(world: World, broker_id: int, rng: Random) -> None:
    """A bit in one of the logs there, if there is one that may be damaged."""
    files = world.machines[broker_id].disk.files
    found = [
        (facts, path)
        for facts in world.view.may_be_damaged(broker_id)
        if (path := newest_segment(files, facts.name)) is not None
    ]
    if found:
        facts, path = rng.choice(found)
        flip_bit(files, path, rng)
        _note(world, broker_id, facts, "bit flipped in a log")


def lose_one(world: World, broker_id: int, rng: Random) -> None:
    """One directory of those that the broker knows to have had: see `hosting.py`."""
    files = world.machines[broker_id].disk.files
    known = HighWatermarks(files)
    found = [
        facts
        for facts in world.view.may_be_damaged(broker_id)
        if facts.key in known and files.list(facts.name)
    ]
    if found:
        facts = rng.choice(found)
        lose_directory(files, facts.name)
        _note(world, broker_id, facts, "partition directory lost")


def _note(world: World, broker_id: int, facts: PartitionFacts, what: str) -> None:
    facts.damaged.add(broker_id)
    world.met[what] += 1
    world.scheduler.note(f"{what}: {facts.name} at {broker_id}")
