"""Tables that somebody else made: columns that the table fills, types in other words, names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.base.errors import RunError
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
version: 1
name: foreign
spark: { checkpoint: "${LAB}/ck" }
sources:
  ev:
    { type: file, path: "${LAB}/ev",
      decode: { value: { format: json, schema: "SCHEMA", on_error: dead_letter } } }
transforms: { rows: { inputs: [ev], sql: "select SELECT, offset as _offset from ev" } }
sinks:
  out: { type: delta, inputs: [rows], path: "${LAB}/lake", MODE }
dead_letter: { type: delta, path: "${LAB}/dead" }
trigger: { available_now: true }
"""
APPEND = "mode: append"
UPSERT = "mode: upsert, keys: [id], order_by: _offset"


def lab_of(
    spark: SparkSession, folder: Path, schema: str, mode: str, select: str = "value.*"
) -> FilesLab:
    return FilesLab(spark, folder, file_of(schema, mode, select), ["ev"])


def file_of(schema: str, mode: str, select: str = "value.*") -> str:
    return FILE.replace("SCHEMA", schema).replace("MODE", mode).replace("SELECT", select)


def make(spark: SparkSession, folder: Path, columns: str, **settings: str) -> None:
    told = "".join(f", '{name}' = '{value}'" for name, value in settings.items())
    spark.sql(
        f"create table delta.`{folder}/lake` ({columns}) using delta tblproperties "
        f"('delta.feature.allowColumnDefaults' = 'supported'{told})"
    )


def version(lab: FilesLab) -> int:
    return len(list(Path(lab.folder, "lake", "_delta_log").glob("*.json")))


FILLED = (
    "id INT, v INT, at TIMESTAMP, _offset BIGINT, day DATE GENERATED ALWAYS AS (cast(at as date)), "
    "n BIGINT GENERATED ALWAYS AS IDENTITY, kind STRING NOT NULL DEFAULT 'new', note STRING"
)
HISTORY = "_valid_from BIGINT, _valid_to BIGINT, _current BOOLEAN, _deleted BOOLEAN"
MODES = {
    "append": (APPEND, "", [(1, 1), (2, 2), (1, 3)]),
    "deduplicate": ("mode: append, deduplicate: { keys: [id] }", "", [(1, 1), (2, 2)]),
    "upsert": (UPSERT, "", [(2, 2), (1, 3)]),
    "scd2": ("mode: scd2, keys: [id], order_by: _offset", HISTORY, [(1, 1), (2, 2), (1, 3)]),
    "merge": (
        "mode: merge, keys: [id], aggregate: { v: max(v), at: max(at) }", "", [(2, 2), (1, 3)]
    ),
}  # fmt: skip


