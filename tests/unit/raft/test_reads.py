"""Reads begun on a follower: the leader says up to where, the follower waits until it is there."""

from random import Random

import pytest

from raft import (
    GENESIS,
    BlockId,
    BlockKind,
    Config,
    Message,
    Node,
    NodeId,
    ReadDone,
    Refused,
    Role,
    Term,
)
from raft.block import make_block
from raft.messages import Append, ReadAnswer, ReadRequest
from raft.reads import QUESTIONS_MAX

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
HEARTBEAT_MS, TIMEOUT_MS = 10, 100
BIRTH = make_block(GENESIS, Term(1), BlockKind.EMPTY, b"")


class Follower:
    """One node, and the test as its leader, node 2."""

    def __init__(self, **options: int) -> None:
        self.now_ms = 0
        config = Config(
            node_id=ONE, initial_voters=(ONE, TWO, THREE), cluster_id="c",
            heartbeat_ms=HEARTBEAT_MS, election_timeout_ms=TIMEOUT_MS, **options,
        )  # fmt: skip
        self.node = Node(config, None, now_ms=0, rng=Random(1))
        self.reads: list[ReadDone] = []

    def work(self) -> list[ReadRequest]:
        said: list[Message] = []
        while self.node.has_ready():
            ready = self.node.ready()
            self.reads += ready.reads
            said += ready.messages
            self.node.advance()
        return [message for message in said if isinstance(message, ReadRequest)]

    def hear_leader(self, leader: NodeId = TWO, term: int = 1, commit: BlockId = GENESIS) -> None:
        self.node.step(
            Append(
                sender=leader, to=ONE, term=Term(term), cluster_id="", parent=GENESIS,
                blocks=(BIRTH,), commit=commit, round=0,
            ),
            self.now_ms,
        )  # fmt: skip

    def answer(self, request: ReadRequest, commit: BlockId, *, off_by: int = 0) -> None:
        message = ReadAnswer(
            sender=request.to, to=ONE, term=request.term, cluster_id="",
            number=request.number + off_by, commit=commit,
        )  # fmt: skip
        self.node.step(message, self.now_ms)

    def at(self, now_ms: int) -> list[ReadRequest]:
        self.now_ms = now_ms
        self.node.tick(now_ms)
        return self.work()


def test_a_followers_reads_ask_the_leader_once_and_wait_until_its_commit_is_applied() -> None:
    one = Follower()
    first = one.node.read_index(0)
    second = one.node.read_index(0)
    assert one.work() == [], "nobody leads yet"
    one.hear_leader()
    (request,) = one.work()

    one.answer(request, BIRTH.id)
    one.work()
    assert one.reads == [], "the block is not committed here"
    one.hear_leader(commit=BIRTH.id)
    one.work()

    assert one.reads == [ReadDone(number=n, commit=BIRTH.id) for n in (first, second)]


def test_a_question_without_an_answer_is_asked_again_after_a_heartbeat() -> None:
    one = Follower()
    one.hear_leader()
    one.node.read_index(0)
    assert len(one.work()) == 1

    one.now_ms = HEARTBEAT_MS - 1
    one.hear_leader()
    assert one.work() == []
    one.now_ms = HEARTBEAT_MS
    one.hear_leader()
    assert len(one.work()) == 1


def test_a_late_answer_counts_though_the_question_was_repeated() -> None:
    """Else no read would ever end where an answer takes longer than a heartbeat."""
    one = Follower()
    one.hear_leader()
    number = one.node.read_index(0)
    (first,) = one.work()
    one.now_ms = HEARTBEAT_MS
    one.hear_leader()
    (second,) = one.work()

    one.answer(first, GENESIS)
    one.work()
    one.answer(second, GENESIS)
    one.work()

    assert second.number != first.number
    assert one.reads == [ReadDone(number=number, commit=GENESIS)]
    one.now_ms = 2 * HEARTBEAT_MS
    one.hear_leader()
    assert one.work() == [], "nothing is open"


def test_an_answer_to_an_earlier_question_says_nothing_of_a_read_begun_after_it() -> None:
    """Simulation seed 100947: the repeated question had the number of the first, took a later
    read with it, and the late answer to the first let that read miss an acknowledged write."""
    one = Follower()
    one.hear_leader()
    early = one.node.read_index(0)
    (first,) = one.work()
    one.hear_leader(commit=BIRTH.id)
    late = one.node.read_index(0)
    one.now_ms = HEARTBEAT_MS
    one.hear_leader(commit=BIRTH.id)  # time to repeat the question, now for both
    (second,) = one.work()

    one.answer(first, GENESIS)
    one.work()
    assert one.reads == [ReadDone(number=early, commit=GENESIS)]
    one.answer(second, BIRTH.id)
    one.work()

    assert one.reads[1:] == [ReadDone(number=late, commit=BIRTH.id)]


