"""The title of a JSON Schema: which schema its `$ref` leads to, and what stops that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from josefine_arrow.formats.confluent.json_schema_title import (
    RecordType,
    TitleError,
    needs_references,
    record_type_of,
)
from josefine_arrow.formats.confluent.schema_references import DEPTH_MAX, Schema

ORDER = {"title": "Order", "type": "object"}
REFUND = {"title": "Refund", "type": "object"}


def found(root: Any, **referenced: Any) -> RecordType:
    texts = [(name.replace("_", "."), json.dumps(each)) for name, each in referenced.items()]
    return record_type_of(7, Schema(json.dumps(root), tuple(texts)))


@pytest.mark.parametrize(
    ("root", "referenced"),
    [
        (ORDER, {}),
        (ORDER | {"$ref": "missing.json"}, {}),
        ({"$ref": "#/definitions/Order", "definitions": {"Order": ORDER}}, {}),
        ({"$ref": "#/$defs/a~1b%20~0", "$defs": {"a/b ~": ORDER}}, {}),
        ({"$ref": "#/$defs/all/0", "$defs": {"all": [ORDER]}}, {}),
        ({"$ref": "#order", "$defs": {"o": ORDER | {"$anchor": "order"}}}, {}),
        ({"$ref": "#order", "definitions": {"o": ORDER | {"$id": "#order"}}}, {}),
        ({"$ref": "o.json", "$defs": {"o": ORDER | {"$id": "o.json"}}}, {}),
        ({"$ref": "o.json"}, {"o_json": ORDER}),
        ({"$ref": "o.json#/$defs/O"}, {"o_json": {"$defs": {"O": ORDER}}}),
        ({"$ref": "o.json"}, {"o_json": {"$ref": "#/$defs/O", "$defs": {"O": ORDER}}}),
        ({"$ref": "o.json"}, {"o_json": {"$ref": "p.json"}, "p_json": ORDER}),
        ({"$id": "http://shop/all.json", "$ref": "o.json"},
         {"mine": ORDER | {"$id": "http://shop/o.json"}}),
        ({"$ref": "http://shop/o.json#"}, {"mine": ORDER | {"$id": "http://shop/o.json"}}),
        ({"$id": "http://shop/all.json", "$ref": "http://shop/all.json#/$defs/O",
          "$defs": {"O": ORDER}}, {}),
    ],
)  # fmt: skip
def test_a_title_is_the_schemas_own_or_that_of_the_schema_it_refers_to(
    root: Any, referenced: dict[str, Any]
) -> None:
    assert found(root, **referenced) == RecordType("Order")


@pytest.mark.parametrize("root", [{}, True, {"title": 1}, {"type": "object"}, {"$ref": 1}, []])
def test_a_schema_without_a_title_has_no_name(root: Any) -> None:
    assert found(root) == RecordType()


def test_a_union_has_the_titles_of_its_branches_and_of_theirs() -> None:
    inner = {"anyOf": [REFUND, {"type": "null"}, ORDER]}
    root = {"oneOf": [{"$ref": "#/$defs/O"}, {"$ref": "more.json"}], "$defs": {"O": ORDER}}

    assert found(root, more_json=inner).branches == ("Order", "Refund")
    assert found(root | {"title": "Event"}, more_json=inner).title == "Event"
    assert found({"$ref": "u.json"}, u_json={"oneOf": [ORDER]}).branches == ("Order",)


@pytest.mark.parametrize(
    ("root", "referenced", "why"),
    [
        ({"$ref": "#/$defs/O"}, {}, "schema 7 refers to `#/$defs/O`, which is not there"),
        ({"$ref": "#/a/b", "a": 1}, {}, "schema 7 refers to `#/a/b`, which is not there"),
        ({"$ref": "#x"}, {}, "schema 7 refers to `#x`, which is not there"),
        ({"$ref": "o.json"}, {"p_json": ORDER},
         "schema 7 refers to `o.json`, which is in none of its references"),
        ({"$ref": "#"}, {}, "schema 7 refers to `#` -> `#`: a cycle"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
         {}, "schema 7 refers to `#/$defs/A` -> `#/$defs/B` -> `#/$defs/A`: a cycle"),
        ({"$ref": "a.json"}, {"a_json": {"$ref": "b.json"}, "b_json": {"$ref": "a.json"}},
         "schema 7 refers to `a.json` -> `a.json: b.json` -> `b.json: a.json` -> "
         "`a.json: b.json`: a cycle"),
        ({"oneOf": [ORDER, {"$ref": "#"}]}, {}, "schema 7 refers to `#` -> `#`: a cycle"),
    ],
)  # fmt: skip
def test_a_cycle_or_a_missing_schema_is_one_error_with_the_way_to_it(
    root: Any, referenced: dict[str, Any], why: str
) -> None:
    with pytest.raises(TitleError) as caught:
        found(root, **referenced)

    assert str(caught.value) == why


def test_refs_have_a_greatest_depth() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(DEPTH_MAX + 2)}

    with pytest.raises(TitleError, match=f"nested deeper than {DEPTH_MAX}"):
        found({"$ref": "#/$defs/d0", "$defs": chain})


def test_each_branch_is_visited_once() -> None:
    """Else forty levels of pairs are 2**40 visits."""
    pairs: dict[str, Any] = {
        f"d{n}": {"oneOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(DEPTH_MAX - 2)
    }
    pairs[f"d{DEPTH_MAX - 2}"] = ORDER

    assert found({"$ref": "#/$defs/d0", "$defs": pairs}).branches == ("Order",)


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_schema_that_is_not_json_is_an_error(text: str) -> None:
    with pytest.raises(TitleError, match=r"schema 7: not JSON"):
        record_type_of(7, Schema(text))
    with pytest.raises(TitleError, match=r"schema 7: its reference `o`: not JSON"):
        record_type_of(7, Schema("{}", (("o", text),)))
    assert not needs_references(text)


@pytest.mark.parametrize(
    ("root", "needed"),
    [
        (ORDER | {"properties": {"money": {"$ref": "money.json"}}}, False),
        (ORDER | {"$ref": "o.json"}, False),
        ({"type": "object"}, False),
        (True, False),
        ({"$ref": "o.json"}, True),
        (ORDER | {"oneOf": [{"$ref": "o.json"}]}, True),
    ],
)
def test_references_are_needed_only_where_the_title_may_be_in_one(root: Any, needed: bool) -> None:
    assert needs_references(json.dumps(root)) is needed
