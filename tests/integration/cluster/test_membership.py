"""Who belongs to a cluster and who does not: snapshots for newcomers, lost data, foreign clusters,
two processes with one id, and a majority that is gone."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.client import replicas
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.session import Policy
from tests.support.broker import BrokerProcess
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

SNAPSHOT_BLOCKS = 20


def test_newcomer_gets_a_snapshot_and_so_does_a_restart(tmp_path: Path) -> None:
    """Checklist row 9."""
    with Cluster(tmp_path, 1, raft__snapshot_blocks=SNAPSHOT_BLOCKS) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            for number in range(3 * SNAPSHOT_BLOCKS):
                client.create_topics([NewTopic(f"topic-{number}", partitions=1)])
        wait_until(lambda: cluster.view(1).get("raft", {}).get("root", 0) > 0, 60, "a snapshot")

        cluster.join(2)
        cluster.join(3)

        views = cluster.wait_settled()
        assert all(view["raft"]["root"] > 0 for view in views)
        assert all(view["counts"]["topics"] == 3 * SNAPSHOT_BLOCKS for view in views)
        cluster.kill(1)
        cluster.restart(1)
        cluster.wait_settled()


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_voter_that_lost_its_data_is_refused_and_says_why(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.wait_settled()
        cluster.kill(3)
        shutil.rmtree(cluster.broker(3).data_dir)

        cluster.spawn(3)

        broker = cluster.broker(3)
        wait_until(lambda: not broker.alive, 60, "the end of a broker that lost its data")
        assert "broker 3 votes in this cluster, but came with an empty data directory" in (
            broker.output
        )
        assert "Traceback" not in broker.output
        with BlockingClient(cluster.broker(1).bootstrap) as client:
            client.create_topics([NewTopic("goes-on", partitions=1)])


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_broker_with_data_of_a_cluster_of_its_own_does_not_serve_beside_the_others(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path, start=False) as cluster:
        first = cluster.broker(1)
        with BrokerProcess(tmp_path / "alone") as alone:
            assert alone.stop() == 0
            shutil.copytree(alone.data_dir, first.data_dir)

        first.spawn()

        wait_until(lambda: not first.alive, 60, "the end of a broker with other data")
        assert "raft.voters names the brokers 1, 2, 3, but the data directory" in first.output
        assert "Traceback" not in first.output
        assert "listening on" not in first.output


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_second_process_with_the_same_id_is_kept_out_until_the_first_is_gone(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path, 1) as cluster:
        first = cluster.join(2)
        cluster.wait_settled()
        seeds = first.overrides["raft__seeds"]
        second = BrokerProcess(tmp_path / "second", start=False, broker__id=2, raft__seeds=seeds)
        with second:
            second.spawn()
            wait_until(
                lambda: "broker 2 is connected already, from 127.0.0.1:" in second.output,
                60,
                "the reason why the second process is not taken",
            )
            assert first.alive
            assert "listening on" not in second.output

            cluster.kill(2)
            second.wait_serving()


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_observer_that_lost_its_data_begins_anew(tmp_path: Path) -> None:
    with Cluster(tmp_path, 1) as cluster:
        observer = cluster.join(2)
        cluster.wait_settled()
        cluster.kill(2)
        shutil.rmtree(observer.data_dir)

        cluster.restart(2)

        views = cluster.wait_settled()
        assert [each["id"] for each in views[0]["raft"]["observers"]] == [2]


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_former_voter_that_loses_its_data_again_begins_anew_by_itself(tmp_path: Path) -> None:
    """Its file still names it among `raft.voters`, so it asks nobody to be let in."""
    with Cluster(tmp_path, raft__voters_max=2) as cluster:
        cluster.wait_settled()
        cluster.kill(3)
        wait_until(lambda: _is_fenced(cluster, 3), 60, "the loss of broker 3")
        with BlockingClient(cluster.broker(1).bootstrap) as client:
            client.run(lambda s, t, d: replicas.remove_voter(s, 3, t, d))
        for _ in range(2):
            shutil.rmtree(cluster.broker(3).data_dir)
            cluster.restart(3)
            views = cluster.wait_settled()
            assert [each["id"] for each in views[0]["raft"]["observers"]] == [3]
            cluster.kill(3)


def _is_fenced(cluster: Cluster, broker_id: int) -> bool:
    brokers = cluster.view(1).get("brokers", ())
    return any(each["id"] == broker_id and each["fenced"] for each in brokers)


def test_broker_of_another_cluster_is_refused_and_both_sides_say_why(tmp_path: Path) -> None:
    with Cluster(tmp_path / "theirs", 1) as theirs:
        stranger = theirs.join(2)
        address = next(each for each in theirs.view(2)["brokers"] if each["id"] == 1)["raft"]
        theirs.kill(1)

        with BrokerProcess(tmp_path / "ours", broker__id=1, raft__listener=address) as ours:

            def both_told() -> bool:
                return all("belongs to cluster" in each.output for each in (ours, stranger))

            wait_until(both_told, 60, "a refusal on both sides")
            assert json.loads(ours.get("/cluster")[1])["counts"]["brokers"] == 1


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_change_without_a_majority_ends_in_one_clear_error_at_its_deadline(tmp_path: Path) -> None:
    """Checklist row 11."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()
        last = cluster.broker(1)
        cluster.kill(2)
        cluster.kill(3)
        began_s = time.monotonic()
        with (
            BlockingClient(last.bootstrap, policy=Policy(request_timeout_ms=4_000)) as client,
            pytest.raises(
                KafkaError, match=r"request_timed_out.*no controller: 1 of the voters 1, 2, 3 is"
            ),
        ):
            # One replica: possible as well for a broker that has heard of one death only.
            client.create_topics([NewTopic("nobody-hears", partitions=1, replication_factor=1)])
        assert time.monotonic() - began_s < 30

        cluster.restart(2)
        # Not settled: "nobody-hears" may have come after all, with its one replica on broker 3.
        with BlockingClient(last.bootstrap) as client:
            client.create_topics([NewTopic("heard", partitions=1, replication_factor=2)])


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_change_asked_of_a_follower_waits_for_the_next_leader(tmp_path: Path) -> None:
    """Checklist row 11."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()
        leader = cluster.controller()
        follower = next(each for each in cluster.voters if each != leader)
        cluster.kill(leader)
        with BlockingClient(cluster.broker(follower).bootstrap) as client:
            client.create_topics([NewTopic("patient", partitions=2, replication_factor=2)])
            assert client.partition_count("patient") == 2
