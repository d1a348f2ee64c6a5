"""What the next run has to know of this one's rows, and when a start is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import RunError
from pipelines.model.plan import compile_plan
from pipelines.run.prepare import _facts, _refuse_other_state, _shares, _topics_of
from pipelines.sinks.targets import target_of
from pipelines.sources.josefine import Topics
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

DEAD = "dead_letter: { type: delta, path: /d }\n"
MORE = "  more: { type: delta, inputs: [raw], path: /m, mode: append }\ntrigger:"
SKIPS = GOOD.replace("[orders]", "[orders]\n    on_data_loss: skip_and_record")


def plan_of(text):
    return compile_plan(read(text)[0])


def facts(text, columns, dead_letters=None):
    of = plan_of(text).sinks["lake"]
    return _facts(of, target_of(of.sink), columns, dead_letters)


def test_a_commit_has_the_columns_the_mode_and_the_keys_of_its_rows():
    found = facts(GOOD.replace(SINK, MERGE), {"id": "integer", "n": "long"})

    assert (found["columns"], found["mode"], found["keys"]) == (["id", "n"], "merge", ["id"])
    assert "dead_letters" not in found


def test_only_a_sink_with_dead_letters_has_their_place():
    text = GOOD.replace("on_error: fail", "on_error: dead_letter") + DEAD

    assert facts(text, {"id": "integer"}, "/d")["dead_letters"] == "/d"


def test_fields_of_a_struct_are_kept_because_the_columns_do_not_show_them():
    field = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    found = facts(GOOD, {"s": {"type": "struct", "fields": [field]}})

    assert found["columns"] == ["s"]
    assert "a" in str(found["fields"])


@pytest.mark.parametrize(
    ("text", "skips", "shares"),
    [
        (GOOD.replace("trigger:", MORE), False, True),
        (GOOD.replace("trigger:", MORE), True, False),
        (GOOD, False, False),
        (SKIPS.replace("trigger:", MORE), False, False),
    ],
)
def test_sinks_of_a_source_share_its_rows_unless_one_skips_losses_or_is_alone(text, skips, shares):
    plan = plan_of(text)
    run = SimpleNamespace(plan=plan, wishes=SimpleNamespace(skip_losses=skips))

    assert _shares(run, plan.sinks["lake"]) is shares


def test_the_topics_of_a_pattern_are_those_that_were_there_at_the_start_or_are_there_now():
    def topics(*names):
        return Topics(earliest={}, latest=TopicOffsets(topic_ids=dict.fromkeys(names, "id")))

    named = plan_of(GOOD).sources["raw"].source
    by_pattern = plan_of(GOOD.replace("topics: [orders]", "pattern: 'o.*'")).sources["raw"].source
    kind = SimpleNamespace(look=lambda source: topics("b"))

    assert _topics_of(kind, {}, named) == ("orders",)
    assert _topics_of(kind, {"raw": topics("a")}, by_pattern) == {"a", "b"}


def test_a_state_of_another_select_is_refused_with_the_ways_out():
    pipeline = read(GOOD)[0]
    state = {"transform": "clean", "sql": "select 1", "watermark": {}, "inputs": {}}

    with pytest.raises(RunError) as caught:
        _refuse_other_state(
            pipeline, pipeline.sinks["lake"], {"state": state}, {**state, "sql": "select 2"}
        )

    assert "sql was `select 1`" in str(caught.value)
    assert "Two ways out:" in str(caught.value)
    _refuse_other_state(pipeline, pipeline.sinks["lake"], {"state": state}, state)
    _refuse_other_state(pipeline, pipeline.sinks["lake"], {}, state)
