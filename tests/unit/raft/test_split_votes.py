"""Two that stand at once: one gives way, or both try again before a whole timeout is over."""

from random import Random

from raft import GENESIS, BlockId, Config, Height, Message, Node, NodeId, Role, Term
from raft.messages import VoteAnswer, VoteRequest

TIMEOUT_MS = 100
IDS = tuple(NodeId(number) for number in (1, 2, 3))


def pre_candidate(me: NodeId) -> Node:
    config = Config(
        node_id=me, initial_voters=IDS, cluster_id="c",
        heartbeat_ms=10, election_timeout_ms=TIMEOUT_MS,
    )  # fmt: skip
    node = Node(config, None, now_ms=0, rng=Random(me))
    node.tick(2 * TIMEOUT_MS)
    assert node.status().role is Role.PRE_CANDIDATE
    return node


def said(node: Node) -> list[Message]:
    messages: list[Message] = []
    while node.has_ready():
        messages += node.ready().messages
        node.advance()
    return messages


def ask(node: Node, sender: NodeId, head: BlockId = GENESIS) -> bool:
    request = VoteRequest(
        sender=sender, to=node.status().node_id, term=Term(1), cluster_id="", head=head, pre=True
    )
    said(node)
    node.step(request, 2 * TIMEOUT_MS)
    (answer,) = said(node)
    assert isinstance(answer, VoteAnswer)
    return answer.granted


def test_of_two_that_ask_at_once_the_one_with_the_lower_id_gives_way() -> None:
    lower, higher = pre_candidate(IDS[1]), pre_candidate(IDS[2])

    assert ask(lower, IDS[2])
    assert ask(higher, IDS[1])

    assert lower.status().role is Role.FOLLOWER
    assert higher.status().role is Role.PRE_CANDIDATE


def test_nobody_gives_way_to_one_that_is_behind() -> None:
    """It could not win: if everybody gave way to it, nobody would lead."""
    node = pre_candidate(IDS[0])

    assert not ask(node, IDS[2], head=BlockId(Term(0), Height(-1)))

    assert node.status().role is Role.PRE_CANDIDATE


def test_a_candidate_asks_anew_before_a_whole_timeout_is_over() -> None:
    node = pre_candidate(IDS[0])
    grant = VoteAnswer(
        sender=IDS[1], to=IDS[0], term=Term(1), cluster_id="", pre=True, granted=True
    )
    node.step(grant, 2 * TIMEOUT_MS)
    assert node.status().role is Role.CANDIDATE

    wake_ms = node.wake_at_ms()

    assert wake_ms is not None
    assert TIMEOUT_MS / 4 <= wake_ms - 2 * TIMEOUT_MS < TIMEOUT_MS / 2
    node.tick(wake_ms)
    assert node.status().role is Role.PRE_CANDIDATE
