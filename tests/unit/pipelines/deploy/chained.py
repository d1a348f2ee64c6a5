"""Delta tables with a sink's chain, written by delta-rs: no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.deploy.swap import Committer
from pipelines.deploy.table_log import TableLog
from pipelines.exactly_once.deployed import DEPLOYED
from pipelines.exactly_once.offset_chain import Commit
from pipelines.exactly_once.other_chains import ChainName
from pipelines.sinks.commits import Link, said_of

NAME = ChainName(pipeline="orders", sink="lake")
P = TopicPartition("orders", 0)
IDS = {"orders": "id1"}


def log_at(path: Path, name: ChainName = NAME) -> TableLog:
    return TableLog(str(path), name)


def committer(ident: str = "d1", run: str = "run-of-deploy") -> Committer:
    return Committer(ident=ident, run=run, now_ms=lambda: 1_700_000_000_000)


def append(
    path: Path, offsets: range, kind: str, name: ChainName = NAME, *, repeats: bool = True
) -> None:
    """A batch of a sink: a row for each offset, and the chain's next commit. `repeats`: as runs do,
    the fact of a deploy."""
    log = log_at(path, name)
    tip = log.tip()[0] if path.exists() else None
    number = (log.txn_version() if path.exists() else 0) + 1
    end = TopicOffsets(ends={P: offsets.stop}, topic_ids=IDS)
    commit = Commit(start={P: offsets.start}, end=end, txn_version=number)
    facts: dict[str, Any] = {"mode": "append"}
    if tip is not None and repeats and DEPLOYED in tip.said:
        facts[DEPLOYED] = tip.said[DEPLOYED]
    link = Link(pipeline=name.pipeline, sink=name.sink, run=f"run-{kind}", facts=facts)
    assert tip is None or tip.reached.ends == {P: offsets.start}
    said = json.dumps(said_of(link, "", commit, number, None))
    rows = pa.table({"id": list(offsets), "kind": [kind] * len(offsets)})
    properties = CommitProperties(
        custom_metadata={"userMetadata": said},
        app_transactions=[Transaction(name.app_id, number)],
    )
    write_deltalake(str(path), rows, mode="append", commit_properties=properties)


def rows(path: Path) -> list[tuple[int, str]]:
    table = DeltaTable(str(path)).to_pyarrow_table()
    return sorted(zip(table["id"].to_pylist(), table["kind"].to_pylist(), strict=True))


def filled(path: Path, kind: str, end: int, step: int = 10) -> None:
    for start in range(0, end, step):
        append(path, range(start, min(start + step, end)), kind)
