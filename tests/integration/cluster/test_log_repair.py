"""What an operator sees of damaged logs: verified, repaired and compared by the commands; and of
records that no replica has, which offsets they are and how their loss is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.integration.cluster.records import produce, read_all
from tests.support.cli import josefine
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

SMALL = {"segment.bytes": "4096"}
RECORDS = 600


def sealed(directory: Path) -> list[Path]:
    """The segments whose index is stored, oldest first."""
    return [each.with_suffix(".log") for each in sorted(directory.glob("*.index"))]


def flip_one_bit(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(len(data) // 2)
        file.write(bytes((data[len(data) // 2] ^ 1,)))


@pytest.fixture
def three_brokers(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, **REPLICATED) as made:
        made.wait_settled()
        yield made


def test_damage_is_verified_repaired_and_compared_by_commands(three_brokers: Cluster) -> None:
    with BlockingClient(three_brokers.bootstrap) as client:
        client.create_topics([NewTopic("orders", 1, 3, configs=SMALL)])
        client.create_topics([NewTopic("alone", 1, 1, configs=SMALL)])
        orders = produce(client, "orders", RECORDS)
        alone = produce(client, "alone", RECORDS)
    leader = three_brokers.broker(three_brokers.leader_of("orders"))
    only = three_brokers.broker(three_brokers.leader_of("alone"))
    other = next(each for each in three_brokers.brokers.values() if each not in (leader, only))
    damaged = [(leader, "orders-0", 0), (other, "orders-0", 1), (only, "alone-0", 0)]
    for broker, name, at in damaged:
        wait_until(lambda d=broker.data_dir / name, n=at: len(sealed(d)) > n, 30, "segments")

    flip_one_bit(sealed(leader.data_dir / "orders-0")[0])
    sealed(other.data_dir / "orders-0")[1].unlink()
    flip_one_bit(sealed(only.data_dir / "alone-0")[0])
    for broker in (leader, other):
        found = josefine("", "log", "repair", "orders-0", "--admin", broker.admin_url)
        assert "1 segment repaired since its start" in found.out, found.err

    same = josefine("", "cluster", "verify", "--topic", "orders", "--admin", leader.admin_url)
    assert same.code == 0, same.err + same.out
    lost = josefine("", "log", "repair", "--admin", only.admin_url)
    assert lost.code == 1
    assert "alone-0 segment 0 from offset" in lost.out
    assert "are on no replica" in lost.out
    status, body = only.get("/health")
    told = json.dumps(json.loads(body)["checks"])
    assert status == 503
    assert "lost, for no replica has them intact: alone-0 offsets" in told
    assert "josefine log repair --accept-loss" in told
    assert "josefine_log_ranges_lost 1" in only.get("/metrics")[1]
    # It may lead both topics, and has found the damage of both then.
    found_there = (each for each in only.output.splitlines() if "damaged segment found" in each)
    line = next(each for each in found_there if "partition=alone-0" in each)
    for part in ("segment=0", "offset=", "next="):
        assert part in line, line

    given = josefine("", "log", "repair", "alone-0", "--accept-loss", "--admin", only.admin_url)

    assert given.code == 0, given.err + given.out
    with BlockingClient(three_brokers.bootstrap) as client:
        assert read_all(client, "orders") == orders
        kept = read_all(client, "alone")
    assert set(kept) < set(alone)
    assert len(kept) > RECORDS // 2
    assert only.get("/health")[0] == 200
