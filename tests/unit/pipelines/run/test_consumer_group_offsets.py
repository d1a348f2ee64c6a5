"""What consumer groups are told: never more than every table has, and no failure is the run's."""

from __future__ import annotations

import random

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.plan import compile_plan
from pipelines.run.consumer_group_offsets import Advice, common
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.exactly_once.test_watermarks import JOINED

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
TWO = GOOD.replace(
    "trigger:", "  other: { type: delta, inputs: [clean], path: /other, mode: append }\ntrigger:"
)
NAMED = TWO.replace("topics: [orders]", "topics: [orders]\n    commit_group: g1")


class Lab:
    """Two sinks of one source, and groups that remember what they are told."""

    def __init__(self, text, why=""):
        plan = compile_plan(validate(load(text, "f.yaml", {})))
        self.told, self.said, self.why = [], [], why
        self.advice = Advice(plan, self.commit, lambda *line: self.said.append(line))
        self.lake, *others = plan.sinks.values()
        self.other = others[0] if others else None

    def commit(self, source, group, ends):
        self.told.append((group, dict(ends)))
        return self.why


def test_without_a_name_each_sink_has_its_group_and_a_failure_is_not_told():
    lab = Lab(TWO, why="no right to it")
    lab.advice.reached(lab.lake, {A: 5})
    lab.advice.reached(lab.other, {A: 3})

    assert lab.told == [("orders.lake", {A: 5}), ("orders.other", {A: 3})]
    assert lab.said == []


def test_a_named_group_is_told_what_all_sinks_have_and_nothing_before_each_has_spoken():
    lab = Lab(NAMED)
    lab.advice.stands(lab.lake, {A: 4, B: 4}, {A, B})
    lab.advice.stands(lab.other, {}, {A, B})
    lab.advice.reached(lab.lake, {A: 9, B: 9})
    assert lab.told == []

    lab.advice.reached(lab.other, {A: 2})
    lab.advice.reached(lab.other, {A: 20, B: 7})

    assert lab.told == [("g1", {A: 2}), ("g1", {A: 9, B: 7})]


def test_a_sink_that_stands_where_its_table_ends_has_spoken():
    lab = Lab(NAMED)
    lab.advice.stands(lab.other, {A: 4}, {A})
    lab.advice.reached(lab.lake, {A: 9})

    assert lab.told == [("g1", {A: 4})]


def test_partitions_that_are_gone_are_not_told_and_new_ones_are():
    lab = Lab(TWO)
    lab.advice.stands(lab.lake, {A: 4, B: 4}, {B})
    new = TopicPartition("orders", 2)
    lab.advice.reached(lab.lake, {A: 4, B: 6, new: 1})

    assert lab.told == [("orders.lake", {B: 6, new: 1})]


def test_a_named_group_that_does_not_take_it_is_told_once_for_each_reason():
    lab = Lab(NAMED, why="the group has members")
    lab.advice.stands(lab.other, {A: 4}, {A})
    lab.advice.reached(lab.lake, {A: 5})
    lab.advice.reached(lab.lake, {A: 6})
    lab.why = "no right to it"
    lab.advice.reached(lab.lake, {A: 7})

    told = "group g1: offsets not committed: "
    assert lab.said == [("raw", told + "the group has members"), ("raw", told + "no right to it")]


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_commits_a_group_is_never_ahead_of_a_table_and_never_goes_back(seed):
    rng, lab = random.Random(seed), Lab(NAMED)
    at = {"lake": {}, "other": {}}
    last = {}
    for _ in range(40):
        sink = rng.choice((lab.lake, lab.other))
        for p in rng.sample((A, B), rng.randint(1, 2)):
            at[sink.name] = {**at[sink.name], p: at[sink.name].get(p, 0) + rng.randint(0, 3)}
        lab.advice.reached(sink, at[sink.name])
        for p, end in lab.told[-1][1].items() if lab.told else ():
            assert all(end <= ends[p] for ends in at.values())
            assert last.get(p, 0) <= end
            last[p] = end
    assert last


def test_one_sink_alone_is_common():
    assert common([{A: 1}]) == {A: 1}


PAID = TopicPartition("payments", 0)


def test_a_join_tells_each_group_its_own_topics_and_its_own_what_is_left():
    named = JOINED.replace("topics: [payments]", "topics: [payments]\n    commit_group: g2")
    lab = Lab(named)
    lab.advice.stands(lab.lake, {}, {A, PAID})

    lab.advice.reached(lab.lake, {A: 5, PAID: 3})

    assert lab.told == [("g2", {PAID: 3}), ("orders.lake", {A: 5})]
    lab = Lab(JOINED)
    lab.advice.reached(lab.lake, {A: 5, PAID: 3})
    assert lab.told == [("orders.lake", {A: 5, PAID: 3})]


def test_a_join_of_two_clusters_tells_only_groups_of_their_own():
    """No brokers know all of its topics."""
    named = JOINED.replace("topics: [payments]", "topics: [payments]\n    commit_group: g2")
    first, *others = named.split("bootstrap: localhost:9092")
    assert len(others) == 2
    away = f"{first}bootstrap: localhost:9092{others[0]}bootstrap: other:9092{others[1]}"
    lab = Lab(away)
    lab.advice.reached(lab.lake, {A: 5, PAID: 3})

    assert lab.told == [("g2", {PAID: 3}), ("orders.lake", {A: 5})]
