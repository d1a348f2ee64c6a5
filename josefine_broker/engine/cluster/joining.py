"""How a broker that is no member yet comes into a running cluster: its questions, and the answers.

Any broker of the cluster tells who there is and who leads (DISCOVER); the leader proposes the
newcomer's registration (PROPOSE); from then on it is the controller that adds it to Raft. A voter
that comes back with an empty data directory is refused: it has forgotten how it voted, and what it
promised to keep. Whoever only wants to be seen asks everybody DISCOVER: greetings tell the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.errors import Fatal, KafkaError
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.admission import why_not_payload
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeAnswer,
    ProposeChange,
    Said,
)
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import At, RegisterBroker
from josefine_broker.engine.metadata.image import BrokerEntry, MetadataImage
from raft import Result

ASK_TIMEOUT_MS = 3_000
PROPOSE_TIMEOUT_MS = 5_000
PROPOSE_SLACK_MS = 1_000
"""The leader's answer that it came to nothing is on its way so long."""
PAUSE_MS = 500
"""Between two rounds of questions."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question over a connection of its own; the host says `Answered` or `Unanswered` in time."""

    number: int
    address: HostPort
    to: int
    """Who is thought to be there; 0: whoever is."""
    said: Said
    timeout_ms: int


class Step(Enum):
    """How far a round of questions has come."""

    IDLE = "idle"  # nothing is asked
    LOOKING = "looking"  # one address after another: who is there, who leads?
    PROPOSING = "proposing"  # the leader was asked to propose the registration
    PAUSING = "pausing"  # the round is over, and the next one would come too soon


class Turn(Enum):
    """What moves a round on."""

    BEGIN = "begin"  # somebody wants to be seen, or taken in
    NEXT = "next"  # this address knows no leader, or none is looked for: there is another one
    LEADER = "leader"  # it told who leads
    END = "end"  # there is nobody left to ask, or the leader has answered
    DUE = "due"  # the pause is over


ROUND: dict[tuple[Step, Turn], Step] = {
    (Step.IDLE, Turn.BEGIN): Step.LOOKING,
    (Step.LOOKING, Turn.NEXT): Step.LOOKING,
    (Step.LOOKING, Turn.LEADER): Step.PROPOSING,
    (Step.LOOKING, Turn.END): Step.PAUSING,
    (Step.PROPOSING, Turn.END): Step.PAUSING,
    (Step.PAUSING, Turn.DUE): Step.IDLE,
}


class Asking:
    """One round after another, each begun by the owner. Mutable; one question is open at a time."""

    def __init__(self, own_id: int, seeds: tuple[HostPort, ...], book: AddressBook) -> None:
        self.step = Step.IDLE
        self.trouble = ""
        """Why nobody answered, or took this broker in, in the last round; empty: somebody did."""
        self.refusal = ""
        """The cluster does not take this broker, and will not: one sentence."""
        self._own_id = own_id
        self._seeds = seeds
        self._book = book
        self._join: bytes | None = None
        self._left: deque[HostPort] = deque()
        self._asked: set[HostPort] = set()
        self._failures: list[str] = []
        self._has_answer = False
        self._number = 0
        self._address: HostPort | None = None
        self._due_ms: int | None = None

    def begin(self, registration: bytes | None, now_ms: int) -> Ask | None:
        """A new round, with an encoded change to be proposed by the leader; None: only be seen.
        The first question; None: there is nobody to ask."""
        self._move(Turn.BEGIN)
        self._join = registration
        others = (each for id_, each in self._book.newest().items() if id_ != self._own_id)
        self._left = deque(dict.fromkeys((*self._seeds, *others)))
        self._asked = set(self._left)
        self._failures = []
        self._has_answer = False
        return self._ask_next(now_ms, is_first=True)

    def answered(self, number: int, said: Said, now_ms: int) -> Ask | None:
        """The next question; None: none is open any more, or this answer was to none."""
        if not self._is_open(number):
            return None
        if self.step is Step.PROPOSING:
            self._taken(said, now_ms)
            return None
        self._has_answer = True
        if isinstance(said, Discovered):
            self._learn(said)
        if self._join is None:
            return self._ask_next(now_ms)
        leader = self._leader_in(said)
        if leader is None:
            self._failures.append(f"{self._address} knows no leader")
            return self._ask_next(now_ms)
        self._move(Turn.LEADER)
        return self._ask(*leader, ProposeChange(change=self._join))

    def unanswered(self, number: int, reason: str, now_ms: int) -> Ask | None:
        """As `answered`."""
        if not self._is_open(number):
            return None
        self._failures.append(reason)
        if self.step is Step.PROPOSING:
            self._end(reason, now_ms)
            return None
        return self._ask_next(now_ms)

    def _is_open(self, number: int) -> bool:
        """Whether it is the question that waits for an answer. Each that is over, or was never
        asked, is nobody's."""
        return number == self._number and self.step in (Step.LOOKING, Step.PROPOSING)

    def tick(self, now_ms: int) -> None:
        """The pause may be over."""
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = None
            self._move(Turn.DUE)

    def wake_at_ms(self) -> int | None:
        return self._due_ms

    # -- a round

    def _learn(self, found: Discovered) -> None:
        """Where the others are: who only wants to be seen asks them, too."""
        for node, address in found.addresses.items():
            if node != self._own_id:
                self._book.learn(node, address)
                if self._join is None and address not in self._asked:
                    self._left.append(address)
                    self._asked.add(address)

    def _leader_in(self, said: Said) -> tuple[HostPort, int] | None:
        """Where the leader is, and who."""
        if not isinstance(said, Discovered) or said.leader not in said.addresses:
            return None
        return said.addresses[said.leader], said.leader

    def _taken(self, said: Said, now_ms: int) -> None:
        """The leader has answered; that a registration is committed, the image tells."""
        answer = said if isinstance(said, ProposeAnswer) else ProposeAnswer(failed="no answer")
        self.refusal = answer.refused
        self._end(answer.failed, now_ms)

    def _ask_next(self, now_ms: int, *, is_first: bool = False) -> Ask | None:
        if self._left:
            if not is_first:
                self._move(Turn.NEXT)
            return self._ask(self._left.popleft(), 0, Discover())
        was_seen = self._has_answer and self._join is None
        self._end("" if was_seen else "; ".join(self._failures), now_ms)
        return None

    def _ask(self, address: HostPort, to: int, said: Said) -> Ask:
        self._number += 1
        self._address = address
        timeout_ms = ASK_TIMEOUT_MS
        if self.step is Step.PROPOSING:
            timeout_ms = PROPOSE_TIMEOUT_MS + PROPOSE_SLACK_MS
        return Ask(self._number, address, to, said, timeout_ms)

    def _end(self, trouble: str, now_ms: int) -> None:
        self.trouble = trouble
        self._due_ms = now_ms + PAUSE_MS
        self._move(Turn.END)

    def _move(self, turn: Turn) -> None:
        after = ROUND.get((self.step, turn))
        if after is None:
            raise Fatal(f"{turn.name} cannot happen to a round that is {self.step.name}")
        self.step = after


