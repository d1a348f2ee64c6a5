"""Brokers of an earlier version get this one's code, one after the other, under load.

Takes minutes, and the earlier version out of the repository's history. By hand:
`pytest -m slow tests/integration/cluster/test_rolling_upgrade.py`.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.broker import REPOSITORY
from tests.support.cli import josefine
from tests.support.cluster import REPLICATED, Cluster
from tests.support.workload import Workload, check, read_back

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 3
EARLIER = {"f390b85": False, "89d3516": False, "7fb789e": True}
"""The first one that had clusters as they are now, the last one before groups and transactions, and
one with both; whether it understands all that this one has raised levels for."""


def checkout(commit: str, directory: Path) -> Path:
    """The files of that commit."""
    command = ["git", "archive", "--format=tar", commit]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True)
    if done.returncode:
        pytest.skip(f"{commit} is not in this repository's history")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as packed:
        packed.extractall(directory, filter="data")
    return directory


@pytest.mark.parametrize("commit", EARLIER)
def test_a_rolling_upgrade_under_load_loses_nothing_and_old_code_is_refused_behind_it(
    tmp_path: Path, commit: str
) -> None:
    old = checkout(commit, tmp_path / "old")
    with Cluster(tmp_path / "cluster", start=False, **REPLICATED) as cluster:
        for broker in cluster.brokers.values():
            broker.code = old
        cluster.start()
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        has_groups = _commit(cluster.bootstrap, 7)
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            for who in cluster.voters:
                cluster.stop(who)
                load.wait_acknowledged(50)
                cluster.broker(who).code = REPOSITORY
                cluster.broker(who).start()
                cluster.wait_settled()
                load.wait_acknowledged(50)
            upgraded = josefine(cluster.bootstrap, "features", "upgrade", "--yes")
            assert upgraded.code == 0, upgraded
            load.wait_acknowledged(50)
        assert load.account.failed == []
        assert load.account.sent == load.account.count
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))
        if has_groups:
            assert _committed(cluster.bootstrap) == 7
        _transact(cluster.bootstrap)
        listed = json.loads(josefine(cluster.bootstrap, "features", "list", "--json").out)
        assert all(each["level"] == each["highest"] for each in listed), listed

        cluster.stop(3)
        cluster.broker(3).code = old
        if EARLIER[commit]:
            cluster.broker(3).start()
            cluster.wait_settled()
        else:
            with pytest.raises(AssertionError, match="which broker 3 does not support"):
                cluster.broker(3).start()


def _commit(bootstrap: str, offset: int) -> bool:
    """As a group; whether there are groups."""
    consumer = _consumer(bootstrap)
    try:
        consumer.commit(offsets=[TopicPartition("load", 0, offset)], asynchronous=False)
    except Exception:
        return False
    finally:
        consumer.close()
    return True


def _committed(bootstrap: str) -> int:
    consumer = _consumer(bootstrap)
    try:
        (found,) = consumer.committed([TopicPartition("load", 0)], timeout=60)
        return int(found.offset)
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})


def _transact(bootstrap: str) -> None:
    """What the first of them could not."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("load", b"in a transaction")
    producer.commit_transaction(60)
