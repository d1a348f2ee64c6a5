"""Records that a pipeline file has in itself: in its tests, and of a source of type memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pipelines.case_model import Record
from pipelines.loader import Items, Node, Scalar
from pipelines.reader import Reader
from pipelines.units import time_ms


def record_of(reader: Reader, topic: str, number: int) -> Record:
    """One record; `topic` and `number`, its offset, where it says none."""
    key = reader.text("key") if reader.has("key") else None
    said = reader.table.nodes.get("value")
    offset = reader.number("offset")
    headers = reader.plain_texts("headers")
    return Record(
        key=key.encode() if key is not None else None,
        value=_value(said),
        topic=reader.text("topic") or topic,
        partition=reader.number("partition") or 0,
        offset=number if offset is None else offset,
        timestamp=datetime.fromtimestamp((time_ms(reader, "timestamp") or 0) / 1000, UTC),
        headers=tuple((name, text.encode()) for name, text in headers.items()),
    )


def _value(node: Node | None) -> bytes | None:
    """A text as it is, a table or a list as JSON; nothing where there is none."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    text = node.text if isinstance(node, Scalar) else json.dumps(plain(node), ensure_ascii=False)
    return text.encode()


def plain(node: Node) -> Any:
    """A value as JSON has it."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(each) for each in node.nodes]
    return {name: plain(each) for name, each in node.nodes.items()}
