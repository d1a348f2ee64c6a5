"""After setup no reader or writer waits for the compiler: every loop that they run is there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyspark.sql.datasource")

SCRIPT = """
import json
import numpy as np
import pyarrow as pa
from josefine_broker.records.builder import Record, build_batch
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType
from josefine_arrow.batches import decode_kernels, encode_kernels
from josefine_arrow.formats.csv import kernels as csv_kernels
from josefine_arrow.formats.csv.decoder import CsvDecoder
from josefine_arrow.formats.json import kernels as json_kernels, nested_kernels, text_kernels
from josefine_arrow.batches.columns import HEADERS_FIELD
from josefine_arrow.batches.decoder import Decoder
from josefine_arrow.batches.encoder import Encoder, Identity
from josefine_spark.read.json_rows import JsonRows
from josefine_spark.sessions.compile_kernels import make

modules = (
    decode_kernels, encode_kernels, json_kernels, nested_kernels, text_kernels, csv_kernels
)

def compiled():
    return {
        f"{module.__name__}.{name}": len(loop.signatures)
        for module in modules
        for name, loop in vars(module).items()
        if hasattr(loop, "signatures") and loop.signatures
    }

assert make()
made = compiled()
records = [Record(None, b"x" * 900), Record(b"k", None, headers=(("a", None), ("b", b"c")))]
data = memoryview(bytes(build_batch(records, compression=4)) * 3)
for include_headers in (False, True):
    decoder = Decoder("other", 1, include_headers=include_headers)
    assert decoder.end_offset(data) == 2
    rows = decoder.decode(data, 0, 2).batches[0]
encoder = Encoder(Identity(producer_id=1, producer_epoch=0), batch_bytes=500)
keys, values = rows.column("key"), rows.column("value")
topics = {"t": (np.arange(rows.num_rows), 3)}
asked = np.full(rows.num_rows, -1)
for headers in (None, rows.column("headers")):
    encoder.add(keys, values, headers, asked, topics, 0)
encoder.seal_all(0)
ids = StructField("ids", ArrayType(IntegerType()))
objects = StructType([ids, StructField("note", StringType())])
assert JsonRows(objects).plain(pa.array([b'{"note":"a","ids":[1]}', None, b"{"])).null_count == 2
lines = pa.struct([("id", pa.int32()), ("note", pa.string())])
assert CsvDecoder(lines).plain(pa.array([b"1,a", None, b'"'])).null_count == 2
print(json.dumps([made, compiled()]))
"""


LOOPS = {
    "josefine_arrow.batches.decode_kernels.decode",
    "josefine_arrow.batches.encode_kernels.encode",
    "josefine_arrow.batches.encode_kernels.encode_stored",
    "josefine_arrow.formats.csv.kernels.to_objects",
    "josefine_arrow.formats.json.kernels.parse",
    "josefine_arrow.formats.json.nested_kernels.count",
    "josefine_arrow.formats.json.nested_kernels.split",
    "josefine_arrow.formats.json.text_kernels.gather",
}


def test_what_setup_compiles_is_all_that_is_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )

    assert not done.returncode, done.stderr
    made, run = json.loads(done.stdout)
    # A loop from the cache brings those that it calls along, and they do not show.
    assert run.keys() >= LOOPS
    assert made == run
