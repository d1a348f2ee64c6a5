"""Reader of OpenTelemetry's MetricsData, as clients push it: names, attributes and numbers.

A client is not trusted: lengths are those of the bytes, and the numbers of data points and of all
fields are bounded, because this is done between the requests of other clients.
What a newer protocol adds is skipped. Of a histogram or summary the count and the sum are kept.

Source: opentelemetry/proto/metrics/v1/metrics.proto 1.0, "Encoding" of Protocol Buffers.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData

POINTS_MAX = 2_000
"""Data points of one push. A Java producer with 10 topics has some 150."""
FIELDS_MAX = 100_000
"""Fields of one push, also those that are passed over: a point of a Java client has about ten."""
TEXT_MAX = 256
"""Characters of a name, or of all attributes of a point; longer ones are cut."""

_DOUBLE, _SIGNED, _UNSIGNED = Struct("<d"), Struct("<q"), Struct("<Q")
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_RESOURCE_METRICS, _SCOPE_METRICS, _METRICS, _DATA_POINTS = 1, 2, 2, 1
_NAME, _GAUGE, _SUM, _HISTOGRAM, _EXPONENTIAL, _SUMMARY = 1, 5, 7, 9, 10, 11
_NUMBERS = (_GAUGE, _SUM)
_COUNTED: Mapping[int, int] = {_HISTOGRAM: 9, _EXPONENTIAL: 1, _SUMMARY: 7}
"""Kinds whose points have a count (field 4) and a sum (field 5), with the field of attributes."""
_NUMBER_ATTRIBUTES, _AS_DOUBLE, _AS_INT = 7, 4, 6
_COUNT, _TOTAL = 4, 5

# A Protobuf message is a sequence of fields: a varint with the field's number and wire type, then a
# varint, four or eight bytes, or a length and that many bytes. Unknown numbers are passed over.

Value = memoryview | int
Field = tuple[int, int, Value]
"""(field number, wire type, the bytes, or the number of a varint)."""


class Point(NamedTuple):
    """One number of a client. `of`: its attributes, as `topic=orders,partition=0`."""

    name: str
    of: str
    value: float


class _Bounded:
    """The fields of one push. Mutable: how many may still come."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = FIELDS_MAX

    def messages(self, data: memoryview, number: int) -> Iterator[memoryview]:
        """The bytes of each field with this number, which are messages themselves."""
        for each, _, value in self.fields(data):
            if each == number and isinstance(value, memoryview):
                yield value

    def fields(self, data: memoryview) -> Iterator[Field]:
        """The fields of a message. Raises CorruptData."""
        at = 0
        while at < len(data):
            self._left -= 1
            if self._left < 0:
                raise CorruptData(f"more than {FIELDS_MAX} fields")
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                value, at = _varint(data, at)
                yield number, wire, value
                continue
            if wire == _BYTES:
                length, at = _varint(data, at)
            elif wire in (_FIXED_64, _FIXED_32):
                length = 8 if wire == _FIXED_64 else 4
            else:
                raise CorruptData(f"no OpenTelemetry metrics: wire type {wire}")
            if length > len(data) - at:
                raise CorruptData("no OpenTelemetry metrics: a field ends after its message")
            yield number, wire, data[at : at + length]
            at += length


def points_of(data: bytes | memoryview) -> list[Point]:
    """The data points of a MetricsData, at most `POINTS_MAX`. Raises CorruptData."""
    found: list[Point] = []
    bounded = _Bounded()
    for resource in bounded.messages(memoryview(data), _RESOURCE_METRICS):
        for scope in bounded.messages(resource, _SCOPE_METRICS):
            for metric in bounded.messages(scope, _METRICS):
                found += _points(bounded, metric)
                if len(found) > POINTS_MAX:
                    raise CorruptData(f"more than {POINTS_MAX} data points")
    return found


