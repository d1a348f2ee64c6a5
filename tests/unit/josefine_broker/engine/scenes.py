"""Groups that tests of the engine begin with, and words that its peers say."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.joining import PAUSE_MS
from josefine_broker.engine.controller.controller import Heartbeat
from josefine_broker.engine.metadata.changes import CreateTopic, RegisterBroker
from josefine_broker.engine.metadata.features import SUPPORTED
from raft import GENESIS, NodeId, Term
from raft.messages import Append, Propose
from tests.unit.josefine_broker.engine.members import Group, Member


def topic(name: str, leader: int = 1) -> CreateTopic:
    return CreateTopic(
        name=name, topic_id=uuid5(NAMESPACE_OID, name), config=(), replicas=((leader,),)
    )


def alone() -> Member:
    """The only voter of a cluster, which serves."""
    member = Member(Group(), 1, voters=(1,))
    member.group.serve(1)
    return member


def three() -> Group:
    """Three that vote, registered, and serve."""
    group = Group()
    for each in (1, 2, 3):
        Member(group, each, voters=(1, 2, 3))
    group.serve(1, 2, 3)
    return group


def with_learner() -> tuple[Group, Member]:
    """One that votes, and a second broker that does not."""
    group = Group()
    Member(group, 1, voters=(1,))
    group.serve(1)
    learner = Member(group, 2, seeds=(1,))
    group.serve(2)
    group.until(lambda: 2 in learner.broker.quorum.node.members.learners, "a learner")
    group.pass_ms(PAUSE_MS)
    return group, learner


def others(group: Group) -> list[Member]:
    return [each for each in group.members.values() if not each.leads]


def another_process(broker_id: int) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id, incarnation="another", endpoints=(), features=SUPPORTED
    )


STRANGER = Hello(node_id=77, to=1, cluster_id="", address="")
KNOWN = Hello(node_id=2, to=1, cluster_id="", address="")
BEAT = Heartbeat(broker_id=77, broker_epoch=1, applied_height=1)


def append(sender: int, **more: Any) -> Append:
    fields: dict[str, Any] = {
        "sender": NodeId(sender),
        "to": NodeId(1),
        "term": Term(10**6),
        "cluster_id": "",
        "parent": GENESIS,
        "blocks": (),
        "commit": GENESIS,
        "round": 1,
    }
    return Append(**{**fields, **more})


def propose(payload: bytes) -> Propose:
    return Propose(
        sender=NodeId(2), to=NodeId(1), term=Term(1), cluster_id="", number=1, payload=payload
    )
