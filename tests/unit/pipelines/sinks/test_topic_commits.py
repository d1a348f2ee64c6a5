"""A sink's chain in a topic, over the exactly-once protocol's model broker: killed between any two
steps, overtaken by another run, renamed, with its checkpoint kept or lost."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import ProducerIdentity
from josefine_spark.base.errors import SinkError
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.write import protocol
from josefine_spark.write import state as sink_state
from josefine_spark.write.state import Batch as Numbered
from josefine_spark.write.state import Phase, SinkState, attempt_id
from pipelines.base.errors import Place, RunError
from pipelines.exactly_once.checkpoint_start import (
    Checkpoint,
    Recorded,
    Start,
    Unreadable,
    reconcile,
)
from pipelines.exactly_once.offset_chain import (
    Batch,
    Commit,
    HandedOn,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide,
)
from pipelines.exactly_once.other_chains import ChainName, OtherChain
from pipelines.model.topic import SinkTopic
from pipelines.sinks.commits import Link, StoppedError
from pipelines.sinks.topic_commits import TopicChain
from pipelines.sinks.topic_state import Target, batch_of, taken_over
from tests.unit.josefine_spark.sink_model import TIMEOUT_MS, Broker

TP = TopicPartition("in", 0)
IDS = {"in": "id-in"}
RECORDS = 12
HERE = Place(file="f.yaml", line=1, column=1)


class Killed(BaseException):
    """Nothing that runs later runs."""


@dataclass
class Brokers:
    """Every sink's record and transactions; counts half steps, does something at one of them."""

    seed: int = 0
    sinks: dict[str, Broker] = field(default_factory=dict)
    halves: int = 10**9
    at_last: Callable[[], None] | None = None
    attempts: Any = field(default_factory=itertools.count)

    def of(self, sink: str) -> Broker:
        return self.sinks.setdefault(sink, Broker(Random(self.seed)))

    def half(self) -> None:
        self.halves -= 1
        if self.halves < 0:
            self.halves = 10**9
            if self.at_last is None:
                raise Killed
            self.at_last()

    def run(self, sink: str, steps: protocol.Steps) -> Any:
        result = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as stop:
                return stop.value
            except SinkError as error:
                raise RunError(str(error)) from error
            self.half()
            try:
                result = self.of(sink).take(step)
            except SinkError as error:
                raise RunError(str(error)) from error
            self.half()

    def all(self) -> Mapping[str, SinkState]:
        return {name: each.state for name, each in self.sinks.items() if each.state is not None}

    def write(self, rows: Any, sink: str, batch: Numbered) -> int:
        """As a batch write does with `delivery=exactly_once` and a batchId."""
        planned = self.run(sink, protocol.plan(sink, batch.query_id, 0, TIMEOUT_MS))
        if protocol.judge(sink, planned.decided, batch) is sink_state.Verdict.WRITE:
            name = attempt_id(sink, planned.generation, 0, next(self.attempts))
            epoch = self.of(sink).begin(name)
            for row in rows:
                self.half()
                try:
                    self.of(sink).write(name, epoch, row)
                except SinkError as error:
                    raise RunError(str(error)) from error
            transactions = {name: ProducerIdentity(0, epoch)}
            written = protocol.Written(batch=batch, transactions=transactions)
            self.run(sink, protocol.commit(planned, written, 0))
        return len(rows)

    def write_plainly(self, rows: Any, sink: str, batch: Numbered) -> int:
        for row in rows:
            self.half()
            self.of(sink).visible.append(row)
        return len(rows)


def target(topic: str = "out", *, exactly_once: bool = True) -> SinkTopic:
    return SinkTopic(
        bootstrap="b:1", topic=topic, key=None, key_place=HERE, exactly_once=exactly_once
    )


def chain_of(
    brokers: Brokers,
    run: str = "r1",
    *,
    sink: str = "out",
    topic_id: str = "id-out",
    exactly_once: bool = True,
) -> TopicChain:
    write = brokers.write if exactly_once else brokers.write_plainly
    return TopicChain(
        target(exactly_once=exactly_once),
        topic_id,
        Link(pipeline="p", sink=sink, run=run),
        brokers,
        write,
        pause=lambda s: None,
        now_ms=lambda: 0,
    )


