"""The schemas of a table topic in a registry: the newest one, and the user of the environment."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from josefine_lake.config.table_topic import Format, KeyFormat, TableTopic
from josefine_lake.formats.keys import Keys, key_type
from josefine_lake.formats.registry import USER, NewerSchemaError, RegistryUnavailableError, Subject
from josefine_lake.formats.values import values_of
from tests.support.schema_registry import SchemaRegistry, serving

OLD = '{"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}'
NEW = OLD.replace("}]", '}, {"name": "n", "type": "int", "default": 0}]')
LATEST = "t-value/versions/latest"
TABLE = TableTopic(topic="t", location="/t", format=Format.AVRO)


def subject(registry: SchemaRegistry, **env: str) -> Subject:
    return Subject(replace(TABLE, registry=registry.url()), env)


def test_a_schema_that_this_run_has_not_met_asks_for_the_newest_one_once() -> None:
    with serving({1: OLD, 2: OLD + " ", 3: NEW}, subjects={LATEST: OLD}) as registry:
        found = subject(registry)
        found.newest()
        asked = [found.schema(number).text for number in (1, 2, 2, 1)]
        looks = [path for path, _ in registry.seen if "latest" in path]
        registry.subjects[LATEST] = NEW
        with pytest.raises(NewerSchemaError):
            found.schema(3)
        del registry.subjects[LATEST]
        other = found.schema(3).text

    assert asked == [OLD, OLD + " ", OLD + " ", OLD]
    assert len(looks) == 2, "at the start, and for schema 2"
    assert other == NEW, "a subject without schemas has no newer one"


def test_the_user_is_that_of_the_environment() -> None:
    with serving({}, subjects={LATEST: OLD}) as registry:
        subject(registry, **{USER: "me:pass/word@1"}).newest()
        ((_, said),) = registry.seen

    assert base64.b64decode(said.removeprefix("Basic ")) == b"me:pass/word@1"


def test_a_registry_that_is_away_is_a_failure_of_the_world_and_an_unknown_subject_is_not() -> None:
    with serving({}) as registry, pytest.raises(ValueError, match="no subject t-value"):
        subject(registry).newest()
    with pytest.raises(RegistryUnavailableError, match="cannot be reached"):
        subject(registry).newest()


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"schema": '{"type": "string"}'}, "expected a record, found string"),
        ({"schema": '{"type": "x"}'}, "no type `x`"),
        ({"schema": OLD, "format": Format.DEBEZIUM}, "no envelope of Debezium"),
        ({"schema": "id THING", "format": Format.JSON}, "'josefine.table.schema'"),
        ({"schema": "id VARIANT", "format": Format.JSON}, "use STRING"),
    ],
)
def test_a_schema_without_columns_is_refused(table: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        values_of(replace(TABLE, **table), {})


@pytest.mark.parametrize(
    ("how", "key", "found"),
    [
        (KeyFormat.JSON, b'{"id": 7, "other": 1}', {"id": 7}),
        (KeyFormat.JSON, b'{"schema": {}, "payload": {"id": 7}}', {"id": 7}),
        (KeyFormat.JSON, b"7", "key: "),
        (KeyFormat.JSON, b"{}", "key: id is null"),
        (KeyFormat.TEXT, b"7", {"id": 7}),
        (KeyFormat.TEXT, b'7, "id": 8', "key: "),
        (KeyFormat.TEXT, b"\xff", "key: "),
        (KeyFormat.TEXT, None, "a record without value and key deletes no row"),
    ],
)
def test_a_tombstones_key_has_the_key_columns_or_a_reason(
    how: KeyFormat, key: bytes | None, found: Any
) -> None:
    table = replace(TABLE, keys=("id",), key_format=how)
    kind = key_type(table, pa.struct([("n", pa.float64()), ("id", pa.int64())]))

    rows, reasons = Keys(table, kind, {}).decode(pa.array([key], pa.binary()))

    row, why = rows.to_pylist()[0], reasons.to_pylist()[0]
    assert row == found if isinstance(found, dict) else why.startswith(found)
    assert (row is None) is (why is not None)


@pytest.mark.parametrize(("keys", "why"), [(("x",), "no column x; it has: n"), (("n",), "no key")])
def test_a_column_that_is_no_key_is_refused(keys: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        key_type(replace(TABLE, keys=keys), pa.struct([("n", pa.float64())]))
