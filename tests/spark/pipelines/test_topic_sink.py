"""A pipeline that writes a topic: each row once for readers of what is committed, whatever is
killed and whatever becomes of the checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.write.protocol import forget
from pipelines.base.errors import ChainError, ConfigError, Place, RunError, SetupError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.offset_moves import Move, setting
from pipelines.inspect.offset_writer import put
from pipelines.inspect.sink_status import Sides, all_sides
from pipelines.model.pipeline import Sink
from pipelines.model.topic import SinkTopic, sink_id
from pipelines.sinks.commits import Link, StoppedError
from pipelines.sinks.topic_commits import TopicChain
from pipelines.sinks.topic_records import RowWriter, TopicLedger, topic_id_of
from pipelines.sources.kinds import ANY_KIND
from pipelines.transforms.topic_rows import topic_rows
from tests.spark.pipelines.conftest import Lab, failpoint
from tests.support.committed import committed_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

KILLED = 137


def sink(topic: str, more: str = "") -> str:
    return f"sinks:\n  out: {{ type: josefine, inputs: [rows], topic: {topic}, key: id{more} }}\n"


def into_topic(lab: Lab, on_error: str = "dead_letter") -> str:
    """The lab with a new topic in the place of its tables."""
    topic = f"{lab.topic}-out"
    lab.client.create_topics([NewTopic(topic, 2)])
    lab.write_file(on_error=on_error, sinks=sink(topic))
    return topic


def ids(client: BlockingClient, topic: str) -> list[int]:
    return sorted(int(each.key or b"") for each in committed_records(client, topic))


def sides_of(lab: Lab) -> Sides:
    return all_sides(read_pipeline(lab.file, lab.environment(1)), ANY_KIND.look)[0]


def test_each_row_is_in_the_topic_once_whatever_becomes_of_run_and_checkpoint(lab: Lab) -> None:
    """A run that dies between the topic's commit and the checkpoint's log; a lost checkpoint; the
    other way of delivery from there on."""
    topic = into_topic(lab, on_error="fail")
    lab.produce(30)
    lab.die("after_commit_before_log", rows=20)
    assert len(ids(lab.client, topic)) >= 15, "its first batch is there"
    assert sides_of(lab).stop is None

    done = lab.run(rows=100)

    assert ids(lab.client, topic) == list(range(30))
    assert done.sinks["out"].path == f"topic {topic}"
    one = next(each for each in committed_records(lab.client, topic) if each.key == b"4")
    assert json.loads(one.value or b"") == {
        "k": "k4", "v": 4, "_topic": lab.topic, "_partition": 0, "_offset": 2,
    }  # fmt: skip
    lab.lose_checkpoint()
    lab.produce(10)
    lab.write_file(on_error="fail", sinks=sink(topic, ", delivery: at_least_once"))
    assert lab.run(rows=100).sinks["out"].rows == 10
    assert ids(lab.client, topic) == list(range(40))
    seen = sides_of(lab)
    assert isinstance(seen.tip, Tip)
    assert dict(seen.tip.reached.ends) == lab.topic_ends()
    assert (seen.stop, seen.unknown) == (None, "")


def test_a_topic_that_is_not_there_is_told_with_the_command_that_makes_it(
    lab_without_spark: Lab,
) -> None:
    lab = lab_without_spark
    lab.write_file(sinks=sink("nowhere"))
    one = read_pipeline(lab.file, lab.environment(1)).sinks["out"]
    assert one.topic is not None

    with pytest.raises(SetupError, match=f"josefine topics create nowhere -b {lab.bootstrap}"):
        topic_id_of(one, one.topic)
    assert "does not exist" in sides_of(lab).unknown


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_ends_are_moved_and_names_handed_on_by_the_brokers_alone(lab_without_spark: Lab) -> None:
    """`offsets set` and `--rename` with a real broker: no Spark is started."""
    lab = lab_without_spark
    into_topic(lab, on_error="fail")
    lab.produce(6)
    pipeline = read_pipeline(lab.file, lab.environment(1))
    tps = {TopicPartition(lab.topic, n): 3 for n in range(2)}
    ids_now = ANY_KIND.look(pipeline.sources["events"]).latest.topic_ids
    old = chain_of(lab, "old")
    assert old.load() is None
    reached = TopicOffsets(ends=tps, topic_ids=ids_now)
    old.move(Commit(start={}, end=reached, txn_version=1))
    assert sides_of(lab).stop is not None, "another name has read this topic into that one"
    new = chain_of(lab, "out")
    assert new.load() is None

    new.take_over(new.others()[0])
    assert new.load() == Tip(reached=reached, txn_version=2)
    assert sides_of(lab).stop is None
    back = setting(Tip(reached=reached, txn_version=2), dict.fromkeys(tps, 1), ids_now)
    assert isinstance(back, Move)
    put(pipeline, sides_of(lab), back, lambda: pytest.fail("Spark is asked for"))

    moved = sides_of(lab).tip
    assert isinstance(moved, Tip)
    assert (dict(moved.reached.ends), moved.txn_version) == (dict.fromkeys(tps, 1), 3)
    with pytest.raises(StoppedError):
        old.move(Commit(start={}, end=reached, txn_version=2))


def chain_of(lab: Lab, name: str) -> TopicChain:
    one = read_pipeline(lab.file, lab.environment(1)).sinks["out"]
    assert one.topic is not None
    link = Link(pipeline="lab", sink=name, run=name)
    ledger = TopicLedger(one.topic)
    return TopicChain(one.topic, topic_id_of(one, one.topic), link, ledger, RowWriter(one.topic))


FILE = """\
version: 1
name: trial
spark: { checkpoint: /ck }
sources:
  raw:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    decode:
      value: { format: json, schema: "id INT, price DOUBLE, tags ARRAY<STRING>", on_error: fail }
