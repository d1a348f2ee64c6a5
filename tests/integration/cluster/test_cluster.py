"""Real brokers form a cluster, replicate, lose one and go on: no part of it is simulated."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conf.generate import NODES
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.integration.cluster.records import ACKS_ALL, produce, read_all
from tests.support.broker import COMMAND, REPOSITORY, START_TIMEOUT_S
from tests.support.cluster import REPLICATED, Cluster
from tests.support.ports import free_ports
from tests.support.waiting import wait_until


def test_three_brokers_from_empty_directories_form_one_cluster(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        views = cluster.wait_settled()

        assert len({view["cluster_id"] for view in views}) == 1
        leader = lambda id_: cluster.view(id_).get("raft", {}).get("leader")  # noqa: E731
        wait_until(
            lambda: {leader(id_) for id_ in cluster.voters} == {cluster.controller()},
            30,
            "one leader that all name",
        )
        assert [each["id"] for each in views[0]["raft"]["voters"]] == [1, 2, 3]
        with BlockingClient(cluster.bootstrap) as client:
            described = client.describe_cluster()
        assert sorted(each.broker_id for each in described.brokers) == [1, 2, 3]


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_one_of_three_voters_waits_and_says_so_until_a_second_comes(tmp_path: Path) -> None:
    with Cluster(tmp_path, start=False) as cluster:
        first = cluster.broker(1)
        cluster.spawn(1)
        waiting = "waiting for a majority of the voters 1, 2, 3 to elect a leader"
        wait_until(
            lambda: waiting in first.output, START_TIMEOUT_S, "the line that says what it waits for"
        )
        assert "listening on" not in first.output

        cluster.spawn(2)
        cluster.wait_serving(1, 2)
        cluster.wait_settled()


def test_records_are_on_every_replica_and_images_are_equal(tmp_path: Path) -> None:
    """Checklist row 10."""
    with Cluster(tmp_path, **REPLICATED) as cluster, BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic("copied", partitions=3)])
        sent = produce(client, "copied", 300, acks=ACKS_ALL)
        views = cluster.wait_settled()

        assert read_all(client, "copied") == sent
        assert {tuple(sorted(each["isr"])) for each in views[0]["partitions"]} == {(1, 2, 3)}
        assert len({view["image"]["digest"] for view in views}) == 1


def test_no_acknowledged_record_is_lost_when_a_leader_is_killed(tmp_path: Path) -> None:
    """Checklist row 36."""
    with Cluster(tmp_path, **REPLICATED) as cluster, BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic("kept", partitions=1)])
        sent = produce(client, "kept", 200, acks=ACKS_ALL)
        leader = cluster.leader_of("kept")

        cluster.kill(leader)
        sent += produce(client, "kept", 200, acks=ACKS_ALL, first=200)
        cluster.leader_of("kept", but=leader)
        assert read_all(client, "kept") == sent

        cluster.restart(leader)
        cluster.wait_settled()
        assert read_all(client, "kept") == sent


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_single_broker_grows_to_three_voters_by_brokers_that_join(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        before = cluster.view(1)["cluster_id"]
        cluster.join(2)
        cluster.join(3, seeds=(2,))

        def voters() -> set[int]:
            return {each["id"] for each in cluster.view(1).get("raft", {}).get("voters", ())}

        wait_until(lambda: voters() == {1, 2, 3}, 60, "three voters")
        views = cluster.wait_settled()
        assert {view["cluster_id"] for view in views} == {before}


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_joiner_past_the_number_of_voters_is_an_observer(tmp_path: Path) -> None:
    with Cluster(tmp_path, raft__voters_max=3) as cluster:
        cluster.join(4)
        views = cluster.wait_settled()
        for view in views:
            assert [each["id"] for each in view["raft"]["voters"]] == [1, 2, 3]
            assert [each["id"] for each in view["raft"]["observers"]] == [4]


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_cluster_comes_back_after_all_its_brokers_were_stopped(tmp_path: Path) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("lasting", partitions=2)])
            sent = produce(client, "lasting", 100, acks=ACKS_ALL)
        for id_ in cluster.voters:
            assert cluster.stop(id_) == 0

        cluster.spawn(*cluster.voters)
        cluster.wait_serving(*cluster.voters)
        cluster.wait_settled()
        with BlockingClient(cluster.bootstrap) as client:
            assert read_all(client, "lasting") == sent


def test_shipped_three_nodes_start_as_they_are(tmp_path: Path) -> None:
    """Checklist rows 13 and 92. Only the addresses are moved: a test machine may use the ports."""
    ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
    voters = ",".join(f"{id_}@127.0.0.1:{port}" for id_, port in ports.items())
    processes = []
    try:
        for id_ in NODES:
            moved = {
                "JOSEFINE__BROKER__LISTENERS": "PLAINTEXT://127.0.0.1:0",
                "JOSEFINE__RAFT__LISTENER": f"127.0.0.1:{ports[id_]}",
                "JOSEFINE__RAFT__VOTERS": voters,
                "JOSEFINE__ADMIN__ADDRESS": "127.0.0.1:0",
            }
            config = REPOSITORY / "conf" / "cluster" / f"node-{id_}.yaml"
            with (tmp_path / f"{id_}.log").open("wb") as log:
                process = subprocess.Popen(
                    [*COMMAND, "broker", "--config", str(config)],
                    stdout=log,
                    stderr=log,
                    cwd=tmp_path,
                    env={**os.environ, "PYTHONPATH": str(REPOSITORY), **moved},
                )
            processes.append(process)

        def serve() -> bool:
            homes = [tmp_path / "data" / f"node-{id_}" for id_ in NODES]
            return all((home / "broker.addresses.json").exists() for home in homes)

        wait_until(serve, START_TIMEOUT_S, "three brokers of the shipped configuration")
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
