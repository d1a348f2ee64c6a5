"""No Arrow column makes the compiled loops of the sink read or write outside of their arrays, and
what they write is, byte for byte, what plain Python writes.

The oracle is `encode_oracle.py`; the loops run twice, compiled and as guarded Python, over slices
of columns whose null rows span bytes, and whose null lists span headers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from josefine_arrow.batches import encode_oracle
from josefine_arrow.batches.columns import HEADERS_FIELD
from josefine_arrow.batches.encoder import Encoder, Identity, encode_loops
from josefine_broker.records.reader import read_records
from tests.unit.josefine_spark.guarded_kernels import (
    OutOfBoundsError,
    guarded_kernels,
    kernels_source,
)

NOW_MS = 1_700_000_000_000
GUARDED = guarded_kernels(module="josefine_arrow.batches.encode_kernels")

FIELD = st.tuples(st.booleans(), st.binary(max_size=12) | st.binary(min_size=60, max_size=200))
"""Whether it is there, and its bytes: a null row may span some too."""
HEADERS = st.tuples(st.booleans(), st.lists(st.tuples(FIELD, FIELD), max_size=3))
ROWS = st.lists(st.tuples(FIELD, FIELD, HEADERS), min_size=1, max_size=12)

Rows = Sequence[tuple[Any, Any, Any]]


def bitmap(there: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(there, dtype=bool), bitorder="little").tobytes())


def ends(sizes: Sequence[int]) -> pa.Buffer:
    return pa.py_buffer(np.cumsum([0, *sizes], dtype=np.int32).tobytes())


def column(fields: Sequence[tuple[bool, bytes]], kind: pa.DataType, *, nulls: bool = True) -> Any:
    """What `pa.array` never makes: null rows that span bytes."""
    there = bitmap([is_there for is_there, _ in fields]) if nulls else None
    data = pa.py_buffer(b"".join(content for _, content in fields))
    sizes = ends([len(content) for _, content in fields])
    return pa.Array.from_buffers(kind, len(fields), [there, sizes, data])


def headers_column(lists: Sequence[tuple[bool, Any]]) -> Any:
    """Null lists span headers."""
    entries = [entry for _, each in lists for entry in each]
    kind = HEADERS_FIELD.type
    names = column([(True, name.hex().encode()) for (_, name), _ in entries], pa.string())
    values = column([value for _, value in entries], pa.binary())
    items = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    there = bitmap([is_there for is_there, _ in lists])
    sizes = ends([len(each) for _, each in lists])
    return pa.Array.from_buffers(kind, len(lists), [there, sizes], children=[items])


def batches(
    loops: Any, rows: Rows, *, skip: int, with_headers: bool, batch_bytes: int, count: int
) -> list[tuple[Any, bytes]]:
    """What an encoder makes of a slice of the rows, by partition."""
    encoder = Encoder(Identity(producer_id=9, producer_epoch=0), batch_bytes=batch_bytes)
    encoder._kernels = loops
    skip = min(skip, len(rows) - 1)
    keys = column([row[0] for row in rows], pa.binary()).slice(skip)
    values = column([row[1] for row in rows], pa.string()).slice(skip)
    headers = headers_column([row[2] for row in rows]).slice(skip) if with_headers else None
    numbers = np.arange(len(keys), dtype=np.int64)
    encoder.add(keys, values, headers, np.full(len(keys), -1), {"t": (numbers, count)}, NOW_MS)
    encoder.seal_all(NOW_MS)
    made = []
    while encoder.sealed_bytes:
        made += [(tp, bytes(sealed.data)) for tp, sealed in encoder.take().items()]
    return made


def read_back(made: Sequence[tuple[Any, bytes]]) -> list[Any]:
    records = [one for _, data in made for one in read_records(data)]
    return [(one.key, one.value, list(one.headers)) for one in records]


def meant(rows: Rows, with_headers: bool) -> list[Any]:
    def content(field: tuple[bool, bytes]) -> bytes | None:
        return field[1] if field[0] else None

    return [
        (
            content(key),
            content(value),
            [(name.hex(), content(one)) for (_, name), one in entries]
            if with_headers and is_there
            else [],
        )
        for key, value, (is_there, entries) in rows
    ]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=ROWS,
    skip=st.integers(0, 4),
    with_headers=st.booleans(),
    batch_bytes=st.integers(70, 900),
    count=st.integers(1, 3),
)
def test_all_three_write_the_same_bytes_and_stay_inside(
    rows: Rows, skip: int, with_headers: bool, batch_bytes: int, count: int
) -> None:
    given: Any = {"skip": skip, "with_headers": with_headers, "batch_bytes": batch_bytes}
    given["count"] = count

    compiled = batches(encode_loops(), rows, **given)

    assert batches(encode_oracle, rows, **given) == compiled
    assert batches(GUARDED, rows, **given) == compiled
    if count == 1:
        assert read_back(compiled) == meant(rows[min(skip, len(rows) - 1) :], with_headers)


def test_without_numba_rows_are_encoded_by_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "josefine_arrow.batches.encode_kernels")
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setitem(sys.modules, "josefine_arrow.batches.decode_kernels", None)

    with pytest.warns(UserWarning, match="encoded slowly"):
        encoder = Encoder(Identity(), batch_bytes=1000)

    assert encoder._kernels is encode_oracle


MUTANTS = [
    ("if pos + whole > out.size or (pos + whole > bytes_max and delta > 0):", "if False:"),
    ("        if pos + whole > out.size or (", "        if ("),
    ("        whole = size + _size(size)\n", "        whole = size\n"),
    ("        size = 2 + _size(delta)\n", "        size = 1 + _size(delta)\n"),
    ("size += _size(name_size) + name_size + _field", "size += name_size + _field"),
    ("    for _ in range(length // 4):", "    for _ in range(length // 4 + 1):"),
    ("begin, end = np.int64(list_ends[row]), np", "begin, end = np.int64(0), np"),
    ("list_ends[row + 1])\n", "list_ends[row + 1]) + 1\n"),
    ("    if not valid:\n", "    if False:\n"),
    ("    if not valid[index]:\n", "    if False:\n"),
    ("copy_bytes(out, pos, data, start, end - start)", "copy_bytes(out, pos, data, start, end)"),
    ("murmur2(keys, key_ends[row], key_ends[row + 1])", "murmur2(keys, key_ends[row], keys.size)"),
]
"""What the loops measure and check, taken away piece by piece: each must be noticed."""


def corpus() -> Iterator[tuple[Rows, dict[str, Any]]]:
    """Rows of every kind, the same in every run."""
    rng = Random(1)

    def field() -> tuple[bool, bytes]:
        return rng.random() < 0.7, rng.randbytes(rng.choice([0, 1, 3, 9, 63, 64, 130]))

    for _ in range(60):
        rows = [
            (field(), field(), (rng.random() < 0.7, [(field(), field())] * rng.randrange(3)))
            for _ in range(rng.randint(1, 6))
        ]
        yield rows, {"skip": rng.randrange(3), "with_headers": True, "count": 3}
        yield rows, {"skip": rng.randrange(3), "with_headers": False, "count": 1}


@pytest.mark.parametrize(("text", "mutated"), MUTANTS)
def test_a_check_that_is_taken_away_is_noticed(text: str, mutated: str) -> None:
    source = kernels_source("josefine_arrow.batches.encode_kernels")
    assert source.count(text) == 1
    loops = guarded_kernels(source.replace(text, mutated), "josefine_arrow.batches.encode_kernels")

    assert any(differs(loops, rows, given) for rows, given in corpus())


def differs(loops: Any, rows: Rows, given: dict[str, Any]) -> bool:
    """Whether mutated loops leave their arrays or write something else than plain Python."""
    try:
        made = batches(loops, rows, batch_bytes=200, **given)
    except (OutOfBoundsError, ValueError):
        return True
    return made != batches(encode_oracle, rows, batch_bytes=200, **given)
