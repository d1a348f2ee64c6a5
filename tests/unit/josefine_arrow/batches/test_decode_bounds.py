"""No bytes make the compiled loops read or write outside of their arrays, or disagree with Python.

The oracle is `decode_oracle.py`; the loops run twice, compiled and as guarded Python, over batches
with damaged bytes, damaged lengths, torn ends, gaps, control batches and aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from josefine_arrow.batches.aborted_transactions import AbortedTransaction
from josefine_arrow.batches.columns import arrow_schema
from josefine_arrow.batches.decode_oracle import PythonDecoder
from josefine_arrow.batches.decoder import Decoder
from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.records.batch import HEADER_BYTES, parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.read.source_options import ALWAYS
from tests.unit.josefine_spark.guarded_kernels import (
    Guarded,
    OutOfBoundsError,
    copy_bytes,
    guarded_kernels,
    kernels_source,
)

OFFSET_MAX = 2**62
REFUSED = (CorruptData, KafkaError)
"""KafkaError: a compression that nobody knows."""

MAYBE_BYTES = st.none() | st.binary(max_size=12)
RECORDS = st.builds(
    Record,
    key=MAYBE_BYTES,
    value=MAYBE_BYTES,
    headers=st.lists(st.tuples(st.text(max_size=4), MAYBE_BYTES), max_size=3),
    timestamp_ms=st.integers(min_value=-1, max_value=2**42),
)
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"
PRODUCERS = st.sampled_from([8, 9])


def varint(number: int) -> bytes:
    """As in records: zig-zag, seven bits a byte."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


LIES = [varint(n) for n in (-(2**63), -2, -1, 0, 63, 64, 2**31 - 1, 2**31, 2**62, 2**63 - 1)]
LIES += [b"\xff" * 10, b"\x80" * 9 + b"\x01", (2**31 - 1).to_bytes(4, "big"), b"\x80\0\0\0"]


@st.composite
def logs(draw: st.DrawFn, codecs: tuple[int, ...] = (0, 0, 0, 4)) -> bytes:
    """Batches as brokers hold them: with gaps, markers and what compaction left."""
    parts, offset = [], draw(st.integers(min_value=0, max_value=2**40))
    for _ in range(draw(st.integers(min_value=1, max_value=4))):
        offset += draw(st.integers(min_value=0, max_value=5))
        if draw(st.integers(0, 3)) == 0:
            batch = marker(draw(st.sampled_from([ABORT, COMMIT])), draw(PRODUCERS))
        else:
            batch = build_batch(
                draw(st.lists(RECORDS, min_size=1, max_size=5)),
                compression=draw(st.sampled_from(codecs)),
                log_append_time=draw(st.booleans()),
                producer_id=draw(PRODUCERS),
                producer_epoch=0,
                base_sequence=0,
                transactional=draw(st.booleans()),
            )
        if draw(st.integers(0, 5)) == 0:
            batch = emptied(batch)
        stamp(batch, 0, offset, 3)
        offset = parse_header(batch).end_offset
        parts.append(bytes(batch))
    return b"".join(parts)


def marker(kind: bytes, producer: int, offset: int = 0) -> bytearray:
    return build_batch(
        [Record(kind, b"\0\0\0\0\0\0")],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        control=True,
    )


def emptied(batch: bytearray) -> bytearray:
    """What compaction leaves of a batch that its producer still needs."""
    rest = bytearray(batch[:HEADER_BYTES])
    rest[8:12] = (HEADER_BYTES - 12).to_bytes(4, "big")
    rest[57:61] = bytes(4)
    rest[22] &= 0xF8  # nothing is not compressed
    return rest


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(logs()))
    for _ in range(draw(st.integers(min_value=1, max_value=4))):
        at = draw(st.integers(min_value=0, max_value=len(data) - 1))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            data[at] ^= draw(st.integers(min_value=1, max_value=255))
        elif kind == 1:
            lie = draw(st.sampled_from(LIES))
            data[at : at + len(lie)] = lie
        elif kind == 2:
            data[at:at] = draw(st.sampled_from(LIES))
        else:
            del data[at : at + draw(st.integers(min_value=1, max_value=9))]
        if not data:
            return b""
    return bytes(data)


