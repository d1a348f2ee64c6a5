"""`josefine transactions` against a real broker and librdkafka's transactions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine

WAIT_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = Path(tmp_path_factory.mktemp("cli-transactions"))
    with BrokerProcess(directory) as process:
        yield process.bootstrap


def test_open_transaction_is_seen_and_does_not_hang(bootstrap: str) -> None:
    assert josefine(bootstrap, "topics", "create", "orders").code == 0
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"v")
    assert producer.flush(WAIT_S) == 0

    listed = josefine(bootstrap, "transactions", "list", "--state", "Ongoing")
    told = josefine(bootstrap, "transactions", "describe", "payments", "--json")
    hanging = josefine(bootstrap, "transactions", "find-hanging")
    refused = josefine(
        bootstrap, "transactions", "abort", "-t", "orders", "-p", "0", "--start-offset", "0"
    )

    assert listed.out.split("\n")[1].split()[:2] == ["payments", "Ongoing"]
    described = json.loads(told.out)
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [{"topic": "orders", "partition": 0}]
    assert (hanging.code, hanging.out) == (0, "no transaction hangs\n")
    assert refused.code == 1
    assert "no transaction hangs in orders-0 since offset 0" in refused.err
    producer.commit_transaction(WAIT_S)
    long = josefine(bootstrap, "transactions", "list", "--longer-than", "0ms")
    assert (long.code, long.out) == (0, "no transactional ids\n")


def test_what_cannot_be_is_told_in_a_sentence(bootstrap: str) -> None:
    odd = josefine(bootstrap, "transactions", "list", "--longer-than", "soon")
    missing = josefine(bootstrap, "transactions", "describe", "nobody")

    assert (odd.code, missing.code) == (2, 1)
    assert "--longer-than 'soon' is not like" in odd.err
    assert "transactional id 'nobody' is not known" in missing.err
