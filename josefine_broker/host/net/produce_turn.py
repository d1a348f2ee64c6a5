"""The plain produce requests of one turn of the event loop, of all connections, served together:
one write per log, one step of its high watermark, one wake-up of its followers.

Rules: a request is staged when it arrives and served before the loop waits for the network again,
or earlier: when enough are staged, or when its connection has a request that is not plain. A
connection's requests are served, and answered, in their order. An answer is made after the write
that it acknowledges, and sent when the batch is committed (acks=all). Requests that cannot be
appended together go to the dispatcher one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Protocol

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.replicas.plain_batches import Stored
from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.net.late_answers import LateAnswers, Later, Releasing
from josefine_broker.records.plain_produce import Key, PlainProduce, PlainRequest

log = logging.getLogger(__name__)


REQUESTS_MAX = 64
"""Staged requests are served when there are this many: with a thousand connections, clients would
otherwise wait for the whole turn, and then the broker for all of them."""


class Staging(Releasing, Protocol):
    """A connection, as a turn sees it."""

    def answer_staged(self, frame: memoryview, answer: bytes | Later | None) -> bool:
        """Send the answer, keep its place, or (None) serve the request; returns whether
        `continue_work` is due."""
        ...

    def continue_work(self) -> None: ...

    def abort(self) -> bool: ...


Append = Callable[[Mapping[Key, list[PlainRequest]]], Mapping[Key, Stored | None]]
"""Appends the requests of each partition together; None: nothing was appended."""
Answer = bytes | Later | None
"""None: not served yet."""


class ProduceTurn:
    """The staged requests. One per broker, on the event loop."""

    __slots__ = (
        "_append", "_connections", "_is_open", "_late", "_on_fatal", "_parse", "_requests", "_soon",
        "_started_ns", "_totals",
    )  # fmt: skip

    def __init__(
        self,
        plain: PlainProduce,
        append: Append,
        is_open: Callable[[], bool],
        late: LateAnswers,
        totals: ConnectionStats,
        on_fatal: Callable[[BaseException], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`is_open`: whether requests may be served without their client's name. `soon` calls a
        function in the next turn of the loop, before that waits for the network."""
        self._parse = plain.parse
        self._append = append
        self._is_open = is_open
        self._late = late
        self._totals = totals
        self._on_fatal = on_fatal
        self._soon = soon
        self._requests: list[PlainRequest] = []
        self._connections: list[Staging] = []
        self._started_ns = 0

    def stage(self, frame: memoryview, connection: Staging) -> bool:
        """Take a request that is plain; False: the dispatcher must serve it."""
        request = self._parse(frame)
        if request is None or not self._is_open():
            return False
        if not self._requests:
            self._started_ns = perf_counter_ns()
            self._soon(self.run)
        self._requests.append(request)
        self._connections.append(connection)
        return True

    @property
    def is_full(self) -> bool:
        """Whether `run` is due before the end of the turn."""
        return len(self._requests) >= REQUESTS_MAX

    def run(self) -> None:
        """Serve what is staged, if anything is."""
        requests, connections = self._requests, self._connections
        if not requests:
            return
        self._requests, self._connections = [], []
        try:
            self._serve(requests, connections)
        except Fatal as error:
            self._drop(connections)
            self._on_fatal(error)
        except Exception:
            # Without an answer: it is not known which requests were stored.
            self._totals.handler_failures += 1
            log.exception("produce requests failed", extra={"requests": len(requests)})
            self._drop(connections)

    def _serve(self, requests: list[PlainRequest], connections: list[Staging]) -> None:
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
        found = self._append(groups)
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
