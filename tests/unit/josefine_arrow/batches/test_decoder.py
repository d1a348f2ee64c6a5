"""The compiled decoder equals its plain Python twin, and survives any bytes."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from josefine_arrow.batches import decoder as decode
from josefine_arrow.batches.aborted_transactions import AbortedTransaction
from josefine_arrow.batches.columns import arrow_schema
from josefine_arrow.batches.decode_oracle import PythonDecoder
from josefine_arrow.batches.decoder import Decoder
from josefine_arrow.batches.row_filter import RowFilter
from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.records.batch import stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.read.columns import spark_schema
from josefine_spark.read.source_options import COLUMNS

MAYBE_BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=8), MAYBE_BYTES), max_size=3)
RECORDS = st.builds(
    Record,
    key=MAYBE_BYTES | st.sampled_from([b"", b"k", b"key"]),
    value=MAYBE_BYTES,
    headers=HEADERS,
    timestamp_ms=st.integers(min_value=-1, max_value=2**42),
)


KEYS = st.sampled_from([b"", b"k", b"key"])
FILTERS = st.builds(
    RowFilter,
    from_ms=st.none() | st.integers(min_value=0, max_value=2**42),
    keys=st.none() | st.frozensets(KEYS, min_size=1, max_size=3),
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int]:
    """A stretch of a log as a fetch gives it, and the offset behind it. Offsets may have gaps."""
    parts = []
    offset = draw(st.integers(min_value=0, max_value=2**40))
    for _ in range(draw(st.integers(min_value=1, max_value=6))):
        offset += draw(st.integers(min_value=0, max_value=5))
        records = draw(st.lists(RECORDS, min_size=1, max_size=12))
        batch = build_batch(
            records,
            compression=draw(st.integers(min_value=0, max_value=4)),
            log_append_time=draw(st.booleans()),
            control=draw(st.integers(0, 9)) == 0,
        )
        stamp(batch, 0, offset, LeaderEpoch(draw(st.sampled_from([-1, 0, 3, 2**31 - 1]))))
        offset += len(records)
        parts.append(bytes(batch))
    return b"".join(parts), offset


def table(decoded: Any, include_headers: bool) -> pa.Table:
    return pa.Table.from_batches(decoded.batches, schema=arrow_schema(include_headers))


def both(include_headers: bool, check_crcs: bool = True) -> tuple[Decoder, PythonDecoder]:
    return (
        Decoder("orders", 7, include_headers=include_headers, check_crcs=check_crcs),
        PythonDecoder("orders", 7, include_headers=include_headers, check_crcs=check_crcs),
    )


@settings(deadline=None, max_examples=40)
@given(log=logs(), columns=st.sets(st.sampled_from(COLUMNS), min_size=1))
def test_columns_that_are_asked_for_are_those_of_a_whole_read(
    log: tuple[bytes, int], columns: set[str]
) -> None:
    data, end = log
    plain = PythonDecoder("orders", 7, include_headers=False, columns=COLUMNS)
    batches = plain.decode(memoryview(data), 0, end).batches
    whole = pa.Table.from_batches(batches, schema=arrow_schema(False, COLUMNS))
    asked = tuple(name for name in COLUMNS if name in columns)

    for kind in (Decoder, PythonDecoder):
        decoder = kind("orders", 7, include_headers=False, columns=asked)
        batches = decoder.decode(memoryview(data), 0, end).batches
        assert pa.Table.from_batches(batches, schema=arrow_schema(False, asked)).equals(
            whole.select(asked)
        )


@settings(deadline=None, max_examples=60)
@given(log=logs(), rows=FILTERS, start=st.integers(min_value=0, max_value=40))
def test_a_filter_takes_of_the_rows_those_it_means_and_the_range_ends_where_it_did(
    log: tuple[bytes, int], rows: RowFilter, start: int
) -> None:
    data, end = log
    compiled, _ = both(include_headers=True)
    first = end - start
    unfiltered = compiled.decode(memoryview(data), first, end)
    every = table(unfiltered, True)
    taken = [
        rows.takes(key, round(time.timestamp() * 1000))
        for key, time in zip(every["key"].to_pylist(), every["timestamp"].to_pylist(), strict=True)
    ]

    for kind in (Decoder, PythonDecoder):
        decoder = kind("orders", 7, include_headers=True, rows=rows)
        got = decoder.decode(memoryview(data), first, end)

        assert got.next_offset == unfiltered.next_offset
        assert all(batch.num_rows for batch in got.batches)
        assert table(got, True).equals(every.filter(pa.array(taken, pa.bool_())))


@pytest.mark.parametrize("kind", [Decoder, PythonDecoder])
def test_rows_are_chosen_by_a_key_that_is_not_among_the_columns(kind: Any) -> None:
    records = [Record(b"a", b"1"), Record(None, b"2"), Record(b"b", b"3"), Record(b"c", b"4")]
    decoder = kind(
        "t",
        7,
        include_headers=False,
        columns=("value",),
        rows=RowFilter(keys=frozenset([b"a", b"b"])),
    )

    (batch,) = decoder.decode(memoryview(build_batch(records)), 0, 4).batches

    assert batch.to_pydict() == {"value": [b"1", b"3"]}
    assert decoder.decode(memoryview(build_batch(records[3:])), 0, 4).batches == []


def test_batches_that_are_older_as_a_whole_are_not_decompressed() -> None:
    """Their bytes are none of the codec's: who looks at them fails."""
    old = build_batch([Record(b"k", b"v", (), 999)], base_offset=0, compression=4)
    old[61:] = bytes(len(old) - 61)
    new = build_batch([Record(b"k", b"v", (), 1000)], base_offset=1, compression=4)
    data = memoryview(bytes(old + new))

    for kind in (Decoder, PythonDecoder):
        given = {"include_headers": False, "check_crcs": False, "columns": ("offset",)}
        decoder = kind("orders", 7, rows=RowFilter(from_ms=1000), **given)
        (batch,) = decoder.decode(data, 0, 2).batches
        assert batch.to_pydict() == {"offset": [1]}
        with pytest.raises((CorruptData, KafkaError)):
            kind("orders", 7, rows=RowFilter(from_ms=999), **given).decode(data, 0, 2)