# -- as the leader


def why_not_proposed(image: MetadataImage, voters: Collection[int], own_id: int, peer: int,
                     change: bytes) -> str:  # fmt: skip
    """Why a leader refuses for good to propose this for `peer`; empty: it does."""
    reason = why_not_payload(change)
    if reason is not None:
        return f"a registration that cannot be read: {reason}"
    register, _ = decode_change(change)
    if not isinstance(register, RegisterBroker) or register.broker_id != peer:
        return "a broker proposes its own registration and nothing else"
    if peer in voters:
        return f"{forgotten(peer)}{way_back(peer, image.brokers.get(own_id), ())}"
    return ""


def proposed(image: MetadataImage, change: bytes, result: Result) -> ProposeAnswer:
    """What the newcomer is told when its registration came to its end, here applied."""
    if result is not Result.COMMITTED:
        return ProposeAnswer(failed="the registration was not committed in time")
    register, _ = decode_change(change)
    assert isinstance(register, RegisterBroker)
    known = image.brokers.get(register.broker_id)
    if known is not None and known.incarnation == register.incarnation:
        return ProposeAnswer()
    try:
        apply(image, register, At(0, 0))
    except KafkaError as error:
        return ProposeAnswer(refused=str(error))
    return ProposeAnswer(failed="another process registered meanwhile")


def forgotten(broker_id: int) -> str:
    """Why a voter without its data is not taken; `way_back` follows."""
    return f"broker {broker_id} votes in this cluster, but came with an empty data directory"


_REMOVED = "broker {} was removed from this cluster, as of block "


def removed(broker_id: int, height: int) -> str:
    """Why a process of this broker is not let in; `height` is that of the last block known here."""
    return (
        f"{_REMOVED.format(broker_id)}{height}; to come back it is started with an empty data"
        " directory and raft.seeds"
    )


def removed_as_of(refusal: str, broker_id: int) -> tuple[str, int] | None:
    """The sentence of `removed` in a refusal, and its height; None: it is refused for another
    reason."""
    _, found, rest = refusal.partition(_REMOVED.format(broker_id))
    height = rest.partition(";")[0]
    return (found + rest, int(height)) if found and height.isdecimal() else None


def way_back(broker_id: int, told_by: BrokerEntry | None, missing: Collection[int]) -> str:
    """What to do about it, said by a broker that knows which other voters are missing: without a
    majority of them nothing can be decided."""
    first = f"start broker {', '.join(map(str, sorted(missing)))} first; then " if missing else ""
    where = ""
    if told_by is not None and told_by.endpoints:
        where = f" -b {HostPort(told_by.endpoints[0].host, told_by.endpoints[0].port)}"
    return (
        f": start it with its own data; if they are lost, {first}"
        f"'josefine cluster remove {broker_id} --data-lost{where}', and start it again"
    )
