"""What is read of JSON where records are decoded is what a strict reader makes of it, and no bytes
lead the compiled loops out of their memory.

That Spark's own reader agrees is in tests/spark/pipelines/test_json_objects.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from josefine_arrow.formats.json import decoder
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.value_reader import ObjectReader
from josefine_spark.base.errors import OptionError
from josefine_spark.read.json_rows import JsonRows, arrow_type
from josefine_spark.read.json_schema import parse_schema, unreadable
from tests.unit.josefine_spark.guarded_json import guarded_json, read_guarded
from tests.unit.josefine_spark.guarded_kernels import kernels_source
from tests.unit.josefine_spark.json_documents import (
    SCHEMA,
    UNKNOWN,
    damaged,
    document,
    documents,
    strictly,
)

pytest.importorskip("numba")
COMPILED = JsonRows(SCHEMA)
TWIN = ObjectReader(arrow_type(SCHEMA), JsonOptions())
GUARDED = guarded_json()
SEEDS = st.integers(0, 2**32)


def read(values: Sequence[bytes | None], schema: StructType | None = None) -> list[Any]:
    rows = COMPILED if schema is None else JsonRows(schema)
    taken: list[Any] = rows.plain(pa.array(values, pa.binary())).to_pylist()
    return taken


def of(kind: Any) -> StructType:
    return StructType([StructField("x", kind)])


@settings(deadline=None, max_examples=150)
@given(seed=SEEDS)
def test_what_is_taken_is_what_a_strict_reader_makes_of_it(seed: int) -> None:
    values = documents(seed, 40)

    for value, taken in zip(values, read(values), strict=True):
        assert taken is None or strictly(value) in (taken, UNKNOWN), value


@settings(deadline=None, max_examples=150)
@given(seed=SEEDS)
def test_what_is_taken_is_what_the_twin_reads(seed: int) -> None:
    values = documents(seed, 40)

    for value, taken in zip(values, read(values), strict=True):
        if taken is not None:
            assert value is not None
            found, why = TWIN.read(value)
            assert (pa.array([found], COMPILED.type).to_pylist(), why) == ([taken], None), value


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS)
def test_each_value_is_an_object_or_has_its_reason(seed: int) -> None:
    values = documents(seed, 40)

    objects, reasons = COMPILED.decode(pa.array(values, pa.binary()))

    for value, found, why in zip(values, objects.to_pylist(), reasons.to_pylist(), strict=True):
        assert (found is None) != (why is None) or value is None, value
        assert strictly(value) in (found, UNKNOWN) or strictly(value) is None, value


@settings(deadline=None, max_examples=150)
@given(seed=SEEDS)
def test_what_is_good_is_taken(seed: int) -> None:
    random = Random(seed)
    values = [document(random) for _ in range(40)]

    left = [value for value, taken in zip(values, read(values), strict=True) if taken is None]

    # A double that is almost in the middle between two, or that is no double, is not taken.
    for value in left:
        without = {k: v for k, v in json.loads(value).items() if k not in ("amount", "place")}
        (taken,) = read([json.dumps(without, ensure_ascii=False).encode()])
        assert taken is not None, value


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_no_bytes_lead_out_of_the_memory_that_was_given(seed: int) -> None:
    values = pa.array(documents(seed, 12), pa.binary())

    assert read_guarded(SCHEMA, values, GUARDED).equals(COMPILED.plain(values))


@settings(deadline=None, max_examples=300)
@given(number=st.floats(allow_nan=False, allow_infinity=False), digits=st.integers(0, 10**19))
def test_doubles_are_rounded_to_the_nearest(number: float, digits: int) -> None:
    texts = [repr(number), f"{digits}e-7", f"{digits}", f"0.000{digits}", f"{digits}E+250"]

    values = [f'{{"x":{text}}}'.encode() for text in texts]
    for text, taken in zip(texts, read(values, of(DoubleType())), strict=True):
        if taken is not None:
            bits = float(text).hex(), math.copysign(1, float(text))
            assert (taken["x"].hex(), math.copysign(1, taken["x"])) == bits


def test_few_doubles_are_left_to_the_twin() -> None:
    random = Random(12)
    values = [f'{{"x":{random.uniform(-1000, 1000)!r}}}'.encode() for _ in range(20_000)]

    taken = read(values, of(DoubleType()))

    assert taken.count(None) < 60
    assert all(
        one is None or one["x"] == float(value[5:-1])
        for one, value in zip(taken, values, strict=True)
    )


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":1} ', b' {"id":1}', b'{"id":1}{"id":2}', b"{}null{}", b'{"id":1}\n{"id":2}',
        b'{"id":1,"id":1}', b'{"id":null,"id":1}', b'{"i\\u0064":1}', b'{"id":1.0}', b'{"id":1e2}',
        b'{"id":"1"}', b'{"id":9223372036854775808}', b'{"tiny":128}', b'{"n":-2147483649}',
        b'{"amount":"1"}', b'{"amount":NaN}', b'{"other":NaN}', b'{"other":-Infinity}',
        b'{"amount":-0}', b'{"amount":-0.0}', b'{"amount":1e400}', b'{"price":1.2345}',
        b'{"price":1234567890}', b'{"price":1e2}', b'{"price":"1.5"}', b'{"ok":1}',
        b'{"ok":"true"}',
        b'{"note":"\xff"}', b'{"other":"\xff"}',
        b'{"note":"\\ud800"}',
        b'{"other":"\\udc00"}', b'{"note":"a\nb"}', b'{"at":"2026-01-01"}', b'{"at":1}',
        b'{"at":"2026-01-01T00:00Z"}', b'{"at":"2026-02-30T00:00:00Z"}',
        b'{"at":"2026-01-01T24:00:00Z"}', b'{"at":"2026-01-01T00:00:60Z"}',
        b'{"at":"2026-01-01T00:00:00+18:00"}', b'{"at":"2026-01-01T00:00:00z"}',
        b'{"at":"2026-01-01T00:00:00.1234567Z"}', b'{"at":"2026-01-01T00:00:00.Z"}',
        b'{"day":"2026-2-01"}', b'{"day":"2023-02-29"}', b'{"day":"0999-01-01"}', b'{"place":[]}',
        b'{"place":1}', b'{"place":{"lat":1,"lat":2}}', b'{"other":01}', b'{"other":1.}',
        b'{"other":+1}', b'{"other":tru}', b'{"other":[1,]}', b'{"id":1,}', b"{'id':1}", b'{"id"}',
        b'{"other":' + b"[" * 64 + b"]" * 64 + b"}", b'{"other":' + b"1" * 301 + b"}",
        b'{"' + b"n" * 10_001 + b'":1}', b'{"note":"' + b"n" * 1_000_000 + b'"}',
    ],
)  # fmt: skip
def test_what_is_odd_is_left_to_the_twin(value: bytes) -> None:
    assert read([value]) == [None]


def test_a_column_that_is_sliced_and_longer_than_is_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoder, "ROWS_MAX", 7)
    values = documents(3, 50)

    taken, reasons = COMPILED.decode(pa.array(values, pa.binary()).slice(11, 30))

    whole = COMPILED.decode(pa.array(values, pa.binary()))
    assert taken.to_pylist() == whole[0].to_pylist()[11:41]
    assert reasons.to_pylist() == whole[1].to_pylist()[11:41]
    assert [len(each) for each in COMPILED.decode(pa.array([], pa.binary()))] == [0, 0]


def test_arrays_that_are_too_large_to_be_taken_apart_are_left_to_the_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = pa.array(documents(6, 50), pa.binary())
    expected = COMPILED.decode(values)
    monkeypatch.setattr(decoder, "BYTES_MAX", 99)

    for ours, theirs in zip(JsonRows(SCHEMA).decode(values), expected, strict=True):
        assert ours.equals(theirs)


def test_a_record_batch_of_a_wide_schema_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "CELLS_MAX", 300)
    wide = StructType([StructField(f"c{n}", StringType()) for n in range(10)])
    values = [b'{"c%d":"%d"}' % (n % 10, n) for n in range(25)]
    batch = pa.record_batch({"value": pa.array(values, pa.binary()), "n": list(range(25))})

    parts = list(JsonRows(wide).beside(batch))

    assert [part.num_rows for part in parts] == [10, 10, 5]
    joined = pa.Table.from_batches(parts)
    assert joined.column("n").to_pylist() == list(range(25))
    assert joined.column("json").to_pylist() == read(values, wide)


def test_without_numba_all_is_left_to_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(decoder, "import_kernels", missing)
    with pytest.warns(UserWarning, match="values are decoded by Python, slower"):
        rows = JsonRows(SCHEMA)

    values = pa.array(documents(4, 60), pa.binary())
    for ours, compiled in zip(rows.decode(values), COMPILED.decode(values), strict=True):
        assert ours.equals(compiled)


def test_the_columns_are_those_that_pyspark_makes_of_the_schema() -> None:
    assert arrow_type(SCHEMA) == to_arrow_type(SCHEMA, timezone="UTC")
    taken, _ = COMPILED.decode(pa.array([b"{}"], pa.binary()))
    taken.validate(full=True)
    assert taken.type == arrow_type(SCHEMA)
    assert parse_schema(SCHEMA.json()) == SCHEMA
    strict = of(StructType([StructField("y", DoubleType(), nullable=False, metadata={"a": 1})]))
    assert parse_schema(strict.json()) == of(StructType([StructField("y", DoubleType())]))


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (of(VariantType()), "x VARIANT"),
        (of(MapType(IntegerType(), StringType())), "x MAP<INT,STRING>"),
        (of(ArrayType(of(VariantType()))), "x.x VARIANT"),
        (of(StringType("UTF8_LCASE")), "x STRING COLLATE UTF8_LCASE"),
        (of(StructType([])), "x.a struct without columns"),
        (StructType([]), "a struct without columns"),
        (of(TimestampType()), None),
    ],
)
def test_types_that_are_not_read_are_named(schema: StructType, what: str | None) -> None:
    assert unreadable(schema) == what
    if what is not None:
        with pytest.raises(OptionError, match="is not supported: expected STRING"):
            parse_schema(schema.json())


@pytest.mark.parametrize("text", ["", "a INT", "[]", "{}", '{"type":"array"}', "1", "null"])
def test_a_schema_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"jsonSchema: expected StructType.json\(\), got"):
        parse_schema(text)


MUTANTS = [
    ("josefine_arrow.formats.json.kernels", "return pos == end", "return True"),
    (
        "josefine_arrow.formats.json.kernels",
        "if pos < 0 or (field >= 0 and",
        "if pos < 0 or (False and",
    ),
    ("josefine_arrow.formats.json.kernels", "or end - start < 2 or", "or end - start < 0 or"),
    ("josefine_arrow.formats.json.kernels", "if whole < low or whole > high", "if whole > high"),
    ("josefine_arrow.formats.json.kernels", "if more < 0 or", "if"),
    ("josefine_arrow.formats.json.kernels", "if mantissa == 0 and is_negative", "if False"),
    ("josefine_arrow.formats.json.kernels", "if pos < 0 or escaped or size", "if pos < 0 or size"),
    ("josefine_arrow.formats.json.kernels", "if not is_certain or (", "if False or ("),
    ("josefine_arrow.formats.json.text_kernels", "if byte < 32:", "if byte < 0:"),
    ("josefine_arrow.formats.json.text_kernels", "if first == 0xE0:", "if first == 0:"),
    (
        "josefine_arrow.formats.json.text_kernels",
        "if code < 0 or 0xDC00 <= code <= 0xDFFF",
        "if code < 0",
    ),
    (
        "josefine_arrow.formats.json.kernels",
        "not FLOAT_MIN <= double <= FLOAT_MAX",
        "False",
    ),
    ("josefine_arrow.formats.json.nested_kernels", "pos += 2 if", "pos += 1 if"),
    ("josefine_arrow.formats.json.nested_kernels", "byte == COMMA and depth == 0", "byte == COMMA"),
    ("josefine_arrow.formats.json.nested_kernels", "depth += 1", "depth += 0"),
    ("josefine_arrow.formats.json.text_kernels", "    if not has_zone:", "    if False:"),
    ("josefine_arrow.formats.json.text_kernels", "if day > length", "if day > 31"),
    ("josefine_arrow.formats.json.text_kernels", "hours > 17", "hours > 23"),
    ("josefine_arrow.formats.json.text_kernels", "if end - pos < size or not", "if not"),
    ("josefine_arrow.formats.json.number_kernels", "if digits > 19", "if digits > 29"),
    ("josefine_arrow.formats.json.number_kernels", "pos - first > 1", "pos - first > 9"),
    ("josefine_arrow.formats.json.number_kernels", "rest == half or", ""),
    ("josefine_arrow.formats.json.number_kernels", "(1 if rest > half else 0)", "0"),
    (
        "josefine_arrow.formats.json.number_kernels",
        "<= np.uint64(1 << 53)",
        "<= np.uint64(1 << 60)",
    ),
]
ODD = [
    b"",     b"{", b'{"x":1', b'{"id":1} ', b'{"id":1}}', b'{"id":1,"id":2}', b'{"tiny":-129}',
    b'{"price":1.2345}', b'{"amount":-0}', b'{"i\\u0064":1}', b'{"amount":1.00000000000000011102}',
    b'{"note":"a\nb"}', b'{"note":"\xe0\x80\x80"}', b'{"note":"\\udc00"}', b'{"note":"\xf0\x9f',
    b'{"day":"2023-02-29"}', b'{"at":"2026-01-01T00:00:00+18:00"}', b'{"other":01}',
    b'{"amount":123456789012345678901234}', b'{"amount":9007199254740993}',
    b'{"amount":9007199254740993e3}', b'{"amount":179769313486231580793e289}',
    b'{"amount":1234567890123456789e-30}', b'{"amount":0.30000000000000004}',
    b'{"amount":36028797018963969e22}', b'{"tags":["a\\",b","c"]}', b'{"tags":["a",["b","c"],[]]}',
    b'{"single":1e39}', b'{"local":"2026-01-01T00:00:00Z"}', b'{"by":{"a":1,"b": 2}}',
]  # fmt: skip


@pytest.mark.parametrize(("module", "text", "mutated"), MUTANTS)
def test_a_loop_that_is_broken_is_found(module: str, text: str, mutated: str) -> None:
    source = kernels_source(module)
    assert source.count(text) == 1, text
    random = Random(5)
    values = [*ODD, *(damaged(random, each) for each in ODD * 6)]
    values += [f'{{"amount":{random.randrange(1, 10**19)}e-{n % 60}}}'.encode() for n in range(900)]
    kernels = guarded_json({module: source.replace(text, mutated)})

    with pytest.raises((AssertionError, UnicodeDecodeError, RuntimeWarning)):
        _each_as_compiled(values, kernels)


def _each_as_compiled(values: Sequence[bytes], kernels: Any) -> None:
    """Each by itself: where it ends its memory ends."""
    for value in values:
        (taken,) = read_guarded(SCHEMA, pa.array([value], pa.binary()), kernels).to_pylist()
        assert taken == read([value])[0]
