"""What a swap and its rollback cost by the table's size: processor time and time by the clock.

`python -m tests.proofs.rollback_cost [--files 10,1000,10000,100000] [--folder FOLDER]`

No Spark. A table and its shadow have so many data files each, links to one file of a hundred rows,
in commits of a thousand, with a checkpoint for each ten commits as runs make it. Printed are fence
and swap with the links of all files, and the rollback: the two commits (prepare, rollback) with all
that they read. A rollback may take 5 s of a core: the time by the clock is also the machine's load.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.deploy.swap import Wanted, fence, prepare, rollback, swap
from pipelines.deploy.table_actions import Replacement, TableState
from pipelines.deploy.table_log import TableLog
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.commits import Link, said_of
from tests.proofs.runs import folder_of
from tests.unit.pipelines.deploy.chained import IDS, NAME, P, committer

ROLLBACK_MAX_S = 5.0
ROWS, OF_COMMIT, OF_CHECKPOINT = 100, 1_000, 10


def filled(path: Path, kind: str, files: int) -> TableLog:
    """A table with a chain: so many data files of a hundred rows each."""
    rows = pa.table({"id": range(ROWS), "kind": [kind] * ROWS})
    write_deltalake(str(path), rows)
    log = TableLog(str(path), NAME)
    (first,) = log.state().files.values()
    link = Link(pipeline=NAME.pipeline, sink=NAME.sink, run=f"run-{kind}", facts={})
    for at in range(0, files, OF_COMMIT):
        adds = {}
        # File systems bound the links to one file.
        file = shutil.copy(path / first["path"], path / f"part-{at:08d}-{kind}.parquet")
        for n in range(at, min(at + OF_COMMIT, files)):
            name = f"part-{n:08d}-{kind}.parquet"
            if n > at:
                os.link(file, path / name)
            adds[name, ""] = {**first, "path": name}
        end = TopicOffsets(ends={P: (at + len(adds)) * ROWS}, topic_ids=IDS)
        number = at // OF_COMMIT + 1
        commit = Commit(start={P: at * ROWS}, end=end, txn_version=number)
        made = Replacement(
            name=NAME,
            txn_version=number,
            said=said_of(link, "", commit, number, None),
            operation="STREAMING UPDATE",
            now_ms=1,
            mark=f"run-{kind}",
        )
        same = TableState(version=number - 1)
        assert log.commit(number, made.lines(same, TableState(files=adds)))
        if number % OF_CHECKPOINT == 0:
            DeltaTable(str(path)).create_checkpoint()
    return log


def timed(work: Callable[[], Any]) -> str:
    """Seconds by the clock and of CPU."""
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    assert work() is not None
    return f"{time.monotonic() - begun_s:.2f} s ({time.process_time() - begun_cpu_s:.2f} s of CPU)"


def prove(folder: Path, files: int) -> bool:
    live, shadow = folder / f"lake_{files}", folder / f"shadow_{files}"
    table, new = filled(live, "old", files), filled(shadow, "new", files)
    by, want = committer(), Wanted(end=None, facts={}, since=-1)

    def swapped() -> int | None:
        fence(table, by)
        prepare(table, by)
        return swap(table, new, want, by)

    def taken_back() -> int | None:
        prepare(table, by)
        return rollback(table, "", by)

    swap_told = timed(swapped)
    begun_s = time.process_time()
    told = timed(taken_back)
    rollback_s = time.process_time() - begun_s
    newest = live / "_delta_log" / f"{table.state().version:020d}.json"
    print(
        f"{files:,} files: swap {swap_told}, rollback {told}, a commit of "
        f"{newest.stat().st_size / 2**20:.1f} MB, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    old = {name for name, _ in table.state().files}
    assert len(old) == files + 1
    assert not [name for name in old if "new" in name]
    for path in (live, shadow):
        shutil.rmtree(path)
    return rollback_s <= ROLLBACK_MAX_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="10,1000,10000,100000")
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "rollback")
    is_held = [prove(folder, int(each)) for each in asked.files.split(",")]
    print(
        "held"
        if all(is_held)
        else f"NOT held: a rollback took more than {ROLLBACK_MAX_S:.0f} s of CPU"
    )
    return 0 if all(is_held) else 1


if __name__ == "__main__":
    sys.exit(main())
