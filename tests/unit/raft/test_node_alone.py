"""A node that is the only voter: birth, proposals, restart, snapshots, and the order of a Ready."""

from dataclasses import dataclass, field
from random import Random

import pytest

from raft import (
    GENESIS,
    Block,
    BlockFile,
    BlockKind,
    Config,
    MemoryFiles,
    Node,
    NodeId,
    Outcome,
    Ready,
    Recovered,
    Refused,
    Result,
    Role,
)
from raft.members import decode_members

ONE = NodeId(1)


def config(**overrides: object) -> Config:
    values = {"node_id": ONE, "initial_voters": (ONE,), "cluster_id": "c-1", **overrides}
    return Config(**values)  # type: ignore[arg-type]


@dataclass
class Host:
    """The smallest host that keeps the order of raft/README.md."""

    files: MemoryFiles
    config: Config = field(default_factory=config)
    now_ms: int = 0
    applied: list[Block] = field(default_factory=list)
    snapshots: list[bytes] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store, self.recovered = BlockFile.open(self.files, self.config.node_id)
        self.node = Node(self.config, self.recovered, now_ms=self.now_ms, rng=Random(1))

    def run(self, now_ms: int | None = None) -> "Host":
        self.now_ms = self.now_ms if now_ms is None else now_ms
        self.node.tick(self.now_ms)
        while self.node.has_ready():
            self.do(self.node.ready())
        return self

    def do(self, ready: Ready) -> None:
        if ready.batch is not None:
            self.store.persist(ready.batch)
        if ready.installed is not None:
            self.snapshots.append(ready.installed.data)
        self.applied += ready.committed
        self.outcomes += ready.outcomes
        self.node.advance()

    def propose(self, payload: bytes, deadline_ms: int = 10_000) -> int:
        return self.node.propose(payload, self.now_ms, deadline_ms).number

    def payloads(self) -> list[bytes]:
        return [block.payload for block in self.applied if block.kind is BlockKind.DATA]


def test_the_first_block_of_a_new_cluster_carries_its_id_and_voters() -> None:
    host = Host(MemoryFiles()).run()

    (birth,) = host.applied
    members, cluster_id = decode_members(birth.payload)

    assert (birth.kind, birth.id, birth.parent) == (BlockKind.BIRTH, (1, 1), GENESIS)
    assert (cluster_id, members.voters) == ("c-1", {ONE})
    assert host.node.status().cluster_id == "c-1"


def test_a_node_that_only_joins_never_forms_a_cluster() -> None:
    host = Host(MemoryFiles(), config(initial_voters=()))

    for now_ms in range(0, 60_000, 500):
        host.run(now_ms)

    assert host.node.status().role is Role.FOLLOWER
    assert host.node.status().head == GENESIS
    assert host.node.wake_at_ms() is None


def test_proposals_are_applied_in_order_and_then_told() -> None:
    host = Host(MemoryFiles()).run()

    numbers = [host.propose(b"%d" % i) for i in range(5)]
    assert host.outcomes == []
    host.run()

    assert host.payloads() == [b"0", b"1", b"2", b"3", b"4"]
    assert [outcome.number for outcome in host.outcomes] == numbers
    assert all(outcome.result is Result.COMMITTED for outcome in host.outcomes)
    assert [outcome.block_id for outcome in host.outcomes] == [b.id for b in host.applied[1:]]


def test_nothing_is_committed_before_it_is_durable() -> None:
    host = Host(MemoryFiles()).run()
    host.propose(b"a")

    first = host.node.ready()
    host.propose(b"b")

    assert first.batch is not None
    assert first.batch.must_sync
    assert (first.committed, first.outcomes) == ((), ())
    assert not host.node.has_ready(), "one Ready at a time"
    host.do(first)
    second = host.node.ready()
    assert [block.payload for block in second.committed] == [b"a"]
    assert second.batch is not None
    assert [block.payload for block in second.batch.blocks] == [b"b"]


def test_a_batch_that_only_moves_the_commit_need_not_be_synced() -> None:
    host = Host(MemoryFiles()).run()
    host.propose(b"a")
    host.do(host.node.ready())

    batch = host.node.ready().batch

    assert batch is not None
    assert batch.blocks == ()
    assert batch.state.commit == batch.state.head
    assert not batch.must_sync


def test_restart_commits_and_applies_everything_acknowledged() -> None:
    """Checklist row 6."""
    files = MemoryFiles()
    host = Host(files).run()
    host.propose(b"a")
    host.propose(b"b")
    host.run()
    before = host.node.status()

    again = Host(files.crash()).run()

    after = again.node.status()
    assert again.payloads() == [b"a", b"b"]
    assert after.cluster_id == "c-1"
    assert after.term == before.term + 1
    assert after.commit == after.head == (after.term, before.head.height + 1)
    assert [b.kind for b in again.applied].count(BlockKind.BIRTH) == 1


