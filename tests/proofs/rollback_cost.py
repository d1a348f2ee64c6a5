"""What a swap and its rollback cost by the table's size: processor time and time by the clock.

`python -m tests.proofs.rollback_cost [--files 10,1000,10000,100000] [--nice N] [--folder FOLDER]`

No Spark. A table and its shadow have so many data files each, links to one file of a hundred rows,
in commits of a thousand, with a checkpoint for each ten commits as runs make it. Printed are fence
and swap with the links of all files, and the rollback: the two commits (prepare, rollback) with all
that they read. Then the tables are swapped again, and a user's command takes them back: `josefine
pipeline deploy new.yaml --against old.yaml --rollback`, from its start to its end, with a broker
whose topic it looks at. A rollback may take 5 s of a core, and 5 s by the clock, which is also the
machine's load: `--nice -19` (as root) gives the command its processors before all others.
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

from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import BlockingClient
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.config.validate import read_pipeline
from pipelines.deploy.shadow import deploy_id
from pipelines.deploy.swap import Wanted, fence, prepare, rollback, swap
from pipelines.deploy.table_actions import Replacement, TableState
from pipelines.deploy.table_log import TableLog
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.commits import Link, said_of
from tests.proofs.runs import Lab, folder_of
from tests.support.broker import BrokerProcess
from tests.unit.pipelines.deploy.chained import IDS, NAME, P, committer

ROLLBACK_MAX_S = 5.0
ROWS, OF_COMMIT, OF_CHECKPOINT = 100, 1_000, 10

FILE = """
version: 1
name: %(pipeline)s
spark: { checkpoint: "${LAB}/checkpoint" }
sources:
  raw:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    topics: [%(topic)s]
    decode: { value: { format: json, schema: "id BIGINT", on_error: fail } }
transforms:
  rows: { inputs: [raw], sql: "select value.id, '%(made)s' as kind from raw" }
sinks:
  %(sink)s: { type: delta, inputs: [rows], path: "${LAB}/table", mode: append }
trigger: { available_now: true }
"""


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


def prove(lab: Lab, files: int, nice: int) -> bool:
    """Whether both rollbacks of a table of so many files are fast enough."""
    live, shadow = lab.folder / "table", lab.folder / "shadow"
    table, new = filled(live, "old", files), filled(shadow, "new", files)
    environment = {"LAB": str(lab.folder), "BOOTSTRAP": lab.bootstrap}
    old_file, new_file = (
        read_pipeline(lab.folder / f"{made}.yaml", environment) for made in ("old", "new")
    )
    by = committer(ident=deploy_id(old_file, new_file))
    want = Wanted(end=None, facts={}, since=-1)

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
    size_mb = newest.stat().st_size / 2**20
    assert swapped() is not None
    begun_s, used_s = time.monotonic(), os.times().children_user + os.times().children_system
    command = lab.start("deploy", "new.yaml", "--against", "old.yaml", "--rollback")
    if nice:
        # The nice value of a process counts only within its session.
        Path(f"/proc/{command.pid}/autogroup").write_text(str(nice))
    code = command.wait(timeout=600)
    command_s = time.monotonic() - begun_s
    used_s = os.times().children_user + os.times().children_system - used_s
    print(
        f"{files * ROWS:,} rows in {files:,} files: swap {swap_told}, rollback {told}, a commit of "
        f"{size_mb:.1f} MB; the command {command_s:.2f} s "
        f"({used_s:.2f} s of CPU); load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    old = {name for name, _ in table.state().files}
    assert code == 0, (lab.folder / "runs.log").read_text()
    assert len(old) == files + 1
    assert not [name for name in old if "new" in name]
    for path in (live, shadow):
        shutil.rmtree(path)
    return max(rollback_s, command_s) <= ROLLBACK_MAX_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="10,1000,10000,100000")
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    parser.add_argument("--nice", type=int, default=0, help="of the command's session")
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "rollback")
    for made in ("old", "new"):
        names = {"pipeline": NAME.pipeline, "sink": NAME.sink, "topic": P.topic, "made": made}
        (folder / f"{made}.yaml").write_text(FILE % names)
    with BrokerProcess(folder / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic(P.topic, 1)])
        lab = Lab(folder=folder, bootstrap=broker.bootstrap)
        is_held = [prove(lab, int(each), asked.nice) for each in asked.files.split(",")]
    print("held" if all(is_held) else f"NOT held: a rollback took more than {ROLLBACK_MAX_S:.0f} s")
    return 0 if all(is_held) else 1


if __name__ == "__main__":
    sys.exit(main())
