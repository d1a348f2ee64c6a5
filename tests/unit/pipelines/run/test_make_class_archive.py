"""The pipeline that the archive of classes is made by. That a session uses one: `test_session`."""

from __future__ import annotations

from pathlib import Path

from pipelines.config.validate import read_pipeline
from pipelines.run.make_class_archive import FILE


def test_its_pipeline_is_one_with_what_a_run_mostly_does(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text(FILE)

    pipeline = read_pipeline(str(file), {"WORK": str(tmp_path)})

    assert {sink.mode.value for sink in pipeline.sinks.values()} == {"append", "upsert", "merge"}
    assert pipeline.dead_letter_path
