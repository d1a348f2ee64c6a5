"""The status of a sink with many tables: each table's lag, and which one is held and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_cli.main import run
from pipelines.exactly_once.family_chain import Family
from tests.unit.pipelines.inspect.test_status import Lake

REGISTRY = "tables/_josefine_tables"
A = TopicPartition("orders", 0)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    text = lake.file.read_text()
    path = f'path: "{tmp_path}/tables/{{topic}}"'
    lake.file.write_text(text.replace(f"path: {tmp_path}/lake", path))
    assert path in lake.file.read_text()
    return lake


def commit(lake: Lake, end: int, family: Family) -> None:
    lake.commit(end, table=REGISTRY, **family.said())
    lake.checkpoint(end)


def test_each_table_of_a_topic_has_its_lag_by_the_registry_alone(lake: Lake) -> None:
    commit(lake, 12, Family(tables={"orders": 3}))

    found = lake.status()

    assert (dict(found.ends), found.behind, found.stops) == ({A: 12}, 8, "")
    assert [table.to_json() for table in found.tables] == [
        {
            "name": "orders",
            "path": f"{lake.folder}/tables/orders",
            "transaction": 3,
            "held": "",
            "lag": 8,
        }
    ]


def test_a_held_table_is_named_and_no_reason_to_stop(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Family(tables={"orders": 3}, held={"orders": "column `id` differs"}, held_from={A: 5})
    commit(lake, 12, held)

    found = lake.status()

    assert (dict(found.ends), found.behind, found.stops) == ({A: 5}, 15, "")
    assert run(["pipeline", "status", str(lake.file)]) == 1
    out = capsys.readouterr().out
    assert "    1 table, 1 held\n    table orders is held: column `id` differs\n" in out
    assert run(["pipeline", "status", str(lake.file), "--json"]) == 1
    (sink,) = json.loads(capsys.readouterr().out)["sinks"]
    assert sink["tables"][0]["held"] == "column `id` differs"
