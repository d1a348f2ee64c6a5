"""`deduplicate` as it is read, and its MERGE word for word; its rows are in tests/spark."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.lint.lint import lint_file
from pipelines.transforms.deduplicate import Span, new_rows
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.test_validate import GOOD, complaint

SAID = "  lake: { type: delta, inputs: [clean], path: /lake, mode: append, deduplicate: %s }\n"
HOURS = "{ keys: [id], time: id, within: 24h }"


def text_of(deduplicate: str) -> str:
    return GOOD.replace(SINK, SAID % deduplicate)


def how_of(deduplicate: str):
    return validate(load(text_of(deduplicate), "f.yaml", {})).sinks["lake"].deduplicate


def merge_of(deduplicate: str, span: Span):
    types = pytest.importorskip("pyspark.sql.types")
    schema = types.StructType([types.StructField(name, types.LongType()) for name in ("id", "v")])
    return new_rows(how_of(deduplicate), schema, span)


def test_a_row_comes_in_where_no_row_has_its_keys():
    merge = merge_of("{ keys: [id, v] }", Span(rows=3))

    assert merge.on == "t.`id` = s.`id` AND t.`v` = s.`v`"
    assert (merge.update, merge.insert_when, merge.delete_when) == ({}, None, None)
    assert merge.columns == ("id", "v")


def test_copies_are_looked_for_as_far_as_they_may_be_and_in_no_older_file():
    merge = merge_of(HOURS, Span(rows=2, first_ms=86_400_000, last_ms=1_767_225_600_000))

    assert merge.on == (
        "t.`id` = s.`id` AND t.`id` BETWEEN s.`id` - make_dt_interval(0, 0, 0, 86400.000) AND "
        "s.`id` + make_dt_interval(0, 0, 0, 86400.000) "
        "AND t.`id` >= TIMESTAMP '1970-01-01T00:00:00.000Z' "
        "AND t.`id` <= TIMESTAMP '2026-01-02T00:00:00.001Z'"
    )
    assert "TIMESTAMP" not in str(merge_of(HOURS, Span(rows=0)).on)


def test_times_that_nobody_can_write_bound_nothing():
    merge = merge_of(HOURS, Span(rows=1, first_ms=-62_135_596_800_000, last_ms=0))

    assert "t.`id` >=" not in str(merge.on)
    assert "t.`id` <= TIMESTAMP '1970-01-02T00:00:00.001Z'" in str(merge.on)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("{ time: id, within: 24h }", "deduplicate: `keys` is missing; expected a list of columns"),
        (
            "{ keys: [id], time: at }",
            "deduplicate.time: `within` is missing: both are there or nei",
        ),
        ("{ keys: [id], within: 1h }", "deduplicate.within: `time` is missing: both are there or "),
        ("{ keys: [id], time: at, within: soon }", "deduplicate.within: expected how far apart by"),
        ("{ key: [id] }", "deduplicate.key: unknown key `key`; did you mean `keys`?"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(how, said):
    told = complaint(text_of(how))

    assert f"sinks.lake.{said}" in told
    assert told.startswith("f.yaml:14:")


def test_it_is_for_tables_that_have_every_row():
    sink = "{ keys: [id], order_by: id, mode: upsert, deduplicate: { keys: [id] }"

    assert "`deduplicate` is for mode append; this sink's mode is upsert" in complaint(
        GOOD.replace("{ type: delta, inputs", f"{sink}, type: delta, inputs").replace(
            ", mode: append", ""
        )
    )


def test_lint_knows_its_columns(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(text_of("{ keys: [id, idd], time: tim, within: 1h }"))

    assert [str(each).removeprefix(f"{file}:") for each in lint_file(file, {}).problems] == [
        "14:94: sinks.lake.deduplicate.keys[1]: no column `idd` in `clean`; did you mean `id`?",
        "14:106: sinks.lake.deduplicate.time: no column `tim` in `clean`; it has `id`",
    ]