def decoders(include_headers: bool, kernels: Any = None) -> tuple[Decoder, Decoder, PythonDecoder]:
    """(compiled, guarded, oracle); none looks at checksums, or damage would go no further."""
    compiled = Decoder("t", 7, include_headers=include_headers, check_crcs=False)
    guarded = Decoder("t", 7, include_headers=include_headers, check_crcs=False)
    guarded._kernels = kernels or GUARDED
    oracle = PythonDecoder("t", 7, include_headers=include_headers, check_crcs=False)
    return compiled, guarded, oracle


GUARDED = guarded_kernels()


def outcome(decoder: Any, data: bytes, include_headers: bool, aborted: Any = ()) -> Any:
    """The rows and where to go on, None when the bytes are refused."""
    try:
        decoded = decoder.decode(memoryview(data), 0, OFFSET_MAX, aborted)
    except REFUSED:
        return None
    table = pa.Table.from_batches(decoded.batches, schema=arrow_schema(include_headers))
    return table, decoded.next_offset


def same(one: Any, other: Any) -> bool:
    return bool(one[1] == other[1] and one[0].equals(other[0]))


def check(data: bytes, include_headers: bool, aborted: Any = (), kernels: Any = None) -> None:
    compiled, guarded, oracle = decoders(include_headers, kernels)

    checked = outcome(guarded, data, include_headers, aborted)
    end = compiled.end_offset(memoryview(data))
    assert guarded.end_offset(memoryview(data)) == end
    got = outcome(compiled, data, include_headers, aborted)
    assert (got is None) == (checked is None)
    if got is None:
        return
    assert same(got, checked)
    try:
        expected = outcome(oracle, data, include_headers, aborted)
    except (OverflowError, pa.ArrowInvalid):  # a time that is none: Python's numbers do not wrap
        return
    if expected is not None:
        assert same(got, expected)
        assert oracle.end_offset(memoryview(data)) == end


FEW = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def test_header_names_that_are_not_utf8_are_read_with_replacement_characters() -> None:
    """As Java's client reads them; the bytes of both names together are valid."""
    record = Record(b"k", b"v", headers=(("ab", b"1"), ("cd", b"2")))
    data = bytes(build_batch([record])).replace(b"ab", b"a\xc3").replace(b"cd", b"\xa9d")

    check(data, include_headers=True)
    table, _ = outcome(decoders(True)[0], data, include_headers=True)
    (headers,) = table.column("headers").to_pylist()
    assert [each["key"] for each in headers] == ["a\ufffd", "\ufffdd"]


@FEW
@given(data=damaged_logs(), include_headers=st.booleans())
def test_damaged_batches_stay_inside_and_mean_what_python_reads(
    data: bytes, include_headers: bool
) -> None:
    check(data, include_headers)


@FEW
@given(data=st.binary(max_size=300), include_headers=st.booleans())
@example(data=b"", include_headers=True)
def test_random_bytes_stay_inside(data: bytes, include_headers: bool) -> None:
    check(data, include_headers)
    # The same where records belong, behind a header that promises them.
    batch = build_batch([Record(b"k", b"v")] * 3)[:HEADER_BYTES] + data
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    check(bytes(batch), include_headers)


@FEW
@given(
    data=logs(),
    include_headers=st.booleans(),
    aborted=st.lists(
        st.builds(AbortedTransaction, PRODUCERS, st.integers(min_value=0, max_value=2**40)),
        max_size=3,
    ),
    cut=st.integers(min_value=0, max_value=80),
)
def test_gaps_markers_and_aborted_transactions_are_read_as_python_reads_them(
    data: bytes, include_headers: bool, aborted: list[AbortedTransaction], cut: int
) -> None:
    first = parse_header(data).base_offset
    given = [AbortedTransaction(one.producer_id, first + one.first_offset % 12) for one in aborted]
    compiled, guarded, oracle = decoders(include_headers)
    part = data[: len(data) - cut]

    expected = outcome(oracle, part, include_headers, given)

    assert expected is not None
    assert same(outcome(compiled, part, include_headers, given), expected)
    assert same(outcome(guarded, part, include_headers, given), expected)


