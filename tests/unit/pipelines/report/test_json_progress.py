"""A run's progress as objects."""

from __future__ import annotations

import io
import json

from rich.console import Console

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.retry_policy import LOST
from pipelines.report.events import BatchDone
from pipelines.report.json_progress import JsonReporter
from pipelines.report.progress import LineReporter, reporter_for
from pipelines.transforms.checks import Checked
from tests.unit.pipelines.config.test_validate import GOOD


def pipeline_of(more=""):
    return validate(load(GOOD + more, "f.yaml", {}))


def lines(tell):
    """(level, message, fields) of what was told."""
    out = io.StringIO()
    with reporter_for(Console(file=out), pipeline_of("metrics: { log: json }\n")) as reporter:
        assert isinstance(reporter, JsonReporter)
        tell(reporter)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert all(one["fields"].pop("pipeline") == "orders" for one in told)
    return [(one["level"], one["message"], one["fields"]) for one in told]


def done(**more):
    of = {"sink": "lake", "batch": 3, "ends": {("orders", 0): 9}, "version": 5}
    return BatchDone(**(of | {"records": 9, "rows": 7, "dead_letters": 2} | more))


def test_a_batch_is_an_object_with_its_numbers():
    checked = {"good": Checked(rows=9, failed=1)}

    assert lines(lambda to: to.batch(done(seconds=0.12345, checked=checked))) == [
        (
            "INFO",
            "batch committed",
            {"sink": "lake", "batch": 3, "records": 9, "rows": 7, "dead_letters": 2, "copies": 0,
             "skipped": 0, "late": 0,
             "seconds": 0.123, "records_per_s": 72.9, "lag": None, "lag_s": None,
             "left_s": None, "version": 5,
             "failed_good": 1},
        )
    ]  # fmt: skip
    assert lines(lambda to: to.batch(done(already_there=True))) == [
        ("INFO", "batch was there", {"sink": "lake", "batch": 3, "dead_letters": 2})
    ]


def test_what_goes_wrong_meanwhile_is_a_warning():
    def tell(to):
        to.starting("Spark")
        to.begun("lake", None)
        to.retrying("lake", 3, LOST)
        to.restarting("lake", LOST)
        to.failed("lake", "disk full", 1)
        to.warned("lake", "letters are gone")
        to.upkeep_failed("lake", "optimize failed: x")
        to.group_failed("orders", "x")

    assert lines(tell) == [
        ("INFO", "preparing", {"what": "Spark"}),
        ("INFO", "sink begins", {"sink": "lake", "records_to_do": None}),
        ("WARNING", "commit is tried again", {"sink": "lake", "batch": 3, "reason": LOST.says}),
        ("WARNING", "sink begins again", {"sink": "lake", "reason": LOST.says, "pause_s": 0.0}),
        ("ERROR", "sink failed", {"sink": "lake", "reason": "disk full", "sinks_left": 1}),
        ("WARNING", "sink passes over something", {"sink": "lake", "reason": "letters are gone"}),
        ("WARNING", "upkeep failed", {"sink": "lake", "reason": "optimize failed: x"}),
        ("WARNING", "group not told", {"source": "orders", "reason": "x"}),
    ]


def test_without_the_word_a_pipe_gets_lines():
    assert isinstance(reporter_for(Console(file=io.StringIO()), pipeline_of()), LineReporter)
