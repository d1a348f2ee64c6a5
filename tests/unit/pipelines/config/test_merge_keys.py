"""Keys at the top that are not read, and YAML's anchors, aliases and merge keys."""

from __future__ import annotations

import pytest
import yaml

from pipelines.base.errors import ConfigError
from pipelines.base.variables import Variables
from pipelines.config.merge_keys import PAIRS_MAX, MergeError, merge_keys
from pipelines.config.validate import examine
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.test_validate import GOOD, complaint

ANCHOR = "x-lake: &lake { type: delta, mode: append, path: /other }\n"
MERGED = "  lake: { <<: *lake, inputs: [clean], path: /lake }\n"


def test_a_key_that_starts_with_x_is_not_read():
    text = GOOD + "x-notes: { any: [thing, '${UNSET}'], 5: 6 }\n"

    assert examine(text, "f.yaml", Variables(env={})).problems == []


def test_only_the_top_has_keys_that_are_not_read():
    said = complaint(GOOD.replace("{ checkpoint: /ck }", "{ checkpoint: /ck, x-a: 1 }"))

    assert said == "f.yaml:3:27: spark.x-a: unknown key `x-a`; expected one of: " + (
        "master, conf, checkpoint"
    )


def test_a_merged_mapping_gives_the_keys_that_are_not_there():
    text = ANCHOR + GOOD.replace(SINK, MERGED)

    found = examine(text, "f.yaml", Variables(env={}))

    assert found.problems == []
    assert (found.pipeline.sinks["lake"].path, found.pipeline.sinks["lake"].type) == (
        "/lake", "delta",
    )  # fmt: skip


def test_of_several_merged_mappings_the_first_wins():
    anchors = ANCHOR + "x-b: &b { path: /b, mode: upsert }\n"
    text = anchors + GOOD.replace(SINK, "  lake: { <<: [*lake, *b], inputs: [clean] }\n")

    assert examine(text, "f.yaml", Variables(env={})).pipeline.sinks["lake"].path == "/other"


def test_a_problem_of_a_merged_value_is_at_its_place():
    text = ANCHOR.replace("append", "apend") + GOOD.replace(SINK, MERGED)

    assert complaint(text).startswith("f.yaml:1:36: sinks.lake.mode: expected append, merge,")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x-a: &a [1]\nb: { <<: *a }\n", "1:10: `<<` takes an alias of a mapping, or a list of"),
        (
            "x0: &x0 { k0: 0 }\n"
            + "".join(f"x{n}: &x{n} {{ <<: *x{n - 1}, k{n}: 0 }}\n" for n in range(1, 200)),
            "142:7: too many merged keys",
        ),
    ],
)
def test_a_merge_that_cannot_be_done_is_refused_at_its_place(text, told):
    with pytest.raises(ConfigError) as refused:
        examine(text, "f.yaml", Variables(env={}))

    assert str(refused.value).startswith(f"f.yaml:{told}")


def merged(text: str) -> object:
    root = yaml.compose(text)
    merge_keys(root)
    return yaml.safe_load(yaml.serialize(root))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a { x: 1, y: 2 }\nb: { <<: *a, y: 3 }\n",
        "a: &a { x: 1 }\nb: &b { x: 2, z: 3 }\nc: { <<: [*a, *b], y: 4 }\n",
        "a: &a { x: 1 }\nb: &b { <<: *a, y: 2 }\nc: { <<: *b, x: 5 }\nd: [ { <<: *b } ]\n",
    ],
)
def test_keys_are_merged_as_yaml_itself_does(text):
    assert merged(text) == yaml.safe_load(text)


def test_a_merged_value_keeps_its_place_in_the_file():
    root = yaml.compose("a: &a { x: 1 }\nb: { <<: *a }\n")

    merge_keys(root)

    ((_, value),) = root.value[1][1].value
    assert (value.start_mark.line, value.start_mark.column) == (0, 11)


def test_a_mapping_that_contains_itself_ends():
    root = yaml.compose("a: &a { x: *a, y: 1 }\n")

    merge_keys(root)

    assert len(root.value[0][1].value) == 2


def test_as_many_keys_are_merged_as_a_file_may_have():
    pairs = ", ".join(f"k{number}: 0" for number in range(PAIRS_MAX))

    assert len(merged(f"a: &a {{ {pairs} }}\nb: {{ <<: *a }}\n")["b"]) == PAIRS_MAX
    with pytest.raises(MergeError, match="too many merged keys"):
        merged(f"a: &a {{ {pairs} }}\nb: {{ <<: *a }}\nc: &c {{ z: 0 }}\nd: {{ <<: *c }}\n")
