"""A cluster's birth, interrupted: real processes on what the death of a first leader leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from raft import (
    GENESIS,
    Batch,
    BlockFile,
    BlockKind,
    DiskFiles,
    Members,
    NodeId,
    State,
    Term,
)
from raft.block import make_block
from raft.config import FORMAT_MAX
from raft.members import encode_members
from tests.support.cluster import Cluster


def _write(data_dir: Path, id_: int, batch: Batch) -> None:
    data_dir.mkdir(parents=True)
    store, _ = BlockFile.open(DiskFiles(data_dir / "raft"), NodeId(id_))
    store.persist(batch)
    store.close()


def _die_at_birth(cluster: Cluster) -> None:
    """All voted for broker 1. Its birth block is durable there and nowhere else, and an older
    version has noted its name."""
    first, *others = cluster.voters
    voted = State(term=Term(1), vote=NodeId(first))
    for id_ in others:
        _write(Path(cluster.broker(id_).data_dir), id_, Batch(state=voted))
    members = Members(voters=frozenset(NodeId(each) for each in cluster.voters))
    payload = encode_members(members, "never-to-be-born")
    birth = make_block(GENESIS, Term(1), BlockKind.BIRTH, payload)
    data_dir = Path(cluster.broker(first).data_dir)
    _write(data_dir, first, Batch(state=replace(voted, head=birth.id), blocks=(birth,)))
    identity = {"version": 1, "broker_id": first, "cluster_id": "never-to-be-born"}
    (data_dir / "broker.json").write_text(json.dumps(identity) + "\n")


def test_first_leader_that_died_with_its_birth_block_comes_back_to_the_others(
    tmp_path: Path,
) -> None:
    """Data written before a birth had to be committed opens, and is healed."""
    with Cluster(tmp_path, start=False) as cluster:
        _die_at_birth(cluster)
        cluster.spawn(2, 3)
        cluster.wait_serving(2, 3)

        cluster.spawn(1)
        cluster.wait_serving(1)

        views = cluster.wait_settled()
        assert {view["raft"]["format"] for view in views} == {FORMAT_MAX}, "as the level allows"
        (cluster_id,) = {view["cluster_id"] for view in views}
        identity = json.loads((Path(cluster.broker(1).data_dir) / "broker.json").read_text())
        assert identity["cluster_id"] == cluster_id != "never-to-be-born"
        with BlockingClient(cluster.broker(1).bootstrap) as client:
            client.create_topics([NewTopic("all-three", partitions=1, replication_factor=3)])
