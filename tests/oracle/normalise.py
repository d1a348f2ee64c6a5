"""Answers without what two brokers cannot have in common: ids, ports, times, epochs, texts, order.

What is left must be equal, or has its row in differences.py. Lists are compared as sets with
repetitions: Kafka answers in the order of its hash maps.
"""

from __future__ import annotations

import re
from typing import Any

from tests.oracle.compare import IDENTITY, MADE_UP
from tests.oracle.pools import Names
from tests.oracle.records import batches
from tests.oracle.shapes import ZERO_ID, Tree
from tests.oracle.symbols import NUMBERED, Learned

DROPPED = {
    "throttle_time_ms", "error_message", "batch_index_error_message", "cluster_id",
    "finalized_features_epoch",
}  # fmt: skip
"""Durations, texts, the cluster: no client decides by them."""

MASKED = {
    "port": "port",
    "leader_epoch": "epoch",
    "epoch": "epoch",
    "end_offset_epoch": "epoch",
    "log_append_time_ms": "time",
    "transaction_start_time_ms": "time",
    "last_timestamp": "time",
    "last_fetch_timestamp": "time",
    "last_caught_up_timestamp": "time",
    "coordinator_epoch": "epoch",
    "total_bytes": "bytes",
    "usable_bytes": "bytes",
    "replica_directory_id": "directory",
    "log_dir": "directory",
    "documentation": "text",
}
"""Values of the broker's own: only whether there is one is compared."""

OF_ONE_API = {
    "DescribeQuorum": {"high_watermark": "offset", "log_end_offset": "offset"},
    "DescribeLogDirs": {"partition_size": "bytes"},
}
NAMES = ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "user")
FOREIGN = re.compile(r"^e\d+-")
IDENTIFIED = {*IDENTITY, *MADE_UP, "entity", "entity_type", "mechanism"}
NO_ANSWER = frozenset({"connection", "malformed", "answer"})
"""Keys of what side.py returns instead of a response."""
ALL_OF_ALL = ("ListGroups", "ListTransactions")
"""Answers with everything that there is: of other episodes too, under any name."""


def normalise(api: str, tree: Tree, learned: Learned, names: Names) -> Tree:
    """A tree that equals the other side's where both brokers do the same."""
    if tree.keys() & NO_ANSWER:
        return tree
    plain = _plain(api, tree, learned, names)
    renamed: Tree = _renamed(plain, learned)
    return renamed


def _plain(api: str, value: Any, learned: Learned, names: Names) -> Any:
    """Everything but the ids; lists sorted."""
    if isinstance(value, dict):
        found = {}
        for name, each in value.items():
            if name in DROPPED:
                continue
            masked = OF_ONE_API.get(api, {}).get(name) or MASKED.get(name)
            if masked and each not in (None, -1, "", ZERO_ID):
                found[name] = masked
            elif name == "records":
                found[name] = _plain(api, batches(each), learned, names)
            elif isinstance(each, bytes):
                found[name] = each.hex()
            else:
                found[name] = _plain(api, each, learned, names)
        return found
    if isinstance(value, list):
        ours = [each for each in value if _is_ours(each, names, only=api in ALL_OF_ALL)]
        items = [_plain(api, each, learned, names) for each in ours]
        if _is_in_order(items) or _answers_by_place(items):
            return items
        return sorted(_merged(items), key=lambda e: _order(e, learned))
    return value


def _merged(items: list[Any]) -> list[Any]:
    """Repetitions removed: a topic that a request names twice is one item in some of Kafka's
    answers and two in others, with the same partitions."""
    found: list[Any] = []
    for item in items:
        if not isinstance(item, dict):
            found.append(item)
            continue
        lists = {name for name, each in item.items() if isinstance(each, list)}
        same = [
            other
            for other in found
            if other.keys() == item.keys()
            and all(other[name] == item[name] for name in item if name not in lists)
        ]
        if not same or len(lists) > 1:
            if item not in found:
                found.append(item)
            continue
        for name in lists:
            same[0][name] = _merged([*same[0][name], *item[name]])
    return found


def _is_in_order(items: list[Any]) -> bool:
    """Record batches are."""
    return (
        bool(items)
        and isinstance(items[0], dict)
        and "base_offset" in items[0]
        and ("magic" in items[0])
    )


def _answers_by_place(items: list[Any]) -> bool:
    """Items that nothing identifies: the first is for the first item of the request."""
    return all(isinstance(item, dict) and not item.keys() & IDENTIFIED for item in items)


def _is_ours(item: Any, names: Names, *, only: bool) -> bool:
    """Not of another episode's; entities of quotas are a list of their own."""
    if isinstance(item, str):
        found = [item]
    elif isinstance(item, dict):
        found = [item[name] for name in NAMES if isinstance(item.get(name), str)]
        found += [each.get("entity_name") or "" for each in item.get("entity") or ()]
    else:
        found = []
    if only and isinstance(item, dict):
        return any(each.startswith(names.prefix) for each in found)
    return not any(FOREIGN.match(each) and not each.startswith(names.prefix) for each in found)


def _order(item: Any, learned: Learned) -> str:
    """To sort by: ids that have no number yet do not count."""
    if not isinstance(item, dict):
        return repr(item)
    parts = []
    for name, value in item.items():
        if name in NUMBERED and not isinstance(value, list | dict):
            value = learned.known_name(name, value)
        elif isinstance(value, list):
            value = [_order(each, learned) for each in value]
        elif isinstance(value, dict):
            value = _order(value, learned)
        parts.append(f"{name}={value!r}")
    return ",".join(parts)


def _renamed(value: Any, learned: Learned) -> Any:
    if isinstance(value, dict):
        return {
            name: learned.name(name, each)
            if name in NUMBERED and not isinstance(each, list | dict)
            else _renamed(each, learned)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_renamed(each, learned) for each in value]
    return value
