"""The metrics of a table writer and of an archive's writer: name, kind, labels and meaning. Only
metrics in these tables can be exported, as with the broker's table, and docs/reference/metrics.md
is generated from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from josefine_broker.host.metric_table import Kind, Metric

Text = tuple[str, str]
TABLE, ARCHIVE = "table", "archive"
"""What a process writes, and the prefix of its metrics."""
PER_PARTITION = "end_offset"

_UPKEEP = (
    ("compactions", "Rewrites of small files into larger ones."),
    ("files_deleted", "Files that no version within the retention needs, deleted by VACUUM."),
)
_FILES = (
    ("size_bytes", "Their bytes."),
    ("commit_timestamp_seconds", "When this process last committed, since 1970."),
)


def _rows(
    prefix: str, kind: Kind, rows: Sequence[Text], labels: tuple[str, ...] = ("topic",)
) -> list[Metric]:
    return [Metric(f"{prefix}_{name}", kind, text, labels) for name, text in rows]


def _process(prefix: str, refused: str) -> list[Metric]:
    gauges = (
        ("topics_refused", refused),
        ("process_resident_bytes_max", "Largest resident memory of this writer so far."),
    )
    counters = (("process_cpu_seconds", "User and system time of this writer."),)
    return [
        *_rows(prefix, Kind.GAUGE, gauges, ()),
        *_rows(prefix, Kind.COUNTER, counters, ()),
    ]


_TABLE_COUNTERS = (
    ("rows", "Rows that were committed; in mode upsert, changes."),
    ("bytes", "Bytes of committed data files; in mode upsert, of changes in memory."),
    ("commits", "Commits with rows or offsets."),
    ("dead_letters", "Records that became dead letters."),
    *_UPKEEP,
    ("upkeep_failures", "Compactions and VACUUM that failed: the table is written all the same."),
    ("errors", "Failures after which the table is tried again, and stops."),
)
_TABLE_GAUGES = (
    (
        "lag_seconds",
        "Age of the oldest committed record that the table lacks, by its timestamp; 0 if there "
        "is none. Missing until the writer has compared topic and table.",
    ),
    ("lag_records", "Offsets that the table lacks of the topic, as the last read found them."),
    ("target_lag_seconds", "`josefine.table.target.lag.ms` of the topic."),
    ("files", "Data files of the table after the last commit of this process."),
    *_FILES,
    ("stopped", "1: the table waits for a person, see /health or tables status; else 0."),
)
_ARCHIVE_COUNTERS = (
    ("records", "Records that were archived."),
    ("bytes", "Bytes of committed data files."),
    ("commits", "Commits with records or offsets."),
    *_UPKEEP,
    (
        "upkeep_failures",
        "Compactions, VACUUM and deletions by retention that failed: records are archived all "
        "the same.",
    ),
    ("errors", "Failures after which the archive is tried again, and stops."),
)
_ARCHIVE_GAUGES = (
    (
        "lag_seconds",
        "Age of the oldest committed record that the archive lacks, by its timestamp; 0 if there "
        "is none. Missing until the writer has compared topic and archive.",
    ),
    ("lag_records", "Offsets that the archive lacks of the topic, as the last read found them."),
    ("target_lag_seconds", "`--target-lag` of the writer."),
    ("files", "Data files of the archive after the last commit of this process."),
    *_FILES,
    (
        "look_timestamp_seconds",
        "When this process last found the archive whole, since 1970. A minute later brokers "
        "delete nothing any more.",
    ),
    ("stopped", "1: the archive waits for a person, see /health or archive status; else 0."),
)
_ARCHIVED_END = (
    (PER_PARTITION, "End of what the archive has of the partition; offsets below it are archived."),
)

TABLES: list[Metric] = [
    *_rows(TABLE, Kind.COUNTER, _TABLE_COUNTERS),
    *_rows(TABLE, Kind.GAUGE, _TABLE_GAUGES),
    *_process(TABLE, "Table topics whose configs this writer cannot serve."),
]
ARCHIVES: list[Metric] = [
    *_rows(ARCHIVE, Kind.COUNTER, _ARCHIVE_COUNTERS),
    *_rows(ARCHIVE, Kind.GAUGE, _ARCHIVE_GAUGES),
    *_rows(ARCHIVE, Kind.GAUGE, _ARCHIVED_END, ("topic", "partition")),
    *_process(ARCHIVE, "Archived topics whose configs this writer cannot serve."),
]

METRICS: dict[str, list[Metric]] = {TABLE: TABLES, ARCHIVE: ARCHIVES}
"""What a process writes → its metrics."""
