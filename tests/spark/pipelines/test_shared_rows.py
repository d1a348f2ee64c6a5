"""Sinks that stand at the same offsets read and decode a topic once, and are each as if alone."""

from __future__ import annotations

import re

import pytest

from tests.spark.pipelines.conftest import Lab
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def _bytes(lab: Lab, broker: BrokerProcess, which: str) -> int:
    _, text = broker.get("/metrics")
    found = re.search(
        rf'^josefine_topic_bytes_{which}_total{{topic="{lab.topic}"}} (\S+)', text, re.M
    )
    return int(float(found[1])) if found else 0


def test_two_sinks_at_the_same_offsets_read_each_record_once(lab, pipe_broker):
    lab.produce(300)
    lab.produce_raw(0, b"not json")
    lab.bad = [(0, 150)]

    lab.run()

    lab.check()
    assert _bytes(lab, pipe_broker, "in") > 0
    assert _bytes(lab, pipe_broker, "out") < 1.5 * _bytes(lab, pipe_broker, "in")


def test_sinks_that_have_come_apart_each_read_for_themselves(lab, pipe_broker):
    """A third batch of one sink alone, then both of them at different offsets."""
    lab.produce(60)
    lab.die("mid_commit:2", rows=1000)
    lab.lose_checkpoint()
    lab.produce(40)

    lab.run(rows=30)

    lab.check()
