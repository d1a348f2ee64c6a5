"""A pipeline takes the table of a table topic over, on the same chain."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment, josefine

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILE = """
version: 1
name: takes_over
spark:
  master: "local[2]"
  checkpoint: {folder}/checkpoints
  conf: {{ spark.sql.shuffle.partitions: 1 }}
sources:
  handed_over:
    type: josefine
    bootstrap: {bootstrap}
    topics: [handed.over]
    isolation: read_committed
    decode:
      value: {{ format: json, schema: "id BIGINT, amount DECIMAL(10,2)", on_error: dead_letter }}
transforms:
  rows:
    inputs: [handed_over]
    sql: >
      select value.*, timestamp as _time, topic as _topic, partition as _partition,
      offset as _offset from handed_over
sinks:
  handed_over: {{ type: delta, inputs: [rows], path: "{folder}/lake", mode: append }}
dead_letter: {{ type: delta, path: "{folder}/lake_dead_letter" }}
trigger: {{ available_now: true }}
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_pipeline_continues_the_table_of_a_table_topic_at_its_offsets(
    pipe_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, lake, where = "handed.over", tmp_path / "lake", pipe_broker.bootstrap
    configs = {"location": str(lake), "format": "json", "schema": "id BIGINT, amount DECIMAL(10,2)"}
    named = {f"josefine.table.{name}": value for name, value in configs.items()}
    with BlockingClient(where) as client:
        client.create_topics([NewTopic(name=topic, partitions=2, configs=named)])
        producer = BlockingProducer(client)
        for number in range(4):
            value = json.dumps({"id": number, "amount": 1.5}).encode()
            producer.send(topic, None, value, partition=number % 2)
        producer.send(topic, None, b"not json", partition=0)
        producer.flush()
        once = ("tables", "run", "--topic", topic, "--once")
        assert josefine(where, *once).code == 0
        file = tmp_path / "p.yaml"
        file.write_text(FILE.format(folder=tmp_path, bootstrap=where))
        for number in (4, 5):
            value = json.dumps({"id": number, "amount": 2.5}).encode()
            producer.send(topic, None, value, partition=number % 2)
        producer.flush()
    renames = ["--rename", "table_topics=takes_over"]

    run = subprocess.run(
        [*COMMAND, "pipeline", "run", str(file), *renames],
        env=environment(where), capture_output=True, text=True, check=False,
    )  # fmt: skip
    back = josefine(where, *once)

    assert run.returncode == 0, run.stderr
    rows = DeltaTable(str(lake)).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 3, 4, 5]
    assert len({(row["_partition"], row["_offset"]) for row in rows}) == 6
    assert back.code == 1
    assert "the table was handed on to josefine:takes_over:handed_over" in back.err


UPSERT = FILE.replace("handed_over", "given_back").replace("[handed.over]", "[given.back]").replace(
    'value: {{ format: json, schema: "id BIGINT, amount DECIMAL(10,2)", on_error: dead_letter }}',
    'value: {{ format: json, schema: "id BIGINT, amount DECIMAL(10,2)", on_error: dead_letter, '
    "tombstones: true }}\n"
    '      key: {{ format: json, schema: "id BIGINT", on_error: dead_letter }}',
).replace(
    "select value.*, timestamp",
    "select coalesce(value.id, key.id) as id, value.amount as amount, timestamp",
).replace(
    "mode: append }}",
    "mode: upsert, keys: [id], order_by: _offset, delete_when: amount is null }}",
)  # fmt: skip


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_pipeline_continues_an_upsert_and_gives_the_table_back(
    pipe_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, lake, where = "given.back", tmp_path / "lake", pipe_broker.bootstrap
    schema = "id BIGINT, amount DECIMAL(10,2)"
    configs = {
        "location": str(lake), "format": "json", "schema": schema, "mode": "upsert", "keys": "id",
    }  # fmt: skip
    named = {f"josefine.table.{name}": value for name, value in configs.items()}
    file = tmp_path / "p.yaml"
    file.write_text(UPSERT.format(folder=tmp_path, bootstrap=where))
    once = ("tables", "run", "--topic", topic, "--once")

    def sent(*changes: tuple[int, float | None]) -> None:
        for number, amount in changes:
            value = None if amount is None else {"id": number, "amount": amount}
            key, data = json.dumps({"id": number}).encode(), json.dumps(value).encode()
            producer.send(topic, key, None if value is None else data, partition=number % 2)
        producer.flush()

    def state() -> list[tuple[int, float]]:
        rows = DeltaTable(str(lake)).to_pyarrow_table().to_pylist()
        return sorted((row["id"], float(row["amount"])) for row in rows)

    with BlockingClient(where) as client:
        client.create_topics([NewTopic(name=topic, partitions=2, configs=named)])
        producer = BlockingProducer(client)
        sent((0, 1.5), (1, 1.5), (2, 1.5), (3, 1.5), (2, None))
        assert josefine(where, *once).code == 0
        before = state()
        sent((0, 2.5), (1, None), (4, 2.5))
        run = subprocess.run(
            [*COMMAND, "pipeline", "run", str(file), "--rename", "table_topics=takes_over"],
            env=environment(where), capture_output=True, text=True, check=False,
        )  # fmt: skip
        pipelines = state()
        refused = josefine(where, *once)
        sent((0, 3.5), (4, None), (1, 3.5))
        back = josefine(where, *once, "--rename", "takes_over=table_topics")
        again = josefine(where, *once)
        status = josefine(where, "tables", "status", "--topic", topic)

    assert before == [(0, 1.5), (1, 1.5), (3, 1.5)]
    assert run.returncode == 0, run.stderr
    assert pipelines == [(0, 2.5), (3, 1.5), (4, 2.5)]
    assert refused.code == 1
    assert "--rename takes_over=table_topics" in refused.err
    assert (back.code, again.code) == (0, 0), back.err + again.err
    assert state() == [(0, 3.5), (1, 3.5), (3, 1.5)]
    assert "stopped" not in status.out
