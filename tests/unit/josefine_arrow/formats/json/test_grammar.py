"""JSON's grammar: what is accepted, which key is there twice, how deep a text nests."""

from __future__ import annotations

import pytest

from josefine_arrow.formats.json.grammar import DEPTH_MAX, JsonError, parse, repeated_key


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": 1, "b": [{"k": 1, "k": 2}]}', ".b[].k"),
        ('{"a": {"b": {"k": 1, "k": 1}}}', ".a.b.k"),
        ('[{"a": 1}, {"a": 2}]', None),
    ],
)
def test_a_key_given_twice_is_found_at_every_depth(text: str, path: str | None) -> None:
    assert repeated_key(parse(text)) == path


def test_brackets_count_outside_of_strings_alone() -> None:
    deep = "[" * DEPTH_MAX + '"' + "[" * 9 + r"\"" + '"' + "]" * DEPTH_MAX

    assert isinstance(parse(deep), list)
    with pytest.raises(JsonError, match=f"nested deeper than {DEPTH_MAX}"):
        parse(f"[{deep}]")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("rest", [r"\"", '"', '["', "{", r"\\"])
def test_no_text_takes_time_that_grows_with_its_square(rest: str) -> None:
    """A value of a megabyte that never ends would stop a worker for hours."""
    with pytest.raises(JsonError):
        parse("[" * (DEPTH_MAX + 1) + rest * 300_000)
