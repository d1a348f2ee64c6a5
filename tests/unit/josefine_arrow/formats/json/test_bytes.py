"""Bytes of JSON's grammar: those that a writer puts around and into values."""

from __future__ import annotations

import json

from josefine_arrow.formats.json import bytes as grammar


def test_a_document_without_names_texts_and_literals_is_made_of_these_bytes():
    known = {value for name, value in vars(grammar).items() if name.isupper()}

    text = json.dumps({"": ["\\", '"', -0.9e-30, 1e30]}).replace(" ", "")

    others = {*text.encode()} - known
    assert {chr(each) for each in others} == {"3", "1", "e"}
    assert (min(b"0123456789"), max(b"0123456789")) == (grammar.ZERO, grammar.NINE)


def test_each_name_is_the_character_that_it_says():
    names = "QUOTE BACKSLASH COMMA COLON OPEN CLOSE OPEN_LIST CLOSE_LIST MINUS PLUS POINT"

    assert bytes(getattr(grammar, name) for name in names.split()) == b'"\\,:{}[]-+.'
