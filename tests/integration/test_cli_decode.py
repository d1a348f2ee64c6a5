"""`josefine consume --decode` prints values as JSON, without a JVM, and reports the bad ones."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from josefine_arrow.formats.avro.schema import parse_record
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent.framing import framed
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, Done, josefine
from tests.support.schema_registry import serving

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)
DDL = "id BIGINT, amount DECIMAL(10,2), tags ARRAY<STRING>"
VALUES = ['{"id":1,"amount":1.10,"tags":["a",1.50]}', '{"id":"x"}', "not json", '{"id":2}']


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = Path(tmp_path_factory.mktemp("cli-decode"))
    with BrokerProcess(directory) as process:
        assert josefine(process.bootstrap, "topics", "create", "orders").code == 0
        lines = "\n".join(VALUES)
        assert josefine(process.bootstrap, "produce", "orders", stdin=lines).code == 0
        yield process.bootstrap


def consumed(bootstrap: str, *options: str) -> Done:
    return josefine(bootstrap, "consume", "orders", *options)


def test_json_is_printed_in_its_columns_and_the_rest_is_reported(bootstrap: str) -> None:
    done = consumed(bootstrap, "--decode", "json", "--schema", DDL)

    assert done.code == 1
    assert done.out.splitlines() == [
        '{"id":1,"amount":1.10,"tags":["a","1.50"]}',
        '{"id":2,"amount":null,"tags":null}',
    ]
    assert done.err.splitlines() == [
        "orders-0 offset 1: does not fit the schema: id BIGINT",
        "orders-0 offset 2: not JSON",
        "2 values did not fit",
    ]


def test_a_value_in_a_line_of_json_is_an_object_with_its_digits(bootstrap: str) -> None:
    done = consumed(bootstrap, "--decode", "json", "--schema", DDL, "--json", "-n", "1")

    assert done.code == 0
    assert '"value": {"id":1,"amount":1.10,"tags":["a","1.50"]}}' in done.out
    assert json.loads(done.out)["offset"] == 0


def test_a_pipeline_file_says_how_its_topic_is_decoded(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"""
version: 1
name: orders
spark: {{ master: "local[1]", checkpoint: {tmp_path}/checkpoints }}
trigger: {{ available_now: true }}
sources:
  orders:
    type: josefine
    bootstrap: {bootstrap}
    topics: [orders]
    decode: {{ value: {{ format: json, schema: "id BIGINT", on_error: fail }} }}
sinks:
  lake: {{ type: delta, inputs: [orders], path: {tmp_path}/lake, mode: append }}
"""
    )

    done = consumed(bootstrap, "--decode", str(file))

    assert done.err.endswith("2 values did not fit\n")

    assert done.out.splitlines() == ['{"id":1}', '{"id":2}']


def test_a_local_time_is_in_the_time_zone_of_the_file(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "times.yaml"
    file.write_text(
        f"""
version: 1
name: times
spark:
  checkpoint: {tmp_path}/checkpoints
  conf: {{ spark.sql.session.timeZone: Asia/Tokyo }}
trigger: {{ available_now: true }}
sources:
  times:
    type: josefine
    bootstrap: {bootstrap}
    topics: [times]
    decode: {{ value: {{ format: json, schema: "at TIMESTAMP", on_error: fail }} }}
sinks:
  lake: {{ type: delta, inputs: [times], path: {tmp_path}/lake, mode: append }}
