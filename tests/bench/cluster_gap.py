"""How long a producer gets no acknowledgement when a partition's leader is killed with SIGKILL.

Two producers at once, acks=all, to the same partition; the gap is the longest time between two
acknowledgements from the kill on. Our own client asks again within tens of milliseconds: its gap
is the cluster's. librdkafka looks for a lost leader once a second, so its gap is that of many real
producers: the cluster's, rounded up to its next look.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record, build_batch
from tests.support.cluster import Cluster

BEFORE_S, AFTER_S = 2.0, 6.0
PAUSE_S = 0.002
SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
"""Shorter pauses than librdkafka's own, which are waiting of its own."""
Times = list[float]
GoOn = Callable[[], bool]


def longest_gaps(cluster: Cluster, topic: str, *, of_controller: bool) -> dict[str, float]:
    """Seconds by client. Kills the leader of one of the topic's partitions (as many as there are
    voters): one that is the controller, or one that is not."""
    controller = cluster.controller()
    leaders = {index: cluster.leader_of(topic, index) for index in range(len(cluster.voters))}
    index, leader = next(
        (index, leader)
        for index, leader in leaders.items()
        if (leader == controller) == of_controller
    )
    gaps, _, _ = gaps_of(cluster.bootstrap, topic, index, lambda: cluster.kill(leader))
    return gaps


def gaps_of(
    bootstrap: str, topic: str, index: int, kill: Callable[[], None], after_s: float = AFTER_S
) -> tuple[dict[str, float], dict[str, float], float]:
    """By client: the gap in seconds, and when it was acknowledged again; the moment of the kill.
    Moments are on `time.perf_counter`'s clock."""
    before_s = BEFORE_S + random.random()  # a client's own timers must not see it come
    end = time.perf_counter() + before_s + after_s
    times: dict[str, Times] = {"own_client": [], "librdkafka": []}

    def goes_on() -> bool:
        return time.perf_counter() < end

    threads = [
        threading.Thread(target=produce, args=(bootstrap, topic, index, goes_on, seen))
        for produce, seen in zip((_own_client, _librdkafka), times.values(), strict=True)
    ]
    for thread in threads:
        thread.start()
    time.sleep(before_s)
    killed = time.perf_counter()
    kill()
    for thread in threads:
        thread.join()
    gaps = {name: _gap(seen, killed) for name, seen in times.items()}
    again = {name: next(each for each in seen if each > killed) for name, seen in times.items()}
    return gaps, again, killed


def _gap(times: Times, killed: float) -> float:
    before = [each for each in times if each <= killed]
    after = [each for each in times if each > killed]
    if not before or not after:
        raise RuntimeError("a producer was not acknowledged before, or after the kill")
    return max(later - each for each, later in itertools.pairwise([before[-1], *after]))


def _own_client(bootstrap: str, topic: str, index: int, goes_on: GoOn, times: Times) -> None:
    tp = TopicPartition(topic, index)
    with BlockingClient(bootstrap) as client:
        while goes_on():
            batch = build_batch([Record(None, b"x" * 100, (), int(time.time() * 1_000))])
            client.produce({tp: batch}, acks=-1)
            times.append(time.perf_counter())
            time.sleep(PAUSE_S)


def _librdkafka(bootstrap: str, topic: str, index: int, goes_on: GoOn, times: Times) -> None:
    def acknowledged(error: Any, _message: Any) -> None:
        if error is None:
            times.append(time.perf_counter())

    producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})
    while goes_on():
        producer.produce(topic, b"x" * 100, partition=index, on_delivery=acknowledged)
        producer.poll(PAUSE_S)
    producer.flush(30)
