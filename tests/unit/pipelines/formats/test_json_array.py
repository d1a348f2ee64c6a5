"""The pieces of a value whose elements are rows."""

from __future__ import annotations

from josefine_arrow.formats.confluent.framing import framed
from pipelines.formats.json_array import pieces_of
from pipelines.formats.json_elements import ElementValues

ARRAY = b'[{"a": 1}, 2 ]'


def test_each_element_is_a_piece_with_its_index():
    assert pieces_of(ARRAY) == [(b'[{"a": 1}]', 0, None), (b"[2]", 1, None)]
    assert pieces_of(b"[]") == []


def test_a_piece_of_a_piece_is_the_piece():
    """So a replay of a dead letter makes the row of its element and no other."""
    for piece, _, _ in pieces_of(ARRAY):
        assert pieces_of(piece) == [(piece, 0, None)]


def test_what_is_no_array_and_what_is_no_value_is_one_piece():
    assert pieces_of(b'{"a": 1}') == [(b'{"a": 1}', None, "JSON, but not an array")]
    assert pieces_of(None) == [(None, None, None)]


def test_a_piece_has_the_frame_of_its_value():
    assert pieces_of(framed(7, ARRAY), framed=True) == [
        (framed(7, b'[{"a": 1}]'), 0, None),
        (framed(7, b"[2]"), 1, None),
    ]


def test_a_value_without_its_frame_is_one_piece_even_if_an_empty_array_follows():
    why = "begins with 0x61, expected 0x00 and a schema's number"

    assert pieces_of(b"abcde[]", framed=True) == [(b"abcde[]", None, why)]


def test_the_columns_of_a_piece_are_those_of_its_element():
    class OfElement:
        def result(self, parsed):
            return ("column", parsed)

    assert ElementValues(OfElement()).result("parsed") == ("column", "parsed")
