"""Whole fetch responses of one partition into Arrow record batches, no Python per record.

Rules: checksums are verified unless told otherwise; control batches and aborted transactions give
no rows but move `next_offset`; only records with start <= offset < end come out; a partial last
batch is left for the next fetch. Needs numba; `decoder_class` falls back to the pure Python
twin in `decode_oracle.py`, which is also what the tests compare this with.
"""

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.batches.aborted_transactions import AbortedTransaction, aborted_batches
from josefine_arrow.batches.columns import HEADERS_FIELD, TIMESTAMP_MS_MAX, Decoded, arrow_schema
from josefine_arrow.batches.row_filter import ALL_ROWS, RowFilter
from josefine_arrow.cache.kernels import import_kernels
from josefine_broker.base.errors import CorruptData
from josefine_broker.records.batch import CRC_START, NO_LEADER_EPOCH
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.compression import decompress, decompress_into
from josefine_broker.records.crc import crc32c

CHUNK_BYTES = 16 * 1024 * 1024
"""Records of one Arrow batch, decompressed. Bounds memory and keeps 32-bit Arrow offsets in range:
a record batch that is larger comes by itself, of at most DECOMPRESSED_BYTES_MAX."""

RECORD_BYTES_MIN = 7
"""An empty record in format v2: length, attributes, two deltas, key, value, header count."""

SCAN_ROWS = 4096
"""Batches scanned at a time; a fetch of 8 MiB has more only when batches are under 2 KiB."""

_TINY = bytes(build_batch([Record(None, None)]))

BEFORE_ALL_MS = -(2**63)
"""No timestamp lies before it."""

COMPRESSION_MASK, LOG_APPEND_TIME_BIT, CONTROL_BIT = 0x07, 0x08, 0x20


def load_kernels() -> Any:
    """The compiled loops of this module."""
    return import_kernels("josefine_arrow.batches.decode_kernels")


def decoder_class() -> Any:
    """`Decoder`, or its pure Python twin when numba is missing or will not import."""
    try:
        load_kernels()
    except (ImportError, OSError, RuntimeError) as error:
        # Not installed, not made for this numpy or CPU, or no folder to cache in.
        from josefine_arrow.batches.decode_oracle import PythonDecoder

        warnings.warn(f"numba is not usable ({error}): records are decoded slowly", stacklevel=2)
        return PythonDecoder
    _settle()
    return Decoder


