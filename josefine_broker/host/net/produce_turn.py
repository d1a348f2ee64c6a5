"""The plain produce requests of one turn of the event loop, of all connections, served together:
one write per log, one step of its high watermark, one wake-up of its followers.

Rules: a request is staged when it arrives and served before the loop waits for the network again,
or earlier: when enough are staged, or when its connection has a request that is not plain. A
connection's requests are served, and answered, in their order. An answer is made after the write
that it acknowledges, and sent when the batch is committed (acks=all). Requests that cannot be
appended together go to the dispatcher one by one. A request with batches for several partitions is
staged as the list of its parts, each of which is like a request of one batch; it is appended with
all of its partitions or with none (`engine/replicas/plain_parts.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import NamedTuple, Protocol

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.replicas.plain_batches import SENT, Stored
from josefine_broker.engine.replicas.plain_parts import Outcome, Placed
from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.net.late_answers import (
    LateAnswers,
    LateGroup,
    Later,
    LaterParts,
    Releasing,
)
from josefine_broker.records.plain_produce import Key, PlainProduce, PlainRequest
from josefine_broker.wire.apis import PRODUCE

log = logging.getLogger(__name__)


REQUESTS_MAX = 64
"""Staged requests are served when there are this many: with a thousand connections, clients would
otherwise wait for the whole turn, and then the broker for all of them."""
PARTS_MAX = 1024
"""The same for the batches of requests with several partitions."""


class Staging(Releasing, Protocol):
    """A connection, as a turn sees it."""

    def answer_staged(self, frame: memoryview, answer: bytes | Later | None) -> bool:
        """Send the answer, keep its place, or (None) serve the request; returns whether
        `continue_work` is due."""
        ...

    def send_at_once(self, answer: bytes) -> None:
        """Send an answer that is next, and has none before it that is not sent."""
        ...

    def continue_work(self) -> None: ...

    def abort(self) -> bool: ...


class Appends(NamedTuple):
    """How requests are appended. None in place of an outcome: nothing was appended."""

    alone: Callable[[PlainRequest, Callable[[bytes], None]], Stored | None]
    """Of one request, whose answer it may send before it returns."""
    groups: Callable[[Mapping[Key, list[PlainRequest]]], Mapping[Key, Stored | None]]
    """The requests of each partition together."""
    parts: Callable[[list[list[PlainRequest]], list[list[int]]], list[Placed | None]]
    """The same, where some requests have several partitions. The second argument has for each of
    these which groups they are in."""


Answer = bytes | Later | None
"""None: not served yet."""

Due = tuple[LateGroup, int]
"""A batch that is not committed: who waits for it, and its end offset."""


class ProduceTurn:
    """The staged requests. One per broker, on the event loop."""

    __slots__ = (
        "_appends", "_connections", "_is_open", "_late",
        "_on_fatal", "_parts", "_plain", "_requests", "_soon", "_started_ns", "_totals", "last",
    )  # fmt: skip

    def __init__(
        self,
        plain: PlainProduce,
        appends: Appends,
        is_open: Callable[[], bool],
        late: LateAnswers,
        totals: ConnectionStats,
        on_fatal: Callable[[BaseException], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`is_open`: whether requests may be served without their client's name. `soon` calls a
        function in the next turn of the loop, before that waits for the network."""
        self._plain = plain
        self._appends = appends
        self._is_open = is_open
        self._late = late
        self._totals = totals
        self._on_fatal = on_fatal
        self._soon = soon
        self._requests: list[PlainRequest] = []
        """With several partitions: the first of its parts."""
        self._connections: list[Staging] = []
        self._parts: dict[int, list[PlainRequest]] = {}
        """By their places among the requests: the parts of those with several partitions."""
        self._started_ns = 0
        self.last: Staging | None = None
        """The connection of the last turn, if that had one request of one batch, and nothing has
        been staged since. Its next request need not wait for others: see `serve_alone`."""

    def serve_alone(self, frame: memoryview, connection: Staging) -> Answer:
        """The answer to a request of the connection that is `last`, made at once. None: nothing was
        done, and the request is to be staged or dispatched. Empty: none is left to be sent."""
        self._started_ns = perf_counter_ns()
        request = self._plain.parse(frame)
        if request is None or not self._is_open():
            self.last = None
            return None
        try:
            stored = self._appends.alone(request, connection.send_at_once)
            if stored is SENT:
                self._late.stats.record(perf_counter_ns() - self._started_ns)
                return b""
            (answer,) = self._answers_of(stored, [request], [connection])
            return answer
        except Fatal as error:
            self._drop([connection])
            self._on_fatal(error)
        except Exception:
            self._totals.handler_failures += 1
            log.exception("produce requests failed", extra={"requests": 1})
            self._drop([connection])
        return b""

    def leave(self, connection: Staging) -> None:
        """The connection is gone."""
        if self.last is connection:
            self.last = None

    def stage(self, frame: memoryview, connection: Staging) -> bool:
        """Take a request that is plain; False: the dispatcher must serve it."""
        if len(frame) < 2 or frame[1] or frame[0] != PRODUCE:
            return False
        request = self._plain.parse(frame)
        if request is None:
            parts = self._plain.parse_parts(frame)
            if parts is None or not self._is_open():
                return False
            self._parts[len(self._requests)] = parts
            request = parts[0]
        elif not self._is_open():
            return False
        if not self._requests:
            self.last = None
            self._started_ns = perf_counter_ns()
            self._soon(self.run)
        self._requests.append(request)
        self._connections.append(connection)
        return True

    @property
    def is_full(self) -> bool:
        """Whether `run` is due before the end of the turn."""
        if len(self._requests) >= REQUESTS_MAX:
            return True
        return bool(self._parts) and sum(map(len, self._parts.values())) >= PARTS_MAX

    def run(self) -> None:
        """Serve what is staged, if anything is."""
        requests, connections = self._requests, self._connections
        if not requests:
            return
        self._requests, self._connections = [], []
        parts, self._parts = self._parts, {}
        try:
            self._serve(requests, connections, parts)
        except Fatal as error:
            self._drop(connections)
            self._on_fatal(error)
        except Exception:
            # Without an answer: it is not known which requests were stored.
            self._totals.handler_failures += 1
            log.exception("produce requests failed", extra={"requests": len(requests)})
            self._drop(connections)

    def _serve(
        self,
        requests: list[PlainRequest],
        connections: list[Staging],
        parts: dict[int, list[PlainRequest]],
    ) -> None:
        if parts:
            answers = self._answers_with_parts(requests, connections, parts)
        elif len(requests) == 1:
            # What follows, in short: on one connection its cost is part of each round trip.
            key, single = requests[0][0], requests
            stored = self._appends.groups({key: single})[key]
            (answer,) = self._answers_of(stored, requests, connections)
            self.last = connections[0]
            if connections[0].answer_staged(requests[0][1], answer):
                connections[0].continue_work()
            return
        else:
            answers = self._answers(requests, connections)
        waiting: dict[Staging, None] = {}
        # All answers first: a connection that continues may stage its next request.
        for connection, request, answer in zip(connections, requests, answers, strict=True):
            if connection.answer_staged(request[1], answer):
                waiting[connection] = None
        for connection in waiting:
            connection.continue_work()

    def _answers(self, requests: list[PlainRequest], connections: list[Staging]) -> list[Answer]:
        """In the order of the requests."""
        groups: dict[Key, list[PlainRequest]] = {}
        for request in requests:
            groups.setdefault(request[0], []).append(request)
        # A name and an id may be the same topic: two groups of one partition.
        if len(groups) > 1 and (unordered := _naming_both_ways(requests, connections)):
            return self._answers_without(requests, connections, unordered)
        found = self._appends.groups(groups)
        if len(found) == 1:
            (stored,) = found.values()
            return self._answers_of(stored, requests, connections)
        members: dict[Key, list[Staging]] = {key: [] for key in groups}
        for request, connection in zip(requests, connections, strict=True):
            members[request[0]].append(connection)
        left = {
            key: iter(self._answers_of(found[key], group, members[key]))
            for key, group in groups.items()
        }
        return [next(left[request[0]]) for request in requests]

    def _answers_of(
        self, stored: Stored | None, requests: list[PlainRequest], connections: list[Staging]
    ) -> list[Answer]:
        """Of the requests of one partition."""
        if stored is None:
            return [None] * len(requests)
        answers: list[Answer] = [*stored.answers]
        late = 0
        for wait in stored.waits:
            group = self._late.group(wait, self._started_ns)
            late += len(wait.ends)
            for place, end_offset in wait.ends.items():
                ready = stored.answers[place]
                answers[place] = group.join(connections[place], requests[place], ready, end_offset)
        at_once = len(answers) - late
        self._late.stats.record_many(perf_counter_ns() - self._started_ns, at_once)
        return answers

    def _answers_without(
        self, requests: list[PlainRequest], connections: list[Staging], unordered: set[Staging]
    ) -> list[Answer]:
        """Those of the other connections; `unordered` ones are left to the dispatcher."""
        is_left = [connection in unordered for connection in connections]
        others = [n for n, left in enumerate(is_left) if not left]
        found: list[Answer] = [None] * len(requests)
        if others:
            answers = self._answers([requests[n] for n in others], [connections[n] for n in others])
            for n, answer in zip(others, answers, strict=True):
                found[n] = answer
        return found

    def _answers_with_parts(
        self,
        requests: list[PlainRequest],
        connections: list[Staging],
        parts: dict[int, list[PlainRequest]],
    ) -> list[Answer]:
        """In the order of the requests, of which some have several partitions."""
        unordered = _naming_both_ways(requests, connections)
        batches = {
            place: parts.get(place) or [request]
            for place, request in enumerate(requests)
            if connections[place] not in unordered
        }
        numbers: dict[Key, int] = {}
        groups: list[list[PlainRequest]] = []
        memberships: list[list[int]] = []
        for each in batches.values():
            membership = []
            for part in each:
                number = numbers.setdefault(part[0], len(groups))
                if number == len(groups):
                    groups.append([])
                groups[number].append(part)
                membership.append(number)
            memberships.append(membership)
        found = self._appends.parts(groups, [each for each in memberships if len(each) > 1])
        # Of each group: what became of its batches, in the order in which they were collected.
        outcomes = [iter(() if placed is None else placed.outcomes) for placed in found]
        starts = [0 if placed is None else placed.log_start_offset for placed in found]
        is_late = any(placed is not None and placed.waits for placed in found)
        waits = [self._waits(placed) for placed in found] if is_late else []
        answers: list[Answer] = [None] * len(requests)
        for (place, each), membership in zip(batches.items(), memberships, strict=True):
            if found[membership[0]] is not None:
                answers[place] = self._answer_of(
                    each[0],
                    [next(outcomes[number]) for number in membership],
                    [starts[number] for number in membership],
                    [next(waits[number]) for number in membership] if is_late else [],
                    connections[place],
                )
        at_once = sum(type(answer) is bytes for answer in answers)
        self._late.stats.record_many(perf_counter_ns() - self._started_ns, at_once)
        return answers

    def _waits(self, placed: Placed | None) -> Iterator[Due | None]:
        """Of the batches of one partition."""
        if placed is None:
            return iter(())
        due: dict[int, Due] = {}
        for wait in placed.waits:
            group = self._late.group(wait, self._started_ns)
            due |= {place: (group, end_offset) for place, end_offset in wait.ends.items()}
        return iter([due.get(place) for place in range(len(placed.outcomes))])

    def _answer_of(
        self,
        request: PlainRequest,
        outcomes: list[Outcome],
        log_starts: list[int],
        waits: list[Due | None],
        connection: Staging,
    ) -> bytes | Later:
        """Of a request, whose parts have these outcomes."""
        listener = connection.peer.listener
        due = [(number, wait) for number, wait in enumerate(waits) if wait is not None]
        if not due:
            return b"".join(self._late.answer_parts(request, outcomes, log_starts, listener))
        later = LaterParts(due[0][1][0], request, outcomes, log_starts, listener)
        for number, (group, end_offset) in due:
            later.join(group, connection, number, end_offset)
        return later

    def _drop(self, connections: list[Staging]) -> None:
        for connection in connections:
            connection.abort()


def _naming_both_ways(requests: list[PlainRequest], connections: list[Staging]) -> set[Staging]:
    """Connections whose requests name topics by name and by id."""
    if all(request[0][2] is requests[0][0][2] for request in requests):
        return set()
    first: dict[Staging, bool] = {}
    return {
        connection
        for connection, request in zip(connections, requests, strict=True)
        if first.setdefault(connection, request[0][2]) is not request[0][2]
    }