def test_a_batch_that_names_no_largest_timestamp_is_looked_into() -> None:
    batch = build_batch([Record(b"k", b"v", (), 5), Record(b"k", b"v", (), 3)])
    batch[35:43] = (-1).to_bytes(8, "big", signed=True)

    for kind in (Decoder, PythonDecoder):
        decoder = kind(
            "orders", 7, include_headers=False, check_crcs=False, rows=RowFilter(from_ms=4)
        )
        assert table(decoder.decode(memoryview(batch), 0, 9), False)["offset"].to_pylist() == [0]


def test_a_timestamp_that_spark_cannot_hold_is_null_and_the_row_is_there() -> None:
    """Nanoseconds given for milliseconds, for one."""
    largest = (2**63 - 1) // 1000
    given = [5, largest, largest + 1, 1_700_000_000_000_000_000, -largest, -largest - 1]
    batch = build_batch([Record(b"k", b"v", (), ms) for ms in given])
    rows = RowFilter(from_ms=6)

    for decoder in both(False):
        (got,) = decoder.decode(memoryview(batch), 0, 6).batches
        micros = got.column("timestamp").cast(pa.int64()).to_pylist()
        assert micros == [5_000, largest * 1000, None, None, -largest * 1000, None]
    for kind in (Decoder, PythonDecoder):
        decoder = kind("orders", 7, include_headers=False, columns=("offset",), rows=rows)
        (got,) = decoder.decode(memoryview(batch), 0, 6).batches
        assert got.column("offset").to_pylist() == [1, 2, 3]


def test_the_leader_epoch_is_that_of_each_batch_and_null_where_no_leader_wrote_one() -> None:
    data = b""
    for offset, epoch in enumerate([-1, 0, 7]):
        batch = build_batch([Record(b"k", b"v")])
        stamp(batch, 0, offset, LeaderEpoch(epoch))
        data += bytes(batch)

    for kind in (Decoder, PythonDecoder):
        decoder = kind("orders", 7, include_headers=False, columns=("offset", "leader_epoch"))
        (got,) = decoder.decode(memoryview(data), 0, 3).batches

        assert got.to_pydict() == {"offset": [0, 1, 2], "leader_epoch": [None, 0, 7]}


def test_what_is_not_asked_for_takes_no_memory() -> None:
    batch = build_batch([Record(b"k" * 1000, b"v" * 1000, (), 5)] * 100)

    (got,) = Decoder("orders", 7, include_headers=False, columns=("offset",)).decode(
        memoryview(bytes(batch)), 0, 100
    )[0]

    assert got.nbytes == 800


@settings(deadline=None, max_examples=80)
@given(log=logs(), window=st.data(), include_headers=st.booleans())
def test_compiled_decoder_equals_plain_python(
    log: tuple[bytes, int], window: st.DataObject, include_headers: bool
) -> None:
    data, end = log
    start = end - window.draw(st.integers(min_value=0, max_value=90))
    stop = start + window.draw(st.integers(min_value=1, max_value=90))
    compiled, plain = both(include_headers)

    got = compiled.decode(memoryview(data), start, stop)
    expected = plain.decode(memoryview(data), start, stop)

    assert got.next_offset == expected.next_offset
    assert table(got, include_headers).equals(table(expected, include_headers))
    assert compiled.end_offset(memoryview(data)) == plain.end_offset(memoryview(data)) == end
    for batch in got.batches:
        batch.validate(full=True)


