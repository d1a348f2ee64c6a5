"""A misspelt keyword is read as it was meant, and is one complaint."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config.environments import compose
from pipelines.config.keywords import WORDS
from pipelines.config.spelling import candidates, correct, nearest_word, unknown_key
from tests.unit.pipelines.config.test_validate import GOOD


def corrected(text):
    root, problems = correct(compose(text, "f.yaml"), "f.yaml")
    return yaml.safe_load(yaml.serialize(root)), [f"{p.place}: {p.path}" for p in problems]


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("topcis", ["topics", "or"], "topics"),
        ("on", ["topics", "or"], "or"),
        ("no", ["topics", "on"], "on"),
        ("xx", ["topics", "or", "on"], None),
        ("t", ["topics", "or", "on"], None),
    ],
)
def test_a_slip_or_two_swapped_characters_are_near_also_in_a_short_word(word, known, near):
    assert nearest_word(word, known) == near


@given(st.sampled_from(sorted(WORDS["source"])), st.data())
def test_a_keyword_without_one_of_its_letters_is_found_again(word, data):
    at = data.draw(st.integers(0, len(word) - 1))
    short = word[:at] + word[at + 1 :]

    if len(word) > 3 and short not in WORDS["source"]:
        assert nearest_word(short, [word]) == word


def test_a_right_file_stays_as_it_is():
    assert corrected(GOOD) == (yaml.safe_load(GOOD), [])


def test_a_misspelt_section_is_read_as_meant_with_all_that_is_below():
    found, problems = corrected(GOOD.replace("sinks:", "sinsk:").replace("topics:", "topcis:"))

    assert found == yaml.safe_load(GOOD)
    assert problems == ["f.yaml:8:5: sources.raw.topcis", "f.yaml:13:1: sinsk"]


def test_a_keyword_that_is_there_is_not_meant_again():
    text = "sinks: { a: { type: delta, mode: append, mod: x } }\n"

    found, problems = corrected(text)

    assert found["sinks"]["a"] == {"type": "delta", "mode": "append", "mod": "x"}
    assert problems == []


def test_a_key_for_anchors_and_one_of_spark_are_left_to_the_reader():
    text = "x-sinks: 1\ncheckpoint: /c\nname: a\n"

    assert corrected(text) == ({"x-sinks": 1, "checkpoint": "/c", "name": "a"}, [])


def test_an_environment_is_corrected_by_the_keywords_of_the_file():
    text = "environments: { dev: { tirgger: { once: true } } }\n"

    found, problems = corrected(text)

    assert found["environments"]["dev"] == {"trigger": {"once": True}}
    assert problems == ["f.yaml:1:24: environments.dev.tirgger"]


def test_a_list_of_mappings_is_corrected_item_by_item():
    found, problems = corrected("tests: [ { name: a }, { nam: b } ]\n")

    assert found["tests"] == [{"name": "a"}, {"name": "b"}]
    assert problems == ["f.yaml:1:25: tests[1].nam"]


def test_keywords_that_the_chosen_mode_lacks_and_the_second_of_two_exclusive_ones_are_not_meant():
    free = candidates("sink", {"type", "mode", "path"}, {"type": "delta", "mode": "append"})

    assert {"inputs", "cluster_by"} <= free
    assert free.isdisjoint({"table", "keys", "aggregate", "topic", "catalog", "mode"})


def test_the_message_of_an_unknown_key_lists_the_known_ones():
    assert unknown_key("a", "b", ["b", "c"]) == (
        "unknown key `a`; did you mean `b`? expected one of: b, c"
    )
    assert unknown_key("a", None, ["b"]) == "unknown key `a`; expected one of: b"
