"""One sink, many tables (`path: lake/{topic}`, `lake/{column}`): each row once in its table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from josefine_broker.client.io_blocking import NewTopic
from pipelines.base.errors import RunError
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.family_chain import family_said
from pipelines.exactly_once.offset_chain import Tip
from tests.spark.pipelines.conftest import Lab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BY_TOPIC = """\
sinks:
  out: { type: delta, inputs: [rows], path: "${LAB}/tables/{topic}", mode: append%s }
"""
BY_COLUMN = BY_TOPIC.replace("{topic}", "{k}")
ELSEWHERE = {'/tables/dead"': '/tables/_dead"'}
"""The dead letters may not be where a value could make a table."""


def by_topic(lab: Lab, count: int = 3, more: str = "") -> list[str]:
    """The lab with a table for each of some topics."""
    topics = [f"{lab.topic}-{n}" for n in range(count)]
    lab.client.create_topics([NewTopic(topic, 2) for topic in topics])
    lab.write_file("fail", BY_TOPIC % more, topics=f"topics: [{', '.join(topics)}]", **ELSEWHERE)
    return topics


def ids(lab: Lab, table: str) -> list[int]:
    if not Path(lab.table(table), "_delta_log").exists():
        return []
    return sorted(lab.arrow(table)["id"].to_pylist())


def registry(lab: Lab) -> Tip:
    tip = lab._tip("_josefine_tables", "out")
    assert isinstance(tip, Tip)
    return tip


def writer(lab: Lab, table: str) -> str:
    """The program that made the newest commit."""
    text = max(Path(lab.table(table), "_delta_log").glob("*.json")).read_text()
    engine: str = json.loads(text.splitlines()[0])["commitInfo"]["engineInfo"]
    return engine.partition(":")[0].partition("/")[0]


class Sent:
    """What was produced: table → ids."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.ids: dict[str, list[int]] = {}

    def to(self, topic: str, count: int) -> None:
        start = self.lab.sent
        self.lab.produce(count, topic=topic)
        self.ids.setdefault(topic, []).extend(range(start, start + count))

    def check(self) -> None:
        assert {name: ids(self.lab, name) for name in self.ids} == self.ids


def test_each_topic_has_its_table_whatever_becomes_of_run_and_checkpoint(lab: Lab) -> None:
    one, two, three = by_topic(lab)
    sent = Sent(lab)
    sent.to(one, 20)
    sent.to(two, 10)
    lab.die("mid_tables:1", rows=25)
    lab.lose_checkpoint()
    sent.to(three, 10)

    lab.run(rows=23)

    sent.check()
    assert dict(registry(lab).reached.ends) == {
        **lab.topic_ends(one), **lab.topic_ends(two), **lab.topic_ends(three)
    }  # fmt: skip
    for topic in (one, two, three):
        assert lab.chain_ends(topic, "out") == lab.topic_ends(topic), "those of its topic alone"


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_poisoned_table_stops_alone_and_catches_up_after_its_repair(lab: Lab) -> None:
    one, two, _ = by_topic(lab)
    sent = Sent(lab)
    assert lab.spark is not None
    lab.spark.sql(f"create table delta.`{lab.table(two)}` (id string) using delta")
    sent.to(one, 8)
    sent.to(two, 8)

    with pytest.raises(RunError, match=rf"1 table of .* cannot be written.*\n  `{two}`: .*id"):
        lab.run(rows=10)
    sent.to(one, 4)
    sent.to(two, 4)

    assert ids(lab, one) == sent.ids[one][:8]
    assert list(family_said(registry(lab).said).held) == [two]
    shutil.rmtree(lab.table(two))
    lab.lose_checkpoint()
    lab.run()

    sent.check()
    assert not family_said(registry(lab).said).held


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_table_with_the_rows_of_another_sink_is_held_in_each_run(lab: Lab) -> None:
    (one,) = by_topic(lab, 1)
    sent = Sent(lab)
    sent.to(one, 8)
    plain = BY_TOPIC.replace("out:", "before:").replace("{topic}", one)
    lab.write_file("fail", plain % "", topics=f"topics: [{one}]", **ELSEWHERE)
    lab.run()
    lab.write_file("fail", BY_TOPIC % "", topics=f"topics: [{one}]", **ELSEWHERE)

    for _ in range(2):
        with pytest.raises(RunError, match=f"`{one}`: its table has the rows of another name"):
            lab.run()

    sent.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_values_of_a_column_make_tables_and_bad_names_dead_letters(lab: Lab) -> None:
    lab.write_file("dead_letter", BY_COLUMN % "", **ELSEWHERE)
    values = ["de", "DE", "../up", "", "a/b", "_hidden", "x" * 201, "fr", r"nl\n"]
    records = [f'{{"id": {n}, "k": "{k}"}}'.encode() for n, k in enumerate(values)]
    lab.produce_raw(0, *records[:5])
    lab.produce_raw(1, *records[5:], b'{"id": 8}')
    lab.die("mid_tables:0", rows=20)
    lab.lose_checkpoint()

    lab.run()

    assert (ids(lab, "de"), ids(lab, "fr")) == ([0, 1], [7])
    dead: list[Any] = lab.arrow("_dead").to_pylist()
    assert sorted((d["partition"], d["offset"]) for d in dead) == [
        (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 3), (1, 4)
    ]  # fmt: skip
    assert {d["reason"] for d in dead} == {
        "`k` is not a valid name of a table: expected 1 to 200 of the characters a-z, A-Z, 0-9, "
        "`_`, `-` and `.`, the first one a letter or a digit"
    }
    assert sorted(p.name for p in Path(lab.table("")).iterdir()) == [
        "_dead", "_josefine_tables", "de", "fr"
    ]  # fmt: skip


