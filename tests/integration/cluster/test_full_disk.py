"""A disk that fills under load: its broker hands over, lives on, and takes part again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until
from tests.support.workload import Workload, check, read_back

PARTITIONS = 3
DISK_BYTES = 48 * 1024 * 1024
RESERVE_BYTES = 16 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own of a few megabytes."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid():
        pytest.skip("mounting a small file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mounted)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode:
        pytest.skip(f"mounting does not work here: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True, timeout=30)


def fill_to_the_last_byte(path: Path) -> Path:
    """Not even the reserve is left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4_096)):
            pass
    return path


def checks(cluster: Cluster, broker_id: int) -> dict[str, dict[str, str]]:
    checks: dict[str, dict[str, str]] = json.loads(cluster.broker(broker_id).get("/health")[1])
    return checks["checks"]  # type: ignore[return-value]


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_broker_with_a_full_disk_hands_over_and_comes_back(
    tmp_path: Path, small_disk: Path
) -> None:
    with Cluster(tmp_path, start=False, **REPLICATED) as cluster:
        cluster.broker(1).data_dir = small_disk / "data"
        cluster.broker(1).overrides["broker__disk_free_bytes_min"] = RESERVE_BYTES
        cluster.start()
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            filler = small_disk / "filler"
            filler.write_bytes(bytes(DISK_BYTES - RESERVE_BYTES))
            for index in range(PARTITIONS):
                cluster.leader_of("load", index, but=1)
            load.wait_acknowledged(200)
            assert cluster.broker(1).alive

            def tells_why() -> bool:
                """Others may have led before it looked at its disk."""
                status, body = cluster.broker(1).get("/health")
                told = json.loads(body)["checks"]["cluster"]["detail"]
                return status == 503 and "bytes free" in body and "hands over until this" in told

            wait_until(tells_why, 60, "a broker that says that its disk is full")

            view = json.loads(cluster.broker(1).get("/cluster")[1])
            assert "bytes free" in view["storage_trouble"]

            # What it leads in the metadata goes too: there, its next write may find no room.
            wait_until(lambda: cluster.controller() != 1, 60, "another controller")
            full = fill_to_the_last_byte(small_disk / "rest")
            with BlockingClient(cluster.broker(2).bootstrap) as client:
                for n in range(20):  # what is left of a page takes some blocks
                    name = f"made-meanwhile-{n}"
                    client.create_topics([NewTopic(name, partitions=9, replication_factor=2)])
            lacks = lambda: "no room" in checks(cluster, 1)["metadata"]["detail"]  # noqa: E731
            wait_until(lacks, 60, "a broker without room for metadata")
            assert cluster.broker(1).alive

            full.unlink()
            filler.unlink()
            wait_until(lambda: 1 in cluster.partition("load", 0)["isr"], 60, "broker 1 in the ISR")
            cluster.wait_settled()
            load.wait_acknowledged(100)
        assert load.account.failed == []
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_broker_that_starts_on_a_full_disk_says_what_it_waits_for(tmp_path: Path) -> None:
    with Cluster(tmp_path, start=False) as cluster:
        broker = cluster.broker(1)
        broker.overrides["broker__disk_free_bytes_min"] = 2**62
        broker.spawn()  # alone, it has looked at its disk before anybody could take it in
        wait_until(lambda: "waiting for a majority" in broker.output, 60, "a broker that waits")

        cluster.spawn(2, 3)

        reason = f"bytes free, broker.disk_free_bytes_min is {2**62}"

        def names_disk() -> bool:
            lines = broker.output.splitlines()
            return any("waiting for the controller" in each and reason in each for each in lines)

        wait_until(names_disk, 60, "a broker that names the disk")
