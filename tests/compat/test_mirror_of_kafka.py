"""A mirror of a real Apache Kafka: compressed, transactional, compacted and trimmed topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from tests.integration.test_mirror import (
    batches,
    check_epochs,
    check_unknown,
    create,
    in_transaction,
    send,
    topic_id,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.maven import NoJarsError
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.compat, pytest.mark.timeout(400)]

WAIT_S = 60.0
QUICK = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.segment.delete.delay.ms": "100",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    try:
        broker = ApacheKafka(tmp_path / "kafka", settings=QUICK)
    except NoJarsError as error:
        pytest.skip(str(error))
    with broker:
        yield broker


def offsets(broker: Any, topic: str) -> tuple[int, int]:
    tp = TopicPartition(topic, 0)
    with BlockingClient(broker.bootstrap) as client:
        start = client.list_offsets({tp: EARLIEST})[tp].offset
        return start, client.list_offsets({tp: LATEST})[tp].offset


def test_mirror_of_apache_kafka(kafka: ApacheKafka, tmp_path: Path) -> None:
    create(kafka, "plain")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        send(kafka, "plain", range(200), **{"compression.type": codec, "linger.ms": 5})
    in_transaction(kafka, "plain", range(10), commits=True)
    in_transaction(kafka, "plain", range(10), commits=False)
    create(kafka, "stamped", message__timestamp__type="LogAppendTime")
    send(kafka, "stamped", range(100))
    create(kafka, "trimmed")
    send(kafka, "trimmed", range(100), **{"linger.ms": 50})
    with BlockingClient(kafka.bootstrap) as client:
        client.delete_records({TopicPartition("trimmed", 0): 37})
    create(
        kafka, "compacted", cleanup__policy="compact", segment__ms="100",
        min__cleanable__dirty__ratio="0.01", delete__retention__ms="100",
    )  # fmt: skip
    sent = 0

    def is_compacted() -> bool:
        nonlocal sent
        send(kafka, "compacted", range(sent, sent + 20))
        sent += 20
        return offsets(kafka, "compacted")[1] > 3 * len(batches(kafka, "compacted")) * 20

    wait_until(is_compacted, WAIT_S, "records to be compacted")
    topics = ("plain", "stamped", "trimmed", "compacted")
    named = [word for topic in topics for word in ("--topic", topic)]
    with BrokerProcess(tmp_path / "josefine") as target:
        command = (target.bootstrap, "mirror")
        where = ("--from", kafka.bootstrap, *named)
        done = josefine(*command, "run", *where, "--once")
        assert done.code == 0, done.err
        for topic in topics:
            assert topic_id(target, topic) == topic_id(kafka, topic)
            assert offsets(target, topic) == offsets(kafka, topic)
        for topic in topics[:3]:
            assert batches(target, topic) == batches(kafka, topic)
        checked = josefine(*command, "verify", *where)
        assert checked.code == 0, checked.err
        cut = josefine(*command, "cutover", *where)
        assert cut.code == 0, cut.err
        for topic in topics:
            in_transaction(target, topic, range(3), commits=True)
            assert offsets(target, topic)[1] == offsets(kafka, topic)[1] + 4


def test_kafka_that_has_no_mirrored_record_left_is_known_by_its_epochs(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "josefine") as target:
        check_epochs(kafka, target)
        check_unknown(kafka, target)