transforms:
  rows: { inputs: [raw], sql: "select value.*, cast(key as string) as k from raw" }
sinks:
  objects: { type: josefine, inputs: [rows], topic: objects, key: ID }
  values: { type: josefine, inputs: [raw], topic: values, key: key }
trigger: { available_now: true }
tests:
  - name: good
    given: { raw: [ { key: a, value: { id: 1, price: 2 } }, { value: { id: 2, tags: [x] } } ] }
    expect:
      values:
        rows:
          - { key: a, value: '{"price": 2.0, "id": 1, "tags": null}' }
          - { value: { id: 2, price: null, tags: [x] } }
        count: 2
  - name: wrong
    given: { raw: [ { key: a, value: { id: 1 } } ] }
    expect:
      objects: { rows: [ { key: 2, price: 1 } ] }
      values: { rows: [ { key: b } ], columns: subset, count: 3 }
"""


def test_a_test_in_the_file_sees_records_and_their_values_as_json(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(FILE)

    good, wrong = run_cases(spark, read_pipeline(file, {}))

    assert good.complaints == ()
    assert wrong.complaints == (
        "objects: no column price; it has key, value",
        "values: expected 3 rows, found 1",
        'values: missing {"key": "b"}',
        'values: unexpected {"key": "a"}',
    )


HERE = Place(file="f.yaml", line=7, column=3)


def records(spark: SparkSession, select: str, key: str | None) -> DataFrame:
    target = SinkTopic(bootstrap="b:1", topic="out", key=key, key_place=HERE)
    sink = Sink(
        name="out", place=HERE, input="rows", path=None, table=None, keys=(), aggregates=(),
        topic=target,
    )  # fmt: skip
    return topic_rows(sink, target, spark.sql(f"select {select}"))


@pytest.mark.parametrize(
    ("select", "key", "expected"),
    [
        ("1 as k, 2 as a, cast(null as string) as b", "K", ("1", '{"a":2,"b":null}')),
        ("binary('1') as k, binary('2') as value, 3 as x", "k", (b"1", b"2")),
        ("'2' as Value, 3 as x", None, ("2",)),
        ("1.5D as k, named_struct('a', 2, 'b', null) as value", "k", ("1.5", '{"a":2,"b":null}')),
    ],
)
def test_a_row_becomes_a_key_and_a_value(
    spark: SparkSession, select: str, key: str | None, expected: tuple[object, ...]
) -> None:
    row = records(spark, select, key).first()

    assert row is not None
    assert tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) == expected


@pytest.mark.parametrize(
    ("select", "key", "words"),
    [
        ("1 as k, 2 as value", "k", "column value of `rows` is INT: expected STRING, BINARY, or"),
        ("array(1) as k, 2 as a", "k", "key: `k` is ARRAY<INT>: expected one value, such as a nu"),
        ("1 as k, 2 as a", "kk", "f.yaml:7:3: sinks.out.key: no column kk in `rows`; it has: k, a"),
        ("1 as k", "k", "`rows` has no column but the key: a record needs a value"),
    ],
)
def test_what_cannot_be_a_record_is_told_with_its_line(
    spark: SparkSession, select: str, key: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        records(spark, select, key)


@pytest.mark.slow
def test_a_topic_created_again_and_a_record_forgotten_stop_the_run_until_it_is_told(
    lab: Lab,
) -> None:
    topic = into_topic(lab)
    lab.produce(10)
    lab.run()
    lab.client.delete_topics([topic])
    wait_until(
        lambda: not lab.client.metadata([topic]).topics[topic].partitions, 30, "it is deleted"
    )
    into_topic(lab)

    with pytest.raises(ChainError, match="the sink has less than the checkpoint committed"):
        lab.run()
    assert ids(lab.client, topic) == []
    lab.run(trust=Trust.TABLE)
    assert ids(lab.client, topic) == list(range(10))

    forgotten = sink_id("lab", "out", topic)
    target = SinkTopic(bootstrap=lab.bootstrap, topic=topic, key=None, key_place=HERE)
    TopicLedger(target).run(forgotten, forget(forgotten))
    lab.produce(5)
    with pytest.raises(ChainError, match="the sink has no commit of this sink"):
        lab.run()
    lab.run(trust=Trust.CHECKPOINT)
    assert ids(lab.client, topic) == list(range(15))


@pytest.mark.slow
def test_a_topic_that_the_source_reads_is_refused_under_any_address(lab: Lab) -> None:
    other = lab.bootstrap.replace("127.0.0.1", "localhost")
    lab.write_file(sinks=sink(lab.topic, f", bootstrap: '{other}'"))
    with pytest.raises(RunError, match="would be read again forever"):
        lab.run()


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False], ids=["checkpoint-kept", "checkpoint-lost"])
def test_a_driver_killed_at_every_failpoint_loses_and_repeats_no_row(lab: Lab, keeps: bool) -> None:
    """Checklist row 88. Real processes; each life meets the leftovers of those before."""
    topic = into_topic(lab)
    lab.produce(60)
    lab.produce_raw(0, b"not json")

    for fail in (
        "after_offsets", "before_commit", "mid_write", "mid_commit:1", "mid_commit:2@2",
        "after_commit_before_log",
    ):  # fmt: skip
        code, stderr = lab.finish(lab.command(rows=20, fail=fail))
        assert code == KILLED, f"{fail}: exit {code}\n{stderr[-2000:]}"
        if not keeps:
            lab.lose_checkpoint()
        lab.produce(40)
    with failpoint("fail_write@2"):  # the first is of dead letters
        lab.run(rows=500)

    assert [each[2] for each in lab.reporter.retries] == ["a Python worker died"]
    lab.produce_raw(1, b"not json either")
    lab.run()
    assert ids(lab.client, topic) == list(range(lab.sent))
    assert lab.arrow("dead").num_rows == 2
    tip = sides_of(lab).tip
    assert isinstance(tip, Tip)
    assert dict(tip.reached.ends) == lab.topic_ends(), "a batch without rows is decided, too"
