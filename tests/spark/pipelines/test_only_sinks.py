"""`pipeline run --sink`: one sink runs, the others continue where they are in a later run."""

from __future__ import annotations

import pytest

from pipelines.run.options import Wishes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_sink_alone_leaves_the_others_and_a_later_run_takes_them_on_exactly_once(lab):
    lab.produce(20)
    lab.produce_raw(0, b"not json")
    lab.bad = [(0, 10)]

    alone = lab.run(wishes=Wishes(only=("rows",)))
    lab.produce(10)
    whole = lab.run()

    assert list(alone.sinks) == ["rows"]
    assert alone.sinks["rows"].records == 21
    assert {name: each.records for name, each in whole.sinks.items()} == {"rows": 10, "sums": 31}
    lab.check()
