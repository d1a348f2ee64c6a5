"""JSON values for tests of its reading: what a strict reader of Python's makes of them, and many of
them, good and bad."""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

PLACE = StructType([StructField("lat", DoubleType()), StructField("name", StringType())])
SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("n", IntegerType()),
        StructField("small", ShortType()),
        StructField("tiny", ByteType()),
        StructField("amount", DoubleType()),
        StructField("price", DecimalType(12, 3)),
        StructField("ok", BooleanType()),
        StructField("note", StringType()),
        StructField("é", StringType()),
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("day", DateType()),
        StructField("tags", ArrayType(StringType())),
        StructField("by", MapType(StringType(), IntegerType())),
        StructField("single", FloatType()),
        StructField("place", StructType([*PLACE.fields, StructField("deep", PLACE)])),
    ]
)
BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
LOCAL = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
ZONE = re.compile(LOCAL.pattern + r"(?:Z|([+-])(\d\d):(\d\d))?")


UNKNOWN = {"text": "of an array or object in the place of a string"}
"""What this reader does not know, because it forgets how values were written."""


class UnknownError(Exception):
    """The value is UNKNOWN."""


class NoneOfItError(ValueError):
    """The value is not what the schema says, or not for certain."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def strictly(value: bytes | None, schema: StructType = SCHEMA) -> dict[str, Any] | None:
    """The object that it is, by Python's own reader made strict; None: not taken."""
    if value is None:
        return None
    try:
        return _object(
            json.loads(
                value.decode("utf-8"),
                parse_constant=_refuse,
                parse_int=Number,
                parse_float=Number,
                object_pairs_hook=tuple,
            ),
            schema,
        )
    except UnknownError:
        return UNKNOWN
    except (ValueError, OverflowError, RecursionError):
        return None


def _refuse(word: str) -> Any:
    raise NoneOfItError(word)


def _object(pairs: Any, schema: StructType) -> dict[str, Any]:
    if not isinstance(pairs, tuple):
        raise NoneOfItError
    fields = {field.name: field.dataType for field in schema.fields}
    found: dict[str, Any] = dict.fromkeys(fields)
    known = [name for name, _ in pairs if name in fields]
    if len(set(known)) < len(known):
        raise NoneOfItError
    for name, value in pairs:
        if name in fields and value is not None:
            found[name] = _typed(value, fields[name])
    return found


def _typed(value: Any, kind: DataType) -> Any:
    match kind:
        case StructType():
            return _object(value, kind)
        case BooleanType():
            return _of(value, bool)
        case StringType():
            return _written_text(value)
        case ArrayType():
            if not isinstance(value, list):
                raise NoneOfItError
            return [None if each is None else _typed(each, kind.elementType) for each in value]
        case MapType():
            return _map(value, kind)
        case FloatType():
            return struct.unpack("<f", struct.pack("<f", _finite(_number(value))))[0]
        case DoubleType():
            return _finite(_number(value))
        case DecimalType():
            number = Decimal(_number(value))
            _, digits, exponent = number.as_tuple()
            whole = len(digits) + int(exponent)
            if -int(exponent) > kind.scale or whole > kind.precision - kind.scale:
                raise NoneOfItError
            return number
        case TimestampType():
            return _moment(_text(value))
        case TimestampNTZType():
            return _local(_text(value))
        case DateType():
            if not re.fullmatch(r"\d{4}-\d\d-\d\d", _text(value)):
                raise NoneOfItError
            return date.fromisoformat(value)
    number = int(_number(value))  # raises for what has a point
    if not -(1 << (BITS[type(kind)] - 1)) <= number < 1 << (BITS[type(kind)] - 1):
        raise NoneOfItError
    return number


def _of(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise NoneOfItError
    return value


def _text(value: Any) -> str:
    text: str = _of(value, str)
    text.encode()  # raises for half of a pair
    return text


def _written_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        raise UnknownError
    return str(value) if isinstance(value, Number) else _text(value)


def _map(pairs: Any, kind: MapType) -> list[tuple[str, Any]]:
    if not isinstance(pairs, tuple):
        raise NoneOfItError
    if len(dict(pairs)) < len(pairs):
        raise NoneOfItError
    return [(_text(key), None if value is None else _typed(value, kind.valueType))
            for key, value in pairs]  # fmt: skip


def _finite(number: Number) -> float:
    found = float(number)
    if math.isinf(found) or (found == 0 and Decimal(number) != 0):
        raise NoneOfItError
    return found


def _number(value: Any) -> Number:
    number: Number = _of(value, Number)
    return number


def _local(text: str) -> datetime:
    found = LOCAL.fullmatch(text)
    if found is None:
        raise NoneOfItError
    micros = int((found[2] or "0").ljust(6, "0"))
    return datetime.fromisoformat(found[1]).replace(microsecond=micros)


def _moment(text: str) -> datetime:
    found = ZONE.fullmatch(text)
    if found is None:
        raise NoneOfItError
    moment = datetime.fromisoformat(found[1])
    zone = UTC
    if found[3]:
        sign = -1 if found[3] == "-" else 1
        if int(found[5]) > 59:
            raise NoneOfItError
        offset = sign * timedelta(hours=int(found[4]), minutes=int(found[5]))
        zone = timezone(offset)
    micros = int((found[2] or "0").ljust(6, "0"))
    return moment.replace(microsecond=micros, tzinfo=zone).astimezone(UTC)


TEXTS = (
    "",
    "a",
    "Ünïcode",
    'quote"back\\slash/',
    "tab\tnew\nline",
    "😀 \u0001\u007f",
    "}{][,:",
    "NaN",
)
PIECES = (
    b"}", b"{", b",", b":", b'"', b"\\", b"\\u12", b"\\ud800", b"\\udc00", b"0", b"-", b".", b"e9",
    b"NaN", b"-Infinity", b"null", b" ", b"\n", b"\t", b"\x00", b"\x80", b"\xed\xa0\x80",
    b"\xc0\xaf", b"[", b"]", b"'", b"1", b"true", b"/**/", b'"id":1,', b"\xef\xbb\xbf", b"\\q",
    b"+1", b"01",
)  # fmt: skip


def document(random: Random, schema: StructType = SCHEMA) -> bytes:
    """One that is good for the schema, in one of the ways in which it can be written."""
    pairs = [(name, value) for name, value in _pairs(random, schema) if random.random() < 0.9]
    if random.random() < 0.3:
        random.shuffle(pairs)
    tight = random.random() < 0.6
    comma, colon = (",", ":") if tight else (random.choice([", ", ",", "\n  ,"]), ": ")
    is_ascii = random.random() < 0.5
    text = _written(pairs or Number("{}"), comma, colon, is_ascii=is_ascii)
    return text.encode()


def _written(value: Any, comma: str, colon: str, *, is_ascii: bool) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list) and not (value and isinstance(value[0], tuple)):
        items = (_written(each, comma, colon, is_ascii=is_ascii) for each in value)
        return "[" + comma.join(items) + "]"
    if isinstance(value, list):
        members = (
            # The kernel leaves a name with an escape to the decoder in Python.
            json.dumps(name, ensure_ascii=False)
            + colon
            + _written(inner, comma, colon, is_ascii=is_ascii)
            for name, inner in value
        )
        return "{" + comma.join(members) + "}"
    return json.dumps(value, ensure_ascii=is_ascii)