@pytest.mark.long_proof(share=5)
@pytest.mark.parametrize("mode", MODES)
def test_columns_that_the_rows_lack_are_filled_by_the_table_and_stay(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    written, more, expected = MODES[mode]
    make(spark, tmp_path, ", ".join(filter(None, (FILLED, more))))
    lab = lab_of(spark, tmp_path, "id INT, v INT, at TIMESTAMP", written)
    lab.add("ev", *(f'{{"id":{n},"v":{n},"at":"2024-01-0{n}T10:00:00Z"}}' for n in (1, 2)))
    lab.run()
    spark.sql(f"update delta.`{tmp_path}/lake` set note = 'theirs', kind = 'old'")
    before = {row.id: row.n for row in lab.collected()}

    lab.add("ev", '{"id":1,"v":3,"at":"2024-01-03T10:00:00Z"}')
    lab.run()

    rows = lab.collected()
    assert sorted((row.id, row.v) for row in rows) == sorted(expected)
    assert all(row.day.day == row.v for row in rows)
    assert all(before[row.id] == row.n for row in rows if row.note == "theirs")
    stays = mode in ("upsert", "merge")
    of_new = [(row.kind, row.note) for row in rows if row.v == 3]
    assert of_new == (
        [] if mode == "deduplicate" else [("old", "theirs") if stays else ("new", None)]
    )


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_column_that_the_sink_writes_no_more_is_null_in_each_row_that_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    mode = f"{UPSERT}, schema_evolution: add"
    lab = lab_of(spark, tmp_path, "id INT, v INT", mode)
    lab.add("ev", '{"id":1,"v":1}', '{"id":2,"v":2}')
    lab.run()
    for number in (1, 2):  # the last commit of the second one does not write the column either
        lab.write(file_of("id INT", mode))
        lab.add("ev", f'{{"id":{number}}}')
        lab.run()

    assert [row.v for row in lab.collected()] == [None, None]


def test_a_table_in_other_words_is_written_with_its_own_types(
    spark: SparkSession, tmp_path: Path
) -> None:
    make(
        spark,
        tmp_path,
        "ID BIGINT, amount DECIMAL(12,2), ADDR STRUCT<Zip: STRING, more: INT, City: STRING>, "
        "list ARRAY<STRUCT<B: BIGINT, a: DOUBLE>>, m MAP<STRING, DECIMAL(20,0)>, _offset BIGINT",
    )
    before = lab_schema(spark, tmp_path)
    lab = lab_of(
        spark,
        tmp_path,
        "id INT, amount DECIMAL(10,2), addr STRUCT<city: STRING, zip: STRING>, "
        "list ARRAY<STRUCT<a: FLOAT, b: INT>>, m MAP<STRING, INT>",
        UPSERT,
    )
    for amount in ("2.5", "3.5"):
        event = {"id": 1, "amount": amount, "addr": {"city": "c", "zip": "z"}}
        lab.add("ev", json.dumps({**event, "list": [{"a": 0.5, "b": 7}, None], "m": {"k": 9}}))
        lab.run()

    assert lab_schema(spark, tmp_path) == before
    assert lab.table().selectExpr("to_json(struct(*))").collect()[0][0] == (
        '{"ID":1,"amount":3.50,"ADDR":{"Zip":"z","City":"c"},'
        f'"list":[{{"B":7,"a":0.5}},null],"m":{{"k":9}},"_offset":{lab.collected()[0]._offset}}}'
    )


def lab_schema(spark: SparkSession, folder: Path) -> object:
    return spark.read.format("delta").load(f"{folder}/lake").schema


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_columns_and_fields_that_came_are_added_with_what_the_table_needs_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    mode = f"{APPEND}, schema_evolution: add"
    lab = lab_of(spark, tmp_path, "id INT, addr STRUCT<city: STRING>", mode, "value.*, null as x")
    lab.add("ev", '{"id":1,"addr":{"city":"c"}}')
    lab.run()

    wider = "id INT, addr STRUCT<city: STRING, zip: STRING>, at TIMESTAMP_NTZ, x INT"
    lab.write(file_of(wider, mode, "value.*, 5 as `a, b`"))
    lab.add("ev", '{"id":2,"addr":{"city":"c","zip":"z"},"at":"2024-01-05T10:00:00","x":3}')
    lab.run()

    rows = lab.table().orderBy("id").selectExpr("id", "addr.zip", "string(at)", "x", "`a, b`")
    assert [tuple(row) for row in rows.collect()] == [
        (1, None, None, None, None),
        (2, "z", "2024-01-05 10:00:00", 3, 5),
    ]


REFUSED = {
    "addr STRUCT<city: INT>": (
        "addr.city is int, the pipeline has bigint (types grow with `schema_evolution: widen`). "
        "Set it in the file, or change the table:\n"
        "  ALTER TABLE delta.`LAKE` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true');\n"
        "  ALTER TABLE delta.`LAKE` ALTER COLUMN `addr`.`city` TYPE bigint;"
    ),
    "addr STRUCT<city: BIGINT>, need INT NOT NULL": (
        "has a column that is NOT NULL without a default, which the rows do not have: need. Select "
        "a value for it, or let it be null:\n"
        "  ALTER TABLE delta.`LAKE` ALTER COLUMN `need` DROP NOT NULL;"
    ),
    "addr STRUCT<city: STRING>": "addr.city is string, the pipeline has bigint (no column changes",
}


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("columns", REFUSED)
def test_a_table_that_cannot_take_the_rows_is_told_before_anything_is_made(
    spark: SparkSession, tmp_path: Path, columns: str
) -> None:
    make(spark, tmp_path, f"id INT, {columns}, _offset BIGINT")
    lab = lab_of(spark, tmp_path, "id INT, addr STRUCT<city: BIGINT>", APPEND)
    lab.add("ev", '{"id":1,"addr":{"city":1}}')

    with pytest.raises(RunError) as refused:
        lab.run()

    assert REFUSED[columns].replace("LAKE", f"{tmp_path}/lake") in str(refused.value)
    assert (version(lab), Path(tmp_path, "dead").exists()) == (1, False)
    if "ALTER" in REFUSED[columns]:  # what it advises is enough
        for line in str(refused.value).splitlines()[1:]:
            spark.sql(line.strip(" ;"))
        lab.run()
        assert lab.table().count() == 1


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize(
    ("mode", "select", "told"),
    [
        (f"{UPSERT}, cluster_by: tags", "value.*, array(1) as tags", "CLUSTER BY is not supported"),
        (APPEND, "value.*, make_dt_interval(1) as took", "DayTimeIntervalType"),
    ],
    ids=["cluster", "type"],
)
def test_of_a_table_that_cannot_be_made_as_the_file_has_it_no_folder_is_left(
    spark: SparkSession, tmp_path: Path, mode: str, select: str, told: str
) -> None:
    lab = lab_of(spark, tmp_path, "id INT", mode, select)
    lab.add("ev", '{"id":1}')

    with pytest.raises(RunError) as refused:
        lab.run()

    assert str(refused.value).startswith(f"sink `out`: {tmp_path}/lake cannot take the rows, ")
    assert told in str(refused.value)
    assert not Path(tmp_path, "lake").exists()
    assert not Path(tmp_path, "dead").exists()


NAMES = {
    "upsert": "mode: upsert, keys: ['a b', 'b`t'], order_by: ['d.o', _offset], "
    "cluster_by: ['b`t', 'd.o'], constraints: { good: '`b``t` > 0' }",
    "scd2": "mode: scd2, keys: ['a b', 'b`t'], order_by: ['d.o', _offset]",
    "merge": "mode: merge, keys: ['a b', 'd.o'], aggregate: { 'n` n': sum(`b``t`), 'é.x': max(é) }",
    "deduplicate": "mode: append, deduplicate: { keys: ['a b', 'b`t', 'd.o'] }",
}


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("mode", NAMES)
def test_a_column_may_have_any_name(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    select = "value.id as `a b`, 1 as `d.o`, value.id as `b``t`, value.id as `é`"
    lab = lab_of(spark, tmp_path, "id INT", NAMES[mode], select)
    for _ in range(2):
        lab.add("ev", '{"id":7}')
        lab.run()

    rows = lab.collected()
    assert {row["a b"] for row in rows} == {7}
    assert len(rows) == (2 if mode == "scd2" else 1)
    if mode == "merge":
        assert (rows[0]["n` n"], rows[0]["é.x"]) == (14, 7)
