"""What a run does around its batches, without Spark: judge dead letters, begin again, go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.base.errors import ChainError, RunError, SetupError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.plan import compile_plan
from pipelines.model.retry_policy import LOST
from pipelines.report.events import BatchDone
from pipelines.run import run as running
from pipelines.run.options import NO_WISHES
from pipelines.run.queries import FailedError
from pipelines.run.run import _Run
from pipelines.run.sink_handle import SinkHandle
from pipelines.run.sink_lifecycle import together
from pipelines.sources.kinds import ANY_KIND
from tests.unit.pipelines.config.test_validate import GOOD

TEXT = GOOD.replace("on_error: fail", "on_error: dead_letter").replace(
    "trigger:",
    "  other: { type: delta, inputs: [clean], path: /other, mode: append }\n"
    "dead_letter: { type: delta, path: /dead, threshold: { ratio: 0.1, window: 2 batches } }\n"
    "restart: { attempts: 1, backoff: 1ms }\n"
    "trigger:",
)
AWAY = SetupError("no broker there")
DISK = OSError("disk")
STOPPED = ChainError("sink `lake`: somebody else writes it\n  two ways out")


class Listener:
    def __init__(self):
        self.restarts = []
        self.lines = []
        self.failures = []
        self.done = []

    def starting(self, what): ...

    def batch(self, done):
        self.done.append((done.sink, done.batch))

    def upkeep_failed(self, sink, line):
        self.lines.append(line)

    def restarting(self, sink, retry):
        self.restarts.append(f"{sink}: {retry.says}")

    def failed(self, sink, line, left):
        self.failures.append((sink, line, left))


class Query:
    """Does the next of its sink's steps whenever it is asked whether it is there."""

    def __init__(self, run, handle, steps):
        self.run, self.handle, self.steps = run, handle, steps
        self.is_there = True

    @property
    def isActive(self):  # noqa: N802 (Spark's name)
        if self.is_there:
            self.is_there = bool(self.steps) and self.step(self.steps.pop(0))
        return self.is_there

    def step(self, step):
        if not isinstance(step, Exception):
            try:
                self.run._batch_done(step)
                return True
            except Exception as error:
                step = error
        self.handle.error = step
        return False

    def stop(self):
        self.is_there = False

    def exception(self):
        return self.handle.error


class Steps(_Run):
    """Each sink does its `steps`, one at a look: raises a failure, or has a batch and goes on; each
    start of one does first the next of `starts`: fails, or (None) goes on."""

    def __init__(self, pipeline):
        super().__init__(None, pipeline, Listener(), ANY_KIND, None)
        self.steps = {name: [] for name in pipeline.sinks}
        self.fails_to_start = {name: [] for name in pipeline.sinks}
        self.begun = []
        self.rested = []

    def _prepare(self, name):
        handle = self.handles[name] = SinkHandle(
            self.context.plan.sinks[name], self._batch_done, self._upkeep_failed, self.rested.append
        )
        self.lives.prepare(name, 0.0)
        failing = self.fails_to_start[name]
        failure = failing.pop(0) if failing else None
        if failure is not None:
            may_pass = isinstance(failure, SetupError) or not isinstance(failure, RunError)
            raise FailedError(handle, failure) if may_pass else failure


@pytest.fixture
def run(monkeypatch):
    made = Steps(validate(load(TEXT, "f.yaml", {})))

    def start(handle, pipeline, reporter):
        name = handle.plan.name
        made.begun.append(name)
        handle.query = Query(made, handle, made.steps[name])

    monkeypatch.setattr(running, "start", start)
    monkeypatch.setattr(running, "has_gone", lambda spark: False)
    monkeypatch.setattr(running, "poll_s", lambda _: 0.0)
    return made


def reads(run, pipeline):
    """In the place of its file."""
    run.context = replace(run.context, plan=compile_plan(pipeline))


def done(records, dead_letters=0, sink="lake", **more):
    """Of a sink that wrote the letters of its batch."""
    judged = {"raw": (records, dead_letters)}
    counts = {"records": records, "judged": judged, "dead_letters": dead_letters}
    return BatchDone(**({"sink": sink, "batch": 1, "rows": 0, "ends": {}} | counts | more))


def test_a_run_stops_behind_the_batch_with_which_there_are_too_many_dead_letters(run):
    run._batch_done(done(100, 0))
    with pytest.raises(RunError) as caught:
        run._batch_done(done(100, 21))

    assert str(caught.value) == (
        "source `raw`: 21 of 200 records of the last 2 batches are dead letters, more than 10.00% "
        "(threshold); see /dead"
    )
    assert run.tally.totals["lake"].dead_letters == 21


def test_letters_of_records_that_were_passed_before_are_not_judged(run):
    """They were bad by the file of today alone, and how many others were good nobody counted."""
    run._batch_done(done(100, 5, judged={}))
    run._batch_done(done(10, 1))


def test_the_sinks_of_a_source_are_judged_together(run):
    run._batch_done(done(100, 10))
    run._batch_done(done(100, 0, judged={}, sink="other"))

    with pytest.raises(RunError, match="31 of 200 records of the last 2 batches"):
        run._batch_done(done(100, 21, sink="other"))


