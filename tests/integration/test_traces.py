"""Traces of a real broker's requests at a collector, and what becomes of them when that is slow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer
from tests.support.broker import BrokerProcess
from tests.support.collector import Collector
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


def count(broker: BrokerProcess, name: str) -> float:
    (line,) = (
        each
        for each in broker.get("/metrics")[1].splitlines()
        if each.startswith(f"josefine_traces_{name}_total ")
    )
    return float(line.split()[-1])


def test_each_sampled_request_is_a_span_and_a_collector_that_hangs_holds_nobody_up(
    tmp_path: Path,
) -> None:
    with (
        Collector() as collector,
        BrokerProcess(
            tmp_path,
            telemetry__traces=collector.address,
            telemetry__sample_ratio=1.0,
            telemetry__queue_max=50,
        ) as broker,
        BlockingClient(broker.bootstrap, client_id="tracer") as client,
    ):
        client.partition_count("t", create=True)
        producer = BlockingProducer(client)
        producer.send("t", b"k", b"v" * 5_000)
        producer.flush()
        client.fetch({TopicPartition("t", 0): 0})

        def names() -> set[str]:
            return {each.name for each in collector.spans}

        wait_until(lambda: {"Produce", "Fetch", "Metadata"} <= names(), 60, "the spans")
        produce = next(each for each in collector.spans if each.name == "Produce")
        assert produce.resource["service.instance.id"] == "1"
        assert produce.attributes["kafka.client.id"] == "tracer"
        assert produce.attributes["enduser.id"] == "User:ANONYMOUS"
        assert produce.attributes["josefine.request.bytes"] > 5_000
        assert 0 < produce.end_ns - produce.start_ns < 60e9
        assert abs(produce.end_ns / 1e9 - time.time()) < 600

        collector.may_answer.clear()
        asked = collector.requests
        wait_until(
            lambda: client.metadata() and collector.requests > asked, 60, "a request that hangs"
        )
        for _ in range(100):
            assert client.metadata().brokers
        wait_until(lambda: client.metadata() and count(broker, "dropped") > 0, 60, "the drops")
        collector.may_answer.set()
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
