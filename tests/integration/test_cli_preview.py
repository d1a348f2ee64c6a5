"""`josefine pipeline preview` of a source at a real broker: without a JVM, as Spark shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine

FILE = """\
version: 1
name: looked
spark: { checkpoint: "/ck" }
sources:
  raw:
    type: josefine
    bootstrap: BROKERS
    topics: [looked]
    headers: true
    decode:
      key: { format: string, on_error: dead_letter }
      value:
        format: json
        schema: "id INT, price DECIMAL(6,2), at TIMESTAMP, tags MAP<STRING, ARRAY<BIGINT>>"
        on_error: dead_letter
transforms:
  rows: { inputs: [raw], sql: select value.* from raw }
sinks:
  lake: { type: delta, inputs: [rows], path: /lake, mode: append }
dead_letter: { type: delta, path: /dead }
trigger: { available_now: true }
"""


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM cannot start."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("JOSEFINE_JAVA_HOME", "/nowhere")


@pytest.mark.usefixtures("no_java")
def test_a_source_is_previewed_without_a_jvm(broker: BrokerProcess, tmp_path: Path) -> None:
    where, file = broker.bootstrap, tmp_path / "f.yaml"
    file.write_text(FILE.replace("BROKERS", where))
    records = [
        {"value": '{"id": 1}', "key": "old"},
        {
            "key": "k",
            "value": '{"id": 2, "price": 1.5, "at": "2026-01-01T01:00:00+01:00",'
            ' "tags": {"x": [1, null]}}',
            "headers": [{"name": "h", "value": "v"}],
            "timestamp_ms": 1_767_225_600_001,
        },
        {"value": "not json"},
        {"value": None, "key": "k"},
    ]
    lines = "\n".join(map(json.dumps, records))
    assert josefine(where, "topics", "create", "looked").code == 0
    assert josefine(where, "produce", "looked", "-f", "json", stdin=lines).code == 0

    done = josefine(where, "pipeline", "preview", str(file), "raw", "--records", "3", "--json")
    table = josefine(where, "pipeline", "preview", str(file), "raw", "-n", "1")

    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert [(each["name"], each["type"]) for each in found["columns"]] == [
        ("key", "string"),
        (
            "value",
            "struct<id:int,price:decimal(6,2),at:timestamp,tags:map<string,array<bigint>>>",
        ),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    assert found["rows"] == [
        {
            "key": "k",
            "value": {
                "id": 2, "price": 1.5, "at": "2026-01-01T00:00:00.000000Z",
                "tags": {"x": [1, None]},
            },
            "topic": "looked", "partition": 0, "offset": 1,
            "timestamp": "2026-01-01T00:00:00.001000Z", "timestampType": 0,
            "headers": [{"key": "h", "value": "dg=="}],
        }
    ]  # fmt: skip
    assert found["bad"] == {"not JSON": 1, "the value is null": 1}
    assert table.out.splitlines()[1].startswith(' old  {"id": 1, "price": null,')
    assert table.err.splitlines() == [
        "1 record not shown: not JSON",
        "1 record not shown: the value is null",
    ]


def test_a_broker_that_does_not_answer_is_named_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(FILE.replace("BROKERS", "127.0.0.1:1"))

    done = josefine("", "pipeline", "preview", str(file), "raw")

    assert done.code == 79
    assert done.err.startswith("error: source `raw` at 127.0.0.1:1: cannot reach a broker")
    assert done.err.count("\n") == 1
