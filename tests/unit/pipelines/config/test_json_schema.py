"""The JSON Schema for editors, judged by a validator that is not ours."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from pipelines.config.example import EXAMPLE
from pipelines.config.json_schema import json_schema
from pipelines.config.keywords import WORDS
from tests.unit.pipelines.base.test_environments import ENVIRONMENTS
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK, UPSERT
from tests.unit.pipelines.config.test_validate import CASES, GOOD
from tests.unit.pipelines.test_checks import CHECKS

SEEN = (
    "unknown top word", "unknown word below", "version", "no version",
    "no checkpoint", "source type with a slip",
    "topics as text", "topic twice", "topics and pattern", "limit not a number",
    "a start at one offset for all", "a stop before everything", "two stops", "topics and assign",
    "partitions that are none",
    "a whole number in quotes", "a flag in quotes", "two starts", "headers", "on_error",
    "path and table", "mode", "keys of an append", "upsert without an order",
    "aggregate of an upsert", "average", "sum of everything",
    "merge without keys", "no sinks", "a list for a table", "both triggers", "duration",
    "an environment that is no table", "an environment's name", "transform in Python",
)  # fmt: skip
"""Bad files whose fault lies in one word: an editor shows it while it is typed."""


class EditorsYaml(yaml.SafeLoader):
    """YAML 1.2, as editors and our own loader read it: `on` and a time are texts."""


EditorsYaml.yaml_implicit_resolvers = {
    first: [
        (tag, regexp)
        for tag, regexp in found
        if "timestamp" not in tag and (first in "tTfF" or "bool" not in tag)
    ]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


TRIGGER = "trigger: { available_now: true }"


def complaints(text):
    validator = jsonschema.Draft7Validator(json_schema())
    values = yaml.load(text, Loader=EditorsYaml)
    return [error.message for error in validator.iter_errors(values)]


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("type: josefine", "type: kafka"),
        GOOD.replace(SINK, MERGE),
        GOOD.replace(SINK, UPSERT),
        GOOD.replace(SINK, UPSERT.replace("[at, _offset]", "at")),
        GOOD.replace("mode: append", "mode: append, fresh: 30s").replace(TRIGGER, ""),
        GOOD + ENVIRONMENTS,
        GOOD + CHECKS,
        GOOD + "x-any: { thing: [at, all] }\n",
        GOOD.replace("topics: [orders]", 'topics: [orders]\n    limit: { rows: "${N:-5}" }'),
        GOOD.replace("topics: [orders]", "topics: [orders]\n    start: { group: g1 }"),
        GOOD.replace("topics: [orders]", "topics: [o]\n    start: { offsets: { o: { 0: 5 } } }"),
        GOOD.replace("topics: [orders]", "topics: [orders]\n    stop: { ago: 5m }"),
        GOOD.replace("topics: [orders]", "topics: [orders]\n    stop: null"),
        EXAMPLE.read_text(encoding="utf-8"),
        Path("conf/pipelines/flights.yaml").read_text(encoding="utf-8"),
    ],
)
def test_good_files_are_good_by_the_schema(text):
    assert complaints(text) == []


@pytest.mark.parametrize("name", SEEN)
def test_bad_words_are_bad_by_the_schema(name):
    (old, new), _ = CASES[name]

    assert complaints(GOOD.replace(old, new, 1)) != []


def test_a_slip_in_an_environment_is_seen():
    assert complaints(GOOD + ENVIRONMENTS.replace("every", "evry")) != []


def test_every_word_is_in_the_schema_with_what_is_expected():
    schema = json_schema()
    for section, words in WORDS.items():
        properties = (schema["definitions"][section] if section else schema)["properties"]
        assert {name: each["description"] for name, each in properties.items()} == {
            name: word.expected for name, word in words.items()
        }


def test_a_trigger_is_missing_unless_a_sink_is_fresh():
    assert complaints(GOOD.replace(TRIGGER, "")) != []
