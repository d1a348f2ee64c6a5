"""Whose a node is: what a committed birth block says, and nothing before that.

Every node proposes a cluster id of its own; a first leader that dies on the way leaves a block that
names a cluster which will never be.
"""

from random import Random
from typing import Any

import pytest

from raft import (
    GENESIS,
    Block,
    BlockFile,
    BlockId,
    BlockKind,
    Config,
    CorruptBlock,
    Height,
    Members,
    MemoryFiles,
    Node,
    NodeId,
    Term,
    WrongCluster,
)
from raft.block import make_block
from raft.members import encode_members
from raft.messages import Append, AppendAnswer, SnapshotChunk, VoteRequest
from tests.simulation.raft.faults import CALM
from tests.simulation.raft.world import World

ME, PEER = NodeId(1), NodeId(2)
ALL = Members(voters=frozenset((ME, PEER, NodeId(3))))


def birth(name: str, term: int) -> Block:
    return make_block(GENESIS, Term(term), BlockKind.BIRTH, encode_members(ALL, name))


class One:
    """A node of three that its host restarts at will."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.start()

    def start(self) -> None:
        """Again, after a loss of power."""
        self.files = self.files.crash()
        self.store, recovered = BlockFile.open(self.files, ME)
        config = Config(node_id=ME, initial_voters=tuple(ALL.voters), cluster_id="mine")
        self.node = Node(config, recovered, now_ms=0, rng=Random(1))
        self.work()

    def work(self) -> list[Any]:
        said: list[Any] = []
        while self.node.has_ready():
            ready = self.node.ready()
            if ready.batch is not None:
                self.store.persist(ready.batch)
            said += ready.messages
            self.node.advance()
        return said

    def append(self, *blocks: Block, term: int, commit: BlockId = GENESIS, **more: Any) -> Any:
        fields = {"cluster_id": "", "parent": blocks[0].parent, **more}
        append = Append(
            sender=PEER, to=ME, term=Term(term), blocks=blocks, commit=commit, round=0, **fields
        )
        self.node.step(append, 0)
        (answer,) = (said for said in self.work() if isinstance(said, AppendAnswer))
        return answer

    @property
    def cluster_id(self) -> str:
        return self.node.status().cluster_id


def test_a_birth_that_is_not_committed_binds_nobody_across_a_restart() -> None:
    one = One()
    dead, born = birth("dead", 1), birth("born", 2)

    assert one.append(dead, term=1).cluster_id == ""
    one.start()
    assert one.cluster_id == ""
    assert one.append(born, term=2, commit=born.id, cluster_id="born").cluster_id == "born"

    one.start()
    assert one.cluster_id == "born"
    assert [block.id for block in one.node.chain] == [born.id], "the dead branch was collected"


def test_a_birth_on_a_dead_branch_binds_nobody_before_it_is_collected() -> None:
    one = One()
    dead, born = birth("dead", 1), birth("born", 2)
    one.append(dead, term=1)
    one.append(born, term=2)
    one.start()
    assert {block.id for block in one.node.chain} == {dead.id, born.id}
    assert one.cluster_id == ""

    one.append(born, term=2, commit=born.id)

    assert one.cluster_id == "born"


def test_two_clusters_that_were_both_born_refuse_each_other() -> None:
    one = One()
    born = birth("ours", 1)
    one.append(born, term=1, commit=born.id)
    before = one.node.status()

    for message in (
        VoteRequest(
            sender=PEER, to=ME, term=Term(9), cluster_id="theirs", head=born.id, pre=False
        ),
        Append(
            sender=PEER, to=ME, term=Term(9), cluster_id="theirs", parent=born.id, blocks=(),
            commit=GENESIS, round=0,
        ),
    ):  # fmt: skip
        with pytest.raises(WrongCluster, match="cluster 'theirs'; this is 'ours'"):
            one.node.step(message, 0)

    assert one.work() == []
    assert one.node.status() == before


def test_a_leader_whose_birth_is_not_committed_does_not_take_in_who_is_born() -> None:
    """By a wrong configuration only: who leads our term has our birth block on its path."""
    one = One()
    born = birth("ours", 1)
    one.append(born, term=1, commit=born.id)
    before = one.node.status()

    with pytest.raises(WrongCluster, match="cluster 'theirs'; this is 'ours'"):
        one.append(birth("theirs", 9), term=9)

    assert one.node.status() == before


def test_a_stale_leader_with_a_dead_birth_is_told_so() -> None:
    one = One()
    born = birth("ours", 2)
    one.append(born, term=2, commit=born.id)

    answer = one.append(birth("dead", 1), term=1)

    assert (answer.accepted, answer.term, answer.cluster_id) == (False, 2, "ours")


def test_who_does_not_know_of_its_commit_any_more_still_leads_who_does() -> None:
    """A loss of power may take the commit pointer: the leader of a born cluster names none."""
    one = One()
    born = birth("ours", 1)
    one.append(born, term=1, commit=born.id)
    empty = make_block(born.id, Term(2), BlockKind.EMPTY, b"")

    assert one.append(born, empty, term=2, cluster_id="").accepted
    assert one.cluster_id == "ours"


def test_a_late_append_below_the_root_is_answered_with_what_is_sure() -> None:
    """Only the snapshot stands for those blocks: whether they were the same, nobody can tell. The
    root is committed, so it is on the path of whoever leads our term."""
    one = One()
    root = BlockId(Term(3), Height(50))
    chunk = SnapshotChunk(
        sender=PEER, to=ME, term=Term(3), cluster_id="ours", last=root, members=ALL, offset=0,
        data=b"state", done=True, round=0,
    )  # fmt: skip
    one.node.step(chunk, 0)
    one.work()
    other = make_block(BlockId(Term(1), Height(4)), Term(1), BlockKind.DATA, b"other")

    answer = one.append(other, term=3)

    assert (answer.accepted, answer.last) == (True, root)


def test_a_snapshot_of_no_cluster_is_refused() -> None:
    one = One()
    chunk = SnapshotChunk(
        sender=PEER, to=ME, term=Term(1), cluster_id="", last=BlockId(Term(1), Height(5)),
        members=ALL, offset=0, data=b"state", done=True, round=0,
    )  # fmt: skip

    with pytest.raises(CorruptBlock, match="without a cluster id"):
        one.node.step(chunk, 0)

    assert one.work() == []


@pytest.mark.parametrize("operation", range(14))
def test_a_first_leader_may_die_between_any_two_operations_of_its_disk(operation: int) -> None:
    """It comes back to a cluster that was born without it, or brings its own birth to an end."""
    for seed in range(3):
        world = World(seed, nodes=3, faults=CALM)
        first = world.machines[NodeId(seed + 1)]
        first.disk.crash_at = first.disk.operations + operation
        world.run(2_000)
        world.settle()

        said = {m.node.status().cluster_id for m in world.machines.values() if m.node is not None}
        assert len(said) == 1
        assert said != {""}
