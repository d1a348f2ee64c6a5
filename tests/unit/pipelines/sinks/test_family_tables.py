"""The open tables of a family, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pipelines.sinks.family.tables import FamilyTables
from tests.unit.pipelines.sinks.test_table_family import sink_of


def test_a_session_is_lent_to_one_writer_at_a_time_and_used_again() -> None:
    root = SimpleNamespace(newSession=object)
    run: Any = SimpleNamespace(session=lambda: root)
    empty: Any = SimpleNamespace(schema=SimpleNamespace(jsonValue=lambda: {"fields": []}))
    sink, chain = sink_of("/lake/{topic}"), SimpleNamespace()
    assert sink.family is not None
    tables = FamilyTables(sink, sink.family, run, chain, empty, is_direct=True)  # type: ignore[arg-type]

    one, other = tables.lend(), tables.lend()
    tables.give_back(one)

    assert one is not other
    assert tables.lend() is one
