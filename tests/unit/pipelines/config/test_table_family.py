"""`path` of a sink as a template: what the file may say with it, and the check of the names."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.table_family import with_families
from pipelines.config.validate import validate
from pipelines.lint.lint import lint_text
from pipelines.model.pipeline import Action, Pipeline
from pipelines.model.table_family import FAMILY

FILE = """\
version: 1
name: many
spark: { checkpoint: /ck }
sources:
  ev:
    type: josefine
    bootstrap: h:1
    TOPICS
    decode: { value: { format: json, schema: 'id BIGINT, country STRING' } }
transforms:
  rows:
    inputs: [ev]
    sql: select value.*, topic, partition, offset from ev
sinks:
  out: { type: delta, inputs: [rows], path: "/lake/{WHAT}", mode: append }
DEAD
trigger: { available_now: true }
"""
DEAD = "dead_letter: { type: delta, path: /dead }"
PATTERN = 'pattern: "orders.*"'


def text(what: str, topics: str = "topics: [t]", dead: str = DEAD, **replace: str) -> str:
    found = FILE.replace("WHAT", what).replace("TOPICS", topics).replace("DEAD", dead)
    for old, new in replace.items():
        assert old in found
        found = found.replace(old, new)
    return found


def pipeline(what: str, *more: str) -> Pipeline:
    return validate(load(text(what, *more), "f.yaml", {}))


def complaint(what: str, *more: str, **replace: str) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(load(text(what, *more, **replace), "f.yaml", {}))
    return str(caught.value)


def test_the_names_of_a_columns_tables_are_checked_before_rows_are_written() -> None:
    found = pipeline("country")
    sink, check = found.sinks["out"], found.checks["table_name_out"]

    assert (sink.type, sink.told) == (FAMILY, "/lake/{country}")
    assert (check.on, check.action) == ("rows", Action.DEAD_LETTER)
    assert check.expr.text.startswith("cast(`country` AS STRING) RLIKE '^[A-Za-z0-9]")
    assert with_families(found, []).checks == found.checks


def test_topics_that_the_file_names_need_no_check_and_those_of_a_pattern_do() -> None:
    assert pipeline("topic").checks == {}
    assert pipeline("topic", PATTERN).checks["table_name_out"].on == "ev"
    without = pipeline("topic", PATTERN, "").checks["table_name_out"]
    assert without.action is Action.FAIL
    assert "topic `_a` cannot name a table" in complaint("topic", "topics: [_a]")


OUT = "mode: append }"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("mode: upsert, keys: [id], order_by: id }", "tables of a template get rows appended"),
        (OUT[:-1] + ", deduplicate: { keys: [id] } }", "`deduplicate` is for one table"),
        (OUT[:-1] + ", optimize: { every: 3 batches } }", "`optimize` is for one table"),
        (OUT[:-1] + ", max_tables: 10001 }", "expected 10000 at most; found 10001"),
    ],
)
def test_what_is_for_one_table_is_refused_with_a_template(said: str, expected: str) -> None:
    assert expected in complaint("country", **{OUT: said})


def test_a_template_says_what_it_needs_of_the_rest_of_the_file() -> None:
    other = "  more: { type: delta, inputs: [rows], path: /more, mode: append }\ndead_letter"

    assert "`dead_letter`, where records go" in complaint("country", "topics: [t]", "")
    assert "sink `more` has the same input" in complaint("country", dead_letter=other)
    assert "expected one placeholder" in complaint("a}/{b")
    one = complaint("topic", **{'"/lake/{topic}"': "/lake, max_tables: 3"})
    assert "one table has no maximum" in one


def test_other_folders_of_the_file_may_not_be_where_a_record_could_name_a_table() -> None:
    assert "a table of sink `out` could be there" in complaint("country", **{"/dead": "/lake/dead"})
    assert "a table of sink `out` could be there" in complaint("country", **{"/ck": "/lake/ck/x"})
    in_file = {'"/lake': '"file:///lake', "/dead": "/lake/dead"}
    assert "a table of sink `out` could be there" in complaint("country", **in_file)
    assert pipeline("country", "topics: [t]", DEAD.replace("/dead", "/lake/_dead"))


def test_lint_knows_the_column_and_the_place_of_a_templates_rows() -> None:
    def problems(file: str) -> str:
        return "\n".join(map(str, lint_text(file, "f.yaml", {}).problems))

    assert "no column `land`" in problems(text("land"))
    missing = problems(text("country", **{", partition, offset": ""}))
    assert "`rows` does not name the record of a row" in missing
    assert problems(text("country")) == ""
