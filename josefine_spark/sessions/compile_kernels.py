"""The command that compiles the kernels of readers and writers into the cache, so that a session's
first rows do not wait for the compiler: `python -m josefine_spark.sessions.compile_kernels`. It is
quick when they are there. Kernels of other versions that were not used for long are removed.
"""

import sys
import time

import numpy as np
import pyarrow as pa

from josefine_arrow.batches.columns import HEADERS_FIELD
from josefine_arrow.batches.decoder import Decoder, decoder_class
from josefine_arrow.batches.encoder import BytesView, Encoder, Identity, encode_loops, header_views
from josefine_arrow.cache.directory import forget_unused
from josefine_arrow.formats.csv.decoder import CsvDecoder
from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_broker.records.builder import Record, build_batch

FOLDERS = ("[0-9a-f]" * 16, "josefine_spark_" + "[0-9a-f]" * 40)
"""Names of the cache's folders: a digest of the sources, and, in older versions, numba's name."""

RECORD = Record(b"key", b"value", headers=(("name", b"value"),))


def make() -> bool:
    """Decode, parse and encode one record in every way that has kernels of its own. False without
    numba."""
    if decoder_class() is not Decoder:
        return False
    records = memoryview(bytes(build_batch([RECORD])))
    for include_headers in (False, True):
        decoder = Decoder("topic", 0, include_headers=include_headers)
        decoder.end_offset(records)
        decoder.decode(records, 0, 1)
    texts = pa.struct([("texts", pa.list_(pa.string()))])
    JsonDecoder(texts).decode(pa.array([b'{"texts":["json"]}']))
    CsvDecoder(pa.struct([("text", pa.string())])).decode(pa.array([b"csv"]))
    columns = pa.array([RECORD.key]), pa.array([RECORD.value])
    for headers in (None, pa.array([[{"key": "name", "value": b"value"}]], HEADERS_FIELD.type)):
        encoder = Encoder(Identity(), batch_bytes=1024)
        rows = np.zeros(1, dtype=np.int64)
        encoder.add(*columns, headers, np.full(1, -1), {"topic": (rows, 1)}, 0)
        encoder.seal_all(0)
    views = (*BytesView(columns[0]).arrays, *BytesView(columns[1]).arrays, *header_views(headers))
    numbers = np.zeros(1, dtype=np.int64)
    numbers.flags.writeable = False
    out = np.empty(1024, dtype=np.uint8)
    encode_loops().encode_stored(0, 1, numbers, numbers, *views, out, 0)
    return True


if __name__ == "__main__":
    forget_unused("numba", FOLDERS, time.time())
    sys.exit(0 if make() else 1)
