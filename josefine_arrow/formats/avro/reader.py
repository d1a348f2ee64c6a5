"""Avro reader: decodes binary data by the writer schema and resolves it to the reader schema.

Source: Apache Avro 1.12 specification, "Binary encoding" and "Schema Resolution". Strict: a record
is good only if all its bytes are used. `reader_of` compiles one function for a pair of schemas, so
that no schema is looked up per record.

Values: a record is a dict, a map is a list of pairs; primitives.py has the primitive types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from josefine_arrow.formats.avro.primitives import AvroError, Read, long_at, plain, subject, texts
from josefine_arrow.formats.avro.schema import Field, Type, bare
from josefine_arrow.formats.avro.writer import encoded


class OtherTypeError(AvroError):
    """A record is of another type than the reader's."""


def reader_of(writer: Type, reader: Type, *, by_name: bool = False) -> Callable[[bytes], Any]:
    """The function that reads whole records. Raises AvroError if the schemas do not match.

    `by_name`: records of another full name raise OtherTypeError, also as a branch of a union.
    Without it names do not count, as a reader schema without a namespace is common.
    """
    if not by_name:
        read = _compiled(writer, reader, "")
    elif writer.kind == "union":
        read = _of_branches(writer, [_or_other(each, reader) for each in writer.branches], "")
    else:
        read = _by_name(writer, reader)

    def whole(data: bytes) -> Any:
        try:
            value, end = read(data, 0)
        except (IndexError, struct.error) as error:
            raise AvroError("the bytes end within the record") from error
        if end != len(data):
            raise AvroError(f"the record ends at byte {end} of {len(data)}")
        return value

    return whole


def _compiled(writer: Type, reader: Type, path: str) -> Read:
    if writer.kind == "union":
        return _of_written_union(writer, reader, path)
    if reader.kind == "union":
        return _compiled(writer, fitting_branch(writer, reader, path), path)
    if not fits(writer, reader):
        raise AvroError(f"{subject(path)} was written as {_named(writer)}, not {_named(reader)}")
    match reader.kind:
        case "record":
            return _of_record(writer, reader, path)
        case "array":
            assert writer.items is not None
            assert reader.items is not None
            return _of_array(_compiled(writer.items, reader.items, f"{path}[]"), path)
        case "map":
            assert writer.items is not None
            assert reader.items is not None
            return _of_map(_compiled(writer.items, reader.items, f"{path}[]"), path)
        case "enum":
            return _of_enum(writer, reader, path)
    return plain(writer, reader, path)


