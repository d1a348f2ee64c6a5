"""Answers of a cluster of three brokers, as the dashboard's server gives them to its page."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

Json = dict[str, Any]
NOW_MS = 1_790_000_000_000


def view_of(**changes: Any) -> Json:
    """What the stream of events has."""
    brokers = [
        {
            "id": id_, "state": "serving", "answers": True, "height": 41, "led": 4, "replicas": 12,
            "role": "leader" if id_ == 2 else "follower", "rack": f"rack-{id_}",
            "endpoints": [f"10.0.0.{id_}:9092"],
        }
        for id_ in (1, 2, 3)
    ]  # fmt: skip
    topics = [
        {
            "topic": name, "partitions": partitions, "under_replicated": 0, "offline": 0,
            "size": size, "bytes_in": size, "bytes_out": 2 * size, "records_in": size // 100,
        }
        for name, partitions, size in (
            ("orders", 6, 48_200_000), ("payments", 3, 9_400_000), ("clicks", 3, 711_000_000)
        )
    ]  # fmt: skip
    traffic = {"bytes_in": 0, "bytes_out": 0, "records_in": 0, "monotonic_ms": 1000}
    view = {
        "cluster_id": "Q0VgWm5rT1a", "controller": 2, "term": 3,
        "counts": {
            "brokers": 3, "live": 3, "topics": 3, "partitions": 12, "under_replicated": 0,
            "offline": 0, "reassigning": 0,
        },
        "brokers": brokers, "topics": topics, "topics_omitted": 0,
        "traffic": {"1": traffic, "2": traffic, "3": traffic},
        "groups": [
            {"group": "billing", "state": "Stable", "members": 2, "lag": 128,
             "partitions_elsewhere": 0, "broker": 1},
            {"group": "reports", "state": "Empty", "members": 0, "lag": 0,
             "partitions_elsewhere": 0, "broker": 3},
        ],
        "groups_omitted": 0,
        "transactions": [
            {"id": "ledger-7", "state": "Ongoing", "partitions": ["orders-1"], "open_ms": 4200,
             "broker": 2}
        ],
        "transactions_omitted": 0,
        "chain": _chain(),
        "recent": _timeline()[:4],
    }  # fmt: skip
    return view | changes


def _chain() -> Json:
    nodes = [
        {"id": f"{1 + (n > 6)}:{n}", "column": n - 1, "lane": 0, "what": "isr by broker 1",
         "state": "committed" if n < 14 else "open"}
        for n in range(1, 15)
    ]  # fmt: skip
    dead = [
        {"id": f"1:{n}", "column": n - 1, "lane": 1, "state": "dead", "what": "create topic lost"}
        for n in (7, 8)
    ]
    edges = [[one["id"], other["id"]] for one, other in pairwise(nodes)]
    edges += [[nodes[5]["id"], "1:7"], ["1:7", "1:8"]]
    return {"nodes": nodes + dead, "edges": edges, "columns": 14, "lanes": 2}


def _timeline() -> list[Json]:
    rows = [
        ("in sync", "isr by broker 2: orders-0 [1,2,3]", "2:14"),
        ("fencing", "controller: broker 3 unfenced", "2:13"),
        ("repair", "orders-1 at offset 4096, broker 3: repaired", ""),
        ("election", "new controller in term 2", "2:7"),
        ("topic", "create topic orders, 6 partitions x 3", "1:4"),
    ]
    return [
        {"at_ms": None if kind == "topic" else NOW_MS - 60_000 * number, "kind": kind,
         "what": what, "block": block, "dead": False}
        for number, (kind, what, block) in enumerate(rows)
    ]  # fmt: skip


ANSWERS: dict[str, Any] = {"/api/pipelines": None}
