"""What a broker of any version is given, and what any later one must still have of it.

`python -m tests.support.versions TREE FOLDER` starts a broker of the checkout TREE, writes to it
with librdkafka, notes what it answers and packs its data directory: `FOLDER/data.tar.gz` and
`FOLDER/facts.json`. `tests/integration/test_upgrade.py` asks today's broker the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support.ports import free_ports
from tests.support.waiting import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (3, {"retention.ms": "-1"}),
    "segments": (1, {"segment.bytes": "2048", "retention.ms": "-1"}),
    "compacted": (1, {"cleanup.policy": "compact", "segment.bytes": "2048"}),
    "transfers": (1, {"retention.ms": "-1"}),
}
GROUP = "readers"
TIMEOUT_S = 60


def write(bootstrap: str) -> None:
    """Topics, records of every codec, a group's offsets; transactions where there are some."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(name, num_partitions=count, replication_factor=1, config=config)
        for name, (count, config) in TOPICS.items()
    ]
    for made in admin.create_topics(topics).values():
        made.result(TIMEOUT_S)
    for number, codec in enumerate(CODECS):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all"}
        )
        for n in range(30):
            producer.produce(
                "plain",
                key=f"k{n}" if n % 5 else None,
                value=f"{codec} {n} ".encode() * 4 if n % 7 else None,
                partition=n % 3,
                timestamp=1_700_000_000_000 + 1_000 * number + n,
                headers=[("codec", codec.encode()), ("n", None), ("n", str(n).encode())],
            )
            producer.produce("segments", value=f"{codec} {n}".encode() * 6, partition=0)
            value = None if codec == "zstd" and n % 3 == 0 else f"{codec} {n}".encode()
            producer.produce("compacted", key=f"k{n % 10}", value=value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
    _commit(bootstrap)
    _transact(bootstrap)


def _commit(bootstrap: str) -> None:
    consumer = _consumer(bootstrap)
    at = [TopicPartition("plain", 0, 11), TopicPartition("plain", 2, 7, metadata="a note")]
    try:
        consumer.commit(offsets=at, asynchronous=False)
    except KafkaException as error:  # the first versions have no groups
        print(f"no group: {error}", file=sys.stderr)
    finally:
        consumer.close()


def _transact(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bank"})
    try:
        producer.init_transactions(10)
    except KafkaException as error:
        print(f"no transactions: {error}", file=sys.stderr)
        return
    for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        for n in range(3):
            producer.produce("transfers", value=f"{number} {n}".encode(), partition=0)
        ends(TIMEOUT_S)


def facts(bootstrap: str) -> dict[str, Any]:
    """What a broker says of all that: topics, their records, the group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: dict[str, Any] = {"topics": {}, "records": {}, "committed": {}}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in TOPICS]
    for resource, asked in admin.describe_configs(resources).items():
        config = asked.result(TIMEOUT_S)
        set_ = {key: config[key].value for key in TOPICS[resource.name][1]}
        found["topics"][resource.name] = {"partitions": TOPICS[resource.name][0], "config": set_}
    for name in TOPICS:
        for isolation in ("read_committed", "read_uncommitted"):
            found["records"][f"{name} {isolation}"] = _read(bootstrap, name, isolation)
    group = ConsumerGroupTopicPartitions(GROUP)
    try:
        (asked,) = admin.list_consumer_group_offsets([group]).values()
        for each in asked.result(TIMEOUT_S).topic_partitions:
            place = f"{each.topic}-{each.partition}"
            found["committed"][place] = [each.offset, each.metadata]
    except KafkaException as error:
        print(f"no group: {error}", file=sys.stderr)
    return found


def _consumer(bootstrap: str, **config: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )


def _read(bootstrap: str, topic: str, isolation: str) -> list[list[Any]]:
    """Of each partition: how many records, first and last offset, a digest of all that they say."""
    consumer = _consumer(bootstrap, isolation_level=isolation, enable_partition_eof="true")
    count = TOPICS[topic][0]
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
    records: list[list[tuple[int, str]]] = [[] for _ in range(count)]
    ended = 0
    while ended < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{topic}: {ended} of {count} partitions ended"
        if message.error():
            ended += 1
            continue
        said = [message.timestamp(), message.key(), message.value(), message.headers()]
        records[message.partition()].append((message.offset(), repr(said)))
    consumer.close()
    return [
        [len(each), each[0][0], each[-1][0], hashlib.sha256(repr(each).encode()).hexdigest()[:16]]
        for each in records
        if each
    ]


@contextmanager
def broker_of(tree: Path, data: Path, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A broker that runs a checkout's code. Gives (bootstrap, process); kills what still runs."""
    port, raft, admin = free_ports(3)
    config = {
        "broker": {"data_dir": str(data), "listeners": [f"PLAINTEXT://127.0.0.1:{port}"]},
        "admin": {"address": f"127.0.0.1:{admin}"},
    }
    if "  listener:" in (tree / "conf/broker.yaml").read_text():
        config["raft"] = {"listener": f"127.0.0.1:{raft}"}
    file = log.with_suffix(".yaml")
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "josefine_cli.main", "broker", "--config", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with log.open("ab") as said:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=said, stderr=said)
    try:
        known = data / "broker.addresses.json"
        wait_until(lambda: known.exists() or process.poll() is not None, TIMEOUT_S, "broker start")
        assert process.poll() is None, log.read_text()
        yield f"127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def pack(tree: Path, folder: Path) -> None:
    """Make the two files. The broker is stopped, begins once more and is killed: both ends are in
    its directory."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        data, log = Path(scratch, "data"), Path(scratch, "broker.log")
        with broker_of(tree, data, log) as (bootstrap, process):
            write(bootstrap)
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)
        (data / "broker.addresses.json").unlink(missing_ok=True)
        with broker_of(tree, data, log) as (bootstrap, _):
            found = facts(bootstrap)
        (folder / "facts.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        with tarfile.open(folder / "data.tar.gz", "w:gz") as packed:
            packed.add(data, "data")


if __name__ == "__main__":
    pack(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