def test_a_topic_column_made_of_a_value_reaches_no_folder_outside_of_the_templates(
    lab: Lab,
) -> None:
    sql = {"topic as _topic": "value.k as _topic"}
    lab.write_file("fail", BY_TOPIC % "", topics=f"topics: [{lab.topic}]", **ELSEWHERE, **sql)
    lab.produce_raw(0, b'{"id": 1, "k": "_other/t"}', b'{"id": 2, "k": null}')

    with pytest.raises(RunError, match="`_other/t` is not a valid name of a table"):
        lab.run()

    assert not Path(lab.table("_other")).exists()


def test_more_tables_than_the_maximum_stop_the_run_before_a_row_is_written(lab: Lab) -> None:
    lab.write_file("dead_letter", BY_COLUMN % ", max_tables: 2", **ELSEWHERE)
    lab.produce(4)

    with pytest.raises(RunError, match=r"more than 2 tables \(`max_tables`\).*`k\d`"):
        lab.run()

    assert lab._tip("_josefine_tables", "out") is None
    assert {p.name for p in Path(lab.table("")).iterdir()} == {"_josefine_tables", "_dead"}


@pytest.mark.slow
def test_a_table_with_rules_is_written_by_spark_and_the_others_by_one_job(lab: Lab) -> None:
    plain, checked, parted, fed = by_topic(lab, 4)
    sent, columns = Sent(lab), {"id": "int32", "k": "string", "v": "int32", "_topic": "string"}
    schema = pa.schema({**columns, "_partition": "int32", "_offset": "int64"})
    for topic, parts, setting in (
        (checked, [], {}),
        (parted, ["_partition"], {}),
        (fed, [], {"delta.enableChangeDataFeed": "true"}),
    ):
        DeltaTable.create(lab.table(topic), schema, partition_by=parts, configuration=setting)
    DeltaTable(lab.table(checked)).alter.add_constraint({"small": "_offset < 3"})
    for topic in (plain, parted, fed):
        sent.to(topic, 8)
    sent.to(checked, 16)

    with pytest.raises(RunError, match=rf"1 table of .*\n  `{checked}`: .*small"):
        lab.run()

    assert ids(lab, checked) == []
    del sent.ids[checked]
    sent.check()
    assert {topic: writer(lab, topic) for topic in sent.ids} == {
        plain: "delta-rs", parted: "Apache-Spark", fed: "delta-rs"
    }  # fmt: skip
    assert lab.spark is not None
    by_spark = lab.spark.read.format("delta").load(lab.table(plain))
    assert by_spark.where(f"id = {sent.ids[plain][-1]}").count() == 1


@pytest.mark.slow
def test_a_restored_and_a_deleted_table_are_held_and_filled_again_when_they_are_trusted(
    lab: Lab,
) -> None:
    one, two, three = by_topic(lab)
    sent = Sent(lab)
    for topic in (one, two, three):
        sent.to(topic, 4)
    lab.run()
    sent.to(one, 4)
    sent.to(two, 4)
    lab.run()
    assert lab.spark is not None
    newest = len([*Path(lab.table(one), "_delta_log").glob("*.json")]) - 1
    lab.spark.sql(f"restore delta.`{lab.table(one)}` to version as of {newest - 1}")
    shutil.rmtree(lab.table(two))
    for topic in (one, two, three):
        sent.to(topic, 2)

    with pytest.raises(RunError, match="2 tables of") as caught:
        lab.run()
    assert "restored to an earlier version" in str(caught.value)
    assert "it was deleted" in str(caught.value)
    assert ids(lab, three) == sent.ids[three]
    lab.run(trust=Trust.TABLE)

    sent.check()
