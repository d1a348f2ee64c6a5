"""A path with a placeholder: its tables, and the names that values may give them."""

from __future__ import annotations

import re

import pytest

from pipelines.model.table_family import (
    NAME_SQL,
    TableFamily,
    family_of,
    has_placeholder,
    name_of,
)

BAD = ["", ".", "..", "../up", "a/b", "a\\b", "/a", "_a", ".a", "a b", "a\n", "ä", "a" * 201, "a\0"]


@pytest.mark.parametrize("value", BAD)
def test_a_value_that_could_leave_its_folder_or_hide_there_is_not_a_name(value: str) -> None:
    assert name_of(value) is None
    assert not re.search(NAME_SQL, value), "as Spark's RLIKE looks for it"


def test_letter_case_does_not_count_in_a_name() -> None:
    assert name_of("Orders-1.v2") == name_of("orders-1.V2") == "orders-1.v2"
    assert name_of(None) is None


def test_a_template_has_one_placeholder_and_its_registry_is_next_to_the_tables() -> None:
    found = family_of("/lake/raw_{topic}/bronze")

    assert isinstance(found, TableFamily)
    assert found.by_topic
    assert found.path_of("a") == "/lake/raw_a/bronze"
    assert found.registry == "/lake/_josefine_tables_raw___bronze"
    plain = family_of("s3a://b/{country}", 5)
    assert isinstance(plain, TableFamily)
    assert (plain.column, plain.tables_max) == ("country", 5)
    assert (plain.registry, plain.path_of("x")) == ("s3a://b/_josefine_tables", "s3a://b/x")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/lake/{a}/{b}", "one placeholder"),
        ("/lake/{a", "one placeholder"),
        ("/lake/a}", "one placeholder"),
        ("/lake/{}", "names no column"),
        ("/lake/{a b}", "names no column"),
        ("/lake/_{a}", "are reserved"),
    ],
)
def test_other_braces_are_refused_with_the_reason(path: str, why: str) -> None:
    found = family_of(path)

    assert has_placeholder(path)
    assert isinstance(found, str)
    assert why in found