SINK = "p.out.out"


def reached(end: int) -> TopicOffsets:
    return TopicOffsets(ends={TP: end}, topic_ids=IDS)


def commit(version: int, start: int, end: int) -> Commit:
    return Commit(start={TP: start}, end=reached(end), txn_version=version)


@dataclass
class Query:
    """Spark's part: its checkpoint's two logs, of (number, start, end)."""

    planned: tuple[int, int, int] | None = None
    committed: int = -1

    def checkpoint(self) -> Checkpoint | None:
        if self.planned is None:
            return None
        number, start, end = self.planned
        both = Recorded(batch=number, end=replace(reached(end), first={TP: 0}))
        if self.committed == number:
            return Checkpoint(planned=both, committed=both)
        before = Recorded(batch=number - 1, end=reached(start)) if number else None
        return Checkpoint(planned=both, committed=before)


def life(brokers: Brokers, query: Query, run: str, rng: Random, *, exactly_once: bool) -> None:
    """One run over the records 0 to `RECORDS`. Raises what ends it."""
    chain = chain_of(brokers, run, exactly_once=exactly_once)
    found = chain.load()
    assert not isinstance(found, (Unreadable, HandedOn))
    start = reconcile(query.checkpoint(), found)
    assert isinstance(start, Start), f"{start} of {query} and {found}"
    chain.follow(start.tip)
    at = start.tip.reached.ends[TP] if start.tip else 0
    if query.planned is not None and query.committed < query.planned[0]:
        number, *offsets = query.planned
    else:
        number, offsets = query.committed + 1, []
    while offsets or at < RECORDS:
        begin, end = offsets or (at, min(RECORDS, at + rng.randint(1, 5)))
        offsets = []
        query.planned = (number, begin, end)
        brokers.half()
        batch = Batch(start={TP: begin}, end=replace(reached(end), first={TP: 0}))
        decision = decide(batch, chain.tip)
        assert not isinstance(decision, Stop), decision
        if not isinstance(decision, Skip):
            chain.append(list(range(begin, end)), decision, number)  # type: ignore[arg-type]
        brokers.half()
        query.committed, number, at = number, number + 1, end


def killed_at(seed: int, kill: int, *, keeps: bool, exactly_once: bool) -> tuple[bool, list[int]]:
    """(whether it was over before, what is in the topic after the next run)."""
    brokers, query = Brokers(seed=seed), Query()
    brokers.halves = kill
    was_over = True
    try:
        life(brokers, query, "first", Random(seed), exactly_once=exactly_once)
    except Killed:
        was_over = False
    brokers.halves = 10**9
    query = query if keeps else Query()
    life(brokers, query, "next", Random(seed + kill + 1), exactly_once=exactly_once)
    return was_over, brokers.of(SINK).visible


def killed_everywhere(*, keeps: bool, exactly_once: bool) -> Iterator[tuple[str, list[int]]]:
    """What is in the topic after a kill at each half step of some runs, and after no kill."""
    for seed in range(3):
        for kill in itertools.count():
            was_over, rows = killed_at(seed, kill, keeps=keeps, exactly_once=exactly_once)
            yield f"seed {seed}, killed after {kill} half steps: {rows}", rows
            if was_over:
                assert kill > 30
                break


@pytest.mark.parametrize("keeps", [True, False], ids=["checkpoint-kept", "checkpoint-lost"])
def test_a_run_killed_between_any_two_steps_loses_and_repeats_no_row(keeps: bool) -> None:
    for what, rows in killed_everywhere(keeps=keeps, exactly_once=True):
        assert sorted(rows) == list(range(RECORDS)), what


