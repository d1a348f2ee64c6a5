"""What `consume --decode` makes of its options, without a broker."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UsageError
from josefine_cli.kafka.decode import decoding

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
