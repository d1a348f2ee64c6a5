"""One pass over several tables: what is wrong with one of them does not keep the others waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from josefine_lake.config.table_topic import Format, TableTopic
from josefine_lake.writer.once import run_once


def test_a_schema_that_does_not_answer_is_the_matter_of_its_table_alone(tmp_path: Path) -> None:
    where = {"location": str(tmp_path / "t"), "format": Format.AVRO}
    gone = TableTopic(topic="gone", schema=str(tmp_path / "gone.avsc"), **cast(Any, where))
    # Nothing listens at port 1.
    away = TableTopic(topic="away", registry="http://127.0.0.1:1", **cast(Any, where))
    tables = {each.topic: each for each in (gone, away)}

    done = list(run_once(cast(Any, None), tables, {}, lambda: False, trust=False, renames={}))

    assert [each.table.topic for each in done] == ["gone", "away"]
    assert "gone.avsc" in done[0].stopped
    assert "cannot be reached" in done[1].stopped