@pytest.mark.parametrize("keeps", [True, False], ids=["checkpoint-kept", "checkpoint-lost"])
def test_at_least_once_loses_no_row_and_repeats_those_of_one_batch_at_most(keeps: bool) -> None:
    for what, rows in killed_everywhere(keeps=keeps, exactly_once=False):
        assert sorted(set(rows)) == list(range(RECORDS)), what
        assert len(rows) <= RECORDS + 5
    assert len(rows) == RECORDS, "undisturbed, nothing is repeated"


def test_a_run_overtaken_at_any_moment_writes_nothing_more() -> None:
    """The other run goes from its start to its end while this one stands still."""
    for moment in itertools.count():
        brokers = Brokers(seed=1)
        overtaken = []

        def overtake(brokers: Brokers = brokers, overtaken: list[str] = overtaken) -> None:
            overtaken.append("now")
            life(brokers, Query(), "other", Random(7), exactly_once=True)

        brokers.halves, brokers.at_last = moment, overtake
        with contextlib.suppress(StoppedError, RunError):
            life(brokers, Query(), "first", Random(1), exactly_once=True)
        rows = brokers.of(SINK).visible
        assert sorted(rows) == list(range(RECORDS)), f"overtaken after {moment}: {rows}"
        if not overtaken:
            break
    assert moment > 60


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_commit_that_another_run_made_stops_this_one(exactly_once: bool) -> None:
    brokers = Brokers()
    one, other = (chain_of(brokers, run, exactly_once=exactly_once) for run in ("r1", "r2"))
    assert one.load() is None
    assert other.load() is None

    other.append([1], commit(1, 0, 1), 0)  # type: ignore[arg-type]

    for late in ([1], [1, 2]):
        with pytest.raises(StoppedError, match=Verdict.LOST_RACE.value):
            one.append(late, commit(1, 0, len(late)), 0)  # type: ignore[arg-type]
    assert brokers.of(SINK).visible == [1]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_the_same_batch_of_another_run_is_not_taken_for_ours(exactly_once: bool) -> None:
    """Between our look and our write: what is decided is not decided again."""
    brokers = Brokers()
    one, other = (chain_of(brokers, run, exactly_once=exactly_once) for run in ("r1", "r2"))
    one.load()
    mine = one._write

    def write(rows: Any, sink: str, batch: Numbered) -> int:
        other.load()
        other.append(rows, commit(1, 0, 1), 0)
        return mine(rows, sink, batch)

    one._write = write
    with pytest.raises(StoppedError):
        one.append([1], commit(1, 0, 1), 0)  # type: ignore[arg-type]

    assert brokers.of(SINK).visible == ([1] if exactly_once else [1, 1])
    state = brokers.of(SINK).state
    assert state is not None
    assert state.decided is not None
    assert json.loads(state.decided.note)["run"] == "r2"


def test_what_was_decided_before_its_answer_was_lost_is_ours_and_settled() -> None:
    brokers = Brokers()
    chain = chain_of(brokers)
    chain.load()

    def write(rows: Any, sink: str, batch: Numbered) -> int:
        planned = brokers.run(sink, protocol.plan(sink, batch.query_id, 0, TIMEOUT_MS))
        name = attempt_id(sink, planned.generation, 0, 0)
        epoch = brokers.of(sink).begin(name)
        brokers.of(sink).write(name, epoch, 1)
        written = protocol.Written(batch=batch, transactions={name: ProducerIdentity(0, epoch)})
        for step in (steps := protocol.commit(planned, written, 0)):
            while type(step).__name__ != "Commit":
                step = steps.send(brokers.of(sink).take(step))
            raise RunError("the broker is gone")
        return 1

    chain._write = write
    chain.append([1], commit(1, 0, 1), 0)  # type: ignore[arg-type]

    assert brokers.of(SINK).visible == [1]
    assert brokers.of(SINK).state is not None
    assert brokers.of(SINK).state.phase is Phase.SETTLED
    assert chain.tip == Tip(reached=reached(1), txn_version=1)


