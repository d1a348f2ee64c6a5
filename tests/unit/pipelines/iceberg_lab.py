"""A real catalog of PyIceberg in a folder, with files written by PyArrow in the place of Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import Place
from pipelines.exactly_once.offset_chain import Batch, Commit, Skip, Tip, decide
from pipelines.model.pipeline import Sink
from pipelines.sinks.commits import Link
from pipelines.sinks.iceberg.catalog import TablePlace
from pipelines.sinks.iceberg.chain import IcebergChain
from pipelines.sinks.iceberg.columns import schema_of

TP = TopicPartition("in", 0)
SCHEMA = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True}]}


class LocalFiles:
    """Files on this machine. `rows`: a list of numbers, in files of two."""

    def write(self, rows: Sequence[int], folder: str) -> Sequence[str]:
        path = Path(folder.removeprefix("file://"))
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        paths = []
        for start in range(0, max(1, len(rows)), 2):
            file = path / f"part-{start}.parquet"
            pq.write_table(pa.table({"n": pa.array(rows[start : start + 2], pa.int64())}), file)
            paths.append(f"file://{file}")
        return paths

    def names(self, folder: str) -> Sequence[str]:
        path = Path(folder.removeprefix("file://"))
        return sorted(each.name for each in path.iterdir()) if path.is_dir() else []

    def remove(self, folder: str) -> None:
        shutil.rmtree(folder.removeprefix("file://"), ignore_errors=True)


@dataclass
class IcebergLab:
    """One table and the chains of several runs into it."""

    folder: Path
    pauses: list[float] = field(default_factory=list)

    @property
    def sink(self) -> Sink:
        place = Place(file="f.yaml", line=1, column=1)
        settings = {"table": "shop.orders", "warehouse": f"{self.folder}/warehouse"}
        return Sink(
            name="out", place=place, input="rows", type="iceberg", path=None, table=None,
            keys=(), aggregates=(), settings=settings,
        )  # fmt: skip

    def table(self) -> Any:
        return TablePlace(self.sink).ensure(schema_of(SCHEMA))

    def chain(
        self, run: str, sink: str = "out", between: Callable[[], None] | None = None
    ) -> IcebergChain:
        """`between`: called in the pause after an attempt that failed."""
        link = Link(pipeline="p", sink=sink, run=run)

        def pause(seconds: float) -> None:
            self.pauses.append(seconds)
            if between is not None:
                between()

        return IcebergChain(self.table(), "shop.orders", link, LocalFiles, pause=pause)

    def loaded(self, run: str, sink: str = "out", **more: Any) -> IcebergChain:
        """As a start settles it."""
        chain = self.chain(run, sink, **more)
        chain.load()
        return chain

    def numbers(self) -> list[int]:
        """The table's rows, by PyIceberg's own reader."""
        return sorted(self.table().scan().to_arrow()["n"].to_pylist())

    def files(self) -> list[str]:
        """Every folder with files of a commit, as `<number>-<run>`."""
        found = (self.folder / "warehouse").rglob("*.parquet")
        return sorted({each.parent.name for each in found})


def upto(end: int, start: int = 0) -> Batch:
    return Batch(start={TP: start}, end=TopicOffsets(ends={TP: end}, topic_ids={"in": "id-in"}))


def batch_of(chain: IcebergChain, start: int, end: int, batch_id: int = 0) -> bool:
    """One batch as a run takes it: decided by the chain's tip; whether it was written."""
    decision = decide(upto(end, start), chain.tip)
    if isinstance(decision, Skip):
        return False
    assert isinstance(decision, Commit), decision
    chain.append(range(start, end), decision, batch_id)
    return True


def end_of(chain: IcebergChain) -> tuple[int, int]:
    """(number, offset) where the chain is."""
    found = chain.load()
    assert isinstance(found, Tip), found
    return found.txn_version, found.reached.ends[TP]
