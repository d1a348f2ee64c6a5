"""The join of a new broker to a running cluster: its requests to other brokers, and their answers.

Any broker of the cluster returns the members and the leader (DISCOVER). The leader proposes the new
broker's registration (PROPOSE); from then on the controller adds it to Raft. A voter that returns
with an empty data directory is refused, because it has forgotten its votes and the blocks that it
acknowledged; one that has its data, and does not know yet that it votes, waits for its blocks. A
broker that only wants to be seen sends DISCOVER to all: the greetings do the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.errors import Fatal, KafkaError
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.admission import why_not_payload
from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeAnswer,
    ProposeChange,
    Said,
)
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import At, RegisterBroker
from josefine_broker.engine.metadata.image import BrokerEntry, MetadataImage
from josefine_broker.engine.metadata.log_completeness import Completeness
from raft import Result

ASK_TIMEOUT_MS = 3_000
PROPOSE_TIMEOUT_MS = 5_000
PROPOSE_SLACK_MS = 1_000
"""Added to wait for the leader's answer that a proposal failed."""
PAUSE_MS = 500
"""Delay between two rounds of requests."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request on its own connection; the host reports `Answered` or `Unanswered` in time."""

    number: int
    address: HostPort
    to: int
    """The broker expected at the address; 0: any."""
    said: Said
    timeout_ms: int


class Step(Enum):
    """The progress of a round of requests."""

    IDLE = "idle"  # no request is open
    LOOKING = "looking"  # one address after another is asked for members and leader
    PROPOSING = "proposing"  # the leader was asked to propose the registration
    PAUSING = "pausing"  # the round is over; the next one must wait


class Turn(Enum):
    """The events of a round."""

    BEGIN = "begin"  # this broker wants to join, or to be seen
    NEXT = "next"  # the address knows no leader, or none is needed: ask the next one
    LEADER = "leader"  # the address returned the leader
    END = "end"  # no address is left, or the leader has answered
    DUE = "due"  # the pause is over


ROUND: dict[tuple[Step, Turn], Step] = {
    (Step.IDLE, Turn.BEGIN): Step.LOOKING,
    (Step.LOOKING, Turn.NEXT): Step.LOOKING,
    (Step.LOOKING, Turn.LEADER): Step.PROPOSING,
    (Step.LOOKING, Turn.END): Step.PAUSING,
    (Step.PROPOSING, Turn.END): Step.PAUSING,
    (Step.PAUSING, Turn.DUE): Step.IDLE,
}


class Round:
    """One round of requests: the addresses still to ask, and what came of the others. Mutable."""

    __slots__ = ("_asked", "address", "failures", "has_answer", "join", "left")

    def __init__(self, join: bytes | None = None, addresses: Iterable[HostPort] = ()) -> None:
        """`join`: the encoded change for the leader to propose; None: only to be seen."""
        self.join = join
        self.left = deque(dict.fromkeys(addresses))
        self._asked = set(self.left)
        self.address: HostPort | None = None
        """That of the open request."""
        self.failures: list[str] = []
        self.has_answer = False

    def also_ask(self, address: HostPort) -> None:
        """Ask this address too, unless the round has had it."""
        if address not in self._asked:
            self._asked.add(address)
            self.left.append(address)

    @property
    def trouble(self) -> str:
        """Why the round failed, when no address is left; empty: a broker has seen this one."""
        return "" if self.has_answer and self.join is None else "; ".join(self.failures)


class Asking:
    """The rounds of requests, each started by the owner. At most one request is open. Mutable."""

    def __init__(self, own_id: int, seeds: tuple[HostPort, ...], book: AddressBook) -> None:
        self.step = Step.IDLE
        self.trouble = ""
        """Why the last round failed; empty: a broker answered or accepted this one."""
        self.refusal = ""
        """The cluster refuses this broker for good: one sentence."""
        self._own_id = own_id
        self._seeds = seeds
        self._book = book
        self._round = Round()
        self._number = 0
        self._due_ms: int | None = None

    def begin(self, registration: bytes | None, now_ms: int) -> Ask | None:
        """Start a round, with an encoded change for the leader to propose; None: only to be seen.
        Returns the first request; None: there is no address."""
        self._move(Turn.BEGIN)
        others = (each for id_, each in self._book.newest().items() if id_ != self._own_id)
        self._round = Round(registration, (*self._seeds, *others))
        return self._ask_next(now_ms, is_first=True)

    def answered(self, number: int, said: Said, now_ms: int) -> Ask | None:
        """The next request; None: no request is open any more, or the answer belongs to none."""
        if not self._is_open(number):
            return None
        if self.step is Step.PROPOSING:
            self._taken(said, now_ms)
            return None
        self._round.has_answer = True
        if isinstance(said, Discovered):
            self._learn(said)
        join = self._round.join
        if join is None:
            return self._ask_next(now_ms)
        leader = self._leader_in(said)
        if leader is None:
            self._round.failures.append(f"{self._round.address} knows no leader")
            return self._ask_next(now_ms)
        self._move(Turn.LEADER)
        return self._ask(*leader, ProposeChange(change=join))

    def unanswered(self, number: int, reason: str, now_ms: int) -> Ask | None:
        """The next request after a failure, as `answered`."""
        if not self._is_open(number):
            return None
        self._round.failures.append(reason)
        if self.step is Step.PROPOSING:
            self._end(reason, now_ms)
            return None
        return self._ask_next(now_ms)

    def _is_open(self, number: int) -> bool:
        """Whether this is the open request. Answers to earlier or unknown ones are ignored."""
        return number == self._number and self.step in (Step.LOOKING, Step.PROPOSING)

    def tick(self, now_ms: int) -> None:
        """End the pause, if it is over."""
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = None
            self._move(Turn.DUE)

    def wake_at_ms(self) -> int | None:
        return self._due_ms

    # -- one round

    def _learn(self, found: Discovered) -> None:
        """Learn the others' addresses; a broker that only wants to be seen asks those as well."""
        for node, address in found.addresses.items():
            if node != self._own_id:
                self._book.learn(node, address)
                if self._round.join is None:
                    self._round.also_ask(address)

    def _leader_in(self, said: Said) -> tuple[HostPort, int] | None:
        """The leader's address and id, if known."""
        if not isinstance(said, Discovered) or said.leader not in said.addresses:
            return None
        return said.addresses[said.leader], said.leader

    def _taken(self, said: Said, now_ms: int) -> None:
        """Handle the leader's answer. The image shows whether the registration was committed."""
        answer = said if isinstance(said, ProposeAnswer) else ProposeAnswer(failed="no answer")
        self.refusal = answer.refused
        self._end(answer.failed, now_ms)

    def _ask_next(self, now_ms: int, *, is_first: bool = False) -> Ask | None:
        if self._round.left:
            if not is_first:
                self._move(Turn.NEXT)
            return self._ask(self._round.left.popleft(), 0, Discover())
        self._end(self._round.trouble, now_ms)
        return None

    def _ask(self, address: HostPort, to: int, said: Said) -> Ask:
        self._number += 1
        self._round.address = address
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


