"""Decoders bound to Spark's columns, as far as that needs no Spark."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.sql.types import StructType

from josefine_arrow.formats.confluent.framing import OWN, framed
from josefine_arrow.formats.confluent.json_schema_title import RecordType
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.record_types import TypeFilter, _filters
from pipelines.formats.avro import AvroValues
from pipelines.formats.json_record_types import TypedJsonValues
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


@pytest.mark.parametrize("skips", [False, True])
def test_a_worker_judges_framed_json_by_its_type_before_it_decodes_it(skips: bool) -> None:
    kind, options = pa.struct([("id", pa.int64())]), JsonOptions()
    values = TypedJsonValues(StructType(), options, "Order", "http://r", skips=skips)
    decoder = pickle.loads(pickle.dumps(values.decoder_for(kind, options)))
    types = {1: RecordType("Order"), 2: RecordType("Refund")}
    read = TypeFilter("Order", types.__getitem__, skips=skips)
    _filters["Order", "http://r", skips] = read
    sent = [framed(1, b'{"id": 1}'), framed(2, b'{"id": 2}'), framed(1, b"{"), None]

    found, why = decoder()(pa.array(sent, pa.binary()))

    del _filters["Order", "http://r", skips]
    assert found.to_pylist() == [{"id": 1}, None, None, None]
    other = None if skips else "a Refund, expected a Order"
    assert why.to_pylist() == [None, other, "not JSON", None]


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
