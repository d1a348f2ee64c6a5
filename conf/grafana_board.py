"""The Grafana dashboard `conf/grafana/josefine.json`, made of one table of panels."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

ROW_PANELS, WIDTH, HEIGHT = 3, 8, 8
RATE = "$__rate_interval"


class Panel(NamedTuple):
    """One graph: its queries, each with the legend of its lines."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate(josefine_{metric}_total[{RATE}]))"


def _slow(metric: str, by: str, share: float = 0.99) -> str:
    buckets = f"sum by (le, {by}) (rate(josefine_{metric}_bucket[{RATE}]))"
    return f"histogram_quantile({share}, {buckets})"


def _each(metric: str) -> tuple[tuple[str, str], ...]:
    return ((f"josefine_{metric}", "{{instance}}"),)


def _by(expression: str, label: str) -> tuple[tuple[str, str], ...]:
    return ((expression, f"{{{{{label}}}}}"),)


LATE = f"rate(josefine_loop_late_seconds_total[{RATE}]) / rate(josefine_loop_wakes_total[{RATE}])"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Is it well": (
        Panel(
            "Partitions in trouble",
            "short",
            (
                ("max(josefine_partitions_offline)", "no leader"),
                ("sum(josefine_partitions_under_min_isr)", "under min ISR"),
                ("sum(josefine_partitions_under_replicated)", "under replicated"),
                ("sum(josefine_logs_offline)", "logs offline"),
            ),
        ),
        Panel(
            "Brokers",
            "short",
            (
                ("max(josefine_brokers_registered)", "registered"),
                ("max(josefine_brokers_fenced)", "fenced"),
                ("sum(josefine_raft_is_leader)", "controllers"),
            ),
        ),
        Panel("Consumer lag", "short", _by("sum by (group) (josefine_group_lag_records)", "group")),
    ),
    "Traffic": (
        Panel("Bytes in", "Bps", _by(_rate("topic_bytes_in", "topic"), "topic")),
        Panel("Bytes out", "Bps", _by(_rate("topic_bytes_out", "topic"), "topic")),
        Panel("Records in", "cps", _by(_rate("topic_records_in", "topic"), "topic")),
    ),
    "Requests": (
        Panel("99th percentile", "s", _by(_slow("request_seconds", "api"), "api")),
        Panel("Thread at work", "percentunit", _by(_rate("request_local_seconds", "api"), "api")),
        Panel("Thread late by", "s", _by(LATE, "instance")),
    ),
    "Share groups": (
        Panel("Acquired", "cps", _by(_rate("share_records_acquired", "group"), "group")),
        Panel(
            "Acknowledged",
            "cps",
            _by(_rate("share_record_acknowledgements", "ack_type"), "ack_type"),
        ),
        Panel(
            "In flight, and lock timeouts",
            "short",
            (
                ("sum by (group) (josefine_share_records_in_flight)", "in flight {{group}}"),
                (_rate("share_lock_timeouts", "group"), "timeouts/s {{group}}"),
            ),
        ),
    ),
    "Disk": (
        Panel("Free", "bytes", _each("disk_free_bytes")),
        Panel("Topics", "bytes", _by("sum by (topic) (josefine_log_size_bytes)", "topic")),
        Panel(
            "99th percentile of syncs",
            "s",
            (
                (_slow("fsync_seconds", "instance"), "logs {{instance}}"),
                (_slow("raft_store_seconds", "instance"), "raft {{instance}}"),
            ),
        ),
    ),
    "Cluster": (
        Panel("Raft term", "short", _each("raft_term")),
        Panel("Raft commits", "short", _each("raft_commit_height")),
        Panel(
            "Changes of in-sync sets",
            "cps",
            (
                (_rate("isr_shrinks", "instance"), "shrink {{instance}}"),
                (_rate("isr_expands", "instance"), "expand {{instance}}"),
            ),
        ),
    ),
    "Table topics": (
        Panel(
            "Age of what tables lack",
            "s",
            _by("max by (topic) (josefine_table_lag_seconds)", "topic"),
        ),
        Panel("Rows committed", "cps", _by(_rate("table_rows", "topic"), "topic")),
        Panel(
            "Tables in trouble",
            "short",
            (
                ("sum by (topic) (josefine_table_stopped)", "stopped {{topic}}"),
                (_rate("table_errors", "topic"), "errors {{topic}}"),
                (_rate("table_dead_letters", "topic"), "dead letters {{topic}}"),
            ),
        ),
    ),
    "Process": (
        Panel("Memory", "bytes", _each("process_resident_bytes")),
        Panel("CPU", "percentunit", _by(_rate("process_cpu_seconds", "instance"), "instance")),
        Panel(
            "Connections and descriptors",
            "short",
            (
                ("josefine_connections", "connections {{instance}}"),
                ("josefine_process_open_fds", "descriptors {{instance}}"),
            ),
        ),
    ),
}


def board() -> str:
    """The text of the file."""
    panels: list[dict[str, Any]] = []
    for row, (title, graphs) in enumerate(ROWS.items()):
        top = row * (HEIGHT + 1)
        grid = {"x": 0, "y": top, "w": ROW_PANELS * WIDTH, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": grid, "panels": []}
        )
        for column, panel in enumerate(graphs):
            panels.append(_graph(len(panels) + 1, panel, column * WIDTH, top + 1))
    body = {
        "title": "Josefine",
        "uid": "josefine",
        "tags": ["josefine"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": panels,
    }
    return json.dumps(body, indent=1) + "\n"


def _graph(id_: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    return {
        "id": id_,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }
