"""`/metrics` and `/health` of a table writer, from the values of its process."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_lake.report.metric_table import ARCHIVE, METRICS, TABLE
from josefine_lake.report.metrics import SILENT_MS_MAX, Scrape, health, is_ready
from josefine_lake.report.table_stats import ProcessStats

P = TopicPartition("t", 0)


def samples(stats: ProcessStats, wall_ms: int = 2_000, what: str = TABLE) -> dict[str, float]:
    text = Scrape(stats, {"process_cpu_seconds": 1.5}, wall_ms, what).text().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_every_metric_of_the_table_is_exported_with_its_topic() -> None:
    stats = ProcessStats()
    table = stats.table("t", 30_000)
    table.started({P: 0}, {P: 3})
    table.lag.read(P, 500, 900, 3)
    table.committed(2, 77, {P: 2}, 1_500)
    table.has(4, 99)

    found = samples(stats)

    assert found['josefine_table_rows_total{topic="t"}'] == 2
    assert found['josefine_table_bytes_total{topic="t"}'] == 77
    assert found['josefine_table_lag_seconds{topic="t"}'] == 1.1
    assert found['josefine_table_lag_records{topic="t"}'] == 1
    assert found['josefine_table_target_lag_seconds{topic="t"}'] == 30
    assert found["josefine_table_process_cpu_seconds_total"] == 1.5
    named = {name.partition("{")[0] for name in found}
    assert named == {each.exported for each in METRICS[TABLE]} - {
        "josefine_table_process_resident_bytes_max"
    }


def test_an_archive_has_its_own_names_and_the_end_of_each_partition() -> None:
    stats = ProcessStats()
    archive = stats.table("t", 10_000)
    archive.started({P: 0}, {P: 3})
    archive.lag.read(P, 500, 900, 3)
    archive.committed(2, 77, {P: 2}, 1_500)
    archive.has(4, 99)
    archive.looked_ms = 1_700

    found = samples(stats, what=ARCHIVE)

    assert found['josefine_archive_records_total{topic="t"}'] == 2
    assert found['josefine_archive_end_offset{partition="0",topic="t"}'] == 2
    assert found['josefine_archive_look_timestamp_seconds{topic="t"}'] == 1.7
    assert found["josefine_archive_process_cpu_seconds_total"] == 1.5
    named = {name.partition("{")[0] for name in found}
    assert named == {each.exported for each in METRICS[ARCHIVE]} - {
        "josefine_archive_process_resident_bytes_max"
    }


def test_what_is_not_known_yet_has_no_series() -> None:
    stats = ProcessStats()
    stats.table("t", 30_000)

    found = samples(stats)

    assert 'josefine_table_lag_seconds{topic="t"}' not in found
    assert 'josefine_table_files{topic="t"}' not in found
    assert found['josefine_table_stopped{topic="t"}'] == 0


def test_health_names_the_stopped_table_and_the_reason() -> None:
    stats = ProcessStats()
    stats.connected_ms = 0
    stats.table("good", 1).started({}, {})
    stats.table("bad", 1).failed("the table was dropped", is_stopped=True)

    is_well, body = health(stats, 1_000)

    assert (is_well, body["status"]) == (False, "failing")
    assert body["checks"]["tables"] == {"ok": False, "detail": "bad stopped"}
    assert body["checks"]["brokers"]["ok"]
    assert body["tables"]["bad"] == {"state": "stopped", "problem": "the table was dropped"}
    assert samples(stats)['josefine_table_stopped{topic="bad"}'] == 1


def test_a_writer_is_ready_while_brokers_answer_whatever_its_tables_do() -> None:
    stats = ProcessStats()
    assert not is_ready(stats, 0)[0]
    stats.connected_ms = 0
    stats.table("bad", 1).failed("x", is_stopped=True)
    assert is_ready(stats, SILENT_MS_MAX)[0]
    assert not is_ready(stats, SILENT_MS_MAX + 1)[0]


def test_configs_that_cannot_be_served_fail_the_health() -> None:
    stats = ProcessStats()
    stats.connected_ms = 0
    assert health(stats, 0)[0]
    stats.refused = {"t": "'josefine.table.format' is xml"}
    assert health(stats, 0)[1]["checks"]["configs"] == {
        "ok": False,
        "detail": "t: 'josefine.table.format' is xml",
    }
    assert samples(stats)["josefine_table_topics_refused"] == 1
