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


def _records() -> Json:
    rows = [
        {"partition": n % 3, "offset": 40 + n, "time": f"2026-09-21T14:13:{20 - n:02}.000Z",
         "key": f"customer-{n}", "key_bytes": 10, "value_bytes": 60, "headers": [],
         "value": f'{{"id": {n}, "customer": "customer-{n}", "amount": {n * 17.5}}}'}
        for n in range(8)
    ]  # fmt: skip
    rows[2] |= {"value": None, "value_bytes": None}
    rows[3]["headers"] = [{"name": "source", "value": "shop"}]
    rows[4] |= {"value": "\0\0\0\0\7xyz", "decoded": '{"decoded": true}'}
    del rows[5]["value"]
    rows[5] |= {"value_base64": "/////w==", "undecoded": "schema 9 is unknown"}
    part = {"start": 0, "end": 50, "next": 48, "first": 40}
    return {"partitions": {"0": part, "1": part, "2": part}, "records": rows}


def _group() -> Json:
    members = [
        {"member": f"shop-{n}-77d1", "instance": None, "client": f"shop-{n}", "host": "10.0.1.7",
         "partitions": [{"topic": "orders", "partition": n}]}
        for n in range(2)
    ]  # fmt: skip
    partitions = [
        {"topic": "orders", "partition": n, "committed": 100 * n or None, "end": 100 * n + 64,
         "lag": 64 if n else None, "owner": f"shop-{n}-77d1" if n < 2 else None}
        for n in range(3)
    ]  # fmt: skip
    lags = (20, 60, 150, 90, 128)
    return {
        "group": "billing", "state": "Stable", "protocol_type": "consumer", "assignor": "range",
        "epoch": None, "coordinator": 1, "lag": 128, "members": members, "partitions": partitions,
        "history": [[NOW_MS + 5_000 * n, lag] for n, lag in enumerate(lags)],
    }  # fmt: skip


def _topic() -> Json:
    rows = [
        {"partition": n, "leader": n + 1 if n < 3 else -1, "leader_epoch": 4,
         "replicas": [1, 2, 3], "isr": [1, 2, 3][: 3 - n % 2], "size": 8_000_000 + n, "start": 0,
         "end": 1_000 * n}
        for n in range(4)
    ]  # fmt: skip
    return {"topic": "orders", "partitions": rows}


def _more() -> Json:
    configs = [
        {"name": name, "value": value, "source": source, "is_default": source == "default",
         "may_change": True, "documentation": "what it does"}
        for name, value, source in (
            ("cleanup.policy", "compact", "topic"), ("retention.ms", "604800000", "default")
        )
    ]  # fmt: skip
    producer = {"partition": 1, "producer_id": 7, "epoch": 0, "last_sequence": 41,
                "last_ms": NOW_MS, "in_transaction": True}  # fmt: skip
    group = {"group": "billing", "state": "Stable", "partitions": 3, "lag": 128}
    return {
        "configs": configs,
        "consumers": {"rows": [group], "omitted": 0},
        "producers": {"rows": [producer], "omitted": 3},
    }


def _access() -> Json:
    acl = {"principal": "User:ada", "host": "*", "permission": "allow", "operation": "read",
           "resource": "topic", "name": "orders", "pattern": "literal"}  # fmt: skip
    return {
        "acls": [acl, acl | {"permission": "deny", "operation": "write"}],
        "users": [{"user": "ada", "mechanism": "SCRAM-SHA-512", "iterations": 8192}],
        "quotas": [{"user": "", "client_id": None, "bounds": {"producer_byte_rate": 1_000_000}}],
    }


def _pipeline() -> Json:
    nodes = [
        ("source_orders", ["orders", "orders"], "source", 0),
        ("transform_paid", ["paid", "checks: positive"], "transform", 1),
        ("sink_lake", ["lake", "append: /data/lake/orders", "64 records behind"], "sink", 2),
        ("dead_letter", ["dead letters", "/data/lake/dead"], "dead letters", 2),
    ]
    sink = {
        "sink": "lake", "table": "/data/lake/orders", "behind": 64, "unit": "record",
        "lag_ms": 92_000, "version": 12, "committed_ms": NOW_MS, "batch_ms": 5_100, "rows": 940,
        "stops": "the table has less than the checkpoint committed",
        "settles": "  josefine pipeline run orders.yaml --trust table", "failed": "",
        "failed_ms": None, "unknown": "",
    }  # fmt: skip
    return {
        "pipeline": "orders_to_lake",
        "graph": {
            "nodes": [
                {"id": id_, "lines": lines, "shape": shape, "column": column}
                for id_, lines, shape, column in nodes
            ],
            "edges": [
                ["source_orders", "transform_paid"], ["transform_paid", "sink_lake"],
                ["transform_paid", "dead_letter"],
            ],
        },
        "checks": [
            {"name": "positive", "on": "paid", "expr": "amount > 0", "action": "dead letter"}
        ],
        "sinks": [sink],
        "dead_letters": {
            "table": "/data/lake/dead",
            "counts": [{"source": "orders", "reason": "amount: not a number", "count": 3}],
        },
    }  # fmt: skip


ANSWERS: dict[str, Any] = {
    "/api/pipelines": [_pipeline()],
    "/api/records": _records(),
    "/api/group": _group(),
    "/api/topic": _topic(),
    "/api/topic/more": _more(),
    "/api/access": _access(),
    "/api/timeline": _timeline(),
}
PAGES = {
    "overview": "#/", "topics": "#/topics", "topic": "#/topics/orders", "groups": "#/groups",
    "group": "#/groups/billing", "messages": "#/messages?topic=orders", "chain": "#/chain",
    "timeline": "#/timeline", "access": "#/access", "pipelines": "#/pipelines",
    "transactions": "#/transactions",
}  # fmt: skip
"""Page → its address. Changes are in tests/integration/test_dashboard_changes.py."""
