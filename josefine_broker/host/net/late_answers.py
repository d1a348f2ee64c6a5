"""The answers of plain produce requests with acks=all that wait for other replicas.

Rules: the requests of a partition that were appended together wait together. Their answers were
encoded at the append; when the wait is over, all of them are put into their places first, and then
each connection sends what it has by one write. A request with batches for several partitions is
answered when the last of their waits is over, or the first one that ends its connection. A wait of
which no connection is left is given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import Protocol

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.replicas.committing import Together
from josefine_broker.engine.replicas.plain_batches import Wait
from josefine_broker.engine.replicas.plain_parts import Outcome
from josefine_broker.host.metrics import ApiStats
from josefine_broker.host.net.dispatch import Buffer, Buffers, LastBuffers, Peer, Waiting
from josefine_broker.records.plain_produce import PlainProduce, PlainRequest
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import decode_request, encode_response, parse_request_header
from josefine_broker.wire.produce import ProduceRequest

log = logging.getLogger(__name__)


class Later:
    """The place of an answer that comes later, among the pending answers of its connection."""

    __slots__ = ("buffers", "group", "request")

    def __init__(self, group: LateGroup, request: PlainRequest) -> None:
        self.buffers: Buffers | None = None
        self.group = group
        self.request = request

    @property
    def waiting(self) -> Waiting:
        """Its request, as the general path would show it while it waits."""
        header = parse_request_header(self.request[1])
        group = self.group
        return Waiting(group.wait.token, header, group.owner.stats, group.started_ns)

    def leave(self) -> None:
        """Its connection is gone."""
        self.group.leave()


class LaterParts(Later):
    """The place of an answer for several partitions, some of whose batches are not committed."""

    __slots__ = ("_left", "_listener", "_log_starts", "_outcomes")

    def __init__(
        self,
        group: LateGroup,
        request: PlainRequest,
        outcomes: list[Outcome],
        log_starts: list[int],
        listener: str,
    ) -> None:
        """`group`: one of those that it then joins."""
        super().__init__(group, request)
        self._outcomes = outcomes
        self._log_starts = log_starts
        self._listener = listener
        self._left: dict[int, LateGroup] = {}

    def join(self, group: LateGroup, connection: Releasing, number: int, end_offset: int) -> None:
        """Wait for the batch of this number among those of the request."""
        self._left[number] = self.group = group
        group.join_part(connection, self, number, end_offset)

    def settle(self, number: int, end_offset: int, response: object) -> bool:
        """A batch's wait is over; returns whether the answer is known now."""
        self._left.pop(number, None)
        if self.buffers is not None:
            return False
        if not isinstance(response, Together):
            assert isinstance(response, Hangup)
            self.leave()
            self.buffers = last_buffers(response)
            return True
        if response.error is not None and response.committed_end < end_offset:
            self._outcomes[number] = response.error
        if self._left:
            self.group = next(iter(self._left.values()))
            return False
        try:
            self.buffers = self.group.owner.answer_parts(
                self.request, self._outcomes, self._log_starts, self._listener
            )
        except Exception:  # the other connections must still get their answers
            log.exception("answer not encodable", extra={"listener": self._listener})
            self.buffers = last_buffers(Hangup("its answer could not be encoded"))
        return True

    def leave(self) -> None:
        left, self._left = self._left, {}
        for group in left.values():
            group.leave()


Slot = Waiting | Later | Buffers
"""The place of an answer, among the pending ones of a connection."""


def unanswered(pending: Iterable[Slot]) -> list[Waiting]:
    """The requests that wait for their answers."""
    found = [
        slot.waiting if isinstance(slot, Later) else slot
        for slot in pending
        if isinstance(slot, Waiting | Later)
    ]
    return [each for each in found if not each.parked.done]


def forget_all(pending: Iterable[Slot], forget: Callable[[Parked], None]) -> None:
    """Their connection is gone: nobody waits for these any more."""
    for slot in pending:
        if isinstance(slot, Waiting):
            slot.parked.on_done = slot.parked.send_now = None
            forget(slot.parked)
        elif isinstance(slot, Later):
            slot.leave()


class Releasing(Protocol):
    """A connection with places of late answers."""

    @property
    def peer(self) -> Peer: ...

    def release(self) -> None:
        """Send the answers that are next in order, and serve what waited for room."""
        ...

    def send_now(self, place: Waiting | Later, answer: Buffer) -> bool:
        """Send the answer that belongs in this place, if there is nothing else to do."""
        ...


Refuse = Callable[[PlainRequest, KafkaError, str], object]
"""The response for a request that was not acknowledged, to a client of that listener."""
RefuseParts = Callable[[ProduceRequest, Sequence[Outcome], Sequence[int], str], object]
"""The response to a decoded request of which a batch was refused or not acknowledged. For each of
its batches the outcome, and the log start offset."""