def test_a_leader_commits_older_blocks_only_through_one_of_its_own_term() -> None:
    """Raft paper, 5.4.2. Checklist row 7."""
    files = MemoryFiles()
    host = Host(files).run()
    host.propose(b"a")
    host.store.persist(host.node.ready().batch)  # type: ignore[arg-type]

    again = Host(files.crash())
    again.node.tick(0)
    first = again.node.ready()

    assert first.batch is not None
    assert [block.kind for block in first.batch.blocks] == [BlockKind.EMPTY]
    assert again.node.status().commit == again.recovered.state.commit
    again.do(first)
    assert again.node.status().commit.term == again.node.status().term
    again.run()
    assert again.payloads() == [b"a"]


def test_a_proposal_waits_for_a_leader_and_ends_at_its_deadline() -> None:
    """Checklist row 11."""
    host = Host(MemoryFiles(), config(initial_voters=(ONE, NodeId(2), NodeId(3))))
    number = host.propose(b"a", deadline_ms=700)

    host.run(699)
    assert host.outcomes == []
    host.run(700)

    assert host.outcomes == [Outcome(number=number, result=Result.DEAD, block_id=None)]


def test_a_placed_proposal_is_unknown_at_its_deadline() -> None:
    host = Host(MemoryFiles()).run()
    number = host.propose(b"a", deadline_ms=5)
    slow_disk = host.node.ready()

    host.node.tick(5)
    host.do(slow_disk)
    host.run(5)

    assert [(o.number, o.result) for o in host.outcomes] == [(number, Result.UNKNOWN)]
    assert host.payloads() == [b"a"], "it was committed after all: that is what unknown means"


def test_proposals_are_bounded_in_number_and_bytes() -> None:
    host = Host(
        MemoryFiles(), config(proposals_max=3, payload_bytes_max=10, proposals_bytes_max=25)
    )
    host.run()

    with pytest.raises(Refused, match="11 bytes exceed 10"):
        host.propose(b"x" * 11)
    host.propose(b"x" * 10)
    host.propose(b"x" * 10)
    with pytest.raises(Refused, match="bytes of proposals are outstanding"):
        host.propose(b"x" * 10)
    host.propose(b"x")
    with pytest.raises(Refused, match="3 proposals are outstanding"):
        host.propose(b"x")

    host.run()
    host.propose(b"x" * 10)


def test_a_snapshot_replaces_the_blocks_before_it() -> None:
    """Checklist row 9."""
    files = MemoryFiles()
    host = Host(files).run()
    for i in range(10):
        host.propose(b"%d" % i)
    host.run()
    last = host.node.status().applied

    host.node.compact(b"state after ten")
    host.propose(b"later")
    host.run()

    assert host.node.status().root == last
    assert len(host.node.chain) == 1
    again = Host(files.crash()).run()
    assert again.snapshots == [b"state after ten"]
    assert again.payloads() == [b"later"]
    assert again.node.status().cluster_id == "c-1"
    assert again.node.status().members.voters == {ONE}


def test_a_long_chain_is_applied_in_bounded_steps() -> None:
    files = MemoryFiles()
    host = Host(files).run()
    for _ in range(100):
        host.propose(b"")
    host.run()
    again = Host(files.crash(), config(apply_blocks_max=30))
    again.node.tick(0)

    steps = []
    while again.node.has_ready():
        ready = again.node.ready()
        steps.append(len(ready.committed))
        again.do(ready)

    assert max(steps) == 30
    assert sum(steps) == 102  # birth, 100, the new leader's


def test_a_read_waits_for_what_is_committed_to_be_applied() -> None:
    host = Host(MemoryFiles()).run()
    host.propose(b"a")
    number = host.node.read_index(host.now_ms)
    commit = host.node.status().commit

    ready = host.node.ready()

    assert [(read.number, read.commit) for read in ready.reads] == [(number, commit)]


def test_a_read_without_a_leader_ends_at_its_deadline_without_result() -> None:
    host = Host(MemoryFiles(), config(initial_voters=(ONE, NodeId(2))))
    number = host.node.read_index(0, deadline_ms=20)
    assert not host.node.has_ready()
    assert host.node.wake_at_ms() == 20
    host.node.tick(20)

    assert [(r.number, r.commit) for r in host.node.ready().reads] == [(number, None)]


def test_configuration_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="node_id"):
        config(node_id=-1)
    with pytest.raises(ValueError, match="twice heartbeat_ms"):
        config(heartbeat_ms=100, election_timeout_ms=150)
    with pytest.raises(ValueError, match="cluster_id"):
        config(cluster_id="")


def test_recovered_reports_one_line() -> None:
    recovered = Recovered(
        state=Host(MemoryFiles()).recovered.state, blocks=(), snapshot=None, segments=2, cut_bytes=7
    )

    assert recovered.report() == (
        "0 blocks in 2 segments, term 0, root 0:0, commit 0:0, head 0:0, torn tail of 7 bytes cut"
    )
