"""Decoders of a source, by what its `decode` section has."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.formats.text import TextValues
from pipelines.transforms.decoders import reading_of
from tests.unit.pipelines.config.bad_sinks import VALUE
from tests.unit.pipelines.config.test_decode import DEAD
from tests.unit.pipelines.config.test_validate import GOOD


def sides(value=None, key=None):
    words = [f"value: {value}" if value else "", f"key: {key}" if key else ""]
    text = GOOD.replace(f"value: {VALUE}", "\n      ".join(filter(None, words))) + DEAD
    return reading_of(validate(load(text, "f.yaml", {})).sources["raw"])


def test_a_source_without_a_decoder_has_bytes():
    assert sides("{ format: raw }") is None


def test_a_value_is_bad_without_one_unless_tombstones_are_rows():
    (plain,) = sides("{ format: string, on_error: fail }") or ()
    (with_tombstones,) = sides("{ format: string, tombstones: true, on_error: fail }") or ()

    assert isinstance(plain.values, TextValues)
    assert (plain.column, plain.null_is_good, plain.leaves_out_null) == ("value", False, False)
    assert (with_tombstones.null_is_good, with_tombstones.leaves_out_null) == (True, False)


def test_a_record_needs_no_key():
    (key,) = sides(None, "{ format: string, on_error: fail }") or ()

    assert (key.column, key.null_is_good, key.leaves_out_null) == ("key", True, False)


@pytest.mark.parametrize(("on_error", "nulls"), [("null", True), ("dead_letter", False)])
def test_a_bad_value_is_null_where_the_file_asks_for_it(on_error, nulls):
    (side,) = sides(f"{{ format: string, on_error: {on_error} }}") or ()

    assert side.null_for_bad is nulls


def test_value_and_key_are_sides_of_their_own_and_the_same_for_each_batch():
    one = sides("{ format: string, on_error: fail }", "{ format: string }")
    other = sides("{ format: string, on_error: fail }", "{ format: string }")

    assert [side.column for side in one or ()] == ["value", "key"]
    assert one is other
