"""Arrow values as JSON text that `decoder` reads back: decimals and times with all their digits."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC
from typing import Any

import pyarrow as pa

from josefine_arrow.formats.json.raw_values import is_json


def json_text(value: Any, kind: pa.DataType) -> str:
    """A Python value, as Arrow's `to_pylist` gives it, of this type.

    A DOUBLE that is no number is null, as JSON has none. A map's keys are texts.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "null"
    if is_json(kind):
        return str(value)
    if pa.types.is_struct(kind):
        members = (
            f"{_quoted(each.name)}:{json_text(value[each.name], each.type)}" for each in kind
        )
        return "{" + ",".join(members) + "}"
    if pa.types.is_map(kind):
        entries = (f"{_quoted(_text(k))}:{json_text(v, kind.item_type)}" for k, v in value)
        return "{" + ",".join(entries) + "}"
    if pa.types.is_list(kind):
        return "[" + ",".join(json_text(each, kind.value_type) for each in value) + "]"
    # Before `is_temporal`, which has these as well: only a time with a zone is written in UTC.
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _quoted(value.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    if pa.types.is_temporal(kind):
        return _quoted(value.isoformat())
    if pa.types.is_binary(kind):
        return _quoted(base64.b64encode(value).decode())
    if pa.types.is_float32(kind):
        return _shortest(value)
    if pa.types.is_decimal(kind):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


def _shortest(number: float) -> str:
    """The shortest text that is read as the same FLOAT."""
    import numpy as np

    return repr(float(str(np.float32(number))))
