"""A broker takes events in any order, of whoever may have sent them: it refuses, ends with a reason
that has a name, or goes on. Hypothesis looks for an order that does something else.

The host keeps its side: one batch at a time, and of it only what the disk did. Everybody else,
members too, may say anything at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import Fatal
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.enrolment import DismissedError
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeAnswer,
    ProposeChange,
    Said,
)
from josefine_broker.engine.controller.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker, UnregisterBroker
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import MetadataImage
from raft import GENESIS, BlockId, BlockKind, Height, InvariantBroken, Members, NodeId, Term
from raft import messages as m
from raft.block import make_block
from raft.members import encode_members
from tests.unit.josefine_broker.engine.members import Group, Member, address_of
from tests.unit.josefine_broker.engine.scenes import alone, another_process, three, topic

NAMED = (Fatal, InvariantBroken, DismissedError)
"""Why a broker may end."""
ROUNDS_MAX = 100
"""More of them one event does not lead to."""

ids = st.sampled_from((1, 2, 3, 77))
clusters = st.sampled_from(("", "named-by-1", "named-by-2"))
terms = st.integers(0, 4).map(Term)
rounds = st.integers(0, 3)
blocks_named = st.one_of(st.just(GENESIS), st.builds(BlockId, terms, st.integers(1, 4).map(Height)))
members = st.builds(
    Members,
    voters=st.frozensets(st.sampled_from((NodeId(1), NodeId(2), NodeId(3))), min_size=1),
    learners=st.frozensets(st.just(NodeId(9)), max_size=1),
)
changes = st.one_of(
    st.sampled_from(("a", "b")).map(topic),
    st.sampled_from((1, 2, 9)).map(another_process),
    st.sampled_from((1, 2)).map(lambda each: UnregisterBroker(broker_id=each)),
)
payloads = st.one_of(
    st.builds(encode_change, changes, st.builds(Origin, ids, st.integers(0, 2))), st.just(b"none")
)


@st.composite
def appends(draw: st.DrawFn) -> dict[str, Any]:
    """Blocks in a line from a parent that may be known."""
    parent = draw(st.one_of(st.just(GENESIS), blocks_named))
    first, blocks = parent, []
    for kind in draw(st.lists(st.sampled_from(BlockKind), max_size=3)):
        payload = b""
        if kind is BlockKind.DATA:
            payload = draw(payloads)
        elif kind is not BlockKind.EMPTY:
            payload = encode_members(draw(members), draw(clusters) or "named-by-1")
        term = max(parent.term, draw(terms))
        blocks.append(make_block(parent, Term(term), kind, payload))
        parent = blocks[-1].id
    commit = draw(st.one_of(st.just(parent), blocks_named))
    return {"parent": first, "blocks": tuple(blocks), "commit": commit, "round": draw(rounds)}


bodies: dict[type[m.Message], st.SearchStrategy[dict[str, Any]]] = {
    m.VoteRequest: st.fixed_dictionaries(
        {"head": blocks_named, "pre": st.booleans(), "forced": st.booleans()}
    ),
    m.VoteAnswer: st.fixed_dictionaries({"pre": st.booleans(), "granted": st.booleans()}),
    m.Append: appends(),
    m.AppendAnswer: st.fixed_dictionaries(
        {"accepted": st.booleans(), "last": blocks_named, "hint": blocks_named, "round": rounds}
    ),
    m.SnapshotChunk: st.fixed_dictionaries(
        {
            "last": blocks_named,
            "members": members,
            "offset": st.integers(0, 1),
            "data": st.sampled_from((b"", b"none", MetadataImage(cluster_id="c").to_bytes())),
            "done": st.booleans(),
            "round": rounds,
        }
    ),
    m.SnapshotAnswer: st.fixed_dictionaries(
        {
            "last": blocks_named,
            "next_offset": st.integers(0, 9),
            "done": st.booleans(),
            "round": rounds,
        }
    ),
    m.Propose: st.fixed_dictionaries({"number": st.integers(0, 2), "payload": payloads}),
    m.ProposeAnswer: st.fixed_dictionaries(
        {
            "number": st.integers(0, 2),
            "asked": terms,
            "block_id": st.one_of(st.none(), blocks_named),
        }
    ),
    m.ReadRequest: st.fixed_dictionaries({"number": st.integers(0, 2)}),
    m.ReadAnswer: st.fixed_dictionaries({"number": st.integers(0, 2), "commit": blocks_named}),
    m.TakeOver: st.just({}),
}


@st.composite
def messages(draw: st.DrawFn) -> Said:
    kind = draw(st.sampled_from(list(bodies)))
    envelope = {
        "sender": NodeId(draw(ids)),
        "to": NodeId(1),
        "term": draw(terms),
        "cluster_id": draw(clusters),
    }
    return kind(**envelope, **draw(bodies[kind]))


said = st.one_of(
    messages(),
    st.builds(
        Heartbeat,
        broker_id=ids,
        broker_epoch=st.integers(-1, 5),
        applied_height=st.integers(0, 5),
        wants_shutdown=st.booleans(),
    ),
    st.builds(
        HeartbeatAnswer, known_epoch=st.booleans(), fenced=st.booleans(), may_stop=st.booleans()
    ),
    st.just(Discover()),
    st.builds(
        Discovered,
        cluster_id=clusters,
        leader=st.sampled_from((-1, 1, 2, 77)),
        addresses=st.dictionaries(ids, ids.map(address_of), max_size=3),
    ),
    st.builds(ProposeChange, change=payloads),
    st.sampled_from((ProposeAnswer(), ProposeAnswer(refused="no"), ProposeAnswer(failed="full"))),
)
hellos = st.builds(
    Hello,
    node_id=st.sampled_from((2, 3, 77)),
    to=st.just(1),
    cluster_id=clusters,
    address=st.one_of(st.just(""), ids.map(lambda each: str(address_of(each)))),
    members=st.lists(ids, max_size=3).map(tuple),
)
registration = RegisterBroker(broker_id=1, incarnation="this one", endpoints=(), features=SUPPORTED)
events = st.one_of(
    st.builds(e.Greeted, hellos, st.booleans()),
    st.builds(e.Heard, hellos, said),
    st.builds(e.Heard, hellos, said),
    st.builds(e.Answered, st.integers(0, 4), said),
    st.builds(e.Unanswered, st.integers(0, 4), st.just("nobody")),
    st.builds(e.TurnedAway, st.sampled_from(("another cluster", "broker 1 votes in this"))),
    st.builds(e.PeersGone, st.frozensets(ids, max_size=2)),
    st.just(e.Enrol(registration)),
    st.just(e.Leave()),
)
disk = st.sampled_from(("written", "full"))
times = st.sampled_from((0, 1, 20, 110, 500, 2_000))
script = st.lists(st.one_of(events, events, disk, times), min_size=5, max_size=60)


def newcomer() -> Member:
    return Member(Group(), 1, seeds=(2, 3))


def one_of_three() -> Member:
    return Member(Group(), 1, voters=(1, 2, 3))


def serving_with_two() -> Member:
    """The others have just gone."""
    group = three()
    member = group.members[1]
    group.members = {1: member}
    return member


lives = st.sampled_from((newcomer, one_of_three, alone, serving_with_two))


def look(member: Member) -> None:
    broker, now_ms = member.broker, member.group.now_ms
    assert any(not member.do() for _ in range(ROUNDS_MAX)), "it is drained"
    assert broker.failure is None or isinstance(broker.failure, NAMED)
    assert broker.ready() == e.Ready()
    if broker.failure is None:
        wake_ms = broker.wake_at_ms()
        assert wake_ms is None or wake_ms > now_ms, "who is due stays due"


@given(lives, script)
def test_events_in_any_order_end_in_nothing_but_what_has_a_name(
    life: Callable[[], Member], steps: list[Any]
) -> None:
    member = life()
    member.holds_store = True
    look(member)
    for step in steps:
        if isinstance(step, int):
            member.group.clock.elapsed_ms += step
        elif isinstance(step, str):
            member.is_full = step == "full"
            member.finish_store()
        else:
            try:
                member.step(step)
            except FrameError:
                assert isinstance(step, e.Heard), "only a peer's word is refused"
        look(member)


@given(lives, script)
def test_one_who_has_ended_does_nothing_more(life: Callable[[], Member], steps: list[Any]) -> None:
    member = life()
    reason = Fatal("its host cannot go on")
    member.broker.end(reason)
    member.holds_store = True

    for step in steps:
        if isinstance(step, int):
            member.group.clock.elapsed_ms += step
        elif not isinstance(step, str):
            member.step(step)
        assert not member.do()

    assert member.broker.failure is reason
