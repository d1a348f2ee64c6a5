"""Where a dead letter that is good now goes, and why it waits otherwise."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.dead_letters.replay_plan import Look, Outlook, folder_of_sink
from pipelines.dead_letters.routing import Letter, Read
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.local_hadoop import LocalHadoop

P = TopicPartition("orders", 0)
OLD = "old"
TEXT = GOOD.replace(
    'format: json, schema: "id INT", on_error: fail', "format: string, on_error: dead_letter"
).replace(
    "trigger:",
    "  more: { type: delta, inputs: [raw], path: /more, mode: append }\n"
    "checks: { sound: { on: clean, expr: id > 0, action: dead_letter } }\n"
    "dead_letter: { type: delta, path: /dead }\ntrigger:",
)
PLAN = compile_plan(read(TEXT)[0])
TODAY = judgement(PLAN.sources["raw"])
LETTER = Letter(partition=P, offset=5)
CHECKED = Letter(partition=P, offset=5, checks=("sound",))


def reads(judged_by: str, end: int = 10) -> dict[TopicPartition, list[Read]]:
    return {P: [Read(0, end, judged_by)]}


def where_to(letter=LETTER, only=(), several=(), text=None, **sinks):
    plan = compile_plan(read(text)[0]) if text else PLAN
    look = Look(LocalHadoop(), plan, plan.pipeline.sources["raw"], None, only)
    chains = {"lake": reads(OLD), "more": reads(OLD), **sinks}
    return look._where_to(letter, reads(OLD), chains, several)


def test_a_record_goes_to_each_sink_that_left_it_out():
    assert where_to() == (["lake", "more"], "")
    assert where_to(lake=reads(TODAY)) == (["more"], "")


def test_a_record_of_a_check_goes_only_to_the_sinks_after_its_node():
    assert where_to(CHECKED) == (["lake"], "")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"lake": reads(OLD, end=3)}, "sink `lake` has not read up to there: run the pipeline "
         "first"),
        ({"lake": reads("another")}, "whether sink `lake` has its rows is not known: name its "
         "sinks"),
        ({"letter": Letter(partition=P, offset=5, checks=("gone",))}, "the file has no check "
         "`gone`, which sent it: name its sinks"),
        ({"several": {LETTER}}, "its record makes several rows, some may be there: name its "
         "sinks"),
    ],
)  # fmt: skip
def test_where_a_person_has_to_decide_the_letter_waits_with_the_reason(how, why):
    assert where_to(**how) == ([], why)


def test_sinks_that_the_user_names_get_it_unless_they_have_it():
    assert where_to(only=["more"], lake=reads("another")) == (["more"], "")
    assert where_to(only=["more", "lake"], more=reads(TODAY)) == (["lake"], "")
    assert where_to(only=["lake"], several={LETTER}) == (["lake"], "")


def test_a_topic_gets_no_replay_because_its_readers_would_take_the_rows_for_copies():
    topic = TEXT.replace("delta, inputs: [raw], path: /more, mode: append", "josefine, inputs: "
                         "[raw], topic: out")  # fmt: skip

    assert where_to(text=topic) == (
        [], "sink `more` writes a topic, which gets no replay: name the others",
    )  # fmt: skip
    assert where_to(text=topic, only=["lake"]) == (["lake"], "")


def test_an_outlook_counts_letters_by_sink_and_by_reason():
    other = Letter(partition=P, offset=6)
    outlook = Outlook(source="raw", letters=5, planned={LETTER: ["a", "b"], other: ["b"]})
    outlook.held["still: not JSON"] += 3

    assert outlook.to_json() == {
        "source": "raw", "letters": 5, "good": 2, "held": {"still: not JSON": 3}, "rows": {},
        "replay": None, "sinks": {"a": 1, "b": 2},
    }  # fmt: skip


def test_a_sink_by_its_path_needs_no_catalog():
    assert folder_of_sink(LocalHadoop(), PLAN.sinks["more"].sink) == "/more"
