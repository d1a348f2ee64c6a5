"""The table's columns against the sink's, by what the file lets change."""

from __future__ import annotations

import pytest

from pipelines.model.schema_evolution import Evolution, Steps, fit, other_rows

NONE, ADD, WIDEN = Evolution
TABLE = {"id": "int", "k": "string"}


def outcome(wants, evolution=NONE, wrote=(), merges=False, have=TABLE):
    return fit(have, wants, wrote, evolution, merges=merges)


def test_equal_columns_and_those_that_only_the_table_has_need_nothing():
    assert outcome(TABLE, wrote=["id", "k"]) == Steps()
    assert outcome({"id": "int"}) == outcome({"id": "int"}, wrote=["id"]) == Steps()
    assert outcome({"ID": "int", "k": "string"}, wrote=["ID", "K"]) == Steps()


def test_a_column_that_came_is_added_when_the_file_says_so():
    wants = TABLE | {"v": "double"}

    assert outcome(wants) == (
        "has other columns: v is not there, the pipeline has double "
        "(columns come and go with `schema_evolution: add`)"
    )
    assert outcome(wants, ADD) == outcome(wants, WIDEN) == Steps(add=(("v", "double"),))


def test_a_column_that_the_sink_wrote_and_writes_no_more_is_told():
    assert outcome({"id": "int"}, wrote=["id", "k"]) == (
        "has other columns: k is written no more (columns come and go with "
        "`schema_evolution: add`; those that go are null in new rows)"
    )
    assert outcome({"id": "int"}, ADD, wrote=["id", "k"]) == Steps()
    # It was dropped from the table, too.
    assert outcome({"id": "int"}, wrote=["id", "x"]) == Steps()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tinyint", "smallint"), ("tinyint", "bigint"), ("smallint", "int"), ("int", "bigint"),
        ("float", "double"), ("decimal(5,2)", "decimal(7,2)"), ("decimal(5,2)", "decimal(7,4)"),
    ],
)  # fmt: skip
def test_a_type_that_grew_is_widened_when_the_file_says_so(old, new):
    wants, have = {"id": new}, {"id": old}

    assert outcome(wants, WIDEN, have=have) == Steps(widen=(("id", new),))
    for evolution in (NONE, ADD):
        assert outcome(wants, evolution, have=have) == (
            f"has other columns: id is {old}, the pipeline has {new} "
            "(types grow with `schema_evolution: widen`)"
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "int"), ("int", "double"), ("int", "string"), ("string", "int"),
        ("double", "float"), ("decimal(5,2)", "decimal(5,4)"), ("decimal(5,2)", "decimal(4,2)"),
        ("decimal(5,2)", "decimal(7,1)"), ("struct<a:int>", "struct<a:int,b:int>"),
    ],
)  # fmt: skip
def test_any_other_change_of_a_type_is_refused_whatever_the_file_says(old, new):
    for evolution in Evolution:
        assert "no column changes to such a type" in outcome(
            {"id": new}, evolution, have={"id": old}
        )


@pytest.mark.parametrize("evolution", Evolution)
def test_columns_of_a_merged_table_neither_come_nor_go(evolution):
    for wants, wrote in ((TABLE | {"v": "int"}, ()), ({"id": "int"}, ["id", "k"])):
        assert "columns of a merged table neither come nor go" in outcome(
            wants, evolution, wrote, merges=True
        )
    assert outcome({"id": "bigint"}, WIDEN, merges=True) == Steps(widen=(("id", "bigint"),))


def test_everything_that_is_wrong_is_told_at_once():
    said = outcome({"id": "bigint", "v": "int"}, wrote=["id", "k"])

    assert said == (
        "has other columns: id is int, the pipeline has bigint, v is not there, the pipeline has "
        "int, k is written no more (columns come and go with `schema_evolution: add`; those that "
        "go are null in new rows; types grow with `schema_evolution: widen`)"
    )


def test_a_table_of_another_mode_or_of_other_keys_is_refused():
    said = {"columns": ["id"], "mode": "upsert", "keys": ["id", "k"]}

    assert other_rows(said, "upsert", ("k", "id")) == ""
    assert other_rows(said, "append", ()) == (
        "was written with mode upsert, the file has append: write to a new table"
    )
    assert other_rows(said, "upsert", ("id",)) == (
        "has a row for each id, k, the file's keys are id: write to a new table"
    )


def test_commits_that_say_no_mode_are_of_no_upsert():
    assert other_rows({}, "upsert", ("id",)) == ""
    assert other_rows({"columns": ["id"]}, "merge", ("id",)) == ""
    assert other_rows({"columns": ["id"]}, "upsert", ("id",)) == (
        "was written with another mode, the file has upsert: write to a new table"
    )
