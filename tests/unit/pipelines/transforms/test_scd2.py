"""Mode scd2 as it is read, and its MERGE word for word; its rows are in tests/spark/pipelines."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.lint.lint import lint_file
from pipelines.model.pipeline import Mode
from pipelines.transforms.scd2 import history, identity
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD, complaint

SCD2 = """\
  lake:
    type: delta
    inputs: [clean]
    path: /lake
    mode: scd2
    keys: [id]
    order_by: [at, seq]
    delete_when: op = 'd'
"""


def sink_of(text=SCD2):
    return validate(load(GOOD.replace(SINK, text), "f.yaml", {})).sinks["lake"]


def test_a_version_is_told_by_its_keys_and_its_order():
    sink = sink_of()

    assert sink.mode is Mode.SCD2
    assert identity(sink) == ("id", "at", "seq")
    assert complaints(GOOD.replace(SINK, SCD2)) == []


def test_versions_that_are_there_are_changed_only_where_they_differ():
    types = pytest.importorskip("pyspark.sql.types")
    names = ("id", "at", "seq", "name", "more", "_deleted", "_valid_from", "_valid_to", "_current")
    kind = types.MapType(types.StringType(), types.StringType())
    fields = [types.StructField(n, kind if n == "more" else types.StringType()) for n in names]

    merge = history(sink_of(), types.StructType(fields))

    assert merge.keys == ("id", "at", "seq")
    assert merge.columns == names
    assert [*merge.update] == [*names[3:]]
    assert merge.update_when == (
        "NOT (struct(s.`name` AS c0, to_json(s.`more`) AS c1, s.`_deleted` AS c2, "
        "s.`_valid_from` AS c3, s.`_valid_to` AS c4, s.`_current` AS c5) <=> "
        "struct(t.`name` AS c0, to_json(t.`more`) AS c1, t.`_deleted` AS c2, "
        "t.`_valid_from` AS c3, t.`_valid_to` AS c4, t.`_current` AS c5))"
    )
    assert (merge.insert_when, merge.delete_when) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    order_by: [at, seq]\n", "", "sinks.lake: `order_by` is missing; expected the column"),
        ("[at, seq]", "[at, id]", "sinks.lake.order_by: `id` is a key: it does not order the rows"),
        ("delete_when: op = 'd'", "on_delete: mark",
         "sinks.lake.on_delete: `on_delete` is for mode upsert; this sink's mode is scd2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(old, new, said):
    assert said in complaint(GOOD.replace(SINK, SCD2.replace(old, new)))


def test_lint_knows_the_columns_and_those_that_are_the_sinks_own(tmp_path):
    file = tmp_path / "f.yaml"
    text = GOOD.replace(SINK, SCD2.replace("[at, seq]", "[at]"))
    text = text.replace(
        "sql: select value.* from raw",
        'sql: "select value.*, 1 as att, 2 as op, 3 as _current from raw"',
    )
    file.write_text(text)

    assert [str(each).removeprefix(f"{file}:") for each in lint_file(file, {}).problems] == [
        "20:16: sinks.lake.order_by: no column `at` in `clean`; did you mean `att`?",
        "14:3: sinks.lake: `clean` has a column `_current`, which is the sink's own: leave it out "
        "there",
    ]
