"""The reader of one section: what it takes for a value, and what it says of one that it refuses."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.config.keywords import MODES
from pipelines.config.section import LONG_MAX, Reader, nearest, shown
from tests.unit.pipelines.config.sections import said, section, tree


def test_a_number_where_a_text_is_expected_is_the_text_as_written():
    assert section("path: 007", "sink").text("path") == "007"


def test_an_empty_text_is_refused_and_an_absent_one_is_not():
    reader = section("path: ''", "sink")

    assert (reader.text("path"), reader.text("table")) == (None, None)
    (wrong,) = said(reader)
    assert wrong.startswith("path: expected the folder of the Delta table, or of several: ")
    assert wrong.endswith("; found ``")


def test_the_rest_of_a_text_without_quotes_in_brackets_is_no_unknown_key():
    top = tree("{ inputs: [raw], sql: select a, b from raw }\n")
    reader = Reader(top, "transform", [])

    assert said(reader) == [
        "b from raw: a comma ends a text without quotes in { }: put that of `sql` in quotes"
    ]


@pytest.mark.parametrize("written", ["{ sql: a, bogus: 1 }", "{ bogus, sql: a }", "sql: a\nbogus:"])
def test_another_unknown_key_is_told_as_such(written):
    (wrong,) = said(Reader(tree(f"{written}\n"), "transform", []))

    assert wrong.startswith("bogus: unknown key `bogus`")


@pytest.mark.parametrize("written", ["'5'", '"12"'])
def test_a_number_in_quotes_is_refused_with_the_advice_to_leave_them_out(written):
    reader = section(f"rows: {written}", "limit")

    assert reader.positive("rows") is None
    assert said(reader)[0].endswith("which is a text because of its quotes: leave them out")


def test_a_flag_in_quotes_is_refused_with_the_advice_to_leave_them_out():
    reader = section("headers: 'true'", "source")

    assert reader.flag("headers") is False
    assert said(reader)[0].endswith("because of its quotes: leave them out")


@pytest.mark.parametrize("written", ["0", "-1", "true", "1.5", "[1]"])
def test_only_whole_numbers_above_zero_are_counts(written):
    reader = section(f"rows: {written}", "limit")

    assert reader.positive("rows") is None
    assert said(reader)[0].endswith("; it must be a whole number above 0")


@example(2**63 - 1)
@example(2**63)
@given(st.integers(min_value=1, max_value=2**70))
def test_a_count_is_taken_up_to_the_largest_64_bit_number(number):
    reader = section(f"rows: {number}", "limit")

    assert reader.positive("rows") == (number if number <= 2**63 - 1 else None)
    assert len(reader.problems) == (number > LONG_MAX)


@pytest.mark.parametrize(
    ("written", "ms"), [("500ms", 500), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000)]
)
def test_a_duration_has_a_unit(written, ms):
    assert section(f"max_delay: {written}", "limit").duration_ms("max_delay") == ms


@pytest.mark.parametrize("written", ["5", "0s", "1d", "-1s", "s"])
def test_a_duration_without_a_known_unit_or_of_nothing_is_refused(written):
    reader = section(f"max_delay: {written}", "limit")

    assert reader.duration_ms("max_delay") is None
    assert len(reader.problems) == 1


@pytest.mark.parametrize(("written", "value"), [("0", 0.0), ("1", 1.0), ("0.25", 0.25)])
def test_a_ratio_is_from_zero_to_one(written, value):
    assert section(f"max_ratio: {written}", "check").ratio("max_ratio") == value


@pytest.mark.parametrize("written", ["1.01", "-0.1", "true", "half"])
def test_another_ratio_is_refused(written):
    reader = section(f"max_ratio: {written}", "check")

    assert reader.ratio("max_ratio") is None
    assert len(reader.problems) == 1


def test_an_unknown_value_is_not_checked_and_not_missing():
    """A variable without a value was reported already, or is known on another machine."""
    reader = section("rows: ${GONE}\nbytes: ${GONE}\nmax_delay: ${GONE}", "limit")

    assert (reader.positive("rows"), reader.duration_ms("max_delay")) == (None, None)
    assert reader.problems == []


def test_each_item_of_a_list_is_refused_at_its_own_place():
    reader = section("topics: [a, '', {b: c}, a, '${GONE}', d]", "source")

    assert reader.texts("topics") == ("a", "d")
    assert said(reader) == [
        "topics[1]: expected a text, found ``",
        "topics[2]: expected a text, found a mapping",
        "topics[3]: `a` is listed twice",
    ]


def test_one_column_needs_no_list():
    assert section("order_by: at", "sink").columns("order_by") == ("at",)
    assert section("order_by: [at, id]", "sink").columns("order_by") == ("at", "id")


def test_the_places_of_items_are_those_of_the_list_or_of_the_text_itself():
    listed = section("order_by: [at, id]", "sink").item_places("order_by")
    alone = section("order_by: at", "sink").item_places("order_by")

    assert [(place.line, place.column) for place in listed] == [(2, 14), (2, 18)]
    assert [(place.line, place.column) for place in alone] == [(2, 13)]


def test_a_choice_that_is_missing_is_the_one_whose_keywords_are_there():
    """Else each of these keywords would be a second complaint about one missing `mode`."""
    assert section("keys: [id]\norder_by: at", "sink").chosen("mode", MODES, "append") == "upsert"
    assert section("inputs: [a]", "sink").chosen("mode", MODES, "append") == "append"


def test_a_keyword_of_another_choice_is_refused_with_the_choices_that_have_it():
    reader = section("mode: append\nkeys: [id]", "sink")

    assert reader.chosen("mode", MODES, "append") == "append"
    assert said(reader) == [
        "keys: `keys` is for mode merge or upsert or scd2; this sink's mode is append"
    ]


@pytest.mark.parametrize("text", ["path: /a\ntable: b", "mode: append"])
def test_of_exclusive_keywords_exactly_one_is_there(text):
    reader = section(text, "sink")

    reader.exactly_one()

    assert said(reader) == [": expected exactly one of `path` and `table`"]


def test_an_unknown_key_is_reported_once_with_the_similar_one_that_is_absent():
    reader = section("type: delta\npaht: /a", "sink")

    (problem,) = said(reader)
    assert problem.startswith("paht: unknown key `paht`; did you mean `path`? expected one of: ")


def test_a_key_of_spark_at_the_top_is_reported_with_its_section():
    reader = Reader(tree("checkpoint: /c\n"), "", [])

    assert said(reader)[0].endswith("(`checkpoint` belongs below `spark`)")


def test_settings_of_spark_are_texts_with_flags_in_small_letters():
    reader = section("conf: { a: yes, b: TRUE, c: 010, d: 1.50, e: [1] }", "spark")

    assert reader.plain_texts("conf") == {"a": "true", "b": "true", "c": "010", "d": "1.50"}
    assert said(reader) == ["conf.e: expected a text, found a list"]


def test_a_long_value_is_shortened_and_a_secret_is_never_shown():
    table = section("path: " + "a" * 61, "sink").table

    assert shown(table.nodes["path"]) == "`" + "a" * 57 + "...`"
    assert nearest("deltaa", ["delta"]) == "; did you mean `delta`?"
    assert nearest("x", ["delta"]) == ""
