"""Start and memory: blocks replayed per second, start behind a snapshot and without, bytes a block.

Each start is a process of its own (`python -m tests.bench.raft_store DIRECTORY`), so that its time
and its memory are those of a node that starts, not of the bench that wrote the files.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from raft import (
    GENESIS,
    Batch,
    Block,
    BlockFile,
    BlockId,
    BlockKind,
    Config,
    DiskFiles,
    Members,
    Node,
    NodeId,
    Snapshot,
    State,
    Term,
)
from raft.block import make_block
from raft.members import encode_members

__all__ = ["measure_start"]

ME = NodeId(1)
CLUSTER_ID = "bench"
MEMBERS = Members(voters=frozenset({ME}))
PAYLOAD_BYTES = 100
BATCH_BLOCKS = 1000
STATE_BYTES = 16 * 1024 * 1024
"""The snapshot of a state machine of about 100,000 entries."""


def run_of_blocks(parent: BlockId, count: int, term: int = 1) -> list[Block]:
    """`count` blocks in a line behind `parent`; behind genesis, the first is the birth."""
    blocks: list[Block] = []
    for number in range(count):
        born = parent != GENESIS
        payload = b"%0*d" % (PAYLOAD_BYTES, number)
        if not born:
            payload = encode_members(MEMBERS, CLUSTER_ID)
        kind = BlockKind.DATA if born else BlockKind.BIRTH
        blocks.append(make_block(parent, Term(term), kind, payload))
        parent = blocks[-1].id
    return blocks


def write_store(directory: Path, blocks: int, *, snapshot: bool) -> None:
    """A node's data after `blocks` commits, with a snapshot of them all or with none."""
    store, _ = BlockFile.open(DiskFiles(directory), ME)
    last = GENESIS
    for _ in range(0, blocks, BATCH_BLOCKS):
        batch = run_of_blocks(last, BATCH_BLOCKS)
        last = batch[-1].id
        store.append(
            Batch(state=State(term=Term(1), vote=ME, head=last, commit=last), blocks=tuple(batch))
        )
    if snapshot:
        data = Random(1).randbytes(STATE_BYTES)
        whole = Snapshot(last=last, cluster_id=CLUSTER_ID, members=MEMBERS, data=data)
        state = State(term=Term(1), vote=ME, head=last, commit=last, root=last)
        store.append(Batch(state=state, snapshot=whole))
    store.sync()
    store.close()


def start(directory: Path) -> dict[str, float]:
    """Recover, lead, apply everything: what a host does until it can serve."""
    before = resident_bytes()
    begin, cpu = perf_counter(), process_time()
    store, recovered = BlockFile.open(DiskFiles(directory), ME)
    opened = perf_counter()
    config = Config(node_id=ME, initial_voters=(ME,), cluster_id=CLUSTER_ID)
    node = Node(config, recovered, now_ms=0, rng=Random(1))
    blocks = len(recovered.blocks)
    del recovered  # as a host lets go of it
    made = perf_counter()
    node.tick(0)
    applied = 0
    while node.has_ready():
        ready = node.ready()
        if ready.batch is not None:
            store.persist(ready.batch)
        applied += sum(len(block.payload) for block in ready.committed)
        node.advance()
    ready_at = perf_counter()
    status = node.status()
    assert status.applied == status.head, status
    store.close()
    return {
        "blocks": blocks,
        "open_s": opened - begin,
        "node_s": made - opened,
        "apply_s": ready_at - made,
        "start_s": ready_at - begin,
        "cpu_s": process_time() - cpu,
        "memory_bytes": resident_bytes() - before,
    }


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def start_in_a_process(directory: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.raft_store", str(directory)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    values: dict[str, float] = json.loads(done.stdout)
    return values


def measure_start(blocks: int) -> Iterator[tuple[str, float]]:
    """(measure/unit, value) for a history of this many blocks."""
    for snapshot in (True, False):
        with TemporaryDirectory(prefix="raft-bench-") as name:
            write_store(Path(name), blocks, snapshot=snapshot)
            values = start_in_a_process(Path(name))
        how = "from_snapshot" if snapshot else "without_snapshot"
        yield f"start_{blocks}_blocks_{how}/seconds", values["start_s"]
        yield f"start_{blocks}_blocks_{how}/cpu_seconds", values["cpu_s"]
        if not snapshot:
            for part in ("open_s", "node_s", "apply_s"):
                yield f"start_{blocks}_blocks_{how}_{part[:-2]}/seconds", values[part]
            yield "replay/blocks_per_s", values["blocks"] / values["start_s"]
            yield "memory_per_block/bytes", values["memory_bytes"] / values["blocks"]


if __name__ == "__main__":
    print(json.dumps(start(Path(sys.argv[1]))))
