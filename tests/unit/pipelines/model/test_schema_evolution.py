"""The table's columns against the sink's, by what the file lets change."""

from __future__ import annotations

import pytest

from pipelines.model.schema_evolution import (
    Evolution,
    Steps,
    alterations,
    fields_of,
    fit,
    other_rows,
    settings_for,
)

NONE, ADD, WIDEN = Evolution
TABLE = {"id": "int", "k": "string"}
WIDENING = (("delta.enableTypeWidening", "true"),)


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
    assert outcome(wants, ADD) == outcome(wants, WIDEN) == Steps(add=((("v",), "double"),))


def test_a_column_that_the_sink_wrote_and_writes_no_more_is_told():
    assert outcome({"id": "int"}, wrote=["id", "k"]) == (
        "has other columns: k is written no more (columns come and go with "
        "`schema_evolution: add`; those that go are null in new rows)"
    )
    assert outcome({"id": "int"}, ADD, wrote=["id", "k"]) == Steps()
    # It was dropped from the table, too.
    assert outcome({"id": "int"}, wrote=["id", "x"]) == Steps()


def struct(**fields):
    return {"type": "struct", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(value, key="string"):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


@pytest.mark.parametrize(
    ("old", "new", "to"),
    [
        ("tinyint", "smallint", "smallint"), ("tinyint", "bigint", "bigint"),
        ("smallint", "int", "int"), ("int", "bigint", "bigint"), ("float", "double", "double"),
        ("int", "double", "double"), ("float", "int", "double"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("decimal(5,2)", "decimal(7,2)", "decimal(7,2)"),
        ("decimal(5,2)", "decimal(7,4)", "decimal(7,4)"),
        ("decimal(5,2)", "decimal(5,4)", "decimal(7,4)"),
        ("int", "decimal(4,2)", "decimal(12,2)"), ("bigint", "decimal(4,2)", "decimal(22,2)"),
    ],
)  # fmt: skip
def test_a_type_that_grew_is_widened_when_the_file_says_so(old, new, to):
    wants, have = {"id": new}, {"id": old}

    assert outcome(wants, WIDEN, have=have) == Steps(
        retype=((("id",), to),),
        settings=(
            *((("delta.feature.timestampNtz", "supported"),) if "ntz" in to else ()),
            *WIDENING,
        ),
    )
    for evolution in (NONE, ADD):
        assert outcome(wants, evolution, have=have) == (
            f"has other columns: id is {old}, the pipeline has {new} "
            "(types grow with `schema_evolution: widen`)"
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "string"), ("string", "int"), ("bigint", "double"), ("timestamp", "date"),
        ("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp"), ("double", "decimal(5,2)"),
        ("decimal(38,0)", "decimal(5,4)"), ("string", struct(a="int")),
        (array("int"), struct(a="int")), (struct(a="string"), struct(a="int")),
    ],
)  # fmt: skip
def test_any_other_change_of_a_type_is_refused_whatever_the_file_says(old, new):
    for evolution in Evolution:
        assert "no column changes to such a type" in outcome(
            {"id": new}, evolution, have={"id": old}
        )


def test_a_table_with_wider_types_and_another_spelling_needs_nothing():
    have = {
        "ID": "long",
        "amount": "decimal(12,2)",
        "addr": struct(Zip="string", CITY="string", n="double", more="int"),
        "list": array(struct(x="long")),
        "map": mapping(struct(x="double")),
    }
    wants = {
        "amount": "decimal(10,2)",
        "addr": struct(city="string", n="float", zip="void"),
        "id": "byte",
        "list": array(struct(X="integer")),
        "MAP": mapping(struct(x="integer")),
    }

    assert outcome(wants, have=have) == Steps()


def test_a_field_that_came_is_added_where_it_is():
    have = {"a": struct(x="int"), "l": array(struct(x="int")), "m": mapping(struct(x="int"))}
    wants = {
        "a": struct(x="int", y="string"),
        "l": array(struct(x="int", y=struct(z="int"))),
        "m": mapping(struct(x="int", y="int")),
    }

    assert "a.y is not there, the pipeline has string" in outcome(wants, have=have)
    steps = outcome(wants, ADD, have=have)
    assert list(alterations("t", steps)) == [
        "ALTER TABLE t ADD COLUMNS (`a`.`y` string, `l`.`element`.`y` struct<z:int>, "
        "`m`.`value`.`y` int)"
    ]


def test_a_field_that_grew_is_widened_where_it_is():
    have, wants = {"A": struct(B=array("int"))}, {"a": struct(b=array("long"))}

    assert "A.B.element is int, the pipeline has bigint" in outcome(wants, ADD, have=have)
    assert list(alterations("t", outcome(wants, WIDEN, have=have))) == [
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE t ALTER COLUMN `A`.`B`.`element` TYPE bigint",
    ]


def test_a_field_that_the_sink_wrote_and_writes_no_more_is_told_once():
    have = {"a": struct(x="int", y=struct(z="int")), "b": struct(x="int")}
    wants = {"a": struct(x="int")}
    wrote = {"wrote": ["a", "b"], "fields": fields_of(have)}

    said = fit(have, wants, evolution=NONE, merges=False, **wrote)
    assert "has other columns: b is written no more, `a`.`y` is written no more (" in said
    assert fit(have, wants, evolution=ADD, merges=False, **wrote) == Steps()
    assert fit(have, wants, ["a"], NONE, merges=False) == Steps()


def test_a_column_without_a_type_gets_one_like_a_new_column():
    assert "x is void, the pipeline has int" in outcome({"x": "int"}, have={"x": "void"})
    assert outcome({"x": "int"}, ADD, have={"x": "void"}) == Steps(retype=((("x",), "int"),))
    assert outcome({"x": "void"}, have={"x": struct(a="int")}) == Steps()


def test_a_target_that_stores_no_other_type_is_compared_exactly():
    have = {"id": "bigint", "a": struct(x="int")}

    assert fit(have, have, (), NONE, merges=False, exact=True) == Steps()
    for wants in ({"id": "int"}, {"a": struct(X="int")}, {"a": struct(x="int", y="int")}):
        assert "no column changes to such a type" in str(
            fit(have, wants, (), WIDEN, merges=False, exact=True)
        )


def test_a_table_gets_the_settings_that_new_columns_need():
    ntz, mapped = ("delta.feature.timestampNtz", "supported"), ("delta.columnMapping.mode", "name")

    assert list(settings_for([(("a.b`c",), "int"), (("é",), struct(x="string"))])) == []
    assert list(settings_for([(("a b",), "timestamp_ntz")])) == [mapped, ntz]
    nested = struct(**{"b c": array("timestamp_ntz")})
    assert list(settings_for([(("a",), nested)])) == [mapped, ntz]
    assert outcome({"at": "timestamp_ntz"}, ADD, have={}).settings == (ntz,)


@pytest.mark.parametrize("evolution", Evolution)
def test_columns_of_a_merged_table_neither_come_nor_go(evolution):
    for wants, wrote in ((TABLE | {"v": "int"}, ()), ({"id": "int"}, ["id", "k"])):
        assert "columns of a merged table neither come nor go" in outcome(
            wants, evolution, wrote, merges=True
        )
    assert outcome({"id": "bigint"}, WIDEN, merges=True) == Steps(
        retype=((("id",), "bigint"),), settings=WIDENING
    )


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
