"""What a start of the asyncio host finds: damage, a snapshot, and what kill -9 under load left."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from raft import Batch, BlockFile, BlockId, DiskFiles, Height, NodeId, State, Term
from tests.support.waiting import wait_until
from tests.unit.josefine_broker.engine.hosts import Hosted, chain_of, running, serving
from tests.unit.josefine_broker.engine.scenes import topic

ROOT = Path(__file__).resolve().parents[4]


def test_start_refuses_a_damaged_chain_with_a_clear_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as one:
            for number in range(3):
                await one.propose(topic(f"t{number}"))
        (segment,) = (tmp_path / "raft").glob("*.seg")
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)

        for _ in range(2):  # the second time, for the lock is free again
            one = Hosted(tmp_path)
            with pytest.raises(CorruptData, match=r"metadata: .* damaged at byte"):
                await one.host.open()
            await one.host.stop()

    asyncio.run(main())


def test_start_refuses_a_chain_that_does_not_hang_together(tmp_path: Path) -> None:
    """Each of its frames is what was written: only the node can tell."""
    store, _ = BlockFile.open(DiskFiles(tmp_path / "raft"), NodeId(1))
    store.append(Batch(state=State(term=Term(1), head=BlockId(Term(1), Height(5)))))
    store.sync()
    store.close()

    async def main() -> None:
        one = Hosted(tmp_path)
        with pytest.raises(CorruptData, match="metadata: "):
            await one.host.open()
        await one.host.stop()

    asyncio.run(main())


def test_the_image_restarts_from_its_snapshot(tmp_path: Path) -> None:
    """Checklist row 9."""
    limits = SnapshotLimits(blocks=100)
    names = [f"t{number}" for number in range(370)]

    async def first() -> None:
        async with serving(tmp_path, snapshots=limits) as one:
            for begin in range(0, len(names), 37):
                await asyncio.gather(*(one.submit(topic(n)) for n in names[begin : begin + 37]))

    async def second() -> None:
        async with running(tmp_path, snapshots=limits) as one:
            assert set(one.topics) == set(names)
            assert one.broker.quorum.recovered.snapshot is not None
            assert len(one.broker.quorum.recovered.blocks) < 200

    asyncio.run(first())
    asyncio.run(second())


@pytest.mark.parametrize(
    ("limits", "is_due"),
    [
        (SnapshotLimits(blocks=5), True),
        (SnapshotLimits(bytes=5 * 170), True),
        (SnapshotLimits(blocks=1000, bytes=1_000_000), False),
    ],
)
def test_a_snapshot_is_due_by_blocks_or_by_bytes(
    tmp_path: Path, limits: SnapshotLimits, is_due: bool
) -> None:
    """Checklist row 9."""

    async def main() -> None:
        async with running(tmp_path, snapshots=limits) as one:
            roots = []
            for number in range(12):
                await one.propose(topic(f"t{number}"))
                roots.append(one.broker.quorum.status().root.height)

            assert bool(one.broker.quorum.snapshots) is is_due
            assert roots[-1] in ((10, 11, 12, 13) if is_due else (0,))

    asyncio.run(main())


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.unit.josefine_broker.engine.hosts import running
from tests.unit.josefine_broker.engine.scenes import topic

async def main(directory, first):
    async with running(directory) as one:
        number = first
        while True:
            sent = {number + each: one.propose(topic(str(number + each))) for each in range(20)}
            number += len(sent)
            for each, end in sent.items():
                print(each, (await end).name, flush=True)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def test_kill_9_during_proposals_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Checklist row 6: term, vote, head and commit too."""
    acknowledged: set[str] = set()
    rng = Random(7)
    for life in range(4):
        log = tmp_path / f"life-{life}.txt"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path / "data"), str(life * 1_000_000)],
                stdout=out,
                cwd=ROOT,
            )
            try:
                wanted = rng.randint(50, 400)
                wait_until(
                    lambda log=log, wanted=wanted: log.read_text().count("\n") >= wanted,
                    90,
                    "acknowledged proposals",
                )
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        for line in log.read_text().rpartition("\n")[0].splitlines():
            number, result = line.split()
            assert result == "COMMITTED"
            acknowledged.add(number)

        committed, state = chain_of(tmp_path / "data" / "raft")
        assert acknowledged <= set(committed)
        assert len(committed) == len(set(committed))
        assert (state.term, state.vote) == (life + 1, 1)
