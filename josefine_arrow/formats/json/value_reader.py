"""The Python twin of the kernels: one JSON value to a Python value of the schema, or the reason.

It accepts every value that converts back to what was sent, and no other: a date to its text, a
number to an equal decimal (DOUBLE and FLOAT: to the nearest finite one), a text to its characters.
The kernels decode a part of the same values with the same result; this module decides the rest, and
is their oracle. No clock, no session: what a text means depends on the options alone.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from josefine_arrow.formats.byte_order_mark import EncodingError, text_of
from josefine_arrow.formats.json.grammar import (
    JsonError,
    Number,
    Repeated,
    parse,
    repeated_key,
)
from josefine_arrow.formats.json.options import (
    EPOCH_MILLIS,
    EPOCH_SECONDS,
    GROUPED,
    ROUNDED,
    JsonOptions,
)
from josefine_arrow.formats.json.raw_values import Raw, is_json, parse_raw
from josefine_arrow.schema.names import sql_name
from josefine_arrow.schema.times import NoSuchTimeError, days_of, local_micros_of, micros_of

MISFIT = "does not fit the schema: "
NO_OBJECT = "JSON, but not an object"
NO_TIME = "is no date with a time of at most six decimal places"

_TWICE, _ASTRAY = "twice", "in another letter case"
"""What can be wrong with a key."""
_HALF_PAIR = "has half a surrogate pair"

_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?")
_UNIT = {EPOCH_SECONDS: 1_000_000, EPOCH_MILLIS: 1_000}
_MICROS_MAX = 1 << 63

Read = Callable[[Any], Any]
"""A parsed value that is not null, to a value that pyarrow stores in the type. Raises Misfit."""


class MisfitError(Exception):
    """Values that do not fit: `parts` has (path below this value, what is wrong)."""

    def __init__(self, *parts: tuple[str, str]) -> None:
        super().__init__(parts)
        self.parts = parts


class ObjectReader:
    """Reads objects of one struct type. Without state of single values."""

    def __init__(self, kind: pa.StructType, options: JsonOptions) -> None:
        self._kind = kind
        self._read = reader_of(kind, options)
        self._has_json = _holds_json(kind)

    def read(self, data: bytes) -> tuple[dict[str, Any] | None, str | None]:
        """(object, None), or (None, the reason)."""
        try:
            text = text_of(data)
            value = parse(text)
            if not isinstance(value, dict):
                return None, NO_OBJECT
            return self._object(text, value), None
        except (EncodingError, JsonError) as error:
            return None, str(error)
        except MisfitError as error:
            return None, MISFIT + ", ".join(_told(path[1:], what) for path, what in error.parts)

    def _object(self, text: str, value: dict[str, Any]) -> dict[str, Any]:
        if self._has_json:
            _check_json(value, self._kind)
            value = parse_raw(text, self._kind)
        try:
            found: dict[str, Any] = self._read(value)
        except _NeedsTextError:
            found = self._read(parse_raw(text, self._kind))
        return found


def _told(path: str, what: str) -> str:
    return f"key {path} {what}" if what in (_TWICE, _ASTRAY) else f"{path} {what}"


class _NeedsTextError(Exception):
    """An array or object is in the place of a string: its text is needed."""


def reader_of(kind: pa.DataType, options: JsonOptions) -> Read:
    """The reader of a type: struct, list, map with string keys, and the scalars of `sql_name`."""
    if pa.types.is_struct(kind):
        return _struct(kind, options)
    if pa.types.is_map(kind):
        return _map(reader_of(kind.item_type, options), sql_name(kind))
    if pa.types.is_list(kind):
        return _list(reader_of(kind.value_type, options), sql_name(kind))
    name = sql_name(kind)
    if pa.types.is_string(kind):
        return _string
    if is_json(kind):
        return str
    if pa.types.is_boolean(kind):
        return _typed(name, lambda value: value if isinstance(value, bool) else None)
    if pa.types.is_signed_integer(kind):
        return _integer(name, kind.bit_width)
    if pa.types.is_floating(kind):
        return _floating(name, is_single=kind.bit_width == 32)
    if pa.types.is_decimal(kind):
        return _decimal(name, kind.precision, kind.scale, options.accept)
    if pa.types.is_date32(kind):
        return _date
    if pa.types.is_timestamp(kind):
        return _local_time if kind.tz is None else _time(options)
    if pa.types.is_binary(kind):
        return _typed(name, _base64)
    return _typed(name, lambda value: None)


def _struct(kind: pa.StructType, options: JsonOptions) -> Read:
    fields = [(each.name, reader_of(each.type, options)) for each in kind]
    own = {name for name, _ in fields}
    lower = {name.lower() for name in own}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(("", sql_name(kind)))
        wrong: list[tuple[str, str]] = []
        if isinstance(value, Repeated):
            # A key that is no column may be there as often as it likes: it is ignored.
            twice = next((key for key in value.keys_twice if key in own), None)
            if twice is not None:
                wrong.append((f".{twice}", _TWICE))
        if options.strict:
            astray = (key for key in value if key not in own and key.lower() in lower)
            wrong += [(f".{key}", _ASTRAY) for key in astray]
        found = {}
        for name, inner in fields:
            given = value.get(name)
            if given is None:
                continue
            try:
                found[name] = inner(given)
            except MisfitError as error:
                wrong += [(f".{name}{path}", what) for path, what in error.parts]
        if wrong:
            raise MisfitError(*wrong)
        return found

    return read


def _list(inner: Read, name: str) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise MisfitError(("", name))
        return [None if each is None else _below("[]", inner, each) for each in value]

    return read


def _map(inner: Read, name: str) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(("", name))
        if isinstance(value, Repeated):
            raise MisfitError((f".{value.keys_twice[0]}", _TWICE))
        return [
            (_string(key), None if each is None else _below("[]", inner, each))
            for key, each in value.items()
        ]

    return read


def _below(path: str, inner: Read, value: Any) -> Any:
    try:
        return inner(value)
    except MisfitError as error:
        parts = ((f"{path}{below}", what) for below, what in error.parts)
        raise MisfitError(*parts) from None


def _typed(name: str, read: Callable[[Any], Any]) -> Read:
    """A reader that gives None where the value does not fit."""

    def checked(value: Any) -> Any:
        found = read(value)
        if found is None:
            raise MisfitError(("", name))
        return found

    return checked


def _string(value: Any) -> str:
    """A text, or another value exactly as it was written."""
    if isinstance(value, str):
        if not value.isascii() and _has_half_pair(value):
            raise MisfitError(("", f"STRING {_HALF_PAIR}"))
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    raise _NeedsTextError


def _has_half_pair(text: str) -> bool:
    """Whether a text cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _integer(name: str, bits: int) -> Read:
    limit = 1 << (bits - 1)

    def read(value: Any) -> Any:
        # 20 characters hold every 64-bit integer; int() has a limit of its own, far above.
        if isinstance(value, Number) and len(value) <= 20 and value.lstrip("-").isdigit():
            number = int(value)
            if -limit <= number < limit:
                return number
        return None

    return _typed(name, read)


