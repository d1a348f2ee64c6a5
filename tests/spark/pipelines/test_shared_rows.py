"""Sinks that stand at the same offsets read and decode a topic once, and are each as if alone."""

from __future__ import annotations

import re
from functools import partial

import pytest

from pipelines.config.validate import read_pipeline
from pipelines.run.batch_input import decoded, rows_of_state
from pipelines.transforms.cached_rows import keep, let_go
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.stateful import held
from tests.spark.pipelines.conftest import Lab
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def _bytes(lab: Lab, broker: BrokerProcess, which: str) -> int:
    _, text = broker.get("/metrics")
    found = re.search(
        rf'^josefine_topic_bytes_{which}_total{{topic="{lab.topic}"}} (\S+)', text, re.M
    )
    return int(float(found[1])) if found else 0


def _kept(lab: Lab) -> set[int]:
    """Spark's numbers of what is in memory; without Delta's own states of tables."""
    assert lab.spark is not None
    there = lab.spark.sparkContext._jsc.getPersistentRDDs()
    return {n for n in there if not str(there[n].name()).startswith("Delta Table State")}


def test_two_sinks_at_the_same_offsets_read_each_record_once(lab, pipe_broker):
    lab.produce(300)
    lab.produce_raw(0, b"not json")
    lab.bad = [(0, 150)]
    before = _kept(lab)

    lab.run()

    lab.check()
    assert _kept(lab) <= before
    assert _bytes(lab, pipe_broker, "in") > 0
    assert _bytes(lab, pipe_broker, "out") < 1.5 * _bytes(lab, pipe_broker, "in")


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_sinks_that_have_come_apart_each_read_for_themselves(lab, pipe_broker):
    """A third batch of one sink alone, then both of them at different offsets."""
    lab.produce(60)
    lab.die("mid_commit:2", rows=1000)
    lab.lose_checkpoint()
    lab.produce(40)

    lab.run(rows=30)

    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_of_a_batch_that_fails_while_it_is_made_nothing_is_kept(lab):
    source = read_pipeline(lab.file, lab.environment(10)).sources["events"]
    before = _kept(lab)
    bad = lab.spark.sql("select assert_true(id < 2), X'' value from range(3)")

    for make in (held, partial(decoded, reading=reading_of(source))):
        with pytest.raises(Exception, match="id"):
            make(bad)
        assert _kept(lab) <= before


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_of_a_state_s_batch_whose_records_cannot_be_read_again_nothing_is_kept(lab):
    pipeline = read_pipeline(lab.file, lab.environment(10))
    source, transform = pipeline.sources["events"], pipeline.transforms["rows"]

    def away(_):
        raise OSError("away")

    before = _kept(lab)
    with pytest.raises(OSError, match="away"):
        rows_of_state(lab.spark.range(3), transform, [source], away)

    assert _kept(lab) <= before


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_what_is_kept_is_let_go_whether_it_is_rows_or_a_cached_frame(lab, monkeypatch):
    """A local master keeps rows; elsewhere an executor may be lost, and the frame is cached."""
    before = _kept(lab)
    frame = lab.spark.range(9).where("id > 1")

    rows, odd = keep(frame, "id % 2 = 1")
    kept_as_rows = _kept(lab) - before
    assert (odd, sorted(row.id for row in rows.collect())) == (3, [2, 3, 4, 5, 6, 7, 8])
    let_go(rows)
    monkeypatch.setattr("pipelines.transforms.cached_rows.is_one_process", lambda _: False)
    cached, odd = keep(frame, "id % 2 = 1")
    assert (odd, cached.count()) == (3, 7)
    assert not lab.spark._jsparkSession.sharedState().cacheManager().isEmpty()
    let_go(cached)

    assert len(kept_as_rows) == 1
    assert _kept(lab) <= before
