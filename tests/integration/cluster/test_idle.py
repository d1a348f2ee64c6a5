"""What a cluster costs while nothing happens: the same with one partition and with five hundred."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED
from tests.support.namespaces import CLIENT, Lab, NamespaceCluster
from tests.support.waiting import wait_until

WINDOW_S = 4.0
SAMPLE_S = 0.5
LOOKS = 3
"""An election falls into one, where the machine is busy: that is not what idling costs."""


def _bytes_per_s(cluster: NamespaceCluster, window_s: float) -> float:
    """Between the brokers, over a window in which no client asks anything."""
    began_s, before = time.monotonic(), cluster.lab.bytes_sent(*cluster.voters)
    wait_until(lambda: time.monotonic() >= began_s + window_s, 2 * window_s, "the window's end")
    return (cluster.lab.bytes_sent(*cluster.voters) - before) / (time.monotonic() - began_s)


def _idle_bytes_per_s(cluster: NamespaceCluster) -> float:
    """The same, once the cluster is idle: two samples in a row are alike.

    A settled cluster is not idle yet: each follower still names its new partitions to their
    leaders once, some 25 bytes each, when its fetch session takes them up.
    """
    cluster.wait_settled()
    samples = [_bytes_per_s(cluster, SAMPLE_S)]

    def idle() -> bool:
        samples.append(_bytes_per_s(cluster, SAMPLE_S))
        return abs(samples[-1] - samples[-2]) < 0.1 * samples[-1]

    wait_until(idle, 30.0, "two samples of the traffic that are alike")
    return _bytes_per_s(cluster, WINDOW_S)


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_idle_traffic_does_not_grow_with_partitions(tmp_path: Path) -> None:
    """Checklist row 39."""

    def create(name: str, partitions: int) -> None:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic(name, partitions=partitions)])

    # Default timings: those of the fast profile would hide replication behind heartbeats.
    with (
        Lab(1, 2, 3) as lab,
        NamespaceCluster(tmp_path, lab, **REPLICATED) as cluster,
    ):
        lab.inside(CLIENT, lambda: create("one", 1))
        with_one = _idle_bytes_per_s(cluster)
        lab.inside(CLIENT, lambda: create("many", 499))
        for _ in range(LOOKS):
            with_many = _idle_bytes_per_s(cluster)
            if with_many < 1.5 * with_one:
                break

    print(f"idle: {with_one:.0f} B/s with 1 partition, {with_many:.0f} B/s with 500")
    assert with_many < 1.5 * with_one
