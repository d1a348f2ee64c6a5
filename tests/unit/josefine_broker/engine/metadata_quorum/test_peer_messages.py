"""What a broker does about the words of others: the real engine, alone with its disk."""

from __future__ import annotations

from random import Random

import pytest

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine import events as e
from josefine_broker.engine.broker import Broker, EngineConfig
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.messages import ProposeAnswer, ProposeChange
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.controller.controller import ControllerConfig, HeartbeatAnswer
from josefine_broker.engine.controller.membership import MemberChange, MemberStep
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting
from raft import BlockFile, Config, NodeId
from raft import MemoryFiles as ChainFiles
from raft.messages import AppendAnswer
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import ManualClock

STEP_MS = 10
PEER = NodeId(2)


class Unreached:
    """Connections of a broker that has none."""

    def is_connected(self, _broker_id: int) -> bool:
        return False

    def trouble_with(self, _broker_id: int) -> str:
        return ""

    def gone(self) -> frozenset[int]:
        return frozenset()


class Host:
    """Drives broker 1, one of `voters`, as the manual of `Broker` says."""

    def __init__(self, *voters: int) -> None:
        self.clock = ManualClock()
        self.store, recovered = BlockFile.open(ChainFiles(), NodeId(1))
        self.done: list[e.Ready] = []
        config = EngineConfig(
            raft=Config(
                node_id=NodeId(1),
                initial_voters=tuple(map(NodeId, voters)),
                cluster_id="c",
                heartbeat_ms=50,
                election_timeout_ms=300,
            ),
            snapshots=SnapshotLimits(),
            settings=BrokerSettings(),
            controller=ControllerConfig(),
            address=HostPort("one", 1),
            heartbeat_ms=100,
            session_timeout_ms=1_000,
            proposal_timeout_ms=1_000,
        )
        self.broker = Broker(
            config,
            recovered=recovered,
            book=AddressBook(),
            clock=self.clock,
            rng=Random(1),
            logs=Hosting(LogManager(MemoryFiles()), self.clock),
            reach=Unreached(),
        )
        self.step(e.Enrol(registration(1)))

    def step(self, event: e.Event) -> None:
        self.broker.step(event)
        self.work()

    def work(self) -> None:
        while True:
            ready = self.broker.ready()
            assert self.broker.failure is None, self.broker.failure
            self.done.append(ready)
            if ready.store is None:
                return
            self.store.persist(ready.store.batch)
            self.broker.step(e.Appended())
            self.broker.step(e.Synced())

    def wait(self, for_ms: int) -> None:
        for _ in range(for_ms // STEP_MS):
            self.clock.elapsed_ms += STEP_MS
            self.broker.tick(self.clock.elapsed_ms)
            self.work()

    def replies(self) -> list[object]:
        return [reply.said for ready in self.done for reply in ready.replies]


def registration(broker_id: int) -> RegisterBroker:
    return RegisterBroker(broker_id=broker_id, incarnation=f"life of {broker_id}", endpoints=())


def hello(broker_id: int, cluster_id: str = "c") -> Hello:
    return Hello(node_id=broker_id, to=1, cluster_id=cluster_id, address="two:2", members=(1, 2))


@pytest.fixture
def leader() -> Host:
    """Broker 1 leads alone; broker 2 copies the chain, and has said how far it is."""
    host = Host(1)
    host.wait(1_000)
    node = host.broker.quorum.node
    change = MemberChange(step=MemberStep.ADD_LEARNER, broker_id=PEER)
    assert host.broker.quorum.change_members(change)
    host.wait(200)
    status = node.status()
    answer = AppendAnswer(
        sender=PEER, to=NodeId(1), term=status.term, cluster_id="c", accepted=True,
        last=status.head, hint=status.head, round=0,
    )  # fmt: skip
    host.step(e.Heard(hello(2), answer))
    assert node.followers()[PEER].match == status.head.height
    return host


def test_learner_that_greets_without_a_cluster_has_acknowledged_nothing(leader: Host) -> None:
    leader.step(e.Greeted(hello(2, cluster_id="c"), was_dialed=False))
    assert leader.broker.quorum.node.followers()[PEER].match is not None

    leader.step(e.Greeted(hello(2, cluster_id=""), was_dialed=False))

    assert leader.broker.quorum.node.followers()[PEER].match is None


def test_learner_that_is_to_be_registered_again_has_acknowledged_nothing(leader: Host) -> None:
    change = encode_change(registration(2), Origin(2, 0))

    leader.step(e.Heard(hello(2, cluster_id=""), ProposeChange(change=change), reply_to="it"))

    assert leader.broker.quorum.node.followers()[PEER].match is None
    leader.wait(100)
    assert leader.replies() == [ProposeAnswer()]
    assert leader.broker.ctx.image.brokers[2].incarnation == "life of 2"


def test_who_does_not_lead_says_so_and_proposes_nothing() -> None:
    host = Host(1, 2, 3)
    change = encode_change(registration(4), Origin(4, 0))

    host.step(e.Heard(hello(4, cluster_id=""), ProposeChange(change=change), reply_to="it"))

    assert host.replies() == [ProposeAnswer(failed="broker 1 is not the leader")]


def test_only_the_controllers_answer_says_that_this_broker_is_heard(leader: Host) -> None:
    """Broker 1 leads and hears itself; the word of another that believes it leads is void."""
    leader.broker.ctx.cluster.is_heard = False
    answer = HeartbeatAnswer(known_epoch=True, fenced=False, may_stop=True)

    leader.broker.step(e.Heard(hello(2), answer))

    assert not leader.broker.ctx.cluster.is_heard


def test_answer_that_nobody_asked_for_ends_its_connection(leader: Host) -> None:
    with pytest.raises(FrameError, match="unexpected PROPOSE_ANSWER"):
        leader.broker.step(e.Heard(hello(2), ProposeAnswer()))