class LateAnswers:
    """Makes and answers the groups of waiting requests. One per broker."""

    __slots__ = ("_cancel", "_plain", "_refuse_parts", "refuse", "stats")

    def __init__(
        self,
        plain: PlainProduce,
        refuse: Refuse,
        refuse_parts: RefuseParts,
        cancel: Callable[[Parked], None],
        stats: ApiStats,
    ) -> None:
        """`cancel` ends a wait without an answer."""
        self._plain = plain
        self._refuse_parts = refuse_parts
        self.refuse = refuse
        self.stats = stats
        self._cancel = cancel

    def group(self, wait: Wait, started_ns: int) -> LateGroup:
        return LateGroup(self, wait, started_ns)

    def answer_parts(
        self,
        request: PlainRequest,
        outcomes: list[Outcome],
        log_starts: list[int],
        listener: str,
    ) -> Buffers:
        """The answer to the request of which `request` is a part, once every outcome is known."""
        frame = request[1]
        offsets = [each for each in outcomes if type(each) is int]
        if len(offsets) == len(outcomes):
            return (self._plain.answer_parts(frame, offsets, log_starts),)
        decoded = decode_request(parse_request_header(frame), frame)
        response = self._refuse_parts(decoded, outcomes, log_starts, listener)
        return encode_response(PRODUCE, request[3], request[2], response)

    def give_up(self, wait: Wait) -> None:
        """No client is left."""
        wait.token.on_done = wait.token.send_now = None
        self._cancel(wait.token)


class LateGroup:
    """Requests that wait together, with the places of their answers."""

    __slots__ = ("_left", "_members", "_parked_ns", "_parts", "owner", "started_ns", "wait")

    def __init__(self, owner: LateAnswers, wait: Wait, started_ns: int) -> None:
        self.owner = owner
        self.wait = wait
        self.started_ns = started_ns
        self._parked_ns = perf_counter_ns()
        self._members: list[tuple[Releasing, Later, bytes, int]] = []
        self._parts: list[tuple[Releasing, LaterParts, int, int]] = []
        self._left = 0
        wait.token.on_done = self._answer
        wait.token.send_now = self._send_now

    def join(
        self, connection: Releasing, request: PlainRequest, answer: bytes, end_offset: int
    ) -> Later:
        """The place of a request's answer, which is `answer` if its batch becomes committed."""
        later = Later(self, request)
        self._members.append((connection, later, answer, end_offset))
        self._left += 1
        return later

    def join_part(
        self, connection: Releasing, later: LaterParts, number: int, end_offset: int
    ) -> None:
        """The same for one batch of a request with several."""
        self._parts.append((connection, later, number, end_offset))
        self._left += 1

    def leave(self) -> None:
        """A connection of the group is gone."""
        self._left -= 1
        if not self._left:
            self._members, self._parts = [], []
            self.owner.give_up(self.wait)

    def _send_now(self, token: Parked) -> bool:
        """The wait is over: answer a request that waits alone, from within the event."""
        response = token.response
        if len(self._members) != 1 or self._parts or type(response) is not Together:
            return False
        connection, later, answer, _ = self._members[0]
        if response.error is not None or not connection.send_now(later, answer):
            return False
        self._members.clear()  # its place refers to this group
        self._count(1)
        return True

    def _count(self, answered: int) -> None:
        now_ns, stats = perf_counter_ns(), self.owner.stats
        stats.record_many(now_ns - self.started_ns, answered)
        stats.waited_ns += (now_ns - self._parked_ns) * answered

    def _answer(self, token: Parked) -> None:
        """The wait is over. Called in a separate turn (`ParkedRequests.run_completed`)."""
        response, members, in_parts = token.response, self._members, self._parts
        # Taken: their places refer to this group, and only the collector would free them.
        self._members, self._parts = [], []
        connections: dict[Releasing, None] = {}
        answered = len(members)
        for connection, parts, number, end_offset in in_parts:
            if parts.settle(number, end_offset, response):
                connections[connection] = None
                answered += 1
        self._count(answered)
        # All answers first: a connection that continues may stage its next request.
        for connection, later, answer, end_offset in members:
            later.buffers = (answer,)
            if not isinstance(response, Together):
                assert isinstance(response, Hangup)
                later.buffers = last_buffers(response)
            elif response.error is not None and response.committed_end < end_offset:
                later.buffers = self._refusal(later.request, response.error, connection)
            connections[connection] = None
        for connection in connections:
            connection.release()

    def _refusal(self, request: PlainRequest, error: KafkaError, connection: Releasing) -> Buffers:
        try:
            response = self.owner.refuse(request, error, connection.peer.listener)
            return encode_response(PRODUCE, request[3], request[2], response)
        except Exception:  # the other connections must still get their answers
            log.exception("answer not encodable", extra={"client": connection.peer.address})
            return last_buffers(Hangup("its answer could not be encoded"))


def last_buffers(hangup: Hangup) -> LastBuffers:
    """The end of a connection without an answer."""
    last = LastBuffers()
    last.reason = hangup.reason
    return last