@pytest.mark.parametrize(
    ("text", "attempts"),
    [("Python worker exited unexpectedly (crashed)", 2), ("no such column", 1)],
)
def test_a_write_that_failed_is_tried_again_where_it_may_go_well(text: str, attempts: int) -> None:
    brokers = Brokers()
    chain = chain_of(brokers)
    chain.load()
    tried = []

    def write(rows: Any, sink: str, batch: Numbered) -> int:
        tried.append(batch)
        if len(tried) == 1:
            raise RuntimeError(text)
        return brokers.write(rows, sink, batch)

    chain._write = write
    if attempts == 2:
        assert chain.append([1], commit(1, 0, 1), 0).metrics == {"numOutputRows": 1}  # type: ignore[arg-type]
    else:
        with pytest.raises(RuntimeError, match=text):
            chain.append([1], commit(1, 0, 1), 0)  # type: ignore[arg-type]

    assert len(tried) == attempts
    assert len({each.fingerprint for each in tried}) == 1


def test_offsets_move_without_rows_and_say_more() -> None:
    brokers = Brokers()
    chain = chain_of(brokers)
    chain.load()

    chain.move(commit(1, 0, 5), lost=[["in", 0, 0, 5]])

    found = chain_of(brokers, "r2").load()
    assert found == Tip(reached=reached(5), txn_version=1)
    assert isinstance(found, Tip)
    assert found.said["lost"] == [["in", 0, 0, 5]]
    assert brokers.of(SINK).visible == []


def test_a_topic_that_was_created_again_has_nothing_of_ours() -> None:
    brokers = Brokers()
    chain = chain_of(brokers)
    chain.load()
    chain.append([1], commit(1, 0, 1), 0)  # type: ignore[arg-type]

    assert chain_of(brokers, topic_id="another").load() == Tip(
        reached=TopicOffsets(), txn_version=1
    )


@pytest.mark.parametrize(
    ("query", "note", "hint"),
    [
        (
            "q-1",
            '{"josefine": 1, "target": {"topic": "out", "id": "id-out"}, "end": {}}',
            "a batch of q-1 that no pipeline wrote",
        ),
        (protocol.NUMBERED, "", "that no pipeline wrote"),
        (protocol.NUMBERED, '{"josefine": 2}', "that no pipeline wrote"),
        (
            protocol.NUMBERED,
            '{"josefine": 1, "target": {"topic": "out", "id": "id-out"}, "end": 5}',
            "no offsets that we can read",
        ),
    ],
)
def test_a_record_that_is_not_a_chains_is_not_gone_on_from(
    query: str, note: str, hint: str
) -> None:
    brokers = Brokers()
    batch = Numbered(query_id=query, batch_id=7, fingerprint="f", note=note)
    brokers.run(SINK, protocol.decide(SINK, batch, 0))

    found = chain_of(brokers).load()

    assert isinstance(found, Unreadable)
    assert found.txn_version == 7
    assert hint in found.hint


def test_a_renamed_sink_goes_on_where_it_was_and_the_old_name_does_not() -> None:
    brokers = Brokers()
    old = chain_of(brokers, sink="old")
    old.link = replace(old.link, facts={"keys": ["k"]})
    old.load()
    old.append([1, 2], commit(1, 0, 2), 0)  # type: ignore[arg-type]
    new = chain_of(brokers, "r2")
    assert new.load() is None
    others = new.others()
    assert others == [OtherChain(name=ChainName(pipeline="p", sink="old"), reached=reached(2))]

    assert chain_of(brokers, topic_id="another").others() == []

    new.take_over(others[0])

    found = new.load()
    assert found == Tip(reached=reached(2), txn_version=2)
    assert isinstance(found, Tip)
    assert found.said["keys"] == ["k"], "what the next run has to know"
    assert chain_of(brokers, "r3", sink="old").load() == HandedOn(
        to="josefine:p:out", txn_version=2
    )
    assert new.others() == []
    with pytest.raises(StoppedError):
        old.append([3], commit(2, 2, 3), 1)  # type: ignore[arg-type]
    new.append([3], commit(3, 2, 3), 0)  # type: ignore[arg-type]
    assert brokers.of(SINK).visible == [3]


