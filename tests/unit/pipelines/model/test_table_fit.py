"""A table that somebody else made: what it fills itself, what it refuses, what it needs."""

from __future__ import annotations

from pipelines.model.schema_evolution import Evolution, Steps
from pipelines.model.table_columns import removed
from pipelines.model.table_fit import Fitting, fitting

NONE, ADD, WIDEN = Evolution
GENERATED = {"delta.generationExpression": "x + 1"}
ALWAYS = {"delta.identity.start": 1, "delta.identity.step": 1}
BY_DEFAULT = {**ALWAYS, "delta.identity.allowExplicitInsert": True}


def field(name, kind="integer", *, nullable=True, **metadata):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def outcome(fields, wants, evolution=NONE, said=None, merges=False, there=()):
    return fitting(
        fields, wants, said or {}, evolution, merges=merges, table="t",
        has=lambda name, _: name in there,
    )  # fmt: skip


def test_columns_that_the_table_fills_are_not_asked_for():
    fields = [
        field("id"),
        field("g", nullable=False, **GENERATED),
        field("n", nullable=False, **ALWAYS),
        field("d", nullable=False, CURRENT_DEFAULT="7"),
        field("note"),
    ]

    assert outcome(fields, {"ID": "integer"}) == Fitting()


def test_a_column_that_must_be_given_is_asked_for_with_its_path():
    fields = [
        field("a b", nullable=False),
        field("s", struct(field("x"), field("y", nullable=False))),
        field("l", {"type": "array", "elementType": struct(field("z", nullable=False))}),
    ]
    wants = {"S": struct(field("x")), "l": {"type": "array", "elementType": struct(field("w"))}}

    assert outcome(fields, wants) == (
        "has columns that are NOT NULL without a default, which the rows do not have: a b, s.y, "
        "l.element.z. Select a value for it, or let it be null:\n"
        "  ALTER TABLE t ALTER COLUMN `a b` DROP NOT NULL;\n"
        "  ALTER TABLE t ALTER COLUMN `s`.`y` DROP NOT NULL;\n"
        "  ALTER TABLE t ALTER COLUMN `l`.`element`.`z` DROP NOT NULL;"
    )


def test_a_counted_column_cannot_be_given_unless_the_table_says_so():
    assert outcome([field("n", **ALWAYS)], {"N": "integer"}) == (
        "has a column `n` GENERATED ALWAYS AS IDENTITY: leave it out of the rows"
    )
    assert outcome([field("n", **BY_DEFAULT)], {"n": "integer"}) == Fitting()


def test_a_refusal_has_the_sql_that_the_table_lacks():
    wants = {"id": "long", "at": "timestamp_ntz"}
    head = (
        "has other columns: id is int, the pipeline has bigint, at is not there, the pipeline has "
        "timestamp_ntz (columns come and go with `schema_evolution: add`; types grow with "
        "`schema_evolution: widen`). Set it in the file, or change the table:"
    )
    steps = [
        "  ALTER TABLE t ALTER COLUMN `id` TYPE bigint;",
        "  ALTER TABLE t ADD COLUMNS (`at` timestamp_ntz);",
    ]
    settings = (
        "  ALTER TABLE t SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported', "
        "'delta.enableTypeWidening' = 'true');"
    )

    assert outcome([field("id")], wants) == "\n".join([head, settings, *steps])
    there = ("delta.feature.timestampNtz", "delta.enableTypeWidening")
    assert outcome([field("id")], wants, there=there) == "\n".join([head, *steps])


def test_a_refusal_that_no_change_of_the_table_cures_has_no_sql():
    assert "ALTER" not in outcome([field("id", "string")], {"id": "integer"})
    assert "ALTER" not in outcome([field("id")], {"id": "integer", "v": "integer"}, merges=True)
    assert "ALTER" not in outcome(
        [field("id"), field("v")], {"id": "integer"}, said={"columns": ["id", "v"]}
    )


def test_what_the_sink_wrote_once_becomes_null_in_rows_that_change_and_nothing_else():
    fields = [
        field("id"), field("V"), field("old"), field("theirs"), field("g", **GENERATED),
        field("must", nullable=False, CURRENT_DEFAULT="1"),
    ]  # fmt: skip
    said = {"columns": ["id", "v", "g", "must", "dropped"], "removed": ["old"]}

    assert outcome(fields, {"id": "integer"}, ADD, said) == Fitting(
        steps=Steps(), removed=("V", "old")
    )
    assert removed(fields, {"OLD": "integer", "v": "integer"}, ["v"], ["old"]) == []