def _floating(name: str, *, is_single: bool) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, Number):
            raise MisfitError(("", name))
        number = float(value)
        if is_single and math.isfinite(number):
            try:
                number = struct.unpack("<f", struct.pack("<f", number))[0]
            except OverflowError:
                number = math.inf
        if not math.isfinite(number) or (number == 0 and not _is_zero(value)):
            raise MisfitError(("", f"{name} is out of range"))
        return number

    return read


def _is_zero(text: str) -> bool:
    digits = text.lower().partition("e")[0]
    return not digits.strip("+-0.")


def _decimal(name: str, precision: int, scale: int, accept: frozenset[str]) -> Read:
    whole_digits = precision - scale

    def read(value: Any) -> Any:
        text = value
        if not isinstance(value, str) or isinstance(value, Raw):
            raise MisfitError(("", name))
        if "," in value and not isinstance(value, Number):
            if GROUPED not in accept or _GROUPED.fullmatch(value) is None:
                raise MisfitError(("", f"{name} has a comma"))
            text = value.replace(",", "")
        if _DECIMAL.fullmatch(text) is None:
            raise MisfitError(("", name))
        number = Decimal(text)
        if not number:
            return Decimal(0)
        # By the exponents first: writing out 1e999999999 would need the memory.
        if number.adjusted() >= whole_digits:
            raise MisfitError(("", name))
        sign, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        if exponent >= -scale:
            return number
        dropped = -scale - exponent
        if not any(digits[len(digits) - min(dropped, len(digits)) :]):
            kept = digits[: len(digits) - dropped] or (0,)
            return Decimal((sign, kept, -scale))
        if ROUNDED not in accept:
            raise MisfitError(("", f"{name} would be rounded"))
        return _rounded(sign, digits, dropped, name, precision, scale)

    return read


