"""A changed file is deployed by rows: shadow, diff, swap, rollback, and what dies in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.deploy.deploy import Deploy
from pipelines.model.pipeline import Pipeline
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Lab, Quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SINKS = """\
sinks:
  latest:
    type: delta
    inputs: [rows]
    path: ${LAB}/tables/latest
    mode: upsert
    keys: [k]
    order_by: id
"""
OLD, NEW = "select value.*, topic", "select value.id, value.k, value.v * 10 as v, topic"


class Files:
    """The lab's pipeline in an old and a new version."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.write_file(sinks=SINKS)
        self.new_file = lab.directory / "new.yaml"
        text = lab.file.read_text()
        assert OLD in text
        self.new_file.write_text(text.replace(OLD, NEW))

    def read(self, file: Path) -> Pipeline:
        return read_pipeline(file, self.lab.environment(1000))

    @property
    def old(self) -> Pipeline:
        return self.read(self.lab.file)

    @property
    def new(self) -> Pipeline:
        return self.read(self.new_file)

    def deploy(self) -> Deploy:
        said: list[str] = []
        return Deploy(
            old=self.old, new=self.new, run="r", now_ms=lambda: 1_700_000_000_000, tell=said.append
        )

    def run_new(self) -> None:
        assert self.lab.spark is not None
        run_pipeline(self.lab.spark, self.new, Quiet())

    def values(self) -> dict[str, int | None]:
        return {row["k"]: row["v"] for row in self.lab.arrow("latest").to_pylist()}

    def expected(self, factor: int) -> dict[str, int | None]:
        last = {f"k{n % 7}": n for n in range(self.lab.sent)}
        return {k: None if n % 3 == 0 else n * factor for k, n in last.items()}


@pytest.mark.long_proof(share=4, among="runs of pipelines")
def test_a_deploy_swaps_rows_and_offsets_and_can_be_taken_back(lab):
    """Each run after a step continues where the table is: no record is missing, none twice."""
    files = Files(lab)
    lab.produce(40)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 20))
    lab.run()
    before = files.deploy()

    seen = before.catch_up(lab.spark, Quiet())
    (diff,) = before.diffs(lab.spark, seen)
    assert files.values() == files.expected(1)
    before.swap(lab.spark, Quiet(), seen)
    swapped = files.values()
    lab.produce(20)
    files.run_new()
    after = files.values()
    with pytest.raises(RunError, match="has replaced the rows of this file"):
        lab.run()
    back = files.deploy().take_back()
    restored = files.values()
    lab.run()

    assert (diff.added, diff.removed, diff.old_rows) == (0, 0, 7)
    assert diff.changed == sum(v is not None for v in files_at(files, 40, 1).values())
    assert swapped == files_at(files, 40, 10)
    assert after == files.expected(10)
    assert back == 2
    assert restored == files_at(files, 40, 1)
    assert files.values() == files.expected(1)
    assert len(lab.arrow("dead").to_pylist()) == 1
    assert not list(Path(lab.table("latest")).parent.glob("*__shadow_*"))


def files_at(files: Files, sent: int, factor: int) -> dict[str, int | None]:
    """The rows after `sent` events."""
    now, files.lab.sent = files.lab.sent, sent
    try:
        return files.expected(factor)
    finally:
        files.lab.sent = now