def test_the_window_goes_on_when_the_run_is_begun_again_and_too_many_end_it_whole(run):
    run.steps["lake"] += [done(10, 1), AWAY, done(10, 2)]
    run.steps["other"] += [done(0, sink="other")] * 5_000

    with pytest.raises(RunError, match="3 of 20 records"):
        run.run(NO_WISHES)

    assert run.steps["other"]
    assert run.reporter.failures == []
    assert {*run.rested} == {"lake", "other"}, "rows are kept for a run that is over"


def test_a_run_is_begun_again_as_often_as_its_file_says_and_tells_its_last_failure(run):
    run.fails_to_start["lake"] += [DISK, AWAY]
    run.steps["other"] += [done(1, sink="other")]

    with pytest.raises(SetupError) as caught:
        run.run(NO_WISHES)

    assert caught.value is AWAY
    assert run.reporter.restarts == ["lake: disk (start 1 of 1 after this)"]
    assert run.begun == []


def test_a_new_batch_renews_the_starts_and_one_that_was_there_does_not(run):
    run.steps["lake"] += [AWAY, done(10), AWAY]
    run.run(NO_WISHES)
    assert run.reporter.restarts == ["lake: no broker there (start 1 of 1 after this)"] * 2


def test_a_batch_that_was_there_renews_no_start(run):
    run.steps["lake"] += [AWAY, done(0, already_there=True), DISK]
    run.steps["other"] += [AWAY]

    failures = run.run(NO_WISHES).failures

    assert {name: str(each) for name, each in failures.items()} == {"lake": "sink `lake`: disk"}
    assert isinstance(failures["lake"].__cause__, OSError)


def test_one_sinks_failure_does_not_stop_the_others(run):
    run.steps["lake"] += [STOPPED]
    batches = [done(1, sink="other", batch=n) for n in range(50)]
    run.steps["other"] += batches

    result = run.run(NO_WISHES)

    assert run.reporter.done == [("other", n) for n in range(50)]
    assert run.reporter.failures == [("lake", "somebody else writes it", 1)]
    assert result.failures == {"lake": STOPPED}
    assert run.begun == ["lake", "other"]
    assert run.rested == ["lake", "other"], "rows are kept for a sink that reads no more"


def test_a_sink_that_may_is_begun_again_alone(run):
    run.steps["lake"] += [done(1), DISK, done(2, batch=2)]
    run.steps["other"] += [done(1, sink="other")] * 50

    assert not run.run(NO_WISHES).failures

    assert run.begun == ["lake", "other", "lake"]
    assert ("lake", 2) in run.reporter.done


def test_a_sink_whose_next_start_is_refused_fails_alone(run):
    run.fails_to_start["lake"] += [None, STOPPED]
    run.steps["lake"] += [DISK]
    run.steps["other"] += [done(1, sink="other")] * 50

    assert run.run(NO_WISHES).failures == {"lake": STOPPED}
    assert not run.steps["other"]


def test_lost_records_begin_all_sinks_again_that_are_not_over(run):
    """Their letters share a chain, which only a start moves behind what is lost."""
    sources = {"raw": replace(run.pipeline.sources["raw"], skips_losses=True)}
    reads(run, replace(run.pipeline, sources=sources))
    run.steps["lake"] += [done(1), OSError(LOST.mark), done(1, batch=2)]
    run.steps["other"] += [done(1, sink="other", batch=n) for n in range(50)]

    assert not run.run(NO_WISHES).failures

    assert run.begun == ["lake", "other", "lake", "other"]
    assert len(run.reporter.done) == 52


def test_the_failures_of_several_sinks_are_one_with_all_reasons(run):
    run.steps["lake"] += [STOPPED]
    run.steps["other"] += [RunError("sink `other`: no room")]

    failures = run.run(NO_WISHES).failures

    assert str(together(failures.values())) == f"{STOPPED}\nsink `other`: no room"
    assert [left for _, _, left in run.reporter.failures] == [1, 0]
    assert together([STOPPED]) is STOPPED


def test_what_all_sinks_of_a_source_met_is_one_failure():
    one, same = RunError("source `raw`: not JSON"), RunError("source `raw`: not JSON")

    told = together([one, same])

    assert isinstance(told, RunError)
    assert str(told) == "source `raw`: not JSON"


def test_what_is_told_meanwhile_has_no_secret(run):
    reads(run, replace(run.pipeline, secrets=frozenset({"hunter2"})))
    run.steps["lake"] += [OSError("no such user: hunter2"), RunError("hunter2 was wrong")]

    run.run(NO_WISHES)
    run._upkeep_failed("lake", "optimize failed: hunter2")

    assert run.reporter.restarts == ["lake: no such user: *** (start 1 of 1 after this)"]
    assert run.reporter.lines == ["optimize failed: ***"]
    assert run.reporter.failures == [("lake", "*** was wrong", 0)]


def test_a_run_that_is_to_stop_is_not_begun_again(run):
    run.fails_to_start["lake"] += [AWAY]
    run.stop.set()

    result = run.run(NO_WISHES)

    assert result.interrupted
    assert run.tally.totals["lake"].batches == 0


def test_a_batch_that_fails_while_the_run_is_ended_has_failed(run):
    run.steps["lake"] += [done(1)] * 50
    run.steps["other"] += [done(1, sink="other"), STOPPED]
    run._batch_done = lambda done: run.stop.set()

    result = run.run(NO_WISHES)

    assert result.interrupted
    assert result.failures == {"other": STOPPED}
