"""Decoders bound to Spark's columns, as far as that needs no Spark."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
from google.protobuf import descriptor_pb2, timestamp_pb2

from josefine_arrow.formats.confluent.framing import OWN
from pipelines.formats.avro import AvroValues
from pipelines.formats.protobuf import ProtobufValues
from pipelines.formats.python_values import KERNEL_ROWS_MIN, FewOrMany

SCHEMA = json.dumps({"type": "record", "name": "T", "fields": [{"name": "id", "type": "int"}]})


def descriptors() -> bytes:
    found = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    return found.SerializeToString()


def test_a_worker_makes_the_decoder_of_a_format_from_what_is_pickled() -> None:
    avro = pickle.loads(pickle.dumps(AvroValues(SCHEMA, None).decoder()))()
    message = timestamp_pb2.Timestamp(seconds=3)
    protobuf = ProtobufValues(descriptors(), "google.protobuf.Timestamp", OWN)
    sent = pickle.loads(pickle.dumps(protobuf.decoder()))()

    assert avro(b"\x0a") == ({"id": 5}, None)
    assert sent(b"\0\0\0\0\0\0" + message.SerializeToString()) == ({"seconds": 3, "nanos": 0}, None)


def test_the_columns_of_spark_and_of_arrow_are_of_one_type() -> None:
    avro, protobuf = (
        AvroValues(SCHEMA, None),
        ProtobufValues(descriptors(), "google.protobuf.Timestamp", None),
    )

    assert (avro.sql(), avro.arrow()) == ("STRUCT<`id`: INT>", pa.struct([("id", pa.int32())]))
    assert protobuf.sql() == "STRUCT<`seconds`: BIGINT, `nanos`: INT>"
    assert protobuf.arrow() == pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def test_kernels_are_loaded_at_the_first_long_column_and_used_from_then_on() -> None:
    loads: list[str] = []

    def of(name: str):
        def decode(column: pa.Array) -> tuple[pa.Array, pa.Array]:
            return pa.array([name]), column

        return decode

    def load():
        loads.append("kernels")
        return of("many")

    decode = FewOrMany(of("few"), load)
    lengths = (1, KERNEL_ROWS_MIN - 1, KERNEL_ROWS_MIN, 1, KERNEL_ROWS_MIN)

    used = [decode(pa.nulls(length, pa.binary()))[0][0].as_py() for length in lengths]

    assert used == ["few", "few", "many", "many", "many"]
    assert loads == ["kernels"]
