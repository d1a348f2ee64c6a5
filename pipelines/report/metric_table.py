"""The metrics of a pipeline run: name, kind, labels and meaning. Only metrics in this table can be
exported, as with the broker's table, and docs/reference/metrics.md is generated from it.
"""

from __future__ import annotations

from josefine_broker.host.metric_table import Kind, Metric

_SINK = ("pipeline", "sink")
_PARTITION = (*_SINK, "topic", "partition")


def _counters(*rows: tuple[str, str], labels: tuple[str, ...] = _SINK) -> list[Metric]:
    return [Metric(f"pipeline_{name}", Kind.COUNTER, text, labels) for name, text in rows]


def _gauges(*rows: tuple[str, str], labels: tuple[str, ...] = _SINK) -> list[Metric]:
    return [Metric(f"pipeline_{name}", Kind.GAUGE, text, labels) for name, text in rows]


ROWS: list[Metric] = [
    *_counters(
        ("records", "Offsets of the source that were passed: records, and gaps between them."),
        ("rows", "Rows of the table that were made, changed or deleted."),
        ("batches", "Batches that were committed."),
        ("batches_there", "Batches that a run before had committed: skipped."),
        ("dead_letters", "Records that became dead letters."),
        ("copies", "Rows that `deduplicate` left out."),
        ("skipped", "Records of other types that `other_types: skip` left out."),
        ("late", "Rows that arrived after a watermark, counted with the next batch: left out."),
        ("commit_retries", "Commits that were tried again."),
        ("restarts", "Restarts of this sink after a failure."),
        ("upkeep_failures", "OPTIMIZE and VACUUM that failed, were ended or were put off."),
    ),
    *_counters(
        ("check_failed_rows", "Rows that failed a check."),
        labels=(*_SINK, "check"),
    ),
    Metric(
        "pipeline_batch_seconds",
        Kind.HISTOGRAM,
        "From the start of a batch to its last commit.",
        _SINK,
    ),
    *_gauges(
        ("commit_version", "Version of the table that the run's last commit made."),
        ("commit_timestamp_seconds", "When that was, since 1970."),
        (
            "lag_seconds",
            "Age of the oldest record that the table lacks, by its timestamp; 0 if there is none. "
            "Missing while brokers do not answer, and for a source without brokers.",
        ),
        (
            "fresh_seconds",
            "The target of `lag_seconds`, by `fresh` of the sink; missing without it.",
        ),
        ("failed", "1: this sink failed for good, and the run continues without it; else 0."),
    ),
    *_gauges(
        ("committed_offset", "End offset of the table's last commit, else the run's start offset."),
        (
            "lag",
            "Offsets that the table lacks of the topic, as Spark's last trigger found it, or "
            "before the first one the start of the run.",
        ),
        labels=_PARTITION,
    ),
]

METRICS: dict[str, Metric] = {metric.name: metric for metric in ROWS}
