"""Lines that the kernels decode are what the reader of single lines makes of them."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_arrow.formats.csv import decoder as csv_decoder
from josefine_arrow.formats.csv.decoder import CsvDecoder
from josefine_arrow.formats.csv.line_reader import LineReader
from josefine_arrow.formats.json import decoder as json_decoder
from josefine_arrow.formats.json.options import JsonOptions
from tests.unit.josefine_spark.guarded_json import Memory, guarded_csv, guarded_json
from tests.unit.josefine_spark.guarded_kernels import kernels_source

pytest.importorskip("numba")
KIND = pa.struct(
    [
        ("id", pa.int64()), ("note", pa.string()), ("x", pa.float64()), ("ok", pa.bool_()),
        ("d", pa.date32()), ("at", pa.timestamp("us", tz="UTC")), ("dec", pa.decimal128(10, 2)),
        ("f", pa.float32()), ("local", pa.timestamp("us")), ("b", pa.binary()),
        ("last", pa.string()),
    ]
)  # fmt: skip
FIELDS = [
    ["1", "-5", "+1", "007", "1.0", "", "9223372036854775808", "null", "{}", "1}", '1,"0":2'],
    ["a", "", "a b", "é😀", '"q, ""x"""', 'a"b"', "\\", "a\\nb", "null", "[1]"],
    ["0.1", "-0", "1e400", "NaN", ".5", "", "1e-7", "[1]"],
    ["true", "false", "TRUE", "", "1", "tru", "true}"],
    ["2024-01-05", "20240105", "", "2024-02-30"],
    ["2024-01-05T10:15:30Z", "2024-01-05 10:15:30", "10:15", "", "1700000000"],
    ["1.10", "1.105", "100000000", "", '"1,000.5"'],
    ["0.5", "1e39", ""],
    ["2024-01-05 10:15:30.5", "2024-01-05T10:15:30Z", ""],
    ["AAE=", "!", ""],
    ["z", "", '""'],
]
GOOD = [each[0] for each in FIELDS]
ODD = [
    ",".join([*GOOD[:at], other, *GOOD[at + 1 :]]).encode()
    for at, each in enumerate(FIELDS)
    for other in each
]
"""Each value in a line of good ones."""
COMPILED = CsvDecoder(KIND)
READ = LineReader(KIND, JsonOptions()).read


def lines(seed: int, count: int) -> list[bytes | None]:
    random = Random(seed)
    found: list[bytes | None] = []
    for _ in range(count):
        share = random.choice([0.0, 0.3])
        fields = [random.choice(each) if random.random() < share else each[0] for each in FIELDS]
        text = ",".join(fields) + random.choice(["", "\n", "\r\n"])
        line = text.encode()
        if random.random() < 0.2:
            at = random.randrange(len(line))
            put = random.choice([b"", b",", b'"', b"\n", b"\xff", b"\x00", b"}", b"\xef\xbb\xbf"])
            line = line[:at] + put + line[at + random.randrange(3) :]
        found.append(random.choice([None, b"", b"\n", b",,,"]) if random.random() < 0.04 else line)
    return found


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_a_line_is_what_the_reader_of_single_lines_makes_of_it(seed: int) -> None:
    given_lines = [*lines(seed, 33), *ODD]

    objects, reasons = COMPILED.decode(pa.array(given_lines, pa.binary()).slice(3))

    expected = [(None, None) if line is None else READ(line) for line in given_lines[3:]]
    assert reasons.to_pylist() == [why for _, why in expected]
    assert objects.equals(pa.array([value for value, _ in expected], KIND))


def test_plain_lines_are_decoded_by_kernels() -> None:
    line = ",".join(GOOD).encode()

    assert COMPILED.plain(pa.array([line] * 9, pa.binary())).null_count == 0


def decoded_guarded(values: pa.Array, source: str | None = None) -> pa.Array:
    with pytest.MonkeyPatch.context() as patch:
        json_kernels, csv_kernels = guarded_json(), guarded_csv(source)
        patch.setattr(json_decoder, "address", Memory)
        patch.setattr(csv_decoder, "address", Memory)
        patch.setattr(json_decoder, "loops", lambda *_: json_kernels)
        patch.setattr(csv_decoder, "loops", lambda *_: csv_kernels)
        return CsvDecoder(KIND).plain(values)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_no_bytes_lead_out_of_the_memory_that_was_given(seed: int) -> None:
    values = pa.array([line or b"" for line in lines(seed, 12)], pa.binary())

    assert decoded_guarded(values).equals(COMPILED.plain(values))


@pytest.mark.parametrize(
    ("text", "mutated"),
    [
        ("if (field == fields - 1) != (pos >= end):", "if False:"),
        ("byte in (QUOTE, BACKSLASH)", "byte in (QUOTE,)"),
        ("kind == NUMBER and not", "kind == NUMBER and False and not"),
        (
            "        end -= 1\n            if end > pos",
            "        end -= 0\n            if end > pos",
        ),
        ("if size == 0:", "if size < 0:"),
        ("unit = 100 if field > 99 else 10 if field > 9 else 1", "unit = 1"),
    ],
)
def test_a_kernel_that_is_broken_is_found(text: str, mutated: str) -> None:
    source = kernels_source("josefine_arrow.formats.csv.kernels")
    assert source.count(text) == 1, text
    values = pa.array([*ODD, *(line or b"" for line in lines(1, 99))], pa.binary())

    with pytest.raises((AssertionError, UnicodeDecodeError)):
        _compare(values, source.replace(text, mutated))


def _compare(values: pa.Array, source: str) -> None:
    assert decoded_guarded(values, source).equals(COMPILED.plain(values))
