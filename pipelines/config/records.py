"""Reader of inline records: those of a file's tests, and of a source of type memory."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from josefine_arrow.formats.avro.schema import parse, parse_record
from josefine_arrow.formats.avro.writer import UnfitError, encoded
from josefine_arrow.formats.confluent.framing import FIRST, OFFLINE, framed
from josefine_arrow.formats.protobuf import decoder as protobuf
from pipelines.config.loader import Items, Node, Scalar, Table
from pipelines.config.section import Reader
from pipelines.config.units import time_ms
from pipelines.model.pipeline import Decode
from pipelines.model.test_case import Record, json_text

_NO_BATCHES = "only a test of a file with a Python class that has a `state` knows batches"
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def record_of(
    reader: Reader,
    topic: str,
    number: int,
    value: Decode | None = None,
    key: Decode | None = None,
    *,
    has_batches: bool = False,
) -> Record:
    """One record. `topic` and `number` (its offset) are the defaults. `value`, `key`: how the
    source decodes them. `has_batches`: whether `batch` has a meaning there."""
    offset = reader.number("offset")
    batch = reader.number("batch")
    if batch is not None and not has_batches:
        reader.wrong_at("batch", _NO_BATCHES)
    elif batch == 0:
        reader.wrong_at("batch", "expected a whole number from 1 on")
    headers = reader.plain_texts("headers")
    return Record(
        key=_bytes(reader, "key", key),
        value=_bytes(reader, "value", value),
        topic=reader.text("topic") or topic,
        partition=reader.number("partition") or 0,
        offset=number if offset is None else offset,
        timestamp=datetime.fromtimestamp((time_ms(reader, "timestamp") or 0) / 1000, UTC),
        headers=tuple((name, text.encode()) for name, text in headers.items()),
        batch=batch or 1,
    )


def _bytes(reader: Reader, word: str, how: Decode | None) -> bytes | None:
    """A text unchanged, a mapping or a list as JSON, a mapping as Avro or Protobuf if the source
    decodes that; None if there is no value."""
    node = reader.table.nodes.get(word)
    if isinstance(node, Table) and how is not None and how.avro:
        try:
            data = _avro(how, plain(node))
        except UnfitError as error:
            reader.wrong_at(word, str(error))
            return None
        return framed(OFFLINE, data) if how.framed else data
    if isinstance(node, Table) and how is not None and how.message:
        try:
            data = protobuf.encoded(how.descriptors, how.message, plain(node))
            return framed(OFFLINE, FIRST + data) if how.framed else data
        except protobuf.MessageError as error:
            reader.wrong_at(word, str(error))
            return None
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    text = node.text if isinstance(node, Scalar) else json_text(exact(node))
    data = text.encode()
    is_framed = how is not None and how.framed and not isinstance(node, Scalar)
    return framed(OFFLINE, data) if is_framed else data


def _avro(how: Decode, value: Any) -> bytes:
    """A record of the schema; of a union, of its first branch that fits. Raises UnfitError."""
    try:
        return encoded(parse(how.avro), value)
    except UnfitError:
        # The error of a union names none of its branches: that of the wanted record is clearer.
        encoded(parse_record(how.avro, how.record_type), value)
        raise


def exact(node: Node) -> Any:
    """The JSON value of a YAML node, with all digits of a number: a DECIMAL may have more than a
    float."""
    if isinstance(node, Items):
        return [exact(each) for each in node.nodes]
    if isinstance(node, Table):
        return {name: exact(each) for name, each in node.nodes.items()}
    if isinstance(node.value, float) and _NUMBER.fullmatch(node.text):
        return Decimal(node.text)
    return node.value


def plain(node: Node) -> Any:
    """The JSON value of a YAML node."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(each) for each in node.nodes]
    return {name: plain(each) for name, each in node.nodes.items()}