_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Written kind → the other kinds that it can be promoted to."""


def fits(writer: Type, reader: Type) -> bool:
    """Whether one kind can be read as the other; nested types are not compared."""
    if writer.kind != reader.kind and reader.kind not in _PROMOTED.get(writer.kind, ()):
        return False
    if writer.kind == "fixed" and writer.size != reader.size:
        return False
    if "decimal" in (writer.logical, reader.logical) and writer.kind != reader.kind:
        return False
    if writer.logical and reader.logical and not _alike(writer.logical, reader.logical):
        return False
    return {writer.logical, reader.logical} != {"decimal"} or writer.scale == reader.scale


def _alike(writer: str, reader: str) -> bool:
    """Whether one logical type can be read as the other: timestamps have two units."""
    return writer.partition("-m")[0] == reader.partition("-m")[0]


def fitting_branch(writer: Type, union: Type, path: str) -> Type:
    """The type of a union that a type is read as. Raises AvroError."""
    same = [each for each in union.branches if each.kind == writer.kind]
    namesakes = [each for each in same if each.name == writer.name]
    for each in (*namesakes, *same, *union.branches):
        if fits(writer, each):
            return each
    raise AvroError(f"{subject(path)} was written as {_named(writer)}, not {_named(union)}")


def _of_written_union(writer: Type, reader: Type, path: str) -> Read:
    return _of_branches(writer, [_or_refused(each, reader, path) for each in writer.branches], path)


def _of_branches(writer: Type, branches: Sequence[Read], path: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = long_at(data, at)
        if not 0 <= index < len(branches):
            raise AvroError(f"{subject(path)}: no type {index} in a union of {len(branches)}")
        return branches[index](data, at)

    return read


def _or_refused(writer: Type, reader: Type, path: str) -> Read:
    """A branch that the reader does not accept is an error only in a record that uses it."""
    try:
        return _compiled(writer, reader, path)
    except AvroError as error:
        return _refusing(AvroError, str(error))


def _by_name(writer: Type, reader: Type) -> Read:
    if writer.kind == "record" and writer.name == reader.name:
        return _compiled(writer, reader, "")
    return _refusing(OtherTypeError, f"a {writer.name or writer.kind}, expected a {reader.name}")


def _or_other(writer: Type, reader: Type) -> Read:
    try:
        return _by_name(writer, reader)
    except AvroError as error:
        return _refusing(AvroError, str(error))


def _refusing(kind: type[AvroError], message: str) -> Read:
    def refuse(data: bytes, at: int) -> tuple[Any, int]:
        raise kind(message)

    return refuse


def _of_record(writer: Type, reader: Type, path: str) -> Read:
    wanted = {name: each for each in reader.fields for name in (*each.aliases, each.name)}
    steps: list[tuple[str | None, Read]] = []
    found: set[str] = set()
    for each in writer.fields:
        target = wanted.get(each.name)
        below = f"{path}.{each.name}" if path else each.name
        if target is None or target.name in found:
            steps.append((None, _compiled(each.type, each.type, below)))
        else:
            found.add(target.name)
            steps.append((target.name, _compiled(each.type, target.type, below)))
    defaults = {
        each.name: default_of(each, f"{path}.{each.name}" if path else each.name)
        for each in reader.fields
        if each.name not in found
    }

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = dict(defaults)
        for name, step in steps:
            value, at = step(data, at)
            if name is not None:
                values[name] = value
        return values, at

    return read


def default_of(each: Field, path: str) -> Any:
    """The value of a field that was not written. Raises AvroError without a default."""
    if not each.has_default:
        raise AvroError(f"field `{path}` was not written and has no default")
    # A union's default is a value of its first type (since Avro 1.12 of any type).
    said = bare(each.type)
    try:
        data = encoded(said, each.default, path)
    except ValueError as error:
        raise AvroError(f"the default of field `{path}`: {error}") from error
    return _compiled(said, each.type, path)(data, 0)[0]


def _blocks(data: bytes, at: int, path: str) -> tuple[int, int]:
    """(number of items in the next block, start of the first item) of an array or map."""
    count, at = long_at(data, at)
    if count < 0:
        count = -count
        _, at = long_at(data, at)
    if count > len(data):
        raise AvroError(f"{subject(path)}: {count} items in a record of {len(data)} bytes")
    return count, at


def _of_array(item: Read, path: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        values: list[Any] = []
        count, at = _blocks(data, at, path)
        while count:
            for _ in range(count):
                value, at = item(data, at)
                values.append(value)
            count, at = _blocks(data, at, path)
        return values, at

    return read


def _of_map(item: Read, path: str) -> Read:
    text = texts(path)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        count, at = _blocks(data, at, path)
        while count:
            for _ in range(count):
                key, at = text(data, at)
                values[key], at = item(data, at)
            count, at = _blocks(data, at, path)
        return list(values.items()), at

    return read


def _of_enum(writer: Type, reader: Type, path: str) -> Read:
    symbols = [s if s in reader.symbols else reader.default for s in writer.symbols]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = long_at(data, at)
        if not 0 <= index < len(symbols):
            raise AvroError(f"{subject(path)}: no symbol {index} of {len(symbols)}")
        symbol = symbols[index]
        if symbol is None:
            raise AvroError(f"{subject(path)}: {writer.symbols[index]} is not one of the symbols")
        return symbol, at

    return read


def _named(kind: Type) -> str:
    if kind.kind == "union":
        return f"a union of {', '.join(each.kind for each in kind.branches)}"
    return " ".join(each for each in (kind.kind, kind.name, kind.logical) if each)