def test_a_sink_that_got_its_old_name_back_goes_on_where_it_was_last() -> None:
    brokers = Brokers()
    names = ["a", "b", "a", "b"]
    first = chain_of(brokers, sink="a")
    first.load()
    first.append([0], commit(1, 0, 1), 0)  # type: ignore[arg-type]
    for end, name in enumerate(names[1:], start=2):
        chain = chain_of(brokers, sink=name)
        chain.load()
        chain.take_over(next(o for o in chain.others() if o.name.sink == names[end - 2]))
        found = chain.load()
        assert isinstance(found, Tip)
        assert found.reached == reached(end - 1)
        chain.append([end], commit(found.txn_version + 1, end - 1, end), 0)  # type: ignore[arg-type]

    assert isinstance(chain_of(brokers, sink="a").load(), HandedOn)
    found = chain_of(brokers, sink="b").load()
    assert isinstance(found, Tip)
    assert found.reached == reached(4)


@pytest.mark.parametrize("order", list(itertools.permutations((2, 5, 7))))
def test_of_several_hands_the_latest_counts(order: tuple[int, ...]) -> None:
    states = []
    for version in order:
        said = {
            "josefine": 1,
            "target": {"topic": "out", "id": "id-out"},
            "handed_to": "josefine:p:out" if version != 7 else "josefine:p:another",
            "end": {"in": {"0": version}},
            "topic_ids": IDS,
        }
        batch = Numbered(
            query_id=protocol.NUMBERED, batch_id=version, fingerprint="", note=json.dumps(said)
        )
        states.append(SinkState().planned().with_decision(batch, {}).settled())
    where = Target(topic="out", topic_id="id-out")

    assert taken_over(None, states, "josefine:p:out", where) == Tip(
        reached=reached(5), txn_version=5
    )
    own = HandedOn(to="josefine:p:elsewhere", txn_version=6)
    assert taken_over(own, states, "josefine:p:out", where) is None


def test_batches_of_one_number_and_other_offsets_are_not_one() -> None:
    where = Target(topic="out", topic_id="id-out")
    one, same = (batch_of(commit(4, 0, 5), {"run": run}, where) for run in "ab")
    others = [
        batch_of(commit(4, 1, 5), {}, where),
        batch_of(commit(4, 0, 6), {}, where),
        batch_of(replace(commit(4, 0, 5), end=replace(reached(5), topic_ids={})), {}, where),
    ]

    assert (one.batch_id, one.fingerprint) == (4, same.fingerprint)
    assert len({one.fingerprint, *(each.fingerprint for each in others)}) == 4


def test_a_commit_says_what_a_delta_commit_says_and_its_topic() -> None:
    brokers = Brokers()
    chain = chain_of(brokers)
    chain.load()
    chain.query_id = "q"
    entry = chain.append([1], commit(1, 0, 1), 4, {"checks": {}})  # type: ignore[arg-type]

    state = brokers.of(SINK).state
    assert state is not None
    assert state.decided is not None
    assert json.loads(state.decided.note) == entry.metadata
    assert entry.metadata == {
        "josefine": 1,
        "pipeline": "p",
        "sink": "out",
        "start": {"in": {"0": 0}},
        "end": {"in": {"0": 1}},
        "topic_ids": IDS,
        "batch": 4,
        "query": "q",
        "run": "r1",
        "checks": {},
        "target": {"topic": "out", "id": "id-out"},
    }
    assert (entry.txn_version, entry.metrics) == (1, {"numOutputRows": 1})
    assert chain.queries() == {"q"}


def test_the_end_of_a_chain_names_query_and_batch_after_each_commit_as_after_a_start():
    """By them the next batch of a state is decided (`state_chain`)."""
    brokers = Brokers()
    chain = chain_of(brokers)
    chain.load()
    chain.query_id = "q"

    chain.append([1], commit(1, 0, 1), 0)  # type: ignore[arg-type]

    assert chain.tip is not None
    assert (chain.tip.said["query"], chain.tip.said["batch"]) == ("q", 0)
    assert chain_of(brokers, "r2").load() == chain.tip
