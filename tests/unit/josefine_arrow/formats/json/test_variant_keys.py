"""Keys that an object has twice inside of a VARIANT, and in other places."""

from __future__ import annotations

import pytest

from josefine_arrow.formats.json.variant_keys import Shape, why_unreadable

VARIANT = Shape(is_variant=True)
SHAPE = Shape(
    fields={
        "v": VARIANT,
        "s": Shape(fields={"v": VARIANT}),
        "a": Shape(items=VARIANT),
        "m": Shape(items=Shape(fields={"v": VARIANT})),
    }
)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"v": {"x": 1, "x": 2}}', "v.x"),
        ('{"v": [[{"x": {"y": 1, "z": 2, "y": 3}}]]}', "v[][].x.y"),
        ('{"s": {"v": {"x": 1, "\\u0078": 2}}}', "s.v.x"),
        ('{"a": [1, {"x": 1, "x": 1}]}', "a[].x"),
        ('{"m": {"k": {"v": {"x": 1, "x": 1}}}}', "m.k.v.x"),
        ('{"v": {"x": 1, "x": 2}, "v": 1}', "v.x"),
        ('{"v": {"": 1, "": 2}}', "v."),
    ],
)
def test_a_key_given_twice_inside_of_a_variant_is_named(text: str, key: str) -> None:
    assert why_unreadable(text.encode(), SHAPE) == f"does not fit the schema: key {key} twice"


@pytest.mark.parametrize(
    "text",
    [
        '{"v": {"x": 1}, "w": {"x": 1, "x": 2}}',
        '{"s": {"w": {"x": 1, "x": 2}, "v": 1}}',
        '{"s": {"v": 1, "v": 2}}',
        '{"v": {"x": 1, "X": 2}}',
        '{"v": [{"x": 1}, {"x": 2}]}',
        '{"a": {"x": 1}, "m": [1]}',
        "[1]",
        "1",
    ],
)
def test_keys_given_twice_in_other_places_are_left_to_the_reader(text: str) -> None:
    assert why_unreadable(text.encode(), SHAPE) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"v": {"x": 1, "x": 2}', "not JSON"),
        (b'{"v": {"x": 1, "x": 2}} y', "not JSON"),
        (b'{"v": {"x": 1, "x": "\xff"}}', "not UTF-8 text"),
        (b'{"v": ' + b"[" * 100_000, "JSON that is nested too deeply"),
    ],
)
def test_a_text_that_is_no_json_has_that_reason_whatever_keys_it_has(data: bytes, why: str) -> None:
    assert why_unreadable(data, SHAPE) == why


def test_a_number_of_many_digits_is_not_read() -> None:
    assert why_unreadable(b'{"v": ' + b"9" * 9000 + b"}", SHAPE) is None
