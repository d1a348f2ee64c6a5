"""The metrics of a table writer: name, kind, labels and meaning. Only metrics in this table can be
exported, as with the broker's table, and docs/reference/metrics.md is generated from it.
"""

from __future__ import annotations

from josefine_broker.host.metric_table import Kind, Metric

_TABLE = ("topic",)


def _counters(*rows: tuple[str, str], labels: tuple[str, ...] = _TABLE) -> list[Metric]:
    return [Metric(f"table_{name}", Kind.COUNTER, text, labels) for name, text in rows]


def _gauges(*rows: tuple[str, str], labels: tuple[str, ...] = _TABLE) -> list[Metric]:
    return [Metric(f"table_{name}", Kind.GAUGE, text, labels) for name, text in rows]


ROWS: list[Metric] = [
    *_counters(
        ("rows", "Rows that were committed; in mode upsert, changes."),
        ("bytes", "Bytes of committed data files; in mode upsert, of changes in memory."),
        ("commits", "Commits with rows or offsets."),
        ("dead_letters", "Records that became dead letters."),
        ("compactions", "Rewrites of small files into larger ones."),
        ("files_deleted", "Files that no version within the retention needs, deleted by VACUUM."),
        (
            "upkeep_failures",
            "Compactions and VACUUM that failed: the table is written all the same.",
        ),
        ("errors", "Failures after which the table is tried again, and stops."),
    ),
    *_gauges(
        (
            "lag_seconds",
            "Age of the oldest committed record that the table lacks, by its timestamp; 0 if there "
            "is none. Missing until the writer has compared topic and table.",
        ),
        ("lag_records", "Offsets that the table lacks of the topic, as the last read found them."),
        ("target_lag_seconds", "`josefine.table.target.lag.ms` of the topic."),
        ("files", "Data files of the table after the last commit of this process."),
        ("size_bytes", "Their bytes."),
        ("commit_timestamp_seconds", "When this process last committed, since 1970."),
        ("stopped", "1: the table waits for a person, see /health or tables status; else 0."),
    ),
    *_gauges(
        ("topics_refused", "Table topics whose configs this writer cannot serve."),
        ("process_resident_bytes_max", "Largest resident memory of this writer so far."),
        labels=(),
    ),
    *_counters(("process_cpu_seconds", "User and system time of this writer."), labels=()),
]

METRICS: dict[str, Metric] = {metric.name: metric for metric in ROWS}
