"""Disk faults under the logs of running brokers: flipped bits, lost and misdirected writes,
sectors that cannot be read any more. Of any replica, as long as each committed batch is intact on
another one that is in sync; the brokers' scrub and their readers find it, and repairs fix it.

The fault is on the disk, so it strikes what is read from there: what a broker has verified while it
was in memory is read, and verified, again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.batch import HEADER_BYTES, parse_header, verify
from tests.simulation.memory_files import SECTOR_BYTES, Inode

if TYPE_CHECKING:
    from tests.simulation.cluster.view import Batch, PartitionFacts
    from tests.simulation.cluster.world import World

__all__ = ["is_intact", "rot"]

Span = tuple[Inode, int, int]
"""A batch in a file: from this byte, so many."""


def rot(world: World, rng: Random, among: Collection[int] | None = None) -> None:
    """One fault of a disk under one replica, if the world can bear it; with `among` of one of these
    brokers, if the others of them can."""
    view = world.view
    view.forgive()
    found = [
        (facts, broker_id)
        for facts, _, entry in view.entries()
        for broker_id in entry.isr
        if may_rot(world, facts, broker_id) and not entry.is_reassigning
        if among is None or broker_id in among
    ]
    if not found:
        return
    facts, broker_id = rng.choice(found)
    files = world.machines[broker_id].disk.files
    batch = rng.choice(committed(world, facts))
    span = _span(files.names, facts.name, batch)
    if span is None:
        return
    inode, start, size = span
    kind = rng.choice(("bit flipped", "write lost", "write misdirected", "sector unreadable"))
    at = start + rng.randrange(size)
    if kind == "bit flipped" and 12 <= at - start < 16:
        at = start + HEADER_BYTES  # a leader epoch: only the scrub and a repair can see it
    sector = at - at % SECTOR_BYTES
    low, high = (at, at + 1) if kind == "bit flipped" else (sector, sector + SECTOR_BYTES)
    struck = [
        each
        for each in committed(world, facts)
        if _overlaps(files.names, facts, each, span, low, high)
    ]
    last = max((_end(files.names, facts, each, inode) for each in struck), default=0)
    if not struck or high > last or not _is_borne(world, facts, struck, broker_id, among):
        return  # it would strike what is not committed, or what no other replica has
    if kind == "bit flipped":
        change = bytes((inode.data[at] ^ 1 << rng.randrange(8),))
    elif kind == "write lost":
        change = bytes(high - low)
    else:
        other = rng.randrange(0, max(1, len(inode.data) - SECTOR_BYTES), SECTOR_BYTES)
        change = bytes(inode.data[other : other + high - low]).ljust(high - low, b"\0")
    if kind == "sector unreadable":
        inode.unreadable.add(sector)
    else:
        inode.data[low:high] = change
        durable = bytearray(inode.durable)
        if low < len(durable):
            durable[low:high] = change[: len(durable) - low]
            inode.durable = bytes(durable)
    hosted = view.hosted(broker_id, facts.name.rpartition("-")[0], facts.key)
    assert hosted is not None
    for segment in hosted.log._segments:  # type: ignore[attr-defined]
        segment.reads.forget()
    for each in struck:
        facts.rotten.setdefault(each, set()).add(broker_id)
    world.met[f"log under a broker: {kind}"] += 1
    world.met["log rotten"] += 1
    world.scheduler.note(f"{kind}: {facts.name} at {broker_id}, offset {batch.base_offset}")


def may_rot(world: World, facts: PartitionFacts, broker_id: int) -> bool:
    """Whether anything of this replica may be struck."""
    return (
        not facts.excused
        and not facts.losses.is_allowed
        and (facts.flushes or not world.power_fails)
        and world.view.is_current(broker_id)
        and broker_id not in facts.damaged | facts.powerless
        and bool(committed(world, facts))
    )


def committed(world: World, facts: PartitionFacts) -> list[Batch]:
    """The batches that every replica in sync knows to be committed."""
    view = world.view
    entry = next(entry for each, _, entry in view.entries() if each is facts)
    hosted = [view.hosted(each, facts.name.rpartition("-")[0], facts.key) for each in entry.isr]
    known = [each.partition.high_watermark for each in hosted if each is not None]
    end = min(known, default=0) if len(known) == len(entry.isr) else 0
    return [
        b for b in facts.batches if facts.deleted_before <= b.base_offset and b.end_offset <= end
    ]


def _is_borne(
    world: World,
    facts: PartitionFacts,
    struck: Sequence[Batch],
    broker_id: int,
    among: Collection[int] | None,
) -> bool:
    """Whether every batch stays readable on another replica in sync: it is intact there, and so is
    a neighbour, which confirms its offset. These may not become the neighbours that are missing."""
    entry = next(entry for each, _, entry in world.view.entries() if each is facts)
    others = set(entry.isr) - facts.damaged - facts.powerless - {broker_id}
    others = others if among is None else others.intersection(among)
    first, last = facts.batches.index(struck[0]), facts.batches.index(struck[-1])
    near = facts.batches[max(0, first - 2) : last + 3]
    rotten = {broker for each in near for broker in facts.rotten.get(each, ())}
    return bool(others - rotten)


def _overlaps(
    names: dict[str, Inode], facts: PartitionFacts, batch: Batch, struck: Span, low: int, high: int
) -> bool:
    span = _span(names, facts.name, batch)
    return span is not None and span[0] is struck[0] and span[1] < high and low < span[1] + span[2]


def _end(names: dict[str, Inode], facts: PartitionFacts, batch: Batch, inode: Inode) -> int:
    span = _span(names, facts.name, batch)
    return span[1] + span[2] if span is not None and span[0] is inode else 0


def is_intact(names: dict[str, Inode], directory: str, batch: Batch) -> bool:
    """Whether the files have this batch as it was written."""
    return _span(names, directory, batch) is not None


def _span(names: dict[str, Inode], directory: str, batch: Batch) -> Span | None:
    wanted = batch.base_offset.to_bytes(8, "big")
    logs = sorted(
        path for path in names if path.startswith(f"{directory}/") and path.endswith(".log")
    )
    for path in reversed([each for each in logs if int(each[-24:-4]) <= batch.base_offset][-1:]):
        inode = names[path]
        data = bytes(inode.data)
        at = data.find(wanted)
        while at >= 0:
            try:
                header = parse_header(data, at)
                verify(data, at, header)
            except CorruptData:
                header = None
            if header is not None and header.size_bytes >= HEADER_BYTES:
                end = at + header.size_bytes
                is_readable = not any(at < s + SECTOR_BYTES and s < end for s in inode.unreadable)
                if (header.crc, header.leader_epoch) == (
                    batch.crc,
                    batch.leader_epoch,
                ) and is_readable:
                    return inode, at, header.size_bytes
            at = data.find(wanted, at + 1)
    return None
