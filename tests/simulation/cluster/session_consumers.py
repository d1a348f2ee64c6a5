"""Consumers with fetch sessions (KIP-227): each reads all that one broker leads, some of which has
news.

Like the Java client up to 3.9, they drop partitions from their session that they do not want for a
while, and add them again. Every answer is judged as the other consumers' are (`consumers.py`).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.simulation.cluster.clients import Client, Target
from tests.simulation.cluster.consumers import FETCH, ROUNDS, TIMEOUT_MS, WAIT_MS
from tests.simulation.cluster.view import Batch

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["SessionConsumer"]


class SessionConsumer(Client):
    """See the module."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng)
        self._offsets: dict[Target, int] = {}
        self._held: dict[tuple[UUID, int], Target] = {}
        """What is in the session."""
        self._unsent: set[Target] = set()
        """What the broker does not know the offset of."""
        self._broker_id = -1
        self._session = (0, 0)
        """The session's id, and the epoch of its next request."""
        self._rounds = 0

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        """The next request of the session, or the first of another one."""
        if self._session[1] == 0:
            self._choose()
        wanted = [each for each in self._held.values() if each in self._unsent]
        forgotten: list[Target] = []
        if self._broker_id < 0:
            self.after_ms(100, partial(self.refresh, self._next))
            return
        if self._session[1] and self.rng.random() < 0.4:
            known = [each for each in self._held.values() if each not in self._unsent]
            forgotten = self.rng.sample(known, self.rng.randrange(len(known) + 1))
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=self.rng.choice((0, WAIT_MS)),
            min_bytes=self.rng.choice((1, 1, 200)),
            max_bytes=10_000,
            isolation_level=0,
            session_id=self._session[0],
            session_epoch=self._session[1],
            topics=tuple(
                FetchTopic("", topic_id, (FetchPartition(index, -1, offset, -1, -1, 4_000),))  # type: ignore[arg-type]
                for (topic_id, _, index), offset in (
                    (each, self._offsets.get(each, 0)) for each in wanted
                )
            ),
            forgotten=tuple(
                ForgottenTopic("", topic_id, (index,)) for topic_id, _, index in forgotten
            ),
        )
        met = self.world.met
        met["partition forgotten by a session"] += len(forgotten)
        self._unsent.clear()
        for each in forgotten:
            del self._held[each.topic_id, each.partition]
        self.ask(self._broker_id, FETCH, request, TIMEOUT_MS, self._heard)

    def _choose(self) -> None:
        """A broker, and all that it leads."""
        led = sorted({broker_id for broker_id in self.leaders.values() if broker_id >= 0})
        self._broker_id = self.rng.choice(led) if led else -1
        self._rounds = 0
        targets = [each for each, leader in self.leaders.items() if leader == self._broker_id]
        self._held = {(each.topic_id, each.partition): each for each in targets}
        self._unsent = set(targets)

    def _end(self) -> None:
        """Begin another session; the broker keeps this one until it ends by itself."""
        self._session = (0, 0)
        self.after_ms(20, partial(self.refresh, self._next))

    def _heard(self, response: FetchResponse | None) -> None:
        if response is None or response.error_code or not response.session_id:
            self._end()
            return
        self._session = (response.session_id, self._session[1] + 1)
        self.world.met["incremental fetch answered"] += self._session[1] > 2
        is_told_error = False
        for topic in response.topics:
            for part in topic.partitions:
                assert topic.topic_id is not None
                target = self._held.get((topic.topic_id, part.index))
                assert target is not None, "an answer for a partition that left the session"
                is_told_error |= bool(part.error_code)
                self._read(target, part)
        self._rounds += 1
        if is_told_error or self._rounds > ROUNDS:
            if self._rounds > ROUNDS:
                self._offsets.clear()
            self._end()
            return
        for target, leader in self.leaders.items():
            key = target.topic_id, target.partition
            if leader == self._broker_id and key not in self._held and self.rng.random() < 0.5:
                self._held[key] = target
                self._unsent.add(target)
        self.after_ms(10 + self.rng.randrange(self.world.pace_ms), self._next)

    def _read(self, target: Target, answer: FetchPartitionResponse) -> None:
        offset = self._offsets.get(target, 0)
        if answer.error_code:
            if answer.error_code == ErrorCode.offset_out_of_range:
                key = target.topic_id, target.partition
                self._offsets[target] = 0 if offset else self.world.view.facts(key).deleted_before
            return
        found = []
        for buffer in answer.records or ():
            view = memoryview(buffer)
            for pos, header in iter_batches(view):
                verify(view, pos, header)
                assert header.end_offset <= answer.high_watermark, f"{target}: {header}"
                if header.end_offset > offset:
                    found.append(Batch.of(header))
        if found:
            assert found[0].base_offset <= offset, f"{target}: {found[0]}, {offset}"
            self._offsets[target] = found[-1].end_offset
            self._unsent.add(target)
            self.world.met["batch read in a session"] += len(found)
            self.world.read((target.topic_id, target.partition), found)
