"""The chains of a table family: each row once in its table, whatever dies, fails or is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.family_chain import (
    NUMBER,
    Family,
    as_they_are,
    decide_for_table,
    due_names,
    family_said,
    is_held,
    why_not_continued,
    with_held,
)
from pipelines.exactly_once.offset_chain import Batch, Commit, Skip, Tip, decide

Row = tuple[TopicPartition, int]
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class KilledError(Exception):
    """A run dies here."""


@dataclass
class World:
    """Topics, the tables and the registry of one family. `by_topic`: each topic has its table."""

    rng: Random
    by_topic: bool
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    tips: dict[str, Tip] = field(default_factory=dict)
    registry: Tip | None = None
    planned: Batch | None = None
    poisoned: set[str] = field(default_factory=set)

    def name(self, at: TopicPartition, offset: int) -> str | None:
        if self.by_topic:
            return at.topic
        return None if offset % 5 == 4 else f"t{(offset * 7 + at.partition) % 4}"

    def produce(self) -> None:
        for topic in "abc"[: self.rng.randint(1, 3)]:
            for number in range(2):
                at = TopicPartition(topic, number)
                self.ends[at] = self.ends.get(at, 0) + self.rng.randint(0, 6)

    def run(self, kill: float) -> None:
        """One run to the end of the topics, or to its death."""
        tip, family = self.registry, Family()
        if tip is not None:
            family = replace(family_said(tip.said), held={}, held_from={})
            if is_held(tip):
                self.planned = None
            tip = with_held(tip)
        position = dict(tip.reached.ends) if tip else {}
        while True:
            batch = self.planned or self._next(position)
            if batch is None:
                return
            self.planned = batch
            tip, family = self._batch(batch, tip, family, kill)
            position = dict(batch.end.ends)
            self.planned = None

    def _next(self, position: Mapping[TopicPartition, int]) -> Batch | None:
        if all(position.get(p) == end for p, end in self.ends.items()):
            return None
        end = {
            p: position.get(p, 0) + self.rng.randint(0, last - position.get(p, 0))
            for p, last in self.ends.items()
        }
        first = {p: 0 for p in end if p not in position}
        return Batch(start=dict(position), end=TopicOffsets(ends=end, first=first))

    def _batch(
        self, batch: Batch, tip: Tip | None, family: Family, kill: float
    ) -> tuple[Tip | None, Family]:
        own = decide(batch, tip)
        if isinstance(own, Skip):
            return tip, family
        assert isinstance(own, Commit), own
        found: dict[str, list[Row]] = defaultdict(list)
        for p, end in batch.end.ends.items():
            for offset in range(batch.starts.get(p, 0), end):
                name = self.name(p, offset)
                if name is not None:
                    found[name].append((p, offset))
        due = due_names(own, str.lower) if self.by_topic else {name: [] for name in found}
        written, failed, names = {}, {}, [*due]
        self.rng.shuffle(names)
        for name in names:
            if name in family.held:
                continue
            if name in self.poisoned:
                failed[name] = "poisoned"
                continue
            self._dies(kill)
            written[name] = self._write(name, own, due[name] or None, found[name], family)
        self._dies(kill)
        family = family.after(own, written, failed, str.lower if self.by_topic else None)
        said = family.said()
        self.registry = tip = Tip(reached=own.end, txn_version=own.txn_version, said=said)
        self._dies(kill)
        return tip, family

    def _write(
        self, name: str, own: Commit, topics: list[str] | None, rows: list[Row], family: Family
    ) -> int:
        tip = self.tips.get(name)
        assert why_not_continued(tip, family.tables.get(name, 0)) is None
        made = decide_for_table(own, tip, topics)
        if isinstance(made, Skip):
            assert tip is not None
            return tip.txn_version
        assert isinstance(made, Commit), made
        self.rows[name] += [row for row in rows if row[1] >= made.skip_below.get(row[0], 0)]
        said = {NUMBER: made.txn_version}
        self.tips[name] = Tip(reached=made.end, txn_version=made.txn_version, said=said)
        return made.txn_version

    def _dies(self, kill: float) -> None:
        if self.rng.random() < kill:
            if self.rng.random() < 0.5:
                self.planned = None  # the checkpoint is lost with it
            raise KilledError

    def expected(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for p, end in self.ends.items():
            for offset in range(end):
                name = self.name(p, offset)
                if name is not None:
                    found[name].append((p, offset))
        return {name: sorted(rows) for name, rows in found.items()}


@pytest.mark.parametrize("by_topic", [True, False])
def test_each_row_is_in_its_table_once_whatever_dies_and_whatever_is_poisoned(
    by_topic: bool,
) -> None:
    for seed in range(300):
        world = World(rng=Random(seed), by_topic=by_topic)
        for _ in range(12):
            world.produce()
            world.poisoned = {n for n in ("a", "b", "t1", "t3") if world.rng.random() < 0.3}
            try:
                world.run(kill=0.08)
            except KilledError:
                continue
            healthy = {n: r for n, r in world.expected().items() if n not in world.poisoned}
            there = {n: sorted(world.rows[n]) for n in healthy}
            assert there == healthy, f"seed {seed}: a table that is well has not all of its rows"
        world.poisoned = set()
        world.run(kill=0)

        assert {n: sorted(r) for n, r in world.rows.items() if r} == world.expected(), seed


def commit_of(start: int, end: int, *, of: TopicPartition = A) -> Commit:
    return Commit(start={of: start}, end=TopicOffsets(ends={of: end}), txn_version=9)


def tip_at(end: int, version: int = 3) -> Tip:
    return Tip(reached=TopicOffsets(ends={A: end}), txn_version=version, said={NUMBER: version})


def test_rows_below_a_tables_end_are_left_out() -> None:
    made = decide_for_table(commit_of(4, 9), tip_at(6), ["a"])

    assert isinstance(made, Commit)
    assert (made.skip_below, made.txn_version, made.end.ends) == ({A: 6}, 4, {A: 9})
    assert decide_for_table(commit_of(4, 9), tip_at(9), ["a"]) == Skip()


def test_a_table_without_rows_for_a_while_links_to_its_own_last_commit() -> None:
    made = decide_for_table(commit_of(4, 9), tip_at(2))

    assert isinstance(made, Commit)
    assert (made.start, made.skip_below) == ({A: 2}, {})


def test_a_table_that_lacks_commits_is_filled_again_from_its_own_end_when_it_is_trusted() -> None:
    tip = Tip(reached=TopicOffsets(ends={A: 9, B: 7}), txn_version=8)
    family = Family(tables={"a": 5, "b": 4})
    found = {"a": replace(tip_at(6, version=5), said={NUMBER: 3}), "b": tip_at(7, version=4)}

    at, then = as_they_are(tip, family, found, str.lower)
    every, _ = as_they_are(tip, family, {"a": None}, None)

    assert (dict(at.reached.ends), then.tables) == ({A: 6, B: 7}, {"a": 3, "b": 4})
    assert dict(every.reached.ends) == {A: 0, B: 0}


def test_a_topics_table_has_the_offsets_of_its_topics_alone() -> None:
    both = Commit(
        start={A: 0, B: 0},
        end=TopicOffsets(ends={A: 3, B: 5}, topic_ids={"a": "1", "b": "2"}),
        txn_version=1,
    )

    made = decide_for_table(both, None, ["b"])

    assert isinstance(made, Commit)
    assert (made.start, made.end.ends, made.end.topic_ids) == ({B: 0}, {B: 5}, {"b": "2"})
    assert due_names(both, str.upper) == {"A": ["a"], "B": ["b"]}


def test_a_table_without_commits_that_the_registry_knows_is_not_continued() -> None:
    rolled_back = replace(tip_at(4, version=5), said={NUMBER: 3})

    assert why_not_continued(tip_at(4, version=5), 5) is None
    assert why_not_continued(None, 0) is None
    deleted, restored = why_not_continued(None, 1), why_not_continued(rolled_back, 5)
    assert deleted is not None
    assert deleted.detail == "it was deleted"
    assert restored is not None
    assert restored.detail == "it was restored to an earlier version"


def test_a_held_table_takes_the_start_back_to_the_rows_that_it_lacks() -> None:
    first = replace(commit_of(5, 7), start={A: 5, B: 2})
    family = Family(tables={"x": 4}).after(first, {"y": 1}, {"x": "why"}, None)
    later = family.after(commit_of(7, 9), {"y": 2}, {"z": "why"}, None)
    tip = Tip(reached=TopicOffsets(ends={A: 9}), txn_version=3, said=later.said())

    assert dict(later.held_from) == {A: 5, B: 2}
    assert later.tables == {"x": 4, "y": 2, "z": 0}
    assert family_said(later.said()) == later
    assert dict(with_held(tip).reached.ends) == {A: 5, B: 2}
    assert is_held(tip)
    assert not is_held(tip_at(3))


def test_a_partition_that_comes_while_a_table_is_held_is_read_again_from_its_start() -> None:
    """The property above found it: rows of the partition's first batch were missing."""
    family = Family().after(commit_of(0, 3), {}, {"x": "why"}, None)

    later = family.after(commit_of(4, 6, of=B), {}, {}, None)

    assert dict(later.held_from) == {A: 0, B: 4}