def test_answers_count_for_so_many_questions_back_and_no_more() -> None:
    one = Follower()
    one.hear_leader()
    number = one.node.read_index(0, deadline_ms=10_000)
    asked = one.work()
    for beat in range(QUESTIONS_MAX):
        one.now_ms = HEARTBEAT_MS * (beat + 1)
        one.hear_leader()
        asked += one.work()
    assert len(asked) == QUESTIONS_MAX + 1

    one.answer(asked[0], GENESIS)
    one.work()
    assert one.reads == []
    one.answer(asked[1], GENESIS)
    one.work()
    assert one.reads == [ReadDone(number=number, commit=GENESIS)]


def test_a_new_leader_is_asked_for_the_reads_that_the_old_one_did_not_answer() -> None:
    """They need not wait for their deadline when a leader crashed."""
    one = Follower()
    one.hear_leader()
    number = one.node.read_index(0)
    (lost,) = one.work()
    one.hear_leader(leader=THREE, term=2)
    (request,) = one.work()
    assert (request.to, request.term) == (THREE, 2)

    one.answer(lost, GENESIS)
    one.work()
    assert one.reads == [], "who led before knows nothing of what the new leader commits"
    one.answer(request, GENESIS)
    one.work()

    assert one.reads == [ReadDone(number=number, commit=GENESIS)]


def test_an_answer_to_another_question_confirms_nothing() -> None:
    one = Follower()
    one.hear_leader()
    one.node.read_index(0)
    (request,) = one.work()

    one.answer(request, GENESIS, off_by=1)
    one.work()

    assert one.reads == []


def test_a_read_without_an_answer_ends_at_its_deadline_and_frees_its_place() -> None:
    one = Follower(reads_max=1)
    one.hear_leader()
    number = one.node.read_index(0, deadline_ms=30)
    with pytest.raises(Refused, match="reads"):
        one.node.read_index(0)
    (request,) = one.work()

    one.at(30)
    one.answer(request, GENESIS)  # too late
    one.work()

    assert one.reads == [ReadDone(number=number, commit=None)]
    one.node.read_index(30)


def test_reads_that_ended_do_not_pile_up_while_nobody_leads() -> None:
    one = Follower(reads_max=10)
    for now_ms in range(0, 90, 2):
        one.at(now_ms)
        one.node.read_index(now_ms, deadline_ms=now_ms + 1)
        one.at(now_ms + 1)
    last = one.node.read_index(one.now_ms, deadline_ms=200)
    assert len(one.node._core.requests.reads._queued) == 1

    one.hear_leader()
    (request,) = one.work()
    one.answer(request, GENESIS)
    one.work()

    assert len(one.reads) == 46
    assert one.reads[45] == ReadDone(number=last, commit=GENESIS)


def test_the_leader_answers_others_after_a_majority_said_that_it_leads() -> None:
    """Three nodes, messages by hand: a read begun at each of them ends with the same commit."""
    ids = (ONE, TWO, THREE)
    nodes = {
        id_: Node(
            Config(node_id=id_, initial_voters=ids, cluster_id="c"), None,
            now_ms=0, rng=Random(id_),
        )
        for id_ in ids
    }  # fmt: skip
    ends: dict[NodeId, list[ReadDone]] = {id_: [] for id_ in ids}
    cut: set[NodeId] = set()

    def pump(now_ms: int) -> None:
        mail: list[Message] = []
        for node in nodes.values():
            node.tick(now_ms)
        while True:
            for id_, node in nodes.items():
                while node.has_ready():
                    ready = node.ready()
                    ends[id_] += ready.reads
                    mail += [m for m in ready.messages if id_ not in cut and m.to not in cut]
                    node.advance()
            if not mail:
                return
            now, mail = mail, []
            for message in now:
                nodes[message.to].step(message, now_ms)

    now_ms = 0
    while not any(node.status().role is Role.LEADER for node in nodes.values()):
        now_ms += 50
        pump(now_ms)
    leader = next(id_ for id_, node in nodes.items() if node.status().role is Role.LEADER)
    commit = nodes[leader].status().commit
    numbers = {id_: node.read_index(now_ms) for id_, node in nodes.items()}
    pump(now_ms)

    assert ends == {id_: [ReadDone(number=numbers[id_], commit=commit)] for id_ in ids}

    # Alone it cannot know that it still leads: nobody is answered.
    cut.update(set(ids) - {leader})
    number = nodes[leader].read_index(now_ms, deadline_ms=now_ms + 10)
    pump(now_ms)
    assert len(ends[leader]) == 1
    pump(now_ms + 10)
    assert ends[leader][1:] == [ReadDone(number=number, commit=None)]
