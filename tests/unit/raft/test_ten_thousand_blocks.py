"""A chain of ten thousand blocks: how little of it a restart has to read, counted, not timed."""

from __future__ import annotations

from raft import MemoryFiles
from tests.unit.raft.test_node_alone import Host, config

BLOCKS = 10_000
SNAPSHOT_BLOCKS = 1_000
BATCH = 250


def test_a_chain_of_ten_thousand_blocks_restarts_from_its_snapshot_and_the_few_behind() -> None:
    """Checklist row 9: the work of a restart is bounded by the blocks between two snapshots."""
    files = MemoryFiles()
    host = Host(files, config(tail_blocks_max=100)).run()
    for first in range(0, BLOCKS, BATCH):
        for number in range(first, first + BATCH):
            host.propose(b"%d" % number)
        host.run()
        status = host.node.status()
        if status.applied.height - status.root.height >= SNAPSHOT_BLOCKS:
            host.node.compact(b"state up to %d" % (first + BATCH))
            host.run()
    for number in range(7):
        host.propose(b"behind %d" % number)
    host.run()

    again = Host(files.crash(), config(tail_blocks_max=100))

    assert len(again.recovered.blocks) < SNAPSHOT_BLOCKS + BATCH
    again.run()
    assert again.snapshots == [b"state up to %d" % BLOCKS]
    assert again.payloads() == [b"behind %d" % number for number in range(7)]
    assert again.node.status().applied.height > host.node.status().applied.height  # its no-op
