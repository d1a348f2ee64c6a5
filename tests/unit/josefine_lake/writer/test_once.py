"""One pass over several tables: what is wrong with one of them does not keep the others waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest import mock

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


def test_a_table_that_cannot_be_made_or_read_is_one_sentence_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "log" / "_delta_log").mkdir(parents=True)
    broken = tmp_path / "log" / "_delta_log" / f"{0:020d}.json"
    broken.write_text('{"add": {')
    (tmp_path / "file").write_text("no folder")
    tables = {
        name: TableTopic(topic=name, location=str(tmp_path / name), dead_letter=None)
        for name in ("log", "file")
    }
    client = mock.MagicMock()
    client.metadata.return_value.topics = {each: mock.Mock(partitions=[0]) for each in tables}
    client.list_offsets.side_effect = lambda wanted, **more: {
        tp: mock.Mock(offset=0) for tp in wanted
    }
    client.committed_offsets.return_value = {}

    done = list(run_once(client, tables, {}, lambda: False, trust=False, renames={}))

    assert [each.table.topic for each in done] == ["log", "file"]
    for each in done:
        assert each.stopped.startswith(f"table of topic `{each.table.topic}` ({tmp_path}")
        assert "\n" not in each.stopped