WITHOUT_BYTES = ("offset", "timestamp", "leader_epoch")


@FEW
@given(data=damaged_logs())
def test_columns_that_are_not_asked_for_are_passed_over_inside(data: bytes) -> None:
    part = Decoder("t", 7, include_headers=False, check_crcs=False, columns=WITHOUT_BYTES)
    part._kernels = GUARDED
    try:
        batches = part.decode(memoryview(data), 0, OFFSET_MAX).batches
    except REFUSED:
        assert outcome(decoders(False)[0], data, False) is None
        return
    every = (*ALWAYS, "leader_epoch")
    compiled = Decoder("t", 7, include_headers=False, check_crcs=False, columns=every)
    found = compiled.decode(memoryview(data), 0, OFFSET_MAX).batches
    whole = pa.Table.from_batches(found, schema=arrow_schema(False, every))
    got = pa.Table.from_batches(batches, schema=arrow_schema(False, WITHOUT_BYTES))
    assert got.equals(whole.select(WITHOUT_BYTES))


def test_bytes_that_are_not_asked_for_are_never_copied() -> None:
    """There is no room for them."""
    mutated = kernels_source().replace("    if not wanted:\n", "    if False:\n")
    decoder = Decoder("t", 7, include_headers=False, columns=WITHOUT_BYTES)
    data = memoryview(bytes(build_batch([Record(b"key", b"value")])))
    decoder._kernels = GUARDED
    assert len(decoder.decode(data, 0, 1).batches) == 1

    decoder._kernels = guarded_kernels(mutated)
    with pytest.raises(OutOfBoundsError):
        decoder.decode(data, 0, 1)


def lying_header_counts() -> bytes:
    """Four records whose header counts add up to 3 in 64 bits, the first with 40 real headers.

    Doubled in 64 bits each count is negative, and so below any bound.
    """
    many = (varint(1) + b"n" + varint(-1)) * 40
    counts = [2**62 + 40, 2**62, 2**62, 2**62 - 37 + 2**62]
    counts[3] = 2**64 + 3 - sum(counts[:3])
    records = b""
    for delta, (count, tail) in enumerate(zip(counts, [many, b"", b"", b""], strict=True)):
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(-1) + varint(count) + tail
        records += varint(len(body)) + body
    batch = build_batch([Record(b"k", b"v")] * 4)[:HEADER_BYTES] + records
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return bytes(batch)


def lying_record_size() -> bytes:
    """One record that claims more bytes than its batch has, and so does its key."""
    record = varint(9_000) + b"\0" + varint(0) + varint(0) + varint(8_000) + b"k"
    batch = build_batch([Record(b"k", b"v")])[:HEADER_BYTES] + record
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return bytes(batch)


def test_header_counts_that_wrap_in_64_bits_are_refused() -> None:
    """They sized the outputs for three headers, and forty were written."""
    for decoder in decoders(True)[:2]:
        with pytest.raises(CorruptData, match="headers"):
            decoder.decode(memoryview(lying_header_counts()), 0, 10)


