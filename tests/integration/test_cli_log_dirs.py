"""`josefine log-dirs` and `delete-records` against a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.unit.josefine_broker.api.world import batch_of

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def filled_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as running:
        with BlockingClient(running.bootstrap) as client:
            client.create_topics([NewTopic("orders", partitions=2), NewTopic("other")])
            client.partition_count("orders")
            client.produce({ORDERS: bytearray(batch_of(b"1", b"2", b"3"))})
        yield running


def test_sizes_of_replicas_are_those_of_their_files(filled_broker: BrokerProcess) -> None:
    done = josefine(filled_broker.bootstrap, "log-dirs", "--topic", "orders", "--json")

    stored = filled_broker.data_dir / "orders-0" / "00000000000000000000.log"
    told = [(each["partition"], each["bytes"]) for each in json.loads(done.out)]
    assert told == [(0, stored.stat().st_size), (1, 0)]
    text = josefine(filled_broker.bootstrap, "log-dirs").out
    assert "other" in text
    assert f"bytes in {filled_broker.data_dir}" in text


def test_records_below_the_offset_go_and_others_stay(filled_broker: BrokerProcess) -> None:
    refused = josefine(filled_broker.bootstrap, "delete-records", "orders", "--before", "0:2")
    done = josefine(filled_broker.bootstrap, "delete-records", "orders", "--before", "0:2", "--yes")

    assert refused.code != 0
    assert done.out == "partition 0 starts at offset 2\n"
    with BlockingClient(filled_broker.bootstrap) as client:
        assert client.list_offsets({ORDERS: EARLIEST})[ORDERS].offset == 2
    last = josefine(
        filled_broker.bootstrap, "delete-records", "orders", "--before", "0:end", "--yes"
    )
    assert last.out == "partition 0 starts at offset 3\n"