@cache
def _settle() -> None:
    """Once per process: load the compiled loops and put them where no collection looks.

    PySpark's worker collects garbage after every task, and numba makes 130,000 objects that stay:
    0.1 s of processor time a task, in which 800,000 records of 100 bytes are decoded. Collecting
    before they are put away would cost each new worker that once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        first = Decoder("", 0, include_headers=False)
        first.end_offset(memoryview(_TINY))
        first.decode(memoryview(_TINY), 0, 1)
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


class Decoder:
    """Decodes fetch responses of one partition. Holds only what is the same for all of them."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        include_headers: bool,
        check_crcs: bool = True,
        columns: Sequence[str] | None = None,
        rows: RowFilter = ALL_ROWS,
    ) -> None:
        """`columns`: only those, None for all; what is not asked for is passed over."""
        self._kernels = load_kernels()
        self._topic = topic
        self._partition = partition
        self._check_crcs = check_crcs
        self._rows = rows
        self._keys = None if rows.keys is None else pa.array(sorted(rows.keys), pa.binary())
        self._from_ms = BEFORE_ALL_MS if rows.from_ms is None else rows.from_ms
        self._schema = arrow_schema(include_headers, columns)
        self._names = frozenset(self._schema.names)
        self._constants = _Constants(topic, partition)
        self._inflated: _Buffer | None = None
        """Where batches are decompressed, one behind the other: the same place for every chunk."""

    def decode(
        self,
        records: memoryview,
        start_offset: int,
        end_offset: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> Decoded:
        """Rows of `records` in [start_offset, end_offset). Raises CorruptData, KafkaError."""
        batches: list[Any] = []
        next_offset = start_offset
        position = 0
        # Which transactions are open is known only from the first batch on: then scan all at once.
        rows_max = len(records) // self._kernels.HEADER_BYTES if aborted else SCAN_ROWS
        while next_offset < end_offset and position < len(records):
            table, used = self._scan(_readonly(records[position:]), rows_max)
            if table.shape[0] == 0:
                break
            if self._check_crcs:
                self._verify(records[position:], table)
            next_offset = max(next_offset, self._end_offset(table))
            table = table[: self._up_to_end(table, end_offset)]
            wanted = self._wanted(table, start_offset, end_offset, records[position:], aborted)
            for source, sections in self._chunks(records[position:], wanted):
                batch = self._decode_chunk(source, sections, start_offset, end_offset)
                if batch is not None:
                    batches.append(batch)
            position += used
        return Decoded(batches, min(next_offset, end_offset))

    def end_offset(self, records: memoryview) -> int:
        """The largest offset behind a whole batch, -1 when there is none: where to fetch next."""
        if len(records) == 0:
            return -1
        return int(self._kernels.end_offset(_readonly(records)))

    def _end_offset(self, table: Any) -> int:
        """Offsets grow in a log; should they not, every batch counts, as in `end_offset`."""
        k = self._kernels
        return int((table[:, k.BASE_OFFSET] + table[:, k.LAST_DELTA]).max()) + 1

    def _up_to_end(self, table: Any, end_offset: int) -> int:
        """How many batches there are up to the first one that reaches the end: where the read ends,
        also where offsets go back behind it, as in damaged ones."""
        k = self._kernels
        # Not by the sum, which damaged offsets may take beyond 64 bits.
        reaches = table[:, k.BASE_OFFSET] >= end_offset - 1 - table[:, k.LAST_DELTA]
        return int(reaches.argmax()) + 1 if reaches.any() else len(reaches)

    def _scan(self, data: Any, rows_max: int) -> tuple[Any, int]:
        table = np.empty((rows_max, self._kernels.TABLE_COLUMNS), dtype=np.int64)
        rows, used, fault = self._kernels.scan(data, table)
        if fault >= 0 and rows == 0:
            raise CorruptData(
                f"{self._topic}-{self._partition}: no record batch of format 2 at byte {fault}"
            )
        return table[:rows], int(used)

    def _verify(self, records: memoryview, table: Any) -> None:
        k = self._kernels
        spans = table[:, [k.POS, k.SIZE, k.CRC]].tolist()
        for row, (pos, size, expected) in enumerate(spans):
            if crc32c(records[pos + CRC_START : pos + size]) != expected:
                offset = int(table[row, k.BASE_OFFSET])
                raise CorruptData(f"{self._topic}-{self._partition} at offset {offset}: wrong CRC")

    def _wanted(
        self,
        table: Any,
        start_offset: int,
        end_offset: int,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
    ) -> Any:
        k = self._kernels
        first = table[:, k.BASE_OFFSET]
        keep = (
            (table[:, k.ATTRIBUTES] & CONTROL_BIT == 0)
            & (first < end_offset)
            & (first + table[:, k.LAST_DELTA] >= start_offset)
            & (table[:, k.COUNT] > 0)
            & self._rows.may_be_in(table[:, k.MAX_MS])
        )
        if aborted:
            facts = table[:, [k.BASE_OFFSET, k.ATTRIBUTES, k.PRODUCER, k.POS, k.SIZE]].tolist()
            keep &= ~np.array(aborted_batches(facts, records, aborted), dtype=bool)
        return table[keep]

    def _chunks(self, records: memoryview, table: Any) -> Iterator[tuple[Any, Any]]:
        """(bytes, sections in them) of about CHUNK_BYTES each, compressed batches decompressed.
        The bytes are there until the next are asked for."""
        k = self._kernels
        if table.shape[0] == 0:
            return
        if not (table[:, k.ATTRIBUTES] & COMPRESSION_MASK).any():
            starts = table[:, k.POS] + k.HEADER_BYTES
            ends = table[:, k.POS] + table[:, k.SIZE]
            cuts = np.flatnonzero(np.diff((ends - ends[0]) // CHUNK_BYTES)) + 1
            source = _readonly(records)
            for part in np.split(np.arange(table.shape[0]), cuts):
                yield source, self._sections(table[part], starts[part], ends[part])
            return
        yield from self._inflated_chunks(records, table)

    def _inflated_chunks(self, records: memoryview, table: Any) -> Iterator[tuple[Any, Any]]:
        """Each batch is decompressed where its records are decoded from: nothing is joined."""
        k = self._kernels
        if self._inflated is None:
            self._inflated = _buffer(CHUNK_BYTES, np.uint8)
        room = self._inflated.array.data
        ends: list[int] = []
        size, begun = 0, 0
        for row, (pos, batch_bytes, attributes) in enumerate(
            table[:, [k.POS, k.SIZE, k.ATTRIBUTES]].tolist()
        ):
            codec = attributes & COMPRESSION_MASK
            body = records[pos + k.HEADER_BYTES : pos + batch_bytes]
            grown = decompress_into(codec, body, room[size:])
            if grown is None and ends:
                yield self._inflated_chunk(room[:size], ends, table[begun:row])
                ends, size, begun = [], 0, row
                grown = decompress_into(codec, body, room)
            if grown is None:
                alone = decompress(codec, body)
                yield self._inflated_chunk(alone, [len(alone)], table[row : row + 1])
                begun = row + 1
                continue
            size += grown
            ends.append(size)
        if ends:
            yield self._inflated_chunk(room[:size], ends, table[begun:])

    def _inflated_chunk(self, data: Any, ends: list[int], table: Any) -> tuple[Any, Any]:
        stops = np.array(ends, dtype=np.int64)
        starts = np.concatenate(([0], stops[:-1]))
        return _readonly(data), self._sections(table, starts, stops)

    def _sections(self, table: Any, starts: Any, ends: Any) -> Any:
        k = self._kernels
        sections = np.empty((table.shape[0], k.SECTION_COLUMNS), dtype=np.int64)
        sections[:, k.START] = starts
        sections[:, k.END] = ends
        sections[:, k.FIRST_OFFSET] = table[:, k.BASE_OFFSET]
        sections[:, k.FIRST_MS] = table[:, k.BASE_MS]
        sections[:, k.FIXED_MS] = table[:, k.MAX_MS]
        sections[:, k.IS_FIXED] = (table[:, k.ATTRIBUTES] & LOG_APPEND_TIME_BIT) != 0
        sections[:, k.RECORDS] = table[:, k.COUNT]
        sections[:, k.LEADER_EPOCH] = table[:, k.EPOCH]
        too_many = (ends - starts) < table[:, k.COUNT] * RECORD_BYTES_MIN
        if too_many.any():
            raise self._malformed(sections, int(np.flatnonzero(too_many)[0]))
        return sections

    def _malformed(self, sections: Any, section: int) -> CorruptData:
        offset = int(sections[section, self._kernels.FIRST_OFFSET])
        return CorruptData(
            f"{self._topic}-{self._partition}: malformed record in the batch at offset {offset}"
        )

    def _decode_chunk(self, source: Any, sections: Any, start: int, end: int) -> Any:
        k = self._kernels
        rows_max = int(sections[:, k.RECORDS].sum())
        data_bytes = int((sections[:, k.END] - sections[:, k.START]).sum())
        with_keys = "key" in self._names or self._keys is not None
        with_values = "value" in self._names
        key = _Binary(rows_max, data_bytes if with_keys else 0)
        value = _Binary(rows_max, data_bytes if with_values else 0)
        offsets, millis = _buffer(rows_max, np.int64), _buffer(rows_max, np.int64)
        section_ends = np.empty(sections.shape[0], dtype=np.int64)
        spans = np.empty((rows_max if "headers" in self._names else 0, 2), dtype=np.int64)
        rows, null_keys, null_values, fault = k.decode(
            source,
            sections,
            (start, end, self._from_ms),
            key.arrays,
            value.arrays,
            offsets.array,
            millis.array,
            section_ends,
            spans,
            with_keys,
            with_values,
        )
        if fault >= 0:
            raise self._malformed(sections, fault)
        if rows == 0:
            return None
        topics, partitions = self._constants.columns(rows)

        def of_sections(column: int) -> Any:
            return np.repeat(sections[:, column].astype(np.int32), np.diff(section_ends, prepend=0))

        makers: dict[str, Callable[[], Any]] = {
            "key": lambda: key.column(pa.binary(), rows, null_keys),
            "value": lambda: value.column(pa.binary(), rows, null_values),
            "topic": lambda: topics,
            "partition": lambda: partitions,
            "offset": lambda: _fixed(pa.int64(), rows, offsets),
            "timestamp": lambda: _timestamps(rows, millis),
            "timestampType": lambda: _int32(of_sections(k.IS_FIXED)),
            "headers": lambda: self._headers(source, spans, rows, data_bytes),
            "leader_epoch": lambda: _leader_epochs(of_sections(k.LEADER_EPOCH)),
        }
        columns = [makers[name]() for name in self._schema.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if self._keys is None:
            return batch
        found = key.column(pa.binary(), rows, null_keys)
        return batch.filter(pc.is_in(found, value_set=self._keys)) or None

    def _headers(self, source: Any, spans: Any, rows: int, data_bytes: int) -> Any:
        k = self._kernels
        ends = _buffer(rows + 1, np.int32)
        count, fault = k.count_headers(source, spans, rows, ends.array)
        if fault < 0:
            names, values = _Binary(count, data_bytes), _Binary(count, data_bytes)
            nulls, fault = k.decode_headers(
                source, spans, rows, ends.array, names.ends.array, names.data.array, *values.arrays
            )
        if fault >= 0:
            raise CorruptData(f"{self._topic}-{self._partition}: malformed record headers")
        struct = pa.StructArray.from_arrays(
            [_names(names, count), values.column(pa.binary(), count, nulls)],
            fields=list(HEADERS_FIELD.type.value_type),
        )
        # No headers is null, as in Spark's Kafka source, not an empty array.
        some = np.diff(ends.array) > 0
        nulls = rows - int(np.count_nonzero(some))
        return pa.Array.from_buffers(
            HEADERS_FIELD.type,
            rows,
            [_bitmap(some) if nulls else None, ends.buffer],
            null_count=nulls,
            children=[struct],
        )


class _Buffer:
    """Arrow memory with a numpy view on it. Arrow's pool hands the same pages out again, while
    numpy asks the kernel for zeroed ones: 2 ms per 8 MiB here."""

    __slots__ = ("array", "buffer")

    def __init__(self, count: int, dtype: Any) -> None:
        self.buffer = pa.allocate_buffer(max(1, count) * np.dtype(dtype).itemsize)
        self.array = np.frombuffer(self.buffer, dtype=dtype)


def _buffer(count: int, dtype: Any) -> _Buffer:
    return _Buffer(count, dtype)


class _Binary:
    """The buffers of a binary or string column while it is filled."""

    __slots__ = ("data", "ends", "valid")

    def __init__(self, rows_max: int, data_bytes: int) -> None:
        self.ends = _Buffer(rows_max + 1, np.int32)
        self.ends.array[0] = 0
        self.data = _Buffer(data_bytes, np.uint8)
        self.valid = np.empty(rows_max, dtype=np.uint8)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        return self.ends.array, self.data.array, self.valid

    def column(self, kind: Any, rows: int, nulls: int) -> Any:
        validity = _bitmap(self.valid[:rows]) if nulls else None
        # The unused tail of the data goes back to the pool with the buffer: only views here.
        data = self.data.buffer.slice(0, int(self.ends.array[rows]))
        buffers = [validity, self.ends.buffer, data]
        return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def _names(names: _Binary, count: int) -> Any:
    """The names of headers as text. Brokers store names that are not UTF-8, and Arrow does not
    look: those get replacement characters, as Java's client gives them. Each distinct name once."""
    size = int(names.ends.array[count])
    if size == 0 or names.data.array[:size].max() < 0x80:
        return names.column(pa.string(), count, 0)
    found = names.column(pa.binary(), count, 0).dictionary_encode()
    texts = [name.decode(errors="replace") for name in found.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(found.indices)


class _Constants:
    """The topic and partition columns: the same value in every row, built once and sliced."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._rows = 0
        self._columns: tuple[Any, Any] = (None, None)

    def columns(self, rows: int) -> tuple[Any, Any]:
        if rows > self._rows:
            self._rows = max(rows, 2 * self._rows)
            self._columns = self._build(self._rows)
        topics, partitions = self._columns
        return topics.slice(0, rows), partitions.slice(0, rows)

    def _build(self, rows: int) -> tuple[Any, Any]:
        ends = np.arange(rows + 1, dtype=np.int32) * len(self._topic)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._topic * rows)]
        topics = pa.Array.from_buffers(pa.string(), rows, buffers, null_count=0)
        return topics, _int32(np.full(rows, self._partition, dtype=np.int32))


def _bitmap(valid: Any) -> Any:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _fixed(kind: Any, rows: int, buffer: _Buffer) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, buffer.buffer], null_count=0)


def _timestamps(rows: int, buffer: _Buffer) -> Any:
    millis = buffer.array[:rows]
    held = (millis >= -TIMESTAMP_MS_MAX) & (millis <= TIMESTAMP_MS_MAX)
    np.multiply(millis, 1000, out=millis)
    nulls = rows - int(np.count_nonzero(held))
    buffers = [_bitmap(held) if nulls else None, buffer.buffer]
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), rows, buffers, null_count=nulls)


def _leader_epochs(epochs: Any) -> Any:
    return _int32(epochs, epochs != NO_LEADER_EPOCH)


def _int32(numbers: Any, valid: Any = None) -> Any:
    """Not by `pa.array`, which imports pandas: a third of what a new worker loads to decode."""
    nulls = 0 if valid is None else len(numbers) - int(np.count_nonzero(valid))
    buffers = [_bitmap(valid) if nulls else None, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.int32(), len(numbers), buffers, null_count=nulls)


def _readonly(data: Any) -> Any:
    """One array type only: a second one would be compiled and cached as a second version."""
    array = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    return array