def _rounded(
    sign: int, digits: tuple[int, ...], dropped: int, name: str, precision: int, scale: int
) -> Decimal:
    """Without its last digits, half up: away from zero."""
    kept = digits[: max(0, len(digits) - dropped)]
    whole = int("".join(map(str, kept)) or "0")
    at = len(digits) - dropped
    whole += 1 if at >= 0 and digits[at] >= 5 else 0
    if whole >= 10**precision:
        raise MisfitError(("", name))
    return Decimal(whole).scaleb(-scale) * (-1 if sign else 1)


def _date(value: Any) -> int:
    days = days_of(value) if _is_text(value) else None
    if days is None:
        raise MisfitError(("", "DATE is not YYYY-MM-DD"))
    return days


def _local_time(value: Any) -> int:
    micros = local_micros_of(value) if _is_text(value) else None
    if micros is None:
        raise MisfitError(("", f"TIMESTAMP_NTZ {NO_TIME}"))
    return micros


def _time(options: JsonOptions) -> Read:
    unit = next((_UNIT[name] for name in _UNIT if name in options.accept), None)

    def read(value: Any) -> int:
        if isinstance(value, Number):
            return _of_epoch(value, unit)
        try:
            micros = micros_of(value, options.time_zone) if _is_text(value) else None
        except NoSuchTimeError as error:
            raise MisfitError(("", f"TIMESTAMP {error}")) from error
        if micros is None:
            raise MisfitError(("", f"TIMESTAMP {NO_TIME}"))
        return micros

    return read


def _of_epoch(value: Number, unit: int | None) -> int:
    if unit is None:
        raise MisfitError(("", "TIMESTAMP is a number"))
    number = Decimal(value)
    if number and not -9 < number.adjusted() < 19:
        raise MisfitError(("", "TIMESTAMP is out of range"))
    micros = number * unit
    if micros != micros.to_integral_value():
        raise MisfitError(("", f"TIMESTAMP {NO_TIME}"))
    if not -_MICROS_MAX <= micros < _MICROS_MAX:
        raise MisfitError(("", "TIMESTAMP is out of range"))
    return int(micros)


def _base64(value: Any) -> bytes | None:
    if not _is_text(value):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_text(value: Any) -> bool:
    """Whether this is the value of a JSON string."""
    return isinstance(value, str) and not isinstance(value, (Number, Raw))


def _holds_json(kind: pa.DataType) -> bool:
    if is_json(kind):
        return True
    if pa.types.is_map(kind):
        return _holds_json(kind.item_type)
    if pa.types.is_list(kind):
        return _holds_json(kind.value_type)
    return pa.types.is_struct(kind) and any(_holds_json(each.type) for each in kind)


def _check_json(value: Any, kind: pa.DataType, path: str = "") -> None:
    """Refuse what a VARIANT would not keep as it was sent."""
    if value is None:
        return
    if is_json(kind):
        twice = repeated_key(value)
        if twice is not None:
            raise MisfitError((f"{path}{twice}", _TWICE))
        wrong = _changed(value)
        if wrong is not None:
            raise MisfitError((path, f"VARIANT {wrong}"))
    elif pa.types.is_struct(kind) and isinstance(value, dict):
        for each in kind:
            _check_json(value.get(each.name), each.type, f"{path}.{each.name}")
    elif pa.types.is_map(kind) and isinstance(value, dict):
        for below in value.values():
            _check_json(below, kind.item_type, f"{path}[]")
    elif pa.types.is_list(kind) and isinstance(value, list):
        for below in value:
            _check_json(below, kind.value_type, f"{path}[]")


_PLAIN_DIGITS_MAX = 38


def _changed(value: Any) -> str | None:
    """Why a variant would not keep a value: it has decimals of 38 digits, then doubles."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Number):
            is_plain = "e" not in each.lower() and len(each.lstrip("-")) <= _PLAIN_DIGITS_MAX
            if not is_plain and not _is_double(each):
                number = each if len(each) <= 40 else f"{each[:37]}..."
                return f"would change the number {number}"
        elif isinstance(each, str):
            if not each.isascii() and _has_half_pair(each):
                return _HALF_PAIR
        elif isinstance(each, dict):
            pending.extend(each.values())
            pending.extend(each)
        elif isinstance(each, list):
            pending.extend(each)
    return None


def _is_double(text: str) -> bool:
    number = float(text)
    return math.isfinite(number) and Decimal(repr(number)) == Decimal(text)
