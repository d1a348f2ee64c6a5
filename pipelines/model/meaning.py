"""The meaning of a sink's rows: all that decides which rows its table gets. Pure.

Two files with equal meanings write equal rows from equal records. Comments and layout of the file,
limits, retries and maintenance have no part in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from pipelines.model.pipeline import Placed, Source
from pipelines.model.plan import PipelinePlan

_OF_SOURCE = (
    "bootstrap", "topics", "pattern", "assigned", "committed_only", "headers", "decode",
    "decode_key", "local",
)  # fmt: skip
_OF_SINK = (
    "type", "path", "table", "mode", "keys", "aggregates", "latest", "deduplicate", "on_error",
    "constraints", "partition_by", "tombstone_when",
)  # fmt: skip
_OF_TRANSFORM = ("inputs", "said", "function", "watermarks", "state")
_PLACES = ("place", "places")


def meaning_of(plan: PipelinePlan, sink: str) -> dict[str, Any]:
    """The meaning by its parts, as JSON: sources, transforms, checks, lookups, sink."""
    of = plan.sinks[sink]
    named = {name for each in of.transforms for name in each.inputs}
    # Without their rows, which a run reads.
    tables = plan.pipeline.with_rows({}).lookups
    lookups = {name: each for name, each in tables.items() if name in named}
    return {
        "sources": {each.name: _some(each, _OF_SOURCE) for each in of.sources},
        "transforms": {each.name: _some(each, _OF_TRANSFORM) for each in of.transforms},
        "checks": {each.name: _some(each, ("on", "expr", "action")) for each in of.checks},
        "lookups": {name: _plain(each) for name, each in sorted(lookups.items())},
        "sink": _some(of.sink, _OF_SINK),
        "dead_letters": plan.pipeline.dead_letters if of.lettered else None,
    }


def fingerprint(plan: PipelinePlan, sink: str) -> str:
    """A short digest of a sink's meaning."""
    return digest(meaning_of(plan, sink))


def digest(value: Any) -> str:
    """A short digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def start_text(source: Source) -> str:
    """Where a source starts without recorded offsets."""
    return f"{source.start.option} {source.start.text}"


def _some(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    """The value as JSON, without places in the file and without the spelling of its texts."""
    if isinstance(value, Placed):
        return " ".join(value.bound.split())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if is_dataclass(value):
        known = (f.name for f in fields(value) if not f.name.endswith(_PLACES))
        return {name: _plain(getattr(value, name)) for name in known}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in sorted(value.items(), key=str)}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(_plain(each)) for each in value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
