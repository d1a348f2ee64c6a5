"""The key columns of tombstones: of each type and name that a key may have, or a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from josefine_lake.config.table_topic import Format, KeyFormat, Mode, TableTopic
from josefine_lake.formats.keys import Keys
from josefine_lake.formats.values import values_of
from josefine_lake.writer.columns import Columns


def topic(schema: str, *keys: str, key_format: KeyFormat = KeyFormat.JSON) -> TableTopic:
    return TableTopic(
        topic="t",
        location="/t",
        format=Format.JSON,
        schema=schema,
        mode=Mode.UPSERT,
        keys=keys,
        key_format=key_format,
    )


def decoded(key_format: KeyFormat, kind: dict[str, pa.DataType], *keys: bytes) -> Any:
    table = topic("", *kind, key_format=key_format)
    return Keys(table, pa.struct(list(kind.items())), {}).decode(pa.array(keys, pa.binary()))


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        (pa.date32(), b"2024-01-31", "2024-01-31"),
        (pa.timestamp("us", "UTC"), b"2024-01-31T10:00:00Z", "2024-01-31 10:00:00.000000Z"),
        (pa.timestamp("us", "UTC"), b"9999-12-31T23:00:00-10:00", "10000-01-01 09:00:00.000000Z"),
        (pa.binary(), b"1234", b"\xd7m\xf8"),
        (pa.int64(), b"1234", "1234"),
        (pa.bool_(), b"true", "true"),
        (pa.string(), b"true", "true"),
    ],
)
def test_a_text_is_a_key_of_each_type(kind: pa.DataType, key: bytes, expected: str | bytes) -> None:
    rows, reasons = decoded(KeyFormat.TEXT, {"id": kind}, key)

    assert reasons.to_pylist() == [None]
    column = rows.field("id")
    texts = column if pa.types.is_binary(kind) else column.cast(pa.string())
    assert texts.to_pylist() == [expected]


def test_a_key_may_have_a_column_of_the_name_in_which_converters_put_a_key() -> None:
    keys = (b'{"payload": "a"}', b'{"schema": {}, "payload": {"payload": "b"}}', b'{"payload": 1}')
    rows, reasons = decoded(KeyFormat.JSON, {"payload": pa.string()}, *keys)

    assert rows.to_pylist()[:2] == [{"payload": "a"}, {"payload": "b"}]
    assert reasons.to_pylist()[:2] == [None, None]

    rows, reasons = decoded(KeyFormat.JSON, {"id": pa.int64()}, b'{"id": 1, "payload": "text"}')
    assert (rows.to_pylist(), reasons.to_pylist()) == ([{"id": 1}], [None])


def test_a_key_without_a_column_or_of_another_type_has_its_reason() -> None:
    keys = (b'{"a": 1}', b'{"a": 1, "b": "x"}', b'{"payload": {"a": 1, "b": null}}', b"{", b"7")
    kind = {"a": pa.int64(), "b": pa.int64()}
    rows, reasons = decoded(KeyFormat.JSON, kind, *keys, b'{"payload": {"a": 1, "b": 2}}')

    assert rows.to_pylist() == [None] * 5 + [{"a": 1, "b": 2}]
    assert [why and why.split(": ")[0] for why in reasons.to_pylist()] == ["key"] * 5 + [None]
    assert reasons[0].as_py() == reasons[2].as_py() == "key: b is null"


def test_the_columns_of_the_record_are_no_keys() -> None:
    table = topic("id BIGINT", "id", "_partition")

    with pytest.raises(ValueError, match="a value has no column _partition; it has: id"):
        Columns(table, values_of(table, {}), {})


@pytest.mark.parametrize("mode", Mode)
def test_a_column_that_connectors_add_to_unwrapped_changes_is_one_of_the_table(mode: Mode) -> None:
    table = replace(topic("id BIGINT, __deleted STRING", "id"), mode=mode)

    assert "__deleted" in Columns(table, values_of(table, {}), {}).schema.names
