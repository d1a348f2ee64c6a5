"""What it costs to have on disk what is acknowledged: page cache, group commit, and what else is
asked for, turn about in one run.

A round starts each broker afresh in an empty directory and takes every measure once; told is the
median over the rounds, and of each round's ratio to the page cache. `BENCH_BEFORE` names another
checkout, whose `log.flush_messages: 1` is measured too; `BENCH_PEER=1` adds Apache Kafka with its
defaults.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, TopicPartition

from tests.bench.brokers import TOPIC, Running, client, create_topic
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BEFORE = os.environ.get("BENCH_BEFORE", "")
WITH_PEER = bool(os.environ.get("BENCH_PEER"))
RECORDS = 1_000_000
TRANSACTIONS = 400
SECONDS = 2.0

SETTINGS: dict[str, dict[str, object]] = {
    "page_cache": {"log__flush_messages": None, "log__flush_internal_topics": False},
    "coordinators": {"log__flush_messages": None, "log__flush_internal_topics": True},
    "group_commit": {"log__flush_messages": 1},
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _running(name: str, directory: Path) -> Iterator[Running]:
    if name == "kafka":
        with ApacheKafka(directory) as peer:
            create_topic(peer.bootstrap, TOPIC, 1)
            yield Running(name, peer.bootstrap, peer.pid)
        return
    before = name == "before"
    overrides = {"log__flush_messages": 1} if before else SETTINGS[name]
    broker = BrokerProcess(directory, start=False, **overrides)
    if before:
        broker.code = Path(BEFORE)
    with broker:
        broker.start()
        create_topic(broker.bootstrap, TOPIC, 1)
        yield Running(name, broker.bootstrap, broker.pid)


def _commits(broker: Running) -> float:
    """Synchronous offset commits a second of one consumer."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench"})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, count)], asynchronous=False)
            count += 1
        return count / (time.perf_counter() - began)
    finally:
        consumer.close()


def _measure(broker: Running) -> Iterator[tuple[str, float]]:
    for rate, size, count in (("100B", 100, RECORDS), ("1KB", 1_000, RECORDS // 5)):
        arguments = ("produce", broker.bootstrap, TOPIC, int(count * SCALE), size, "acks=-1")
        done = json.loads(client("librdkafka", *arguments))
        yield f"produce_{rate}_acks_all/records_per_s", done["records"] / done["seconds"]
    for connections in (1, 50):
        arguments = (broker.bootstrap, TOPIC, connections, SECONDS, 100, -1)
        done = json.loads(client("load", *arguments))
        name = f"one_record_{connections}_connections"
        yield f"{name}/requests_per_s", done["requests"] / done["seconds"]
        yield f"{name}/p50_us", done["p50_us"]
        yield f"{name}/p99_us", done["p99_us"]
    count = int(TRANSACTIONS * SCALE)
    arguments = ("transact", broker.bootstrap, TOPIC, count, 100, "records=1")
    done = json.loads(client("librdkafka", *arguments))
    yield "transactions/per_s", count / done["seconds"]
    yield "offset_commits/per_s", _commits(broker)


def main() -> None:
    names = [*SETTINGS, *(["before"] if BEFORE else []), *(["kafka"] if WITH_PEER else [])]
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIRECTORY")) as directory:
        for number in range(ROUNDS):
            for name in names if number % 2 else names[::-1]:
                say(f"round {number + 1} of {ROUNDS}: {name}")
                with _running(name, Path(directory) / f"{name}-{number}") as broker:
                    for measure, value in _measure(broker):
                        found[measure][name].append(value)
    for measure, values in found.items():
        line: dict[str, object] = {"measure": measure}
        for name in names:
            line[name] = round(median(values[name]), 1)
            ratios = [a / b for a, b in zip(values[name], values["page_cache"], strict=True)]
            line[f"{name}_ratio"] = round(median(ratios), 3)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
