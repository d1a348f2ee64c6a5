"""A run's metrics: what is counted, how far behind, and over HTTP."""

from __future__ import annotations

import socket
import urllib.request
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from josefine_broker.base.addresses import HostPort
from josefine_broker.host.metric_table import METRICS as OF_THE_BROKER
from josefine_cli.main import run
from pipelines.base.errors import EXIT_ENVIRONMENT, SetupError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.retry_policy import LOST
from pipelines.report.events import BatchDone, Both, Reporter
from pipelines.report.metric_table import METRICS, ROWS
from pipelines.report.metrics import Metrics, told
from pipelines.transforms.checks import Checked
from tests.unit.pipelines.config.test_validate import GOOD

LOCAL = "127.0.0.1"
CHECKED = GOOD.replace(
    "sinks:", "checks:\n  good: { on: clean, expr: id > 0, action: warn }\nsinks:"
)
LABELS = ("check", "topic", "partition")
P0, P1 = ("orders", 0), ("orders", 1)


def pipeline_of(more=""):
    return validate(load(CHECKED + more, "f.yaml", {}))


@pytest.fixture
def metrics():
    return Metrics(pipeline_of(), now_s=lambda: 1_700_000_000.0)


def read(metrics):
    """Sample name, and its labels behind those of the sink → value."""
    found = {}
    for family in text_string_to_metric_families(metrics.text()):
        for sample in family.samples:
            assert sample.labels["pipeline"] == "orders"
            assert sample.labels["sink"] == "lake"
            rest = [sample.labels[k] for k in LABELS if k in sample.labels]
            if "le" not in sample.labels:
                found[sample.name.removeprefix("josefine_pipeline_"), *rest] = sample.value
    return found


def done(**more):
    counts = {
        "records": 40,
        "rows": 36,
        "dead_letters": 3,
        "copies": 1,
        "skipped": 2,
        "seconds": 2.0,
    }
    of = {"sink": "lake", "batch": 7, "ends": {P0: 50, P1: 60}, "version": 12}
    return BatchDone(**(of | counts | more))


def test_what_batches_did_is_added_up(metrics):
    metrics.batch(done(checked={"good": Checked(rows=36, failed=2)}))
    metrics.batch(done(batch=8, version=13))
    nothing = {"records": 0, "rows": 0, "copies": 0, "skipped": 0}
    metrics.batch(done(batch=9, already_there=True, version=None, **nothing))

    values = read(metrics)
    assert {name: values[name, *rest] for name, *rest in values if not rest} == {
        "records_total": 80,
        "rows_total": 72,
        "batches_total": 2,
        "batches_there_total": 1,
        "dead_letters_total": 9,
        "copies_total": 2,
        "skipped_total": 4,
        "late_total": 0,
        "commit_retries_total": 0,
        "restarts_total": 0,
        "upkeep_failures_total": 0,
        "batch_seconds_count": 2,
        "batch_seconds_sum": 4,
        "commit_version": 13,
        "commit_timestamp_seconds": 1_700_000_000,
    }
    assert values["check_failed_rows_total", "good"] == 2


def test_what_did_not_go_well_is_counted(metrics):
    metrics.retrying("lake", 3, LOST)
    metrics.restarting("lake", LOST)
    metrics.upkeep_failed("lake", "optimize failed: x")
    metrics.upkeep_failed("lake", "vacuum failed: x")

    values = read(metrics)
    names = ("commit_retries_total", "restarts_total", "upkeep_failures_total")
    assert [values[name,] for name in names] == [1, 1, 2]


def test_a_sink_that_failed_is_seen_until_it_begins(metrics):
    assert "failed" not in {name for name, *_ in read(metrics)}
    metrics.begun("lake", None)
    assert read(metrics)["failed",] == 0

    metrics.failed("lake", "disk full", 1)
    assert read(metrics)["failed",] == 1


def test_lag_is_what_the_topics_have_beyond_the_table(metrics):
    topics = {P0: 100, P1: 60}
    metrics.watched("lake", {P0: 10, P1: 20}, lambda: topics)

    assert read(metrics)["lag", "orders", "0"] == 90

    metrics.batch(done())
    topics[P1] = 59
    topics["orders", 2] = 5
    values = read(metrics)
    assert [values["lag", "orders", str(n)] for n in range(3)] == [50, 0, 5]
    assert [values["committed_offset", "orders", str(n)] for n in range(2)] == [50, 60]


def test_lag_is_not_told_while_nobody_knows_it(metrics):
    def away():
        raise ConnectionError("Spark is away")

    metrics.watched("lake", None, lambda: {P0: 100})
    assert ("lag", "orders", "0") not in read(metrics)

    metrics.watched("lake", {P0: 10}, away)
    values = read(metrics)
    assert ("lag", "orders", "0") not in values
    assert values["committed_offset", "orders", "0"] == 10


