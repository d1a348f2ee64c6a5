"""The encoder of Arrow rows into finished record batches, without Python code per row.

Rules: rows of one partition keep their order; a record batch is sealed when the next record would
exceed its limit; sealed batches of a partition get their sequence numbers in order (idempotence)
and are returned first in, first out, one per partition at a time. Opens no socket. Without numba
the slower oracle in `encode_oracle.py` replaces the kernels.
"""

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from josefine_arrow.cache.kernels import import_kernels
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
)
from josefine_broker.records.compression import compress
from josefine_broker.records.crc import crc32c

TAKEN_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of one request, unless one record batch is larger: brokers reject requests above 100 MiB.
"""

KEYLESS_RUN = 1024
"""Rows without a key that go to one partition before the next partition follows: full batches cost
the broker least (KIP-480), and tasks with few rows should still use all partitions."""

SEQUENCE_MASK = 0x7FFFFFFF


def encode_loops() -> Any:
    """The compiled kernels, or their Python oracle when numba is missing or cannot be imported."""
    try:
        return import_kernels("josefine_arrow.batches.encode_kernels")
    except (ImportError, OSError, RuntimeError) as error:
        from josefine_arrow.batches import encode_oracle

        warnings.warn(f"numba is not usable ({error}): records are encoded slowly", stacklevel=2)
        return encode_oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An idempotent or transactional producer's id and epoch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    transactional_id: str | None = None
    """Set for batches that are part of a transaction."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A finished record batch."""

    data: memoryview
    records: int
    raw_bytes: int
    """Size before compression."""


class BytesView:
    """Numpy views of a binary or string column: end positions, bytes and validity of its values."""

    __slots__ = ("data", "ends", "valid")

    def __init__(self, array: Any) -> None:
        array = array.cast(pa.binary())
        _, ends, data = array.buffers()
        first = array.offset
        self.ends = _view(ends, np.int32)[first : first + len(array) + 1]
        self.data = _view(data, np.uint8)
        valid = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        self.valid = _fixed(valid)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        return self.data, self.ends, self.valid


class _Open:
    """The open record batch of one partition; the space of its header is reserved."""

    __slots__ = ("count", "out", "position")

    def __init__(self, size: int) -> None:
        self.out: Any = np.empty(size, dtype=np.uint8)
        self.position = HEADER_BYTES
        self.count = 0


