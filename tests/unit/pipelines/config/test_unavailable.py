"""`unavailable` of a sink: where it applies, and the check that `dead_letter` makes."""

from __future__ import annotations

import re

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.unavailable import with_unavailable
from pipelines.config.validate import validate
from pipelines.lint.lint import lint_file
from pipelines.model.pipeline import Action, Unavailable
from tests.unit.pipelines.config.test_json_schema import complaints

FILE = """\
version: 1
name: changes
spark: { checkpoint: /ck }
sources:
  ev:
    type: josefine
    bootstrap: h:1
    topics: [t]
    decode: { value: { format: FORMAT, schema: 'id BIGINT, bio STRING' } }
transforms:
  rows:
    inputs: [ev]
    sql: select COLUMNS, topic as _topic, partition as _partition, offset as _offset from ev
sinks:
  out: { type: delta, inputs: [rows], path: /t, mode: upsert, keys: [id], order_by: [_offset]MORE }
dead_letter: { type: delta, path: /dead }
trigger: { available_now: true }
"""
OTHER = FILE.splitlines(keepends=True)[14].replace("out:", "more:").replace("MORE", "")
CHECK = "checks: { unavailable_out: { on: rows, expr: id > 0, action: warn } }\n"


def text(more="", form="debezium"):
    columns = "value.row.*" if form == "debezium" else "value.*"
    return FILE.replace("MORE", more).replace("FORMAT", form).replace("COLUMNS", columns)


def pipeline(*said):
    return validate(load(text(*said), "f.yaml", {}))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((), Unavailable.KEEP),
        ((", unavailable: null",), Unavailable.NULL),
        ((", unavailable: dead_letter",), Unavailable.DEAD_LETTER),
        (("", "json"), None),
        ((", unavailable: keep", "json"), Unavailable.KEEP),
    ],
)
def test_values_are_kept_by_default_where_debezium_sends_them(said, expected):
    found = pipeline(*said)

    assert found.sinks["out"].latest.unavailable is expected
    assert complaints(text(*said)) == []
    assert with_unavailable(found, []).sinks == found.sinks


def test_dead_letter_is_a_check_on_the_input():
    more = ', unavailable: dead_letter, placeholder: "its.\\\\n/a"'

    check = pipeline(more).checks["unavailable_out"]

    assert (check.on, check.action) == ("rows", Action.DEAD_LETTER)
    assert check.reason.startswith("a value is the placeholder its.\\n/a: ")
    literal = re.fullmatch(r"to_json\(struct\(\*\)\) NOT RLIKE '(.*)'", check.expr.text)[1]
    pattern = re.sub(r"\\(.)", r"\1", literal)  # as Spark reads the literal
    assert re.search(pattern, '{"id":1,"bio":"its.\\\\n/a"}')
    assert not re.search(pattern, '{"id":1,"bio":"itsX\\\\n/a"}')


def test_lint_wants_the_records_place_for_dead_letters(tmp_path):
    said = text(", unavailable: dead_letter")
    (tmp_path / "f.yaml").write_text(said)
    assert lint_file(tmp_path / "f.yaml", {}).problems == []

    (tmp_path / "f.yaml").write_text(said.replace("partition as _partition, ", ""))
    found = [str(each) for each in lint_file(tmp_path / "f.yaml", {}).problems]
    assert len(found) == 1
    assert "f.yaml:15:109: " in found[0]
    assert "`rows` does not name the record of a row" in found[0]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (("trigger", f"{CHECK}trigger"),
         "checks.unavailable_out: `unavailable_out` is the check of `unavailable` of sink `out`"),
        (("dead_letter: { type: delta, path: /dead }\n", ""),
         "sinks.out.unavailable: `dead_letter`, where such records go, is missing at the top"),
        (("dead_letter:", OTHER + "dead_letter:"),
         "sinks.out.unavailable: sink `more` has the same input and no `unavailable: dead_letter`"),
        (("unavailable: dead_letter", "unavailable: drop"), "expected keep, null or dead_letter"),
        (("mode: upsert, keys: [id], order_by: [_offset]", "mode: append"), "`unavailable`"),
    ],
)  # fmt: skip
def test_a_bad_use_is_told_with_its_place(changed, expected):
    said = text(", unavailable: dead_letter").replace(*changed, 1)

    with pytest.raises(ConfigError) as caught:
        validate(load(said, "f.yaml", {}))

    assert expected in str(caught.value)
    assert str(caught.value).startswith("f.yaml:1")
