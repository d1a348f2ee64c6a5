"""What `consume --decode` makes of its options, without a broker."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from josefine_arrow.formats.confluent.framing import framed
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UsageError
from josefine_cli.kafka.decode import decoding
from tests.support.schema_registry import Said, serving

TP = TopicPartition("t", 0)
DECODING = """
import ast, sys, tempfile
from pathlib import Path
from google.protobuf import descriptor_pb2, timestamp_pb2
from josefine_cli.kafka.decode import decoding

how, topic, schema, message, registry = ast.literal_eval(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    if message:
        found = descriptor_pb2.FileDescriptorSet()
        timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
        schema = f"{folder}/{schema}"
        Path(schema).write_bytes(found.SerializeToString())
    with decoding(how, topic, schema, message, registry):
        print(*sys.modules)
"""
AVRO = json.dumps({"type": "record", "name": "T", "fields": [{"name": "id", "type": "int"}]})


def test_values_are_decoded_by_the_format_that_is_named() -> None:
    with decoding("csv", "t", "id INT, note STRING", None, None) as decoded:
        assert decoded is not None
        assert decoded(TP, Record(None, b"1,a")) == '{"id":1,"note":"a"}'
    with decoding("avro", "t", AVRO, None, None) as decoded:
        assert decoded is not None
        assert decoded(TP, Record(None, b"\x0a")) == '{"id":5}'


def test_without_the_option_nothing_is_decoded_and_its_words_are_refused() -> None:
    with decoding(None, "t", None, None, None) as decoded:
        assert decoded is None
    with pytest.raises(UsageError, match="--registry is of --decode"):
        decoding(None, "t", None, None, "http://r").__enter__()


FRAMED = """\
version: 1
name: types
spark: {{ checkpoint: /ck }}
sources:
  events:
    type: josefine
    bootstrap: nowhere:1
    topics: [t]
    decode: {{ value: {{ format: json, schema: "id INT", registry: '{registry}'{of} }} }}
transforms: {{ orders: {{ inputs: [events], sql: "select value.id from events" }} }}
sinks: {{ orders: {{ type: delta, inputs: [orders], path: /orders, mode: append }} }}
trigger: {{ available_now: true }}
"""


def all_decoded(how: str, sent: list[bytes]) -> list[str | None]:
    """The texts of values of which some do not fit."""
    found: list[str | None] = []
    with contextlib.suppress(typer.Exit), decoding(how, "t", None, None, None) as decoded:
        assert decoded is not None
        found = [decoded(TP, Record(None, data)) for data in sent]
    return found


@pytest.mark.parametrize(
    ("of", "printed", "told"),
    [
        ("", ['{"id":1}', '{"id":2}'], ["begins with 0x7b, expected 0x00 and a schema's number"]),
        (", type: Order, other_types: skip", ['{"id":1}', None],
         ["begins with 0x7b, expected 0x00 and a schema's number"]),
        (", type: Order", ['{"id":1}', None],
         ["a Refund, expected a Order", "begins with 0x7b, expected 0x00 and a schema's number"]),
    ],
)  # fmt: skip
def test_framed_json_is_decoded_as_the_pipelines_file_has_it(
    of: str,
    printed: list[str | None],
    told: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    titled = {1: {"$ref": "#/$defs/O", "$defs": {"O": {"title": "Order"}}}, 2: {"title": "Refund"}}
    schemas: dict[int, Said] = {
        number: {"schemaType": "JSON", "schema": json.dumps(each)}
        for number, each in titled.items()
    }
    sent = [framed(1, b'{"id": 1}'), framed(2, b'{"id": 2}'), b'{"id": 3}']
    file = tmp_path / "f.yaml"

    with serving(schemas) as server:
        file.write_text(FRAMED.format(registry=server.url(), of=of))
        found = all_decoded(str(file), sent)

    assert found == [*printed, None]
    lines = [line for line in capsys.readouterr().err.splitlines() if " offset " in line]
    assert [line.split(": ", 1)[1] for line in lines] == told
    assert bool(server.seen) is bool(of)


@pytest.mark.parametrize("how", ["avro", "protobuf"])
def test_a_format_is_decoded_without_spark_and_without_the_pipelines(how: str) -> None:
    asked = {
        "avro": ("avro", "t", AVRO, None, None),
        "protobuf": ("protobuf", "t", "none.desc", "google.protobuf.Timestamp", None),
    }[how]

    loaded = subprocess.run(
        [sys.executable, "-c", DECODING, repr(asked)],
        capture_output=True, check=True, text=True, timeout=60,
    ).stdout.split()  # fmt: skip

    assert f"josefine_arrow.formats.{how}.decoder" in loaded
    assert [name for name in loaded if name.partition(".")[0] in ("pipelines", "pyspark")] == []
