"""The page's content, computed from the brokers' answers. No I/O: values in, one JSON value out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from josefine_cli.dashboard.chain_picture import merged, picture

TOPICS_MAX = 500
"""Topics on the page, by name; the others are only counted."""
BLOCKS = 60

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The answers of the brokers, by broker id."""

    clusters: Mapping[int, Json]
    locals: Mapping[int, Json]
    chains: Mapping[int, Json]


def page_view(told: Told) -> Json:
    """Everything on the page except for messages; `error` if there is nothing to show."""
    if not told.clusters:
        return {"error": "no broker answers"}
    best = max(told.clusters.values(), key=lambda each: each["raft"]["commit"])
    return {
        "cluster_id": best["cluster_id"],
        "controller": best["controller"],
        "term": best["raft"]["term"],
        "counts": best["counts"],
        "brokers": [_broker(each, told, best) for each in best["brokers"]],
        "topics": _topics(best["partitions"], told.locals.values())[:TOPICS_MAX],
        "traffic": _traffic(told.locals),
        "topics_omitted": max(0, best["counts"]["topics"] - TOPICS_MAX),
        **_coordinated(told.locals.values()),
        "chain": picture(merged([each["blocks"] for each in told.chains.values()], BLOCKS)),
    }


def _broker(broker: Json, told: Told, best: Json) -> Json:
    id_ = broker["id"]
    own = told.clusters.get(id_)
    led = sum(each["leader"] == id_ for each in best["partitions"])
    return {
        "id": id_,
        "state": _state(broker),
        "answers": own is not None,
        "role": own["raft"]["role"] if own is not None else "",
        "height": own["raft"]["applied"] if own is not None else None,
        "endpoints": sorted(broker["endpoints"].values()),
        "rack": broker["rack"] or "",
        "led": led,
        "replicas": sum(id_ in each["replicas"] for each in best["partitions"]),
    }


def _state(broker: Json) -> str:
    if broker["shutting_down"]:
        return "leaving"
    return "fenced" if broker["fenced"] else "serving"


def _topics(partitions: Sequence[Json], locals_: Collection[Json]) -> list[Json]:
    rows: dict[str, Json] = {}
    for each in partitions:
        row = rows.setdefault(
            each["topic"],
            {"topic": each["topic"], "partitions": 0, "under_replicated": 0, "offline": 0}
            | {"size": 0, "bytes_in": 0, "bytes_out": 0, "records_in": 0},
        )
        row["partitions"] += 1
        row["under_replicated"] += each["under_replicated"]
        row["offline"] += each["leader"] < 0
    for told in locals_:
        for name, counts in told["topics"].items():
            for key, count in counts.items() if name in rows else ():
                rows[name][key] += count
    return [rows[name] for name in sorted(rows)]


def _traffic(locals_: Mapping[int, Json]) -> Json:
    """Broker id → bytes written and read since its start, over all topics, and its clock then."""
    return {
        str(id_): {
            key: sum(counts[key] for counts in told["topics"].values())
            for key in ("bytes_in", "bytes_out", "records_in")
        }
        | {"monotonic_ms": told["monotonic_ms"]}
        for id_, told in locals_.items()
    }


def _coordinated(locals_: Collection[Json]) -> Json:
    found: Json = {"groups_omitted": 0, "transactions_omitted": 0}
    for kind, key in (("groups", "group"), ("transactions", "id")):
        rows = [each | {"broker": told["broker_id"]} for told in locals_ for each in told[kind]]
        found[kind] = sorted(rows, key=itemgetter(key))
        found[f"{kind}_omitted"] = sum(told[f"{kind}_omitted"] for told in locals_)
    return found


def whole_lags(told: Told) -> list[tuple[str, int]]:
    """(group, lag) of the groups whose coordinator hosts every partition that they read: of the
    others it knows a part only."""
    return [
        (each["group"], each["lag"])
        for local in told.locals.values()
        for each in local["groups"]
        if not each["partitions_elsewhere"]
    ]


def topic_view(topic: str, clusters: Mapping[int, Json], details: Mapping[int, Json]) -> Json:
    """The partitions of one topic: from the newest image, sizes and offsets from their leaders."""
    if not clusters:
        return {"topic": topic, "partitions": []}
    best = max(clusters.values(), key=lambda each: each["raft"]["commit"])
    rows = []
    for each in best["partitions"]:
        if each["topic"] != topic:
            continue
        led = details.get(each["leader"], {}).get("partitions", {})
        known = led.get(str(each["partition"]), {})
        rows.append(
            {key: each[key] for key in ("partition", "leader", "leader_epoch", "replicas", "isr")}
            | {key: known.get(key) for key in ("size", "start", "end")}
        )
    return {"topic": topic, "partitions": rows}


PAUSE_MIN_S, PAUSE_MAX_S = 2.0, 10.0


def pause_s(cpu_s: float) -> float:
    """The pause after a poll that took this much processor time: polls take about a hundredth of
    it. How long brokers take to answer does not count, or one that stalls would freeze the page."""
    return min(PAUSE_MAX_S, max(PAUSE_MIN_S, 100 * cpu_s))
