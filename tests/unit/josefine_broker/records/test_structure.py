"""The compiled check of a batch and its Python twin give the same answer to every byte.
It is never a wild read: a changed length meets the end of its record."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.records import structure_twin
from josefine_broker.records.batch import HEADER_BYTES
from josefine_broker.records.builder import Record, build_batch, varint
from josefine_broker.records.reader import read_records
from josefine_broker.records.structure import FOLDER, WHY, Check, Fault, check, is_compiled, load
from tests.build_native import MODULES, STAMP, TARGETS, binary, digests

BASE_MS = 1_700_000_000_000
RECORDS = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=3),
        value=st.none() | st.binary(max_size=90),
        headers=st.lists(
            st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2
        ),
        timestamp_ms=st.sampled_from([-1, BASE_MS, BASE_MS + 1, BASE_MS - 70, 2**62]),
    ),
    min_size=1,
    max_size=4,
)
ODD_BYTES = [b"\xff" * 11, b"\x80\0", b"\x80" * 4 + b"\x10", b"\x80" * 9 + b"\x02", b"\x01", b"\0"]

needs_compiled = pytest.mark.skipif(not is_compiled, reason=f"not compiled for {FOLDER}")


def both(body: bytes, count: int, base_ms: int, max_ms: int, needs_key: bool) -> tuple[object, ...]:
    arguments = (memoryview(body), 0, count, base_ms, max_ms, needs_key)
    return check(*arguments), structure_twin.check(*arguments)


@needs_compiled
@settings(max_examples=300, deadline=None)
@given(RECORDS, st.booleans(), st.data())
def test_the_compiled_check_and_its_twin_agree_on_every_damaged_batch(
    records: list[Record], needs_key: bool, data: st.DataObject
) -> None:
    batch = build_batch(records)
    body = bytearray(batch[HEADER_BYTES:])
    base_ms, max_ms = struct.unpack_from(">qq", batch, 27)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(body)))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2) | st.sampled_from(ODD_BYTES)
        )
    count = max(1, len(records) + data.draw(st.sampled_from([0, 0, 0, -1, 1, 2**31])))

    compiled, twin = both(bytes(body), count, base_ms, max_ms, needs_key)

    assert compiled == twin


@needs_compiled
def test_they_agree_on_a_byte_changed_at_every_place() -> None:
    rng = Random(3)
    body = bytes(
        build_batch(
            [Record(b"k", b"v" * 70, (("h", b"x"), ("n", None)), BASE_MS + n) for n in range(3)]
        )
    )[HEADER_BYTES:]
    for at in range(len(body)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)):
            changed = body[:at] + bytes([value]) + body[at + 1 :]
            compiled, twin = both(changed, 3, BASE_MS, BASE_MS + 2, needs_key=True)
            assert compiled == twin, (at, value)
        compiled, twin = both(body[:at], 3, BASE_MS, BASE_MS + 2, needs_key=False)
        assert compiled == twin
        assert compiled is not None


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_what_the_check_passes_the_reader_reads(records: list[Record]) -> None:
    batch = build_batch(records)

    found = structure_twin.look(batch, HEADER_BYTES, len(records), 0, False)

    assert found[0] == Fault.SOUND
    assert len(list(read_records(batch))) == len(records)


@pytest.mark.parametrize("check_of", [check, structure_twin.check], ids=["used", "twin"])
def test_a_sound_batch_is_one_whose_header_tells_its_timestamps(check_of: Check) -> None:
    batch = build_batch([Record(b"k", b"v", (), BASE_MS + n) for n in range(3)])
    arguments = batch, HEADER_BYTES, 3

    assert check_of(*arguments, BASE_MS, BASE_MS + 2, True) is None
    assert check_of(*arguments, BASE_MS, BASE_MS + 3, True) == (0, 3, BASE_MS, BASE_MS + 2)
    nothing = build_batch([Record(b"k", b"v")])
    assert check_of(nothing, HEADER_BYTES, 1, -1, -1, True) is None


def test_every_fault_says_why() -> None:
    assert set(WHY) == set(Fault) - {Fault.SOUND}


def test_a_large_batch_is_checked_without_the_interpreter_lock() -> None:
    body = b"".join(
        varint(len(rest)) + rest
        for n in range(20_000)
        for rest in [b"\0\0" + varint(n) + b"\x01\xc8\x01" + b"x" * 100 + b"\0"]
    )
    assert len(body) > 1 << 20

    assert check(body, 0, 20_000, BASE_MS, BASE_MS, False) is None
    assert check(body, 0, 20_001, BASE_MS, BASE_MS, False) == (
        Fault.LENGTH, 20_000, BASE_MS, BASE_MS,
    )  # fmt: skip


def test_a_platform_without_a_binary_gets_the_twin() -> None:
    assert load("plan9_pdp11") is None


def test_the_binaries_are_of_this_source() -> None:
    """After a change of any C: `./build.sh native`."""
    assert all(binary(platform, module).is_file() for platform in TARGETS for module in MODULES)
    assert digests() == STAMP.read_text()
