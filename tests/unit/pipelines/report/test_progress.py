"""What the lines of a run say."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace

from rich.console import Console

from josefine_cli.pipeline.run_end import summary
from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.model.retry_policy import retry_of
from pipelines.report.events import BatchDone
from pipelines.report.progress import BarReporter, LineReporter, unheard
from pipelines.report.totals import RunResult, SinkTotals


def done(batch, records, dead_letters=0, **more):
    return BatchDone(
        sink="lake",
        batch=batch,
        records=records,
        rows=records,
        dead_letters=dead_letters,
        ends={},
        **more,
    )


def lines(to_do, *batches):
    out = io.StringIO()
    reporter = LineReporter(Console(file=out), lambda: 0.0)
    reporter.begun("lake", to_do)
    for batch in batches:
        reporter.batch(batch)
    return out.getvalue().splitlines()


def test_a_batch_says_how_far_the_run_is():
    assert lines(1200, done(0, 1, dead_letters=1)) == [
        "sink lake: 1,200 records",
        "sink lake: batch 0, 1 of 1,200 records, 1 dead letter; 0.0 s",
    ]
    assert lines(None, done(0, 1), done(1, 2, dead_letters=2)) == [
        "sink lake: waiting for records",
        "sink lake: batch 0, 1 record; 0.0 s",
        "sink lake: batch 1, 3 records, 2 dead letters; 0.0 s",
    ]


def test_a_batch_says_how_fast_the_run_goes_and_how_long_it_has_yet():
    out = io.StringIO()
    now_s = iter([2.0, 4.0])
    reporter = LineReporter(Console(file=out), lambda: next(now_s))
    reporter.begun("lake", 10_000)
    reporter.watched("lake", None, lambda: {("orders", 0): 9_000})
    reporter.batch(done(0, 1_000, seconds=2.0))
    reporter.batch(replace(done(1, 3_000, seconds=1.5), ends={("orders", 0): 4_000}))

    assert out.getvalue().splitlines()[1:] == [
        "sink lake: batch 0, 1,000 of 10,000 records; 500/s, 9,000 behind, 2.0 s, 18 s left",
        "sink lake: batch 1, 4,000 of 10,000 records; 1,000/s, 5,000 behind, 1.5 s, 6 s left",
    ]


def test_a_bar_says_the_same():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=160)
    with BarReporter(console, lambda: 2.0) as reporter:
        reporter.begun("lake", 10_000)
        reporter.watched("lake", None, lambda: {("orders", 0): 9_000})
        reporter.batch(done(0, 1_000, seconds=2.0))

    assert "500/s, 9,000 behind, 2.0 s, 18 s left" in out.getvalue()


def test_a_commit_that_is_tried_again_is_told_with_its_reason():
    out = io.StringIO()
    retry = retry_of(Exception("x: ExecutorLostFailure (executor 3 exited)"))

    LineReporter(Console(file=out)).retrying("lake", 3, retry)

    line = "sink lake: batch 3: an executor was lost, the commit is tried again\n"
    assert out.getvalue() == line


def test_a_sink_that_failed_is_told_at_once_where_others_go_on():
    out = io.StringIO()
    reporter = LineReporter(Console(file=out))

    reporter.failed("lake", "disk full", 2)
    reporter.failed("sums", "disk full", 1)
    reporter.failed("last", "disk full", 0)  # its reason is the run's

    assert out.getvalue().splitlines() == [
        "sink lake failed: disk full; the other 2 continue",
        "sink sums failed: disk full; the other one continues",
    ]


def test_a_skipped_batch_is_called_that():
    assert lines(1, done(1, 0, already_there=True)) == [
        "sink lake: 1 record",
        "sink lake: batch 1: already in the table",
    ]


def test_the_summary_counts_in_singular_and_plural(capsys):
    pipeline = read_pipeline("conf/pipelines/flights.yaml", {"DEMO_DIR": "/demo"})
    one = SinkTotals(records=1, rows=1, dead_letters=1, batches=1, seconds=1.0, path="/f")
    more = SinkTotals(records=2000, rows=3, dead_letters=0, batches=2, seconds=1.0, path="/d")
    sinks = {"flights": one, "delays": more}

    summary(pipeline, RunResult(sinks=sinks, seconds=1.0, interrupted=False), as_json=False)

    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "flights: done after 1.0 s",
        "flights: 1 record read, 1 row appended in 1 batch, 1 records/s",
        f"1 dead letter in {pipeline.dead_letter_path}",
        "/f: nothing new",
        "delays: 2,000 records read, 3 rows merged in 2 batches, 2,000 records/s",
        "/d: nothing new",
    ]


def test_the_summary_names_the_sinks_that_failed(capsys):
    pipeline = read_pipeline("conf/pipelines/flights.yaml", {"DEMO_DIR": "/demo"})
    sinks = {name: SinkTotals(path=f"/{name}") for name in ("flights", "delays")}
    failures = {"delays": RunError("sink `delays`: disk full")}
    result = RunResult(sinks=sinks, seconds=1.0, interrupted=False, failures=failures)

    summary(pipeline, result, as_json=False)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "flights: done, 1 of 2 sinks failed, after 1.0 s"
    assert [line.endswith(", failed") for line in lines] == [False, False, False, True, False]

    summary(pipeline, result, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["failures"] == {"delays": "sink `delays`: disk full"}


def test_a_reader_of_the_progress_that_is_gone_ends_no_run():
    """As with a closed terminal, or when the parent that read it has exited."""
    reading, writing = os.pipe()
    with unheard(writing) as out:
        reporter = LineReporter(Console(file=out))
        reporter.starting("first")
        assert os.read(reading, 100) == b"preparing first\n"
        os.close(reading)
        reporter.batch(done(1, 10))
        reporter.starting("second")
    assert out.closed