@settings(deadline=None, max_examples=40)
@given(log=logs(), cut=st.integers(min_value=1, max_value=200))
def test_partial_last_batch_is_left_for_the_next_fetch(log: tuple[bytes, int], cut: int) -> None:
    data, end = log
    part = memoryview(data)[: max(0, len(data) - cut)]
    compiled, plain = both(False)

    got = compiled.decode(part, 0, end)
    expected = plain.decode(part, 0, end)

    assert got.next_offset == expected.next_offset < end
    assert table(got, False).equals(table(expected, False))


@settings(deadline=None, max_examples=80)
@given(log=logs(), position=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_damaged_bytes_give_an_error_or_rows_but_no_wild_read(
    log: tuple[bytes, int], position: int, flip: int
) -> None:
    data = bytearray(log[0])
    data[position % len(data)] ^= flip
    decoder = Decoder("orders", 7, include_headers=True, check_crcs=False)

    try:
        decoded = decoder.decode(memoryview(data), 0, 2**62)
    except (CorruptData, KafkaError):  # KafkaError: a compression that nobody knows
        return

    for batch in decoded.batches:
        for name in ("key", "value", "offset"):
            batch.column(name).validate(full=True)


@settings(deadline=None, max_examples=40)
@given(data=st.binary(max_size=400))
@example(data=b"")
def test_arbitrary_bytes_are_refused_or_ignored(data: bytes) -> None:
    decoder = Decoder("orders", 7, include_headers=True, check_crcs=False)

    try:
        decoded = decoder.decode(memoryview(data), 0, 2**62)
    except (CorruptData, KafkaError):  # KafkaError: a compression that nobody knows
        return

    assert decoded.batches == [] or len(data) >= 61


@pytest.mark.parametrize(("start", "end"), [(0, 10), (2, 5), (0, 1), (9, 10), (4, 4), (10, 20)])
def test_only_records_of_the_window_come_out(start: int, end: int) -> None:
    batch = build_batch([Record(b"k", b"v")] * 10)

    for decoder in both(False):
        rows = table(decoder.decode(memoryview(batch), start, end), False)

        assert rows.column("offset").to_pylist() == list(range(start, min(end, 10)))


def test_wrong_checksum_is_refused_and_named() -> None:
    """Checklist row 29: verified on read."""
    batch = build_batch([Record(b"k", b"v")], base_offset=41)
    batch[-1] ^= 1

    for decoder in both(False):
        with pytest.raises(CorruptData, match="41"):
            decoder.decode(memoryview(batch), 0, 100)


def test_checksum_is_not_looked_at_when_told_so() -> None:
    batch = build_batch([Record(b"k", b"v")], base_offset=41)
    batch[-2] ^= 1

    for decoder in both(False, check_crcs=False):
        assert decoder.decode(memoryview(batch), 0, 100).batches[0].num_rows == 1


def test_control_batches_give_no_rows_but_move_the_next_offset() -> None:
    marker = build_batch([Record(b"\0\0\0\1", b"")], control=True, base_offset=5)

    for decoder in both(True):
        decoded = decoder.decode(memoryview(marker), 5, 10)

        assert decoded.batches == []
        assert decoded.next_offset == 6


def test_rows_of_aborted_transactions_are_skipped_up_to_their_marker() -> None:
    def part(offset: int, producer: int, *, control: bool = False, key: bytes = b"k") -> bytes:
        return bytes(
            build_batch(
                [Record(key, b"v")],
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
                control=control,
            )
        )

    abort = b"\0\0\0\0"
    data = part(0, 8) + part(1, 9) + part(2, 9, control=True, key=abort) + part(3, 9) + part(4, 8)
    aborted = [AbortedTransaction(9, 1)]

    for decoder in both(False):
        rows = table(decoder.decode(memoryview(data), 0, 10, aborted), False)

        assert rows.column("offset").to_pylist() == [0, 3, 4]


def test_an_emptied_marker_ends_no_transaction_and_is_no_error() -> None:
    """Compaction may take the record of a marker and leave its batch."""
    kinds = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    abort = Record(b"\0\0\0\0", b"")
    marker = build_batch([abort], base_offset=4, control=True, **kinds)
    emptied = bytearray(marker[:61])
    emptied[8:12] = (49).to_bytes(4, "big")
    emptied[57:61] = (0).to_bytes(4, "big")
    data = bytes(emptied) + bytes(build_batch([Record(b"k", b"v")], base_offset=5, **kinds))

    for decoder in both(False, check_crcs=False):
        decoded = decoder.decode(memoryview(data), 0, 10, [AbortedTransaction(9, 2)])

        assert (decoded.batches, decoded.next_offset) == ([], 6)


def test_a_compacted_batch_without_records_gives_no_rows() -> None:
    batch = build_batch([Record(b"k", b"v")], base_offset=5)
    empty = bytearray(batch[:61])
    empty[8:12] = (49).to_bytes(4, "big")
    empty[57:61] = (0).to_bytes(4, "big")

    for decoder in both(False, check_crcs=False):
        decoded = decoder.decode(memoryview(empty), 5, 10)

        assert (decoded.batches, decoded.next_offset) == ([], 6)


def test_a_record_count_that_cannot_be_true_is_refused_before_memory_is_sized_by_it() -> None:
    batch = build_batch([Record(b"k", b"v")])
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    decoder = Decoder("orders", 7, include_headers=False, check_crcs=False)

    with pytest.raises(CorruptData, match="malformed"):
        # Together they claim more rows than there is address space for.
        decoder.decode(memoryview(batch * 4000), 0, 100)


def test_an_unknown_compression_is_named() -> None:
    batch = build_batch([Record(b"k", b"v")])
    batch[22] |= 6

    for decoder in both(False, check_crcs=False):
        with pytest.raises(KafkaError, match="compression codec 6"):
            decoder.decode(memoryview(batch), 0, 100)


def test_a_fetch_of_many_small_batches_is_scanned_whole() -> None:
    count = 5_000
    data = b"".join(
        bytes(build_batch([Record(None, b"v")], base_offset=offset)) for offset in range(count)
    )
    decoder = Decoder("orders", 7, include_headers=False)

    decoded = decoder.decode(memoryview(data), 0, count)

    assert sum(batch.num_rows for batch in decoded.batches) == count
    assert decoded.next_offset == count


def test_large_fetches_are_cut_into_bounded_arrow_batches() -> None:
    big = bytes(build_batch([Record(None, b"v" * 5_000_000)], compression=4, base_offset=0))
    batches = []
    for offset in range(8):
        batch = bytearray(big)
        stamp(batch, 0, offset, 0)
        batches.append(bytes(batch))
    decoder = Decoder("orders", 7, include_headers=False)

    decoded = decoder.decode(memoryview(b"".join(batches)), 0, 8)

    assert [batch.num_rows for batch in decoded.batches] == [3, 3, 2]


@settings(deadline=None, max_examples=60)
@given(log=logs(), chunk_bytes=st.sampled_from([1, 60, 300, 900, 1 << 20]))
def test_rows_are_the_same_in_whatever_chunks_batches_are_decompressed(
    log: tuple[bytes, int], chunk_bytes: int
) -> None:
    """All chunks of a reader are decompressed into one place, a batch that is larger elsewhere."""
    data, end = log
    compiled, plain = both(include_headers=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "CHUNK_BYTES", chunk_bytes)
        found = [compiled.decode(memoryview(data), 0, end) for _ in range(2)]

    expected = table(plain.decode(memoryview(data), 0, end), True)
    assert [table(one, True) for one in found] == [expected, expected]


def test_arrow_schema_is_what_pyspark_makes_of_the_spark_schema() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")

    for include_headers in (False, True):
        for columns in (None, ("key", "timestamp"), COLUMNS):
            schema = spark_schema(include_headers, columns)
            expected = types.to_arrow_schema(schema, timezone="UTC")

            assert arrow_schema(include_headers, columns).equals(expected)
            assert columns is None or tuple(expected.names) == columns


def test_a_process_that_decodes_collects_no_garbage_among_the_compiled_loops() -> None:
    """PySpark collects after every task: what stays for ever must not be looked at each time."""
    decode._settle.cache_clear()
    gc.unfreeze()
    before = len(gc.get_objects())
    try:
        assert decode.decoder_class() is Decoder

        assert gc.isenabled()
        assert gc.get_freeze_count() > before // 2
        assert len(gc.get_objects()) < before // 2
    finally:
        gc.unfreeze()


def test_a_collector_that_was_off_stays_off() -> None:
    decode._settle.cache_clear()
    gc.disable()
    try:
        decode.decoder_class()

        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


LOADED = """
import sys
from josefine_broker.records.builder import Record, build_batch
from josefine_arrow.batches.decoder import decoder_class
from josefine_spark.read.json_rows import JsonRows
from josefine_spark.read.source_options import COLUMNS
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
decoder = decoder_class()("t", 0, include_headers=True, columns=COLUMNS)
records = [Record(b"k", b'{"n":1,"s":"a"}', headers=(("a", b"b"),)), Record(None, None)]
(batch,) = decoder.decode(memoryview(bytes(build_batch(records))), 0, 2).batches
schema = StructType([StructField("n", IntegerType()), StructField("s", StringType())])
(beside,) = JsonRows(schema).beside(batch)
print(beside.num_rows, "numba" in sys.modules, "pandas" in sys.modules)
"""


def test_reading_loads_no_pandas() -> None:
    """A third of what a new worker of Spark loads before its first record."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["2", "True", "False"]