"""
    )
    line = '{"at":"2024-01-05 10:00:00"}'
    assert josefine(bootstrap, "topics", "create", "times").code == 0
    assert josefine(bootstrap, "produce", "times", stdin=line).code == 0

    done = josefine(bootstrap, "consume", "times", "--decode", str(file))

    assert (done.out, done.err) == ('{"at":"2024-01-05T01:00:00Z"}\n', "")


def test_avro_of_a_registry_is_printed_by_the_schema_it_was_written_with(bootstrap: str) -> None:
    record = parse_record(AVRO)
    value = framed(7, encoded(record, {"id": 5, "at": "2024-01-05T10:15:30.123456Z"}))
    line = json.dumps({"value_base64": base64.b64encode(value).decode()})
    assert josefine(bootstrap, "topics", "create", "framed").code == 0
    assert josefine(bootstrap, "produce", "framed", "--format", "json", stdin=line).code == 0

    with serving({7: AVRO}) as registry:
        done = josefine(
            bootstrap, "consume", "framed", "--decode", "avro", "--registry", registry.url()
        )

    assert done.err == ""
    assert done.out == '{"id":5,"at":"2024-01-05T10:15:30.123456Z"}\n'


def test_protobuf_of_a_registry_is_printed_by_the_message_its_frame_names(bootstrap: str) -> None:
    order, price = proto("order"), proto("price")
    order.dependency.append("price.proto")
    order.message_type[0].field.add(
        name="price", number=2, type=11, label=1, type_name=".shop.Price"
    )
    answer: dict[str, object] = {"schema": text(order), "schemaType": "PROTOBUF"}
    answer["references"] = [{"name": "price.proto", "subject": "price", "version": 1}]
    price_answer = {"schema": text(price), "schemaType": "PROTOBUF"}
    values = [
        framed(1, b"\0" + b"\x08\x05" + b"\x12\x02\x08\x07"),  # the first message of order.proto
        framed(2, b"\2\0" + b"\x08\x07"),
        framed(1, b"\2\x06" + b"\x08\x07"),
        framed(1, b"\0" + b"\x0a"),
    ]
    lines = [json.dumps({"value_base64": base64.b64encode(value).decode()}) for value in values]
    assert josefine(bootstrap, "topics", "create", "messages").code == 0
    sent = josefine(bootstrap, "produce", "messages", "--format", "json", stdin="\n".join(lines))
    assert sent.code == 0

    with serving({1: answer, 2: price_answer}, subjects={"price/versions/1": price_answer}) as at:
        done = josefine(
            bootstrap, "consume", "messages", "--decode", "protobuf", "--registry", at.url()
        )

    assert done.out.splitlines() == ['{"id":5,"price":{"id":7}}', '{"id":7}']
    assert "offset 2: schema 1: has no message 3" in done.err
    assert "offset 3: no shop.Order: " in done.err


def proto(name: str) -> Any:
    """NAME.proto with the message shop.Name, whose field is `id`."""
    made = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="shop")
    made.message_type.add(name=name.title()).field.add(name="id", number=1, type=3, label=1)
    return made


def text(made: Any) -> str:
    return base64.b64encode(made.SerializeToString()).decode()


def test_no_jvm_and_no_pyspark_are_needed(bootstrap: str) -> None:
    script = f"import sys; sys.modules['pyspark'] = None; {COMMAND[2]}"
    arguments = ["consume", "orders", "-n", "1", "--decode", "json", "--schema", DDL]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments, "--bootstrap", bootstrap],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"JAVA_HOME": "/nowhere"},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"id":1,"amount":1.10,"tags":["a","1.50"]}\n'


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--schema", "id INT"], "--schema is of --decode: name the format there"),
        (["--decode", "xml"], "--decode 'xml': expected json, csv, avro, protobuf or a pipeline's"),
        (["--decode", "json"], "--decode json needs --schema"),
        (["--decode", "avro"], "--decode avro needs --schema"),
        (["--decode", "protobuf", "--schema", "x.desc"], "--decode protobuf needs --message"),
        (["--decode", "json", "--schema", "id INTT"], "not a schema: type INTT is not read"),
        (["--decode", "json", "--schema", "x.ddl"], "x.ddl: No such file or directory"),
        (["--decode", "avro", "--schema", "{}"], "not a valid Avro schema: "),
        (["--decode", "json", "--schema", "id INT", "--registry", "r"], "--registry is not for"),
        (["--decode", "json", "--schema", "id INT", "--message", "M"], "--message is for"),
        (["--decode", "protobuf", "--registry", "r"], "--registry 'r': no address"),
        (
            ["--decode", "protobuf", "--registry", "http://r", "--message", "M"],
            "--message is of --schema",
        ),
        (["--decode", "none.yaml"], "none.yaml: No such file or directory"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_read(
    bootstrap: str, options: list[str], told: str
) -> None:
    done = consumed(bootstrap, *options)

    assert done.code != 0
    assert told in done.err
    assert done.out == ""
