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
  rows: { type: delta, inputs: [rows], path: "${LAB}/tables/rows", mode: append }
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

    def rows(self) -> list[tuple[int, int | None]]:
        table = self.lab.arrow("rows")
        return sorted(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def made(count: int, factor: int) -> list[tuple[int, int | None]]:
    """The rows of the first events: each once."""
    return [(n, None if n % 3 == 0 else n * factor) for n in range(count)]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
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
    assert files.rows() == made(40, 1)
    before.swap(lab.spark, Quiet(), seen)
    swapped = files.rows()
    lab.produce(20)
    files.run_new()
    after = files.rows()
    with pytest.raises(RunError, match="has replaced the rows of this file"):
        lab.run()
    back = files.deploy().take_back()
    restored = files.rows()
    lab.run()

    assert (diff.added, diff.removed, diff.old_rows) == (26, 26, 40)
    assert swapped == made(40, 10)
    assert after == made(60, 10)
    assert back == 2
    assert restored == made(40, 1)
    assert files.rows() == made(60, 1)
    assert len(lab.arrow("dead").to_pylist()) == 1
    assert not list(Path(lab.table("rows")).parent.glob("*__shadow_*"))