MUTANTS = [
    ("if batch_bytes > size - pos:", "if batch_bytes > size:"),
    ("while size - pos >= HEADER_BYTES and", "while size - pos >= 16 and"),
    (" or length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:", ":"),
    ("        if length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:", "        if False:"),
    ("        if length + LENGTH_OVERHEAD_BYTES > size - pos:", "        if False:"),
    ("    if pos >= end:\n        return", "    if False:\n        return"),
    ("        if pos >= end:\n            return", "        if False:\n            return"),
    ("if pos < 0 or size < -1 or size > end - pos", "if pos < 0 or size < -1"),
    ("if pos < 0 or size < -1 or size > end - pos", "if pos < 0 or size > end - pos"),
    ("size < 1 or size > section_end - pos", "size < 1"),
    ("if pos != section_end:", "if False:"),
    ("count < 0 or count > (end - pos) // 2", "count * 2 > end - pos"),
    ("count < 0 or count > (end - pos) // 2", "count < 0"),
    ("count < 0 or count > (end - pos) // 2", "count > (end - pos) // 2"),
    ("if pos < 0 or size < 0 or size > end - pos:", "if pos < 0 or size < 0:"),
    ("if pos < 0 or size < 0 or size > end - pos:", "if pos < 0 or size > end - pos:"),
    ("        if pos != end:", "        if False:"),
]
"""What the loops check, taken away piece by piece: each must be noticed."""


def corpus() -> Iterator[bytes]:
    """Damaged batches, the same in every run."""
    yield lying_header_counts()
    yield lying_record_size()
    rng = Random(1)
    for _ in range(800):
        headers = [("n", b"v"), ("m", None)] if rng.random() < 0.7 else []
        records = [
            Record(rng.choice([None, b"k", b"k" * 70]), rng.choice([None, b"v" * 9]), headers, n)
            for n in range(rng.randint(1, 4))
        ]
        data = bytearray().join(
            build_batch(records, base_offset=10 * n) for n in range(rng.randint(1, 2))
        )
        lie = rng.choice([*LIES, varint(rng.randint(-3, 90)), bytes([rng.randrange(256)])])
        at = rng.choice([8, rng.randrange(len(data)), rng.randrange(HEADER_BYTES, len(data))])
        if rng.random() < 0.1:
            data[60] = rng.randrange(5)  # of a batch of so many records
        else:
            data[at : at + len(lie)] = lie
        yield bytes(data[: len(data) - rng.choice([0, 0, 1, 20, 70])])


@pytest.mark.parametrize(("text", "mutated"), MUTANTS)
def test_a_check_that_is_taken_away_is_noticed(text: str, mutated: str) -> None:
    source = kernels_source()
    assert source.count(text) == 1
    kernels = guarded_kernels(source.replace(text, mutated))

    assert any(differs(kernels, data) for data in corpus())


def differs(kernels: Any, data: bytes) -> bool:
    """Whether mutated loops leave their arrays or read something else than the compiled ones."""
    compiled, mutant, _ = decoders(True, kernels)
    got = outcome(compiled, data, True)
    try:
        checked = outcome(mutant, data, True)
        end = mutant.end_offset(memoryview(data))
    except (OutOfBoundsError, ValueError, MemoryError, OverflowError):
        return True
    if end != compiled.end_offset(memoryview(data)) or (got is None) != (checked is None):
        return True
    return got is not None and not same(got, checked)


def test_the_guard_refuses_what_numba_would_follow() -> None:
    array = Guarded(np.zeros(4, dtype=np.uint8))

    for index in (-1, 4):
        with pytest.raises(OutOfBoundsError):
            array[index]
        with pytest.raises(OutOfBoundsError):
            array[index] = 1
    for at, start, size in ((0, 0, 5), (3, 0, 2), (0, 3, 2), (0, 0, -1), (-1, 0, 1)):
        with pytest.raises(OutOfBoundsError):
            copy_bytes(array, at, array, start, size)


def test_a_read_ends_at_its_end_also_where_damaged_offsets_go_back_behind_it() -> None:
    """The second batch begins at 0 again."""
    ends = bytearray(build_batch([Record(b"k", b"v")] * 2))
    stamp(ends, 0, OFFSET_MAX, 0)
    behind = bytearray(build_batch([Record(b"k", b"v")] * 2))
    stamp(behind, 0, 0, 0)

    check(bytes(ends + behind), include_headers=False)
    decoded = decoders(False, None)[0].decode(memoryview(bytes(ends + behind)), 0, OFFSET_MAX)

    assert decoded.batches == []
