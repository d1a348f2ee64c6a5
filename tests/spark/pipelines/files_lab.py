"""A pipeline over files that grow, without a broker: run, or died, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.model.pipeline import Pipeline
from pipelines.report.totals import RunResult
from pipelines.run.options import Wishes
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet, dying


class FilesLab:
    """One pipeline, its folders of lines and its table `lake`. `bytes`: of a batch, at most."""

    def __init__(self, spark: SparkSession, folder: Path, text: str, inputs: Sequence[str]) -> None:
        self.spark, self.folder = spark, folder
        self.bytes = 4000
        for name in inputs:
            (folder / name).mkdir()
        self.write(text)

    def write(self, text: str) -> None:
        (self.folder / "lab.yaml").write_text(text)

    def add(self, source: str, *lines: str) -> None:
        with (self.folder / source / f"{source}.jsonl").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def read(self) -> Pipeline:
        environment = {"LAB": str(self.folder), "BYTES": str(self.bytes)}
        return read_pipeline(self.folder / "lab.yaml", environment)

    def run(self, trust: Trust = Trust.NEITHER) -> RunResult:
        return run_pipeline(self.spark, self.read(), Quiet(), wishes=Wishes(trust=trust))

    def die(self, fail: str) -> None:
        """As `conftest.Lab.die`."""
        with dying(fail), pytest.raises(RunError, match="it died at"):
            self.run()

    def table(self, name: str = "lake") -> DataFrame:
        return self.spark.read.format("delta").load(f"{self.folder}/{name}")

    def collected(self, name: str = "lake") -> list[Any]:
        return list(self.table(name).collect())
