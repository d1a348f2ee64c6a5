"""A Delta table as a stream of a file, and where it cannot be used."""

from __future__ import annotations

import pytest

from pipelines.config.table_stream import is_stream, table_stream_of
from pipelines.model.table_order import upstream_first, upstream_of
from pipelines.model.table_stream import OnChange, TableStream
from tests.unit.pipelines.config.sections import read, said, section

STREAM = "type: delta\nstream: true\npath: /t\nschema: id INT"
FILE = """\
version: 1
name: lake
spark: { checkpoint: /ck }
sources:
  bronze: { type: delta, stream: true, path: /bronze, schema: id INT }
  silver: { type: delta, stream: true, path: /silver, schema: id INT }
sinks:
  silver: { type: delta, inputs: [bronze], path: /silver, mode: append }
  gold: { type: delta, inputs: [silver], path: /gold, mode: append }
trigger: { available_now: true }
"""


def stream_of(text: str) -> TableStream:
    reader = section(text, "source")
    found = table_stream_of("t", reader).table_stream
    assert said(reader) == []
    assert found is not None
    return found


def wrong(text: str) -> list[str]:
    reader = section(text, "source")
    table_stream_of("t", reader)
    return said(reader)


def test_table_is_a_stream_only_where_the_file_says_so():
    assert is_stream(section(STREAM, "source"))
    assert not is_stream(section("type: delta\nstream: false\npath: /t\nschema: id INT", "source"))
    assert not is_stream(section("type: delta\npath: /t\nschema: id INT", "source"))


def test_stream_reads_the_whole_table_first_unless_a_version_is_named():
    assert stream_of(STREAM) == TableStream(schema="id INT")
    assert stream_of(STREAM + "\nstart: earliest").version is None
    assert stream_of(STREAM + "\nstart: { version: 0 }").version == 0


def test_stream_starts_at_the_next_commit_or_at_a_time():
    assert stream_of(STREAM + "\nstart: latest").latest
    at = stream_of(STREAM + "\nstart: { timestamp: 1970-01-01T00:00:01Z }")
    assert (at.time_ms, at.is_settled_once) == (1000, True)
    assert stream_of(STREAM + "\nstart: { ago: 5m }").ago_ms == 300_000
    assert not stream_of(STREAM + "\nstart: { version: 3 }").is_settled_once


def test_changes_add_their_columns():
    assert "_commit_version BIGINT" in stream_of(STREAM + "\nchanges: true").ddl
    assert stream_of(STREAM + "\non_change: skip_changes").on_change is OnChange.SKIP_CHANGES


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("\nstart: table", "start"),
        ("\nstart: { last: 5 }", "start"),
        ("\nstart: { ago: 5m, version: 3 }", "start"),
        ("\nlimit: { rows: 5 }", "limit.rows"),
        ("\nchanges: true\non_change: skip_changes", "on_change"),
        ("\ntable: a.b", "table"),
        ("\nheaders: true", "headers"),
    ],
)
def test_keyword_that_a_table_cannot_follow_is_refused(words, path):
    assert [each.partition(":")[0] for each in wrong(STREAM + words)] == [path]


@pytest.mark.parametrize("words", ["start: earliest", "changes: true", "limit: { files: 1 }"])
def test_keyword_of_a_stream_needs_the_word_stream(words):
    text = FILE.replace("stream: true, path: /bronze", f"path: /bronze, {words}")
    assert any("add `stream: true`" in each for each in read(text)[2])


def test_tables_from_bronze_to_gold_are_one_file():
    pipeline, _, problems = read(FILE)
    assert problems == []
    assert upstream_of(pipeline, "gold") == ("silver",)
    assert upstream_first(pipeline, ["gold", "silver"]) == ["silver", "gold"]
    assert upstream_first(pipeline, ["gold"]) == ["gold"]


def test_tables_in_a_circle_are_refused():
    problems = read(FILE.replace("path: /bronze", "path: /gold"))[2]
    assert [each.partition(":")[0] for each in problems] == [
        "sinks.silver.inputs",
        "sinks.gold.inputs",
    ]


def test_dead_letters_of_a_table_are_refused():
    text = FILE.replace(
        "path: /gold, mode: append", "path: /gold, mode: append, on_error: dead_letter"
    )
    text += "dead_letter: { type: delta, path: /dead }\n"
    assert any("they make no dead letters" in each for each in read(text)[2])
    checked = FILE + "checks: { good: { on: silver, expr: id > 0, action: dead_letter } }\n"
    checked += "dead_letter: { type: delta, path: /dead }\n"
    assert any("they make no dead letters" in each for each in read(checked)[2])


def test_table_for_each_value_is_refused():
    text = FILE.replace("path: /gold,", "path: '/gold/{id}',")
    assert any("expected one `path`" in each for each in read(text)[2])


def test_rows_of_a_table_cannot_be_given_to_a_test():
    text = FILE + "tests: [{ name: a, given: { bronze: [{ id: 1 }] }, expect: {} }]\n"
    assert any("a test cannot give yet" in each for each in read(text)[2])
