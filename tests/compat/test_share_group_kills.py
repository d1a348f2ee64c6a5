"""Two of Apache Kafka 4.4's verifiable share consumers while a leader is killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.share_admin import share_offsets
from josefine_broker.records.builder import Record, build_batch
from tests.compat.foreign import tool_command
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
CONSUME = "org.apache.kafka.tools.VerifiableShareConsumer"
TOPIC, PARTITIONS, COUNT = "shared", 3, 300
TIMEOUT_S = 180
Place = tuple[int, int]
"""Partition and offset."""


@contextmanager
def member(bootstrap: str, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A verifiable share consumer, which answers each record by itself."""
    command = tool_command(
        CONSUME, "--bootstrap-server", bootstrap, "--topic", TOPIC, "--group-id", TOPIC,
        "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest",
    )  # fmt: skip
    with said.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def places(event: Mapping[str, list[Mapping[str, object]]]) -> set[Place]:
    return {
        (int(str(part["partition"])), offset)
        for part in event["partitions"]
        for offset in part["offsets"]  # type: ignore[attr-defined]
    }


def fill(client: BlockingClient) -> None:
    """So many records more, some to each partition."""
    for number in range(PARTITIONS):
        values = [Record(value=b"%d" % each) for each in range(COUNT // PARTITIONS)]
        client.produce({TopicPartition(TOPIC, number): build_batch(values)})


def finished(client: BlockingClient) -> int:
    """Up to where everything is answered, summed."""
    try:
        found = client.run(lambda session, now, until: share_offsets(session, TOPIC, now, until))
    except KafkaError as error:
        if error.code is not ErrorCode.group_id_not_found:
            raise
        return 0  # no member has joined yet
    return sum(each.start for each in found.values())


def test_each_record_is_accepted_once_though_a_leader_is_killed(tmp_path: Path) -> None:
    """Its locks and counts are gone; what it has stored is not: no record that was accepted comes
    again, and none is left."""
    said = [tmp_path / "one", tmp_path / "two"]
    with (
        Cluster(tmp_path / "brokers", **REPLICATED) as cluster,
        BlockingClient(cluster.bootstrap) as client,
    ):
        client.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        with member(cluster.bootstrap, said[0]) as one, member(cluster.bootstrap, said[1]) as two:
            fill(client)
            has = partial(finished, client)
            wait_until(lambda: has() == COUNT, TIMEOUT_S, "all records are answered")
            killed = cluster.leader_of(TOPIC, 0)
            cluster.kill(killed)
            cluster.leader_of(TOPIC, 0, but=killed)
            fill(client)
            wait_until(lambda: has() == 2 * COUNT, TIMEOUT_S, "the new ones are answered")
            for each in (one, two):
                each.send_signal(signal.SIGTERM)
                each.wait(TIMEOUT_S)
    events = [json.loads(line) for each in said for line in each.read_text().splitlines()]
    taken = sorted(events, key=lambda each: each["timestamp"])
    accepted = Counter[Place]()
    consumed = set[Place]()
    for each in taken:
        if each["name"] == "records_consumed":
            assert not places(each) & accepted.keys(), "it was accepted before"
            consumed |= places(each)
        elif each["name"] == "offsets_acknowledged" and each["success"]:
            accepted.update(places(each))
    wanted = {(part, at) for part in range(PARTITIONS) for at in range(2 * COUNT // PARTITIONS)}
    assert consumed == wanted
    assert set(accepted.values()) == {1}
