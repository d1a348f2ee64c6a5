"""`josefine transactions` against a real broker and librdkafka's transactions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from josefine_broker.base import ids
from josefine_broker.base.errors import KafkaError
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.transactions import end_transactions, take_ids
from josefine_broker.records.builder import Record, build_batch
from josefine_cli.base.errors import UserError
from josefine_cli.kafka import transactions
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.waiting import wait_until

WAIT_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = Path(tmp_path_factory.mktemp("cli-transactions"))
    with BrokerProcess(directory, transactions__two_phase_commit_enable=True) as process:
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
    wait_until_ended(bootstrap, "payments")
    long = josefine(bootstrap, "transactions", "list", "--longer-than", "0ms")
    assert (long.code, long.out) == (0, "no transactional ids\n")


def wait_until_ended(bootstrap: str, transactional_id: str) -> None:
    """A decision is answered once it is recorded; the markers are written after the answer."""

    def ended() -> bool:
        told = josefine(bootstrap, "transactions", "describe", transactional_id, "--json")
        return json.loads(told.out)["state"] in ("CompleteCommit", "CompleteAbort", "Empty")

    wait_until(ended, WAIT_S, f"the markers of {transactional_id} are written")


def opened(bootstrap: str, transactional_id: str, topic: str) -> Producer:
    """A producer that has written, and not decided."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    assert producer.flush(WAIT_S) == 0
    return producer


_CLIENTS: list[BlockingClient] = []


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    yield
    while _CLIENTS:
        _CLIENTS.pop().close()


class Participant:
    """A producer that takes part in a two-phase commit, which librdkafka's does not."""

    def __init__(self, bootstrap: str, transactional_id: str, topic: str) -> None:
        self.client = BlockingClient(bootstrap)
        _CLIENTS.append(self.client)
        self.id = transactional_id
        self.producer: ProducerIdentity = self.client.run(
            lambda s, t, d: take_ids(s, (self.id,), 60_000, t, d, two_phase=True)
        )[self.id].result
        batch = build_batch(
            [Record(value=b"v")],
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        tp = ids.TopicPartition(topic, 0)
        outcomes = self.client.produce_outcomes({tp: batch}, transactional_id=self.id)
        assert outcomes[tp].error is None

    def commit_transaction(self, timeout_s: float) -> None:
        """Raises KafkaError."""
        ends = {self.id: self.producer}
        outcome = self.client.run(lambda s, t, d: end_transactions(s, ends, True, t, d))[self.id]
        if outcome.error is not None:
            raise outcome.error


@pytest.mark.parametrize(
    ("verb", "visible", "opened_by"), [("abort", 0, "anybody"), ("commit", 1, "a participant")]
)
def test_open_transaction_is_ended_by_its_id_and_its_producer_fenced(
    bootstrap: str, verb: str, visible: int, opened_by: str
) -> None:
    topic = f"for-{verb}"
    assert josefine(bootstrap, "topics", "create", topic).code == 0
    start = opened if opened_by == "anybody" else Participant
    producer = start(bootstrap, verb, topic)

    unasked = josefine(bootstrap, "transactions", verb, verb)
    ended = josefine(bootstrap, "transactions", verb, verb, "--yes")
    wait_until_ended(bootstrap, verb)
    again = josefine(bootstrap, "transactions", verb, verb, "--yes")

    assert (unasked.code, ended.code, again.code) == (2, 0, 1)
    assert "without a terminal to ask on needs --yes" in unasked.err
    assert f"the transaction of '{verb}' (producer" in ended.out
    assert "1 partition, open since" in ended.out
    assert f"transactional id '{verb}': " in again.err
    assert "nothing is open" in again.err
    assert committed(bootstrap, topic) == visible
    with pytest.raises((KafkaException, KafkaError)):
        producer.commit_transaction(WAIT_S)
    assert committed(bootstrap, topic) == visible


def test_a_transaction_that_is_none_of_a_two_phase_commit_is_not_committed_by_others(
    bootstrap: str,
) -> None:
    assert josefine(bootstrap, "topics", "create", "ordinary").code == 0
    producer = opened(bootstrap, "ordinary", "ordinary")

    refused = josefine(bootstrap, "transactions", "commit", "ordinary", "--yes")

    assert refused.code == 1
    assert (
        "is not part of a two-phase commit (its timeout of 60000 ms is allowed for any"
        in refused.err
    )
    assert "josefine transactions abort ordinary" in refused.err
    producer.commit_transaction(WAIT_S)  # it is as it was
    wait_until_ended(bootstrap, "ordinary")
    assert committed(bootstrap, "ordinary") == 1


def test_only_the_transaction_that_was_shown_is_committed(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the question waits for its answer its producer may come back, and begin another one."""
    assert josefine(bootstrap, "topics", "create", "meanwhile").code == 0
    producers = [Participant(bootstrap, "meanwhile", "meanwhile")]
    monkeypatch.setattr(
        transactions,
        "agree",
        lambda *asked: producers.append(Participant(bootstrap, "meanwhile", "meanwhile")),
    )

    with pytest.raises(UserError, match="is over, another one is open: nothing was committed"):
        transactions.commit("meanwhile", bootstrap=bootstrap)

    told = json.loads(josefine(bootstrap, "transactions", "describe", "meanwhile", "--json").out)
    assert told["state"] == "Ongoing"
    assert josefine(bootstrap, "transactions", "abort", "meanwhile", "--yes").code == 0


def committed(bootstrap: str, topic: str) -> int:
    """How many records read_committed sees, behind which nothing is open."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    count = 0
    try:
        while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
            count += 1
        assert message is not None
        partition = TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(partition, WAIT_S)[1] == message.offset() == 2
        return count
    finally:
        consumer.close()


def test_what_cannot_be_is_told_in_a_sentence(bootstrap: str) -> None:
    odd = josefine(bootstrap, "transactions", "list", "--longer-than", "soon")
    missing = josefine(bootstrap, "transactions", "describe", "nobody")
    half = josefine(bootstrap, "transactions", "abort", "--topic", "orders")
    nobodys = josefine(bootstrap, "transactions", "commit", "nobody", "--yes")

    assert (odd.code, missing.code, half.code, nobodys.code) == (2, 1, 2, 1)
    assert "give a transactional id, or --topic, --partition and --start-offset" in half.err
    assert "transactional id 'nobody' is unknown" in nobodys.err
    assert "--longer-than 'soon' is not like" in odd.err
    assert "transactional id 'nobody' is unknown" in missing.err