class Encoder:
    """Collects rows into record batches per partition. The one mutable class of this module."""

    def __init__(
        self,
        identity: Identity,
        *,
        batch_bytes: int,
        compression: int = 0,
        hash_keys: bool = True,
        turn: int = 0,
    ) -> None:
        """`turn`: the partition at which rows without a key start; a random number spreads small
        tasks. Without `hash_keys` rows with a key are distributed in turn too."""
        self._kernels = encode_loops()
        self._identity = identity
        self._batch_bytes = batch_bytes
        self._limits: dict[str, int] = {}
        self._compression = compression
        self._hash_keys = hash_keys
        self._turn = turn
        self._open: dict[TopicPartition, _Open] = {}
        self._sealed: dict[TopicPartition, deque[Sealed]] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self.sealed_bytes = 0

    def add(
        self,
        keys: Any,
        values: Any,
        headers: Any,
        partitions: Any,
        topics: Mapping[str, tuple[Any, int]],
        timestamp_ms: int,
    ) -> None:
        """Add rows: Arrow columns (`headers` may be None), the requested partition per row (-1: by
        key) and, per topic, its row numbers and its partition count."""
        key, value = BytesView(keys), BytesView(values)
        hashed = key.valid if self._hash_keys else _fixed(np.zeros_like(key.valid))
        header_arrays = header_views(headers)
        chosen = np.array(partitions, dtype=np.int64)
        for topic, (rows, count) in topics.items():
            free = _fixed(rows[chosen[rows] < 0])
            if free.size:
                self._turn += 1
                self._kernels.hash_partitions(
                    free, key.data, key.ends, hashed, count, self._turn % count, KEYLESS_RUN, chosen
                )
            # A stable sort groups the rows by partition and keeps their order within each.
            order = rows[np.argsort(chosen[rows], kind="stable")]
            numbers, starts = np.unique(chosen[order], return_index=True)
            for number, part in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
                tp = TopicPartition(topic, number)
                self._encode(tp, _fixed(part), key, value, header_arrays, timestamp_ms)

    def _encode(
        self,
        tp: TopicPartition,
        rows: Any,
        key: BytesView,
        value: BytesView,
        headers: tuple[Any, ...],
        timestamp_ms: int,
    ) -> None:
        first = 0
        bytes_max = self._limits.get(tp.topic, self._batch_bytes)
        while first < rows.size:
            batch = self._open.get(tp)
            if batch is None:
                batch = self._open[tp] = _Open(bytes_max)
            taken, batch.position = self._kernels.encode(
                rows,
                first,
                *key.arrays,
                *value.arrays,
                *headers,
                batch.out,
                bytes_max,
                batch.count,
                batch.position,
            )
            batch.count += taken
            first += taken
            if first == rows.size:
                return
            if batch.count:
                self.seal(tp, timestamp_ms)
            else:
                # One record is larger than a whole batch may be: it gets a batch of its own, and
                # the broker decides about it.
                size = HEADER_BYTES + self._record_bytes_max(int(rows[first]), key, value, headers)
                if size <= batch.out.size:
                    # A larger batch would be no remedy: without this, the loop would not end.
                    raise ValueError(f"{tp}: a record that fits into its batch was not written")
                self._open[tp] = _Open(size)

    def _record_bytes_max(
        self, row: int, key: BytesView, value: BytesView, headers: tuple[Any, ...]
    ) -> int:
        k = self._kernels
        size = int(k.RECORD_OVERHEAD_BYTES_MAX + np.diff(key.ends[row : row + 2])[0])
        size += int(np.diff(value.ends[row : row + 2])[0])
        list_ends, _, name_ends, _, value_ends, _ = headers
        if list_ends.size:
            begin, end = int(list_ends[row]), int(list_ends[row + 1])
            size += (end - begin) * int(k.HEADER_OVERHEAD_BYTES_MAX)
            size += int(name_ends[end] - name_ends[begin])
            size += int(value_ends[end] - value_ends[begin])
        return size

    def seal_all(self, timestamp_ms: int) -> None:
        """Seal all open batches."""
        for tp in list(self._open):
            self.seal(tp, timestamp_ms)

    def seal(self, tp: TopicPartition, timestamp_ms: int) -> None:
        batch = self._open.pop(tp)
        if batch.count == 0:
            return
        # Sequence numbers are assigned in the order of sealing, which is the order of sending: the
        # broker rejects a gap (KIP-98). They wrap to 0 after 2^31 - 1.
        sequence = NO_SEQUENCE
        if self._identity.producer_id != NO_PRODUCER_ID:
            sequence = self._sequences.get(tp, 0)
            self._sequences[tp] = (sequence + batch.count) & SEQUENCE_MASK
        data = self._finish(batch, sequence, timestamp_ms)
        self._sealed.setdefault(tp, deque()).append(Sealed(data, batch.count, batch.position))
        self.sealed_bytes += len(data)

    def _finish(self, batch: _Open, sequence: int, timestamp_ms: int) -> memoryview:
        data = memoryview(batch.out)[: batch.position]
        if self._compression:
            body = compress(self._compression, data[HEADER_BYTES:])
            whole = bytearray(HEADER_BYTES + len(body))
            whole[HEADER_BYTES:] = body
            data = memoryview(whole)
        in_transaction = self._identity.transactional_id is not None
        fields = (
            self._compression | (TRANSACTIONAL_BIT if in_transaction else 0),
            batch.count - 1,
            timestamp_ms,
            timestamp_ms,
            self._identity.producer_id,
            self._identity.producer_epoch,
            sequence,
            batch.count,
        )
        length = len(data) - LENGTH_OVERHEAD_BYTES
        HEADER.pack_into(data, 0, 0, length, NO_LEADER_EPOCH, MAGIC, 0, *fields)
        crc = crc32c(data[CRC_START:])
        HEADER.pack_into(data, 0, 0, length, NO_LEADER_EPOCH, MAGIC, crc, *fields)
        return data

    def take(self) -> dict[TopicPartition, Sealed]:
        """The oldest sealed batch of each partition, up to the size of one request."""
        taken: dict[TopicPartition, Sealed] = {}
        size = 0
        for tp, waiting in list(self._sealed.items()):
            if taken and size + len(waiting[0].data) > TAKEN_BYTES_MAX:
                break
            taken[tp] = waiting.popleft()
            size += len(taken[tp].data)
            if not waiting:
                del self._sealed[tp]
        self.sealed_bytes -= size
        return taken

    def put_back(self, tp: TopicPartition, pieces: Sequence[Sealed]) -> None:
        """Put the pieces of a taken batch back in order, before all others of its partition."""
        self._sealed.setdefault(tp, deque()).extendleft(reversed(pieces))
        self.sealed_bytes += sum(len(piece.data) for piece in pieces)

    def limit(self, topic: str, batch_bytes: int) -> None:
        """Limit this topic's batches to `batch_bytes` before compression."""
        self._limits[topic] = min(batch_bytes, self._limits.get(topic, self._batch_bytes))


def header_views(headers: Any) -> tuple[Any, ...]:
    """(list ends, names, name ends, values, value ends, value validity), empty without headers."""
    ends, none = _fixed(np.zeros(0, dtype=np.int32)), _fixed(np.zeros(0, dtype=np.uint8))
    if headers is None:
        return ends, none, ends, none, ends, none
    headers = headers.cast(pa.list_(headers.type.value_type))
    list_ends = _view(headers.buffers()[1], np.int32)
    sizes = np.diff(list_ends[headers.offset : headers.offset + len(headers) + 1])
    if headers.null_count:
        # A null list may still span entries in the buffers; it has no headers.
        sizes = np.where(headers.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    list_ends = _fixed(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
    # Of these lists alone: they may be a part of many.
    entries = headers.flatten()
    names, values = BytesView(entries.field(0)), BytesView(entries.field(1))
    return list_ends, names.data, names.ends, values.data, values.ends, values.valid


def _view(buffer: Any, dtype: Any) -> Any:
    if buffer is None or buffer.size == 0:
        return _fixed(np.zeros(1, dtype=dtype))
    return _fixed(np.frombuffer(buffer, dtype=dtype))


def _fixed(array: Any) -> Any:
    """Mark an array read-only: numba compiles another version of a kernel for each array type."""
    array.flags.writeable = False
    return array
