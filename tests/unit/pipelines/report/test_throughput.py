"""How fast a sink goes, by its last batches."""

from __future__ import annotations

import pytest

from pipelines.report.events import BatchDone
from pipelines.report.throughput import BATCHES, Pacing, span


def done(records, seconds=1.0, **more):
    of = {"sink": "lake", "batch": 1, "rows": 0, "dead_letters": 0, "ends": {}}
    return BatchDone(**(of | {"records": records, "seconds": seconds} | more))


def test_the_rate_is_of_the_last_batches_and_not_since_the_beginning():
    pacing = Pacing()
    pacing.begun("lake", None)
    for second in range(1, 101):
        pacing.batch(done(1_000_000), float(second))

    paces = [pacing.batch(done(10), 100.0 + n) for n in range(1, BATCHES + 1)]

    assert paces[-1].rate == 10
    assert paces[0].rate > 100_000


def test_waiting_for_records_is_time_that_passes():
    pacing = Pacing()
    pacing.batch(done(100, seconds=1.0), 10.0)

    assert pacing.batch(done(100, seconds=1.0), 19.0).rate == 20


def test_a_sink_that_begins_again_has_the_rest_to_do_and_no_past():
    pacing = Pacing()
    pacing.begun("lake", 1_000)
    assert pacing.batch(done(100), 1.0).left_s == 9.0

    pacing.begun("lake", 900)
    pace = pacing.batch(done(100, seconds=2.0), 100.0)
    assert (pace.rate, pace.left_s) == (50, 16.0)


def test_what_nobody_knows_is_not_told():
    def away():
        raise ConnectionError("Spark is away")

    pacing = Pacing()
    pacing.watched("lake", away, lambda ends: away())
    pace = pacing.batch(done(0, seconds=0.0), 1.0)

    assert (pace.rate, pace.lag, pace.lag_s, pace.left_s) == (None, None, None, None)
    assert pace.told() == "0.0 s"


def test_lag_in_seconds_is_of_the_end_that_the_batch_reached():
    pacing = Pacing()
    pacing.watched("lake", dict, lambda ends: ends["orders", 0] * 100)

    assert pacing.batch(done(1, ends={("orders", 0): 25}), 1.0).lag_s == 2.5


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")]
)
def test_a_time_has_the_unit_in_which_it_is_small(seconds, text):
    assert span(seconds) == text
