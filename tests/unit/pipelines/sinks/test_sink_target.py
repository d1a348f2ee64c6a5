"""The sink port: which targets there are, what each chain keeps, and that nobody evades it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.finding import SKIPPED
from pipelines.config.keywords import SINK_TYPES
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.table_family import FAMILY
from pipelines.sinks.commits import Link, StoppedError
from pipelines.sinks.memory import MemoryChain, MemoryPlace, MemoryTarget
from pipelines.sinks.target import SinkChain, SinkTarget, TableAt, TargetRun
from pipelines.sinks.targets import TARGETS, target_of
from tests.unit.pipelines.config.test_topic import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.iceberg_lab import IcebergLab
from tests.unit.pipelines.sinks.test_topic_commits import Brokers, chain_of

REPOSITORY = Path(__file__).resolve().parents[4]
OF_TOPICS = {"topic"}
"""Modules that may ask whether a sink is a topic: its words, and its target."""

KINDS = {
    *("DeltaChain", "IcebergChain", "TopicChain", "MemoryChain"),
    *("DeltaTarget", "IcebergTarget", "TopicTarget", "MemoryTarget"),
    *("OpenDelta", "OpenIceberg", "OpenTopic", "OpenMemory"),
}
TP = TopicPartition("in", 0)
Chains = Callable[..., SinkChain]


def test_each_type_of_a_sink_has_a_target():
    assert TARGETS.keys() == {*SINK_TYPES, FAMILY}


def sources(word):
    """Modules that have this word."""
    for package in ("pipelines", "josefine_cli", "josefine_spark"):
        for path in (REPOSITORY / package).rglob("*.py"):
            text = path.read_text()
            if word in text:
                yield path, ast.parse(text)


def last_name(node: ast.AST) -> str:
    """`sink` of `self.sink`, of `sink` and of `pipeline.sinks[name]`."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value).removesuffix("s")
    return getattr(node, "attr", "") or getattr(node, "id", "")


def test_nobody_but_the_topics_own_modules_asks_whether_a_sink_is_a_topic():
    asking = {
        path.stem
        for path, tree in sources(".topic")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "topic"
        if last_name(node.value).lstrip("_") == "sink"
    }

    assert asking == OF_TOPICS


def test_nobody_asks_what_a_chain_is():
    found = []
    for path, tree in sources("isinstance"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and last_name(node.func) == "isinstance":
                kinds = {last_name(each) for each in ast.walk(node.args[1])}
                if KINDS & kinds:
                    found.append(f"{path.name}:{node.lineno}")
                if last_name(node.args[0]).lstrip("_") in ("chain", "opened"):
                    found.append(f"{path.name}:{node.lineno}")

    assert found == []


def in_memory() -> Chains:
    place = MemoryPlace()

    def of(run: str, sink: str = "out") -> SinkChain:
        return MemoryChain(place, Link(pipeline="p", sink=sink, run=run))

    return of


def in_brokers() -> Chains:
    brokers = Brokers()
    return lambda run, sink="out": chain_of(brokers, run, sink=sink)


@pytest.fixture(params=[in_memory, in_brokers, IcebergLab], ids=["memory", "topic", "iceberg"])
def chains(request: pytest.FixtureRequest, tmp_path: Path) -> Chains:
    """Chains of several runs and names into one place."""
    if request.param is IcebergLab:
        return IcebergLab(tmp_path).chain
    made: Chains = request.param()
    return made


def commit(version: int, start: int, end: int) -> Commit:
    reached = TopicOffsets(ends={TP: end}, topic_ids={"in": "id-in"})
    return Commit(start={TP: start}, end=reached, txn_version=version)


def end_of(chain: SinkChain) -> tuple[int, int]:
    found = chain.load()
    assert isinstance(found, Tip)
    return found.txn_version, found.reached.ends[TP]


def test_a_chain_without_a_commit_says_nothing(chains):
    assert chains("r1").load() is None


def test_the_next_run_finds_the_last_commit_of_the_one_before(chains):
    chain = chains("r1")
    chain.load()
    chain.move(commit(1, 0, 4))
    chain.move(commit(2, 4, 9))

    assert end_of(chains("r2")) == (2, 9)


def test_a_run_stops_at_a_commit_that_another_run_of_its_name_made(chains):
    old, new = chains("r1"), chains("r2")
    old.load()
    new.load()
    new.move(commit(1, 0, 4))

    with pytest.raises(StoppedError) as caught:
        old.move(commit(1, 0, 5))
    assert caught.value.stop.verdict is Verdict.LOST_RACE
    assert end_of(chains("r3")) == (1, 4)


def test_a_new_name_goes_on_where_the_old_one_ended_and_the_old_one_does_not(chains):
    old = chains("r1", sink="old")
    old.load()
    old.move(commit(1, 0, 4))
    new = chains("r2")
    assert new.load() is None
    (other,) = new.others()
    assert other.name == ChainName(pipeline="p", sink="old")

    new.take_over(other)

    assert end_of(new)[1] == 4
    assert isinstance(chains("r3", sink="old").load(), HandedOn)
    assert new.others() == []


def test_a_target_in_memory_is_a_sink_target():
    pipeline = validate(load(GOOD, "f.yaml", {}))
    sink, place = pipeline.sinks["lake"], MemoryPlace()
    target: SinkTarget = MemoryTarget(sink, place)
    link = Link(pipeline="orders", sink="lake", run="r")
    run = TargetRun(session=pytest.fail, link=link, losses=target.loss_table(pipeline))
    opened = target.open(run)
    lost = LostRange(partition=TP, topic_id="id-in", start=3, end=5)

    opened.chain.load()
    written = opened.commit(["a", "b"], commit(1, 0, 2), 0, {"more": 1}, None)
    for _ in range(2):
        opened.record_losses([lost])

    assert (written.rows, place.rows(), place.lost) == (2, ["a", "b"], [lost])
    seen = target.describe(link.name)
    assert isinstance(seen.tip, Tip)
    assert seen.tip.said["more"] == 1


def test_what_a_table_gets_is_told_without_spark():
    sink = validate(load(GOOD, "f.yaml", {})).sinks["lake"]
    target = target_of(sink)

    assert [*target.folders()] == [("sinks.lake.path", "/lake")]
    assert target.probe(pytest.fail) is None
    assert target.findings(None) == []
    assert (target.gets_replay, target.has_columns) == (True, True)


def test_a_table_by_its_name_is_left_to_spark_s_catalog():
    text = GOOD.replace("path: /lake", "table: db.lake")
    pipeline = validate(load(text, "f.yaml", {}))
    target = target_of(pipeline.sinks["lake"])
    name = ChainName(pipeline="orders", sink="lake")

    assert [*target.folders()] == []
    assert target.describe(name) is None
    (finding,) = target.findings(None)
    assert (finding.level, "only Spark's catalog" in finding.what) == (SKIPPED, True)
    assert target.loss_table(pipeline) == TableAt(table="db.lake_lost")


def test_a_topic_whose_brokers_are_away_says_so_and_gets_no_replay():
    target = target_of(read().sinks["out"])

    def away(bootstrap, security):
        raise OSError("nobody there")

    assert target.probe(away) == "localhost:9092: nobody there"
    assert (target.gets_replay, target.has_columns, target.writes) == (False, False, "a topic")
    assert (target.findings(None), [*target.folders()], target.keys()) == ([], [], ())


def test_a_history_has_one_row_for_each_key_and_time():
    text = GOOD.replace("mode: append", "mode: scd2, keys: [id], order_by: [at]")

    assert target_of(validate(load(text, "f.yaml", {})).sinks["lake"]).keys() == ("id", "at")