def _points(bounded: _Bounded, metric: memoryview) -> Iterator[Point]:
    """The points of one Metric. Its name may come after its data: fields have no order."""
    name = ""
    kinds: list[tuple[int, memoryview]] = []
    for number, _, value in bounded.fields(metric):
        if isinstance(value, memoryview):
            if number == _NAME:
                name = _text(value)
            elif number in _NUMBERS or number in _COUNTED:
                kinds.append((number, value))
    for kind, body in kinds:
        for point in bounded.messages(body, _DATA_POINTS):
            if kind in _NUMBERS:
                yield from _number(bounded, name, point)
            else:
                yield from _counted(bounded, name, point, _COUNTED[kind])


def _number(bounded: _Bounded, name: str, point: memoryview) -> Iterator[Point]:
    """The value of a NumberDataPoint of a gauge or a sum; one without a value is no point."""
    value, attributes = None, []
    for number, wire, each in bounded.fields(point):
        if number == _NUMBER_ATTRIBUTES and isinstance(each, memoryview):
            attributes.append(_attribute(bounded, each))
        elif number == _AS_DOUBLE and wire == _FIXED_64:
            value = _unpacked(_DOUBLE, each)
        elif number == _AS_INT and wire == _FIXED_64:
            value = _unpacked(_SIGNED, each)
    if value is not None:
        yield Point(name, _joined(attributes), value)


def _counted(
    bounded: _Bounded, name: str, point: memoryview, attributes_at: int
) -> Iterator[Point]:
    """Count and sum of a point of a histogram or summary, as two numbers; buckets and quantiles are
    left out."""
    count, total, attributes = None, None, []
    for number, wire, each in bounded.fields(point):
        if number == attributes_at and isinstance(each, memoryview):
            attributes.append(_attribute(bounded, each))
        elif number == _COUNT and wire == _FIXED_64:
            count = _unpacked(_UNSIGNED, each)
        elif number == _TOTAL and wire == _FIXED_64:
            total = _unpacked(_DOUBLE, each)
    for suffix, value in ((".count", count), (".sum", total)):
        if value is not None:
            yield Point(name + suffix, _joined(attributes), value)


def _attribute(bounded: _Bounded, data: memoryview) -> str:
    """A KeyValue as `key=value`."""
    key, text = "", ""
    for number, _, value in bounded.fields(data):
        if number == 1 and isinstance(value, memoryview):
            key = _text(value)
        elif number == 2 and isinstance(value, memoryview):
            text = _any_value(bounded, value)
    return f"{key}={text}"


def _any_value(bounded: _Bounded, data: memoryview) -> str:
    """The text of an AnyValue: a text, boolean, integer or double; a list, map or bytes is
    empty."""
    for number, wire, value in bounded.fields(data):
        if isinstance(value, int):
            return ("false", "true")[bool(value)] if number == 2 else str(_as_int64(value))
        if number == 1:
            return _text(value)
        if number == 4 and wire == _FIXED_64:
            return repr(_unpacked(_DOUBLE, value))
    return ""


def _as_int64(value: int) -> int:
    """A varint is unsigned; a negative int64 has its highest bit set."""
    return value - (1 << 64) if value >> 63 else value


def _joined(attributes: list[str]) -> str:
    """In one order, so that a client that orders them otherwise has the same series."""
    return ",".join(sorted(attributes))[:TEXT_MAX]


def _text(data: memoryview) -> str:
    """At most `TEXT_MAX` characters; a character has at most four bytes."""
    return str(data[: 4 * TEXT_MAX], "utf-8", "replace")[:TEXT_MAX]


def _unpacked(kind: Struct, data: Value) -> float:
    assert isinstance(data, memoryview)
    value: float = kind.unpack(data)[0]
    return value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """(an unsigned number of 64 bits, the place after it). Raises CorruptData."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise CorruptData("no OpenTelemetry metrics: they end within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise CorruptData("no OpenTelemetry metrics: a number of more than 10 bytes")
