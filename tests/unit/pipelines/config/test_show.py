"""`show`: the file as it is in one environment, which is a pipeline file again."""

from __future__ import annotations

import dataclasses

import pytest

from pipelines.base.errors import Place
from pipelines.base.variables import Variables
from pipelines.config.example import EXAMPLE
from pipelines.config.loader import load_all
from pipelines.config.show import as_yaml
from pipelines.config.validate import examine
from tests.unit.pipelines.base.test_environments import ENVIRONMENTS
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK, UPSERT
from tests.unit.pipelines.config.test_validate import GOOD

ENV = {"PROD_HOST": "h"}
FILES = {
    "small": GOOD,
    "merge": GOOD.replace(SINK, MERGE),
    "upsert": GOOD.replace(SINK, UPSERT),
    "environments": GOOD + ENVIRONMENTS,
    "odd texts": GOOD.replace("[orders]", "[010, 1_000, 'yes', '${A:-0x10}']").replace(
        "{ checkpoint: /ck }",
        "{ checkpoint: /ck, conf: { a: Yes, b: 1e3, c: '', d: 'x: #y', e: '$${b}' } }",
    ),
    "example": EXAMPLE.read_text(encoding="utf-8"),
}


def shown(text, environment=None, *, resolved=True):
    variables = Variables(env=ENV, with_secrets=False)
    return as_yaml(load_all(text, "f.yaml", variables, environment).tree, resolved=resolved)


def pipeline(text, environment=None):
    """Without places, which differ."""
    examined = examine(text, "f.yaml", Variables(env=ENV), environment)
    assert examined.problems == []
    return unplaced(dataclasses.asdict(examined.pipeline))


def unplaced(value):
    if isinstance(value, dict):
        kept = {k: unplaced(v) for k, v in value.items() if k not in ("written", "environment")}
        return {k: v for k, v in kept.items() if "place" not in k}
    if isinstance(value, (list, tuple)):
        return [unplaced(each) for each in value]
    return None if isinstance(value, Place) else value


@pytest.mark.parametrize("resolved", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_what_is_shown_is_the_same_pipeline(name, resolved):
    assert pipeline(shown(FILES[name], resolved=resolved)) == pipeline(FILES[name])


def test_an_environment_is_in_what_is_shown():
    text = shown(FILES["environments"], "prod")

    assert "environments" not in text
    assert pipeline(text) == pipeline(FILES["environments"], "prod")


def test_references_stay_until_they_are_asked_for():
    text = GOOD.replace("localhost:9092", "${HOST:-here}:9092")

    assert "bootstrap: ${HOST:-here}:9092" in shown(text, resolved=False)
    assert "bootstrap: here:9092" in shown(text)


def test_secrets_stay_references_also_through_a_variable():
    text = GOOD.replace("name: orders", "name: orders\nvars: { p: '${secret:env:P}', q: 1 }")
    text = text.replace("{ checkpoint: /ck }", '{ checkpoint: /ck, conf: { a.b: "x${p}" } }')

    said = shown(text)

    assert "vars:\n  p: ${secret:env:P}\n" in said
    assert "a.b: x${p}" in said
