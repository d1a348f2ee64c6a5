"""A lookup table of a file, and where it cannot be used."""

from __future__ import annotations

import pytest

from pipelines.config.lookup import is_lookup, lookup_of, lookup_problems
from tests.unit.pipelines.config.sections import read, said, section
from tests.unit.pipelines.config.test_validate import GOOD

TABLE = "type: delta\npath: /t\nschema: id INT"
LOOKUP = GOOD.replace(
    "transforms:\n", "  names: { type: delta, path: /names, schema: id INT }\ntransforms:\n"
)
JOINED = LOOKUP.replace(
    "inputs: [raw], sql: select value.* from raw",
    "inputs: [raw, names], sql: select value.* from raw join names using (id)",
)


def told(text: str) -> list[str]:
    pipeline, nodes, _ = read(text)
    return [f"{each.path}: {each.message}" for each in lookup_problems(pipeline, nodes)]


def test_a_source_is_a_lookup_by_its_type():
    assert is_lookup(section(TABLE, "source"))
    assert not is_lookup(section("type: josefine", "source"))
    assert not is_lookup(section("topics: [a]", "source"))


def test_a_lookup_has_a_table_and_the_columns_that_the_file_names():
    found = lookup_of("names", section(TABLE, "source"))

    assert (found.path, found.table, found.schema, found.rows) == ("/t", None, "id INT", None)
    assert found.told == "/t"


@pytest.mark.parametrize("where", ["", "path: /t\ntable: a.b\n"])
def test_a_lookup_has_a_path_or_a_name(where):
    reader = section(f"type: delta\n{where}schema: id INT", "source")

    lookup_of("names", reader)

    assert said(reader) == [": expected exactly one of `path` and `table`"]


def test_a_lookup_without_columns_and_with_a_keyword_of_topics_is_refused():
    reader = section("type: delta\npath: /t\nisolation: read_committed", "source")

    lookup_of("names", reader)

    assert [each.partition(" ")[0] for each in said(reader)] == ["isolation:", ":"]


def test_a_sink_takes_a_stream_and_not_a_lookup():
    assert told(JOINED) == []
    assert told(LOOKUP.replace("inputs: [clean]", "inputs: [names]")) == [
        "sinks.lake.inputs: `names` is a table, no stream: expected a transform that joins them"
    ]


def test_a_sink_of_a_transform_of_lookups_alone_is_refused():
    alone = LOOKUP.replace("{ inputs: [raw], sql", "{ inputs: [names], sql")

    assert told(alone) == [
        "sinks.lake.inputs: `clean` is made of tables alone: expected a stream among its inputs"
    ]


@pytest.mark.parametrize(("action", "count"), [("dead_letter", 1), ("drop", 0)])
def test_a_check_after_a_lookup_sends_no_record_because_the_table_may_change(action, count):
    check = f"checks: {{ c: {{ on: clean, expr: id > 0, action: {action} }} }}\n"
    dead = "dead_letter: { type: delta, path: /d }\n"

    found = told(JOINED + check + dead)

    assert len(found) == count
    assert all(each.startswith("checks.c.action: `clean` is joined with `names`") for each in found)
