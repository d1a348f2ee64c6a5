"""One bad replica takes nothing from the others: the processes of issue 9, all killed, one log
damaged or gone, and the broker that has it started first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.host.disk.files import RealFiles
from josefine_broker.host.log.high_watermarks import HighWatermarks
from tests.integration.cluster.records import produce, read_all
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

TOPIC = "kept"
RECORDS = 1_000
BAD = 2
STARTED_S = 60
HEALED_S = 60
"""A repair runs while the broker starts to serve."""


def flip_one_bit(directory: Path) -> None:
    path = max(directory.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def stored(files: RealFiles) -> list[int]:
    """The high watermarks that a broker would find at its start."""
    marks = HighWatermarks(files)
    return [marks.get(*key) for key in marks]


@pytest.mark.long_proof(share=3, among="histories of clusters")
@pytest.mark.parametrize(
    ("damage", "found"), [(flip_one_bit, "unsynced"), (shutil.rmtree, "missing")]
)
def test_acknowledged_records_outlive_one_bad_replica(
    tmp_path: Path, damage: Callable[[Path], None], found: str
) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()  # a broker that serves may not know yet that all are registered
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic(TOPIC, partitions=1)])
            acknowledged = produce(client, TOPIC, RECORDS)
        bad = cluster.broker(BAD)
        files = RealFiles(bad.data_dir)
        wait_until(lambda: stored(files) == [RECORDS], STARTED_S, "its stored high watermark")
        for id_ in cluster.voters:
            cluster.kill(id_)
        damage(bad.data_dir / f"{TOPIC}-0")
        said = len(bad.output)

        cluster.spawn(BAD)
        doubt = f"in doubt: {TOPIC}-0 is {found}"
        wait_until(lambda: doubt in bad.output[said:], STARTED_S, doubt)
        cluster.spawn(1, 3)
        cluster.wait_serving(*cluster.voters)
        cluster.wait_settled()

        with BlockingClient(cluster.bootstrap) as client:
            assert read_all(client, TOPIC) == acknowledged
        logs = [each.data_dir / f"{TOPIC}-0" for each in cluster.brokers.values()]
        wait_until(lambda: len(set(map(content, logs))) == 1, HEALED_S, "three equal logs")


def content(directory: Path) -> bytes:
    """The batches of a log. A repair may have begun another segment; none while it swaps one in."""
    try:
        return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))
    except FileNotFoundError:
        return b""