def test_lag_in_seconds_is_that_of_the_records_after_the_table_at_each_scrape(metrics):
    ages = {10: 90_500, 50: 0}
    metrics.watched("lake", None, lambda: {P0: 100}, lambda ends: ages[ends[P0]])
    assert ("lag_seconds",) not in read(metrics)

    metrics.watched("lake", {P0: 10}, lambda: {P0: 100}, lambda ends: ages[ends[P0]])
    assert read(metrics)["lag_seconds",] == 90.5
    ages[10] = 95_500
    assert read(metrics)["lag_seconds",] == 95.5
    metrics.batch(done())
    assert read(metrics)["lag_seconds",] == 0


def test_scrape_of_brokers_that_are_away_waits_for_them_once(metrics):
    asked = []

    def away(ends):
        asked.append(ends)
        raise ConnectionError("no broker answers")

    for sink in ("lake", "gold", "topic"):
        metrics.watched(sink, {P0: 10}, lambda: {P0: 100}, away)
    text = metrics.text()

    assert len(asked) == 1
    assert "josefine_pipeline_lag_seconds{" not in text
    assert "josefine_pipeline_lag{" in text


def test_every_metric_of_the_table_is_exported_under_a_name_of_its_own(metrics):
    metrics.watched("lake", {P0: 0}, lambda: {P0: 1}, lambda ends: 0)
    metrics.batch(done())

    families = {family.name for family in text_string_to_metric_families(metrics.text())}
    assert families == {metric.exported.removesuffix("_total") for metric in ROWS}
    assert len(METRICS) == len(ROWS)
    assert not METRICS.keys() & OF_THE_BROKER.keys()


def test_it_answers_on_its_address_until_the_run_ends(metrics):
    metrics.batch(done())

    with metrics.served(HostPort(LOCAL, 0)) as port:
        with urllib.request.urlopen(f"http://{LOCAL}:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        taken = pytest.raises(SetupError, match=rf"metrics.prometheus: {LOCAL}:{port} cannot be")
        with taken, metrics.served(HostPort(LOCAL, port)):
            pass

    assert 'josefine_pipeline_rows_total{pipeline="orders",sink="lake"} 36.0' in text
    with metrics.served(HostPort(LOCAL, port)) as again:
        assert again == port


class Heard:
    """A reporter that remembers what it was told, whatever."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *said: self.calls.append((name, *said))


def test_without_metrics_in_the_file_there_is_nobody_else_to_tell():
    with told(pipeline_of(), heard := Heard()) as reporter:
        assert reporter is heard


def test_a_run_with_metrics_tells_two():
    pipeline = replace(pipeline_of(), metrics=HostPort(LOCAL, 0))

    with told(pipeline, heard := Heard()) as reporter:
        reporter.batch(done())

    assert isinstance(reporter, Both)
    assert heard.calls == [("batch", done())]


def test_a_port_that_is_taken_refuses_the_start_before_spark(tmp_path, monkeypatch, capsys):
    def no_spark(*_):
        raise AssertionError("Spark is not needed here")

    monkeypatch.setattr("pipelines.run.session.start_session", no_spark)
    file = tmp_path / "f.yaml"
    with socket.create_server((LOCAL, 0)) as taken:
        at = f"{LOCAL}:{taken.getsockname()[1]}"
        text = GOOD.replace("/ck", f"{tmp_path}/ck").replace("/lake", f"{tmp_path}/lake")
        file.write_text(f'{text}metrics: {{ prometheus: "{at}" }}\n')

        code = run(["pipeline", "run", str(file)])

    assert code == EXIT_ENVIRONMENT
    said = capsys.readouterr().err
    assert f"metrics.prometheus: {at} cannot be listened on: Address already in use" in said


def test_both_reporters_hear_everything():
    first, second = Heard(), Heard()
    said = {
        "starting": ("Spark",),
        "begun": ("lake", 5),
        "watched": ("lake", None, dict, len),
        "batch": (done(),),
        "retrying": ("lake", 1, LOST),
        "restarting": ("lake", LOST),
        "failed": ("lake", "x", 1),
        "warned": ("lake", "x"),
        "upkeep_failed": ("lake", "x"),
        "group_failed": ("orders", "x"),
        "table_failed": ("x",),
    }

    for name, words in said.items():
        getattr(Both(first, second), name)(*words)

    assert first.calls == second.calls == [(name, *words) for name, words in said.items()]
    assert said.keys() == {name for name in vars(Reporter) if not name.startswith("_")}
