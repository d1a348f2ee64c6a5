"""Two trees, and every place in which they differ, with a path that a reader finds again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

IDENTITY = (
    "name", "topic", "topic_name", "group_id", "transactional_id", "user", "api_key", "feature",
    "partition_index", "partition", "partition_id", "index", "resource_type", "resource_name",
    "key", "node_id", "broker_id", "principal", "operation",
)  # fmt: skip
"""Fields that identify an item of a list."""
MADE_UP = ("topic_id", "member_id", "producer_id")
"""Those that identify an item without any of the others: with an error they are empty."""
ERRORS = ("error_code", "partition_error_code")
ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place; `path` has [] for any item of a list, `place` which."""

    path: str
    place: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.place}: here {self.ours}, Apache Kafka {self.theirs}"


def differences(ours: Any, theirs: Any, path: str = "", place: str = "") -> Iterator[Difference]:
    """Every difference, in the order of the fields. Where two error codes differ the fields around
    them follow from it and are left out."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ERRORS:
            if ours.get(name) != theirs.get(name) and name in ours and name in theirs:
                ours, theirs = {name: ours[name]}, {name: theirs[name]}
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            at = f"{path}.{name}" if path else name
            where = f"{place}.{name}" if place else name
            yield from differences(ours.get(name, ABSENT), theirs.get(name, ABSENT), at, where)
    elif isinstance(ours, list) and isinstance(theirs, list):
        here, there = _by_identity(ours), _by_identity(theirs)
        for key in [*here, *(key for key in there if key not in here)]:
            at, where = f"{path}[]", f"{place}[{key}]"
            yield from differences(here.get(key, ABSENT), there.get(key, ABSENT), at, where)
    elif ours != theirs or type(ours) is not type(theirs):
        yield Difference(path=path, place=place, ours=_text(ours), theirs=_text(theirs))


def _by_identity(items: list[Any]) -> dict[str, Any]:
    """Items by their identity, or else by their place; repetitions are counted."""
    seen: Counter[str] = Counter()
    found = {}
    for at, item in enumerate(items):
        if isinstance(item, dict):
            found_in = [str(item[name]) for name in IDENTITY if item.get(name, "") != ""]
            found_in = found_in or [str(item[name]) for name in MADE_UP if name in item]
            key = ",".join(found_in) or str(at)
        else:
            key = str(item)
        seen[key] += 1
        found[key if seen[key] == 1 else f"{key} again {seen[key] - 1}"] = item
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