# -- registrations without an image


def as_newcomer(registration: RegisterBroker) -> RegisterBroker:
    """The registration of a broker without metadata, for the leader to propose.

    It makes claims about logs only if it has some, as one whose metadata are lost: an older leader
    cannot read claims, and a new broker has no logs.
    """
    claims = registration.logs
    has_logs = claims is not None and any(
        each is not Completeness.MISSING for each in claims.logs.values()
    )
    return registration if has_logs else replace(registration, logs=None)


def for_level(image: MetadataImage, change: bytes) -> bytes:
    """A newcomer's encoded registration as every broker of this cluster can read it."""
    register, origin = decode_change(change)
    if image.keeps_doubts or not isinstance(register, RegisterBroker) or register.logs is None:
        return change
    return encode_change(replace(register, logs=None), origin)


# -- as the leader


def unproposed(image: MetadataImage, voters: Collection[int], own_id: int, peer: Hello,
               change: bytes) -> ProposeAnswer | None:  # fmt: skip
    """The leader's answer where it does not propose this for `peer`; None: it proposes it."""
    broker_id = peer.node_id
    reason = why_not_payload(change)
    if reason is not None:
        return ProposeAnswer(refused=f"a registration that cannot be read: {reason}")
    register, _ = decode_change(change)
    if not isinstance(register, RegisterBroker) or register.broker_id != broker_id:
        return ProposeAnswer(refused="a broker proposes its own registration and nothing else")
    if broker_id not in voters:
        return None
    # Who presents the cluster has its promises (`host/damaged_metadata.py`). It was stopped before
    # the block came that made it a voter, and takes itself for a broker that joins.
    if peer.cluster_id:
        return ProposeAnswer(failed=f"broker {broker_id} votes here: the block is on its way to it")
    way = way_back(broker_id, image.brokers.get(own_id), ())
    return ProposeAnswer(refused=f"{forgotten(broker_id)}{way}")


def proposed(image: MetadataImage, change: bytes, result: Result) -> ProposeAnswer:
    """The answer to the new broker once its registration has a result, which is applied here."""
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
    """Why a voter without its data is refused; `way_back` continues the sentence. Other brokers
    search for this text in a refusal (`Peers.must_stop`): it must not change."""
    return f"broker {broker_id} votes in this cluster, but came with an empty data directory"


_REMOVED = "broker {} was removed from this cluster, as of block "


def removed(broker_id: int, height: int) -> str:
    """Why a removed broker is refused; `height` is that of the last block known here. Its first
    part must not change, because other brokers search for it in a refusal."""
    return (
        f"{_REMOVED.format(broker_id)}{height}; to come back it is started with an empty data"
        " directory and raft.seeds"
    )


def removed_as_of(refusal: str, broker_id: int) -> tuple[str, int] | None:
    """The sentence of `removed` in a refusal, and its height; None: the refusal has another
    reason."""
    _, found, rest = refusal.partition(_REMOVED.format(broker_id))
    height = rest.partition(";")[0]
    return (found + rest, int(height)) if found and height.isdecimal() else None


def way_back(broker_id: int, told_by: BrokerEntry | None, missing: Collection[int]) -> str:
    """What to do about a voter without data, from a broker that knows which other voters are
    missing: without a majority of them nothing can be decided."""
    first = f"start broker {', '.join(map(str, sorted(missing)))} first; then " if missing else ""
    where = ""
    if told_by is not None and told_by.endpoints:
        where = f" -b {HostPort(told_by.endpoints[0].host, told_by.endpoints[0].port)}"
    return (
        f": start it with its own data; if they are lost, {first}"
        f"'josefine cluster remove {broker_id} --data-lost{where}', and start it again"
    )
