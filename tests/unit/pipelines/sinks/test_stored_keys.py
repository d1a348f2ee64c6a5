"""Which keys a Delta table stores otherwise than they were sent."""

from __future__ import annotations

from pipelines.sinks.stored_keys import changes


def field(name: str, kind: str = "string", declared: str = "") -> dict[str, object]:
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": declared} if declared else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def test_only_keys_that_the_table_changes_are_named():
    fields = [field("Id", "integer"), field("k"), field("v"), field("name", declared="varchar(9)")]

    assert changes(fields, ["v"], ["id", "k", "name"]) == {}
    assert changes(fields, ["v", "id"], ["ID", "V"]) == {"v": "nullif(`v`, '')"}


def test_an_empty_text_in_a_partition_is_null_before_a_char_is_padded():
    fields = [field("c", declared="char(3)")]

    assert changes(fields, [], ["c"]) == {"c": "rpad(`c`, greatest(3, length(`c`)), ' ')"}
    assert changes(fields, ["C"], ["C"]) == {
        "c": "rpad(nullif(`c`, ''), greatest(3, length(`c`)), ' ')"
    }
