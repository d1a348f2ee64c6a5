"""The target of a family of tables, without Spark: its rows, its registry and its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.base.errors import ConfigError
from pipelines.model.pipeline import Sink
from pipelines.model.table_family import FAMILY, family_of
from pipelines.sinks.family.batch import WRITERS_MAX, writers
from pipelines.sinks.family.registry import COLUMNS
from pipelines.sinks.family.target import ManyTables
from pipelines.sinks.target import TableAt
from pipelines.sinks.targets import target_of
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.tiny_spark import Frame


def sink_of(path: str = "/lake/{topic}") -> Sink:
    pipeline, _, _ = read(GOOD)
    family = family_of(path)
    assert not isinstance(family, str)
    return replace(pipeline.sinks["lake"], path=path, family=family, type=FAMILY)


def refused(path: str, *columns: str) -> str:
    pipeline, _, _ = read(GOOD)
    with pytest.raises(ConfigError) as caught:
        ManyTables(sink_of(path)).rows(pipeline, Frame([], columns))
    return str(caught.value)


def test_rows_must_name_their_record_and_have_the_column_of_the_template() -> None:
    assert "select `partition`, `offset` there too" in refused("/lake/{topic}", "id", "_topic")
    place = ("topic", "partition", "offset")
    assert "no column `land`" in refused("/lake/{land}", "id", *place)


def test_its_offsets_are_those_of_the_registry_next_to_the_tables() -> None:
    target = target_of(sink_of())

    assert isinstance(target, ManyTables)
    assert [*target.folders()] == [("sinks.lake.path", "/lake/_josefine_tables")]
    pipeline, _, _ = read(GOOD)
    assert target.loss_table(pipeline) == TableAt(path="/lake/_josefine_tables_lost")
    assert (target.gets_replay, target.keys(), COLUMNS) == (False, (), "table STRING")


def test_a_bounded_number_of_tables_is_written_at_once() -> None:
    assert 2 <= writers() <= WRITERS_MAX
