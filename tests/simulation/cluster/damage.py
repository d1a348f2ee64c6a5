"""What befalls the files of a broker that is down: a bit flips, a sector is torn, a file is gone.

What each kind of file may and may not cause is in `file_kinds.py`; here is seen to it that a world
can bear it. Of the logs only the newest segment is damaged: an older one has an index that says it
was synced, and recovery does not read it again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.host.log.high_watermarks import HighWatermarks
from tests.simulation.chain_damage import spoilt
from tests.simulation.cluster.epoch_flips import flip_can_be_seen, needs_checkpoint
from tests.simulation.cluster.file_kinds import KINDS, FileKind, Harm, kind_of
from tests.simulation.memory_files import SECTOR_BYTES, Inode, MemoryFiles

if TYPE_CHECKING:
    from tests.simulation.cluster.view import PartitionFacts
    from tests.simulation.cluster.world import World

__all__ = [
    "Spoil",
    "flip_bit",
    "harm_file",
    "lose_directory",
    "lose_one",
    "newest_segment",
    "note_unwritten",
    "spoil_chain",
    "spoil_log",
    "tear_sector",
]

_LOG_SUFFIX, _INDEX_SUFFIX = ".log", ".index"

Spoil = Callable[[MemoryFiles, str, Random], None]


def newest_segment(files: MemoryFiles, directory: str) -> str | None:
    """The path of the segment that was written last, if it holds anything and has no index."""
    logs = [name for name in files.names_in(directory) if name.endswith(_LOG_SUFFIX)]
    if not logs:
        return None
    path = f"{directory}/{max(logs)}"
    is_sealed = path.removesuffix(_LOG_SUFFIX) + _INDEX_SUFFIX in files.names
    return None if is_sealed or not files.names[path].data else path


def flip_bit(files: MemoryFiles, path: str, rng: Random) -> None:
    """One bit anywhere in the file, on the disk too; of a log one that can be noticed."""
    inode = files.names[path]
    bit = rng.randrange(8 * len(inode.data))
    while path.endswith(_LOG_SUFFIX) and not flip_can_be_seen(files, path, bit):
        bit = rng.randrange(8 * len(inode.data))
    _write(inode, bit // 8, bytes((inode.data[bit // 8] ^ 1 << bit % 8,)))


def tear_sector(files: MemoryFiles, path: str, rng: Random) -> None:
    """One sector anywhere in the file becomes zeros or garbage, on the disk too."""
    inode = files.names[path]
    start = rng.randrange(0, len(inode.data), SECTOR_BYTES)
    size = min(SECTOR_BYTES, len(inode.data) - start)
    _write(inode, start, bytes(size) if rng.random() < 0.5 else rng.randbytes(size))


def _write(inode: Inode, start: int, data: bytes) -> None:
    inode.data[start : start + len(data)] = data
    durable = bytearray(inode.durable)
    if start < len(durable):
        durable[start : start + len(data)] = data[: len(durable) - start]
        inode.durable = bytes(durable)


def lose_directory(files: MemoryFiles, directory: str) -> None:
    """As if it never had been."""
    files.remove_tree(directory)
    for path in [each for each in files.durable_names if each.startswith(f"{directory}/")]:
        del files.durable_names[path]


def spoil_log(world: World, broker_id: int, rng: Random, spoil: Spoil, what: str) -> None:
    """One of the logs there, if there is one that may be damaged."""
    files = world.machines[broker_id].disk.files
    found = [
        (facts, path)
        for facts in world.view.may_be_damaged(broker_id)
        if (path := newest_segment(files, facts.name)) is not None
    ]
    if found:
        facts, path = rng.choice(found)
        spoil(files, path, rng)
        _note(world, broker_id, [facts], what)


def lose_one(world: World, broker_id: int, rng: Random) -> None:
    """One directory of those that the broker knows to have had: see `host/replica_manager.py`."""
    files = world.machines[broker_id].disk.files
    known = HighWatermarks(files)
    found = [
        facts
        for facts in world.view.may_be_damaged(broker_id)
        if facts.key in known and files.names_in(facts.name)
    ]
    if found:
        facts = rng.choice(found)
        lose_directory(files, facts.name)
        _note(world, broker_id, [facts], "partition directory lost")


def harm_file(world: World, broker_id: int, rng: Random, spoil: Spoil | None, what: str) -> None:
    """One of the files beside the logs is spoiled, or lost (None): of any kind, if the world can
    bear what that may cause."""
    files = world.machines[broker_id].disk.files
    for kind in rng.sample(KINDS, len(KINDS)):
        harm = kind.lost if spoil is None else kind.damaged
        paths = sorted(each for each in files.names if kind_of(each) is kind)
        paths = [each for each in paths if spoil is None or files.names[each].data]
        if kind.name == "leader epochs":
            paths = [each for each in paths if not needs_checkpoint(files, each.rpartition("/")[0])]
        if harm is None or not paths:
            continue
        if harm is not Harm.NOTHING and not world.view.image.keeps_doubts:
            harm = Harm.POWER  # at level 1 a broker that doubts a log is judged as a whole
        path = rng.choice(paths)
        harmed = _borne(world, broker_id, kind, harm, path)
        if harmed is None:
            continue
        if spoil is None:
            files.names.pop(path)
            files.durable_names.pop(path, None)
        else:
            spoil(files, path, rng)
        if harm is Harm.POWER:
            world.view.lose_power(broker_id)
        elif harm is Harm.UNWRITTEN:
            world.unwritten.add(broker_id)
        world.met[f"{kind.name} {'lost' if spoil is None else 'damaged'}"] += 1
        world.scheduler.note(f"{what}: {path} at {broker_id}")
        _note(world, broker_id, harmed, what)
        return


def _borne(
    world: World, broker_id: int, kind: FileKind, harm: Harm, path: str
) -> list[PartitionFacts] | None:
    """The replicas there that may suffer; None: it would be more than the others can make good."""
    files, view = world.machines[broker_id].disk.files, world.view
    match harm:
        case Harm.NOTHING:
            return []
        case Harm.POWER:
            return [] if view.is_covered([broker_id]) else None
        case Harm.UNWRITTEN:
            return _unwritten(world, broker_id)
        case Harm.REPLICA:
            known = HighWatermarks(files)
            return [
                facts
                for facts in view.may_be_damaged(broker_id)
                if facts.name == path.rpartition("/")[0] and facts.key in known
            ] or None


def _unwritten(world: World, broker_id: int) -> list[PartitionFacts] | None:
    """The replicas there that nobody wrote to; None: others must make good more already. One broker
    at a time, for topics may be made before it has registered."""
    machines, view = world.machines, world.view
    others = (machines[each].disk.files for each in world.broker_ids if each != broker_id)
    if not all(HighWatermarks(each).is_there for each in others):
        return None
    files, may_be = machines[broker_id].disk.files, view.may_be_damaged(broker_id)
    unwritten = [
        facts
        for facts, _, entry in view.entries()
        if broker_id in entry.replicas and not files.names_in(facts.name)
    ]
    return unwritten if all(facts in may_be for facts in unwritten) else None


def note_unwritten(world: World) -> None:
    """Topics may have been made since brokers lost their high watermarks: what they have of those
    counts as missing, until they have registered and stored new ones."""
    view = world.view
    for broker_id in sorted(world.unwritten):
        files = world.machines[broker_id].disk.files
        process, broker = view.processes.get(broker_id), view.image.brokers.get(broker_id)
        is_registered = (
            process is not None
            and broker is not None
            and broker.incarnation == process.ctx.cluster.incarnation
        )
        if is_registered and HighWatermarks(files).is_there:
            world.unwritten.discard(broker_id)
            continue
        for facts, _, entry in view.entries():
            is_new = broker_id in entry.replicas and broker_id not in facts.damaged
            if is_new and not files.names_in(facts.name):
                facts.damaged.add(broker_id)
                if facts.may_lose(facts.powerless):
                    facts.excused = f"made while broker {broker_id} knew no high watermarks"


def spoil_chain(world: World, broker_id: int, rng: Random) -> None:
    """A file of Raft's: the process must not start with it, until it is restored."""
    machine = world.machines[broker_id]
    found = None if machine.chain.is_spoilt else spoilt(machine.raft_disk, rng)
    if found is not None:
        machine.raft_disk = machine.chain.spoil(machine.raft_disk, found)
        world.met[found.what] += 1
        world.scheduler.note(f"{found.what} at {broker_id}")


def _note(world: World, broker_id: int, harmed: list[PartitionFacts], what: str) -> None:
    for facts in harmed:
        facts.damaged.add(broker_id)
        world.scheduler.note(f"{what}: {facts.name} at {broker_id}")
    world.met[what] += 1
