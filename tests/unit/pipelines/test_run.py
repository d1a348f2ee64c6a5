"""What a run does around its batches, without Spark: judge dead letters, begin again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pipelines.errors import RunError, SetupError
from pipelines.loader import load
from pipelines.reporting import BatchDone
from pipelines.run import _FailedError, _Run
from pipelines.source_kinds import ANY_KIND
from pipelines.validate import validate
from pipelines.wishes import NO_WISHES
from tests.unit.pipelines.test_validate import GOOD

TEXT = GOOD.replace("on_error: fail", "on_error: dead_letter").replace(
    "trigger:",
    "  other: { type: delta, inputs: [clean], path: /other, mode: append }\n"
    "dead_letter: { type: delta, path: /dead, threshold: { ratio: 0.1, window: 2 batches } }\n"
    "restart: { attempts: 1, backoff: 1ms }\n"
    "trigger:",
)
AWAY = SetupError("no broker there")


class Listener:
    def __init__(self):
        self.restarts = []
        self.lines = []

    def batch(self, done): ...

    def upkeep_failed(self, sink, line):
        self.lines.append(line)

    def restarting(self, sink, retry):
        self.restarts.append(retry.says)


class Starting(_Run):
    """Each start does the next of `steps`: raises a failure, or has a batch and goes on."""

    steps = ()

    def _go(self, wishes):
        work = SimpleNamespace(
            sink=self.pipeline.sinks["lake"], source=self.pipeline.sources["raw"]
        )
        while self.steps:
            step, *self.steps = self.steps
            if isinstance(step, Exception):
                raise _FailedError(work, step)
            self._batch_done(step)


@pytest.fixture
def run():
    return Starting(None, validate(load(TEXT, "f.yaml", {})), Listener(), ANY_KIND, None)


def done(records, dead_letters, sink="lake", **more):
    """Of a sink that wrote the letters of its batch."""
    counts = {"records": records, "judged": records, "dead_letters": dead_letters}
    return BatchDone(**({"sink": sink, "batch": 1, "rows": 0, "ends": {}} | counts | more))


def test_a_run_stops_behind_the_batch_with_which_there_are_too_many_dead_letters(run):
    run._batch_done(done(100, 0))
    with pytest.raises(RunError) as caught:
        run._batch_done(done(100, 21))

    assert str(caught.value) == (
        "source `raw`: 21 of 200 records of the last 2 batches are dead letters, more than 10.00% "
        "(threshold); see /dead"
    )
    assert run.totals["lake"].dead_letters == 21


def test_letters_of_records_that_were_passed_before_are_not_judged(run):
    """They were bad by the file of today alone, and how many others were good nobody counted."""
    run._batch_done(done(100, 5, judged=0))
    run._batch_done(done(10, 1))


def test_the_sinks_of_a_source_are_judged_together(run):
    run._batch_done(done(100, 10))
    run._batch_done(done(100, 0, judged=0, sink="other"))

    with pytest.raises(RunError, match="31 of 200 records of the last 2 batches"):
        run._batch_done(done(100, 21, sink="other"))


def test_the_window_goes_on_when_the_run_is_begun_again(run):
    run.steps = [done(10, 1), AWAY, done(10, 2)]

    with pytest.raises(RunError, match="3 of 20 records"):
        run.run(NO_WISHES)


def test_a_run_is_begun_again_as_often_as_its_file_says_and_tells_its_last_failure(run):
    run.steps = [OSError("disk"), AWAY, done(10, 0)]

    with pytest.raises(SetupError) as caught:
        run.run(NO_WISHES)

    assert caught.value is AWAY
    assert run.reporter.restarts == ["disk (start 1 of 1 after this)"]


def test_a_new_batch_renews_the_starts_and_one_that_was_there_does_not(run):
    run.steps = [AWAY, done(10, 0), AWAY]
    run.run(NO_WISHES)
    assert run.reporter.restarts == ["no broker there (start 1 of 1 after this)"] * 2

    run.steps = [done(0, 0, already_there=True), OSError("disk")]
    with pytest.raises(RunError, match="sink `lake`: disk") as caught:
        run.run(NO_WISHES)
    assert isinstance(caught.value.__cause__, OSError)


def test_what_is_told_meanwhile_has_no_secret(run):
    run.pipeline = replace(run.pipeline, secrets=frozenset({"hunter2"}))
    run.steps = [OSError("no such user: hunter2")]

    run.run(NO_WISHES)
    run._upkeep_failed("lake", "optimize failed: hunter2")

    assert run.reporter.restarts == ["no such user: *** (start 1 of 1 after this)"]
    assert run.reporter.lines == ["optimize failed: ***"]


def test_a_run_that_is_to_stop_is_not_begun_again(run):
    run.steps = [AWAY, done(10, 0)]
    run.stop.set()

    result = run.run(NO_WISHES)

    assert result.interrupted
    assert run.totals["lake"].batches == 0