def _pairs(random: Random, schema: StructType) -> list[tuple[str, Any]]:
    pairs = []
    for field in schema.fields:
        value = None if random.random() < 0.1 else _value(random, field.dataType)
        pairs.append((field.name, value))
        if random.random() < 0.1:
            other = random.choice(
                [1, 2.5, "x", None, True, [], [1, {"id": [2]}], {"id": 3, "n": []}]
            )
            pairs.append((random.choice(["other", "ID", "i", "idd", ""]), other))
    return pairs


def _value(random: Random, kind: DataType) -> Any:
    match kind:
        case StructType():
            return _pairs(random, kind)
        case BooleanType():
            return random.random() < 0.5
        case StringType():
            return random.choice(TEXTS) * random.randrange(3)
        case ArrayType():
            return [_item(random, kind.elementType) for _ in range(random.randrange(4))]
        case MapType():
            names = random.sample(["a", "b", "é", "", "c d"], random.randrange(4))
            return [(name, _item(random, kind.valueType)) for name in names] or Number("{}")
        case FloatType():
            return Number(repr(random.uniform(-180, 180)))
        case DoubleType():
            return _double(random)
        case DecimalType():
            text = f"{random.randrange(-(10**6), 10**6)}.{random.randrange(1000):03}"
            return Number(random.choice([text, text.split(".")[0]]))
        case TimestampNTZType():
            moment = datetime(1000, 1, 2) + timedelta(days=random.randrange(3_280_000))
            return moment.isoformat() + random.choice(["", ".5", ".123456"])
        case TimestampType():
            moment = datetime(1000, 1, 2) + timedelta(days=random.randrange(3_280_000))
            text = (moment + timedelta(seconds=random.randrange(86_400))).isoformat()
            fraction = random.choice(["", ".5", ".123", ".123456"])
            return text + fraction + random.choice(["Z", "Z", "+02:00", "-17:59"])
        case DateType():
            return (date(1000, 1, 1) + timedelta(days=random.randrange(3_280_000))).isoformat()
    limit = 1 << (BITS[type(kind)] - 1)
    return random.choice([0, 1, -1, limit - 1, random.randrange(-limit + 1, limit)])


def _item(random: Random, kind: DataType) -> Any:
    return None if random.random() < 0.1 else _value(random, kind)


def _double(random: Random) -> Number:
    return Number(
        random.choice(
            [
                lambda: repr(random.uniform(-180, 180)),
                lambda: repr(random.lognormvariate(0, 60)),
                lambda: str(random.randrange(10**6)),
                lambda: random.choice(["0", "-0", "0.0", "-0.0", "-0e5"]),
                lambda: f"{random.randrange(1000)}.{random.randrange(100):02}",
                lambda: f"{random.randrange(10**9)}E{random.randrange(-40, 40)}",
                lambda: f"{random.randrange(1, 10**19)}e-{random.randrange(320)}",
            ]
        )()
    )


def damaged(random: Random, value: bytes) -> bytes:
    """One with a few bytes cut out, or something put in."""
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(value) + 1)
        gone = random.choice([0, 0, 1, 1, 2, 9])
        put = random.choice(PIECES) if random.random() < 0.7 else b""
        value = value[:at] + put + value[at + gone :]
    return value


def documents(seed: int, count: int) -> list[bytes | None]:
    """Half of them good, a quarter damaged, and some that are of another kind or nothing."""
    random = Random(seed)
    found: list[bytes | None] = []
    for _ in range(count):
        value = document(random)
        if random.random() < 0.4:
            value = damaged(random, value)
        found.append(random.choice([None, b"", b"null", b"[]", b"{}", b" {}", b"{}{}", b"{}null{}"])
                     if random.random() < 0.03 else value)  # fmt: skip
    return found
