"""Virtual consumers: each reads a partition from its start to the high watermark, and on.

From the leader, or from any replica (KIP-392). One that reached the end begins anew now and then,
so that the same offsets are read again.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.wire.entities import list_offsets
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.simulation.cluster.clients import Client, Target
from tests.simulation.cluster.view import Batch

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Consumer"]

FETCH, LIST_OFFSETS = (1, 16), (2, 9)
LATEST = -1
WAIT_MS = 300
TIMEOUT_MS = 900
ROUNDS = 25
"""Fetches of one partition before another one's turn."""


class Consumer(Client):
    """See the module."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng)
        self._target: Target | None = None
        self._offset = 0
        self._rounds = 0
        self._ends: dict[Target, tuple[int, int]] = {}
        """The newest leader epoch and end that this consumer was told."""
        self._curiosity = 0.1
        """How likely it asks for the end next: more so when the leader may be a new one."""

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        if self._target not in self.leaders or self._rounds >= ROUNDS:
            self._rounds = self._offset = 0
            self._target = self.rng.choice(list(self.leaders)) if self.leaders else None
        target = self._target
        if target is None:
            self.after_ms(100, partial(self.refresh, self._next))
            return
        self._rounds += 1
        broker_id = self.leaders[target]
        is_one_for_ever = not target.name.startswith("extra")  # this API goes by name
        if is_one_for_ever and broker_id >= 0 and self.rng.random() < self._curiosity:
            self._curiosity = 0.1
            self._ask_end(broker_id, target)
            return
        if broker_id < 0 or self.rng.random() < 0.3:
            broker_id = self.rng.choice(self.replicas[target])
        self._fetch(broker_id, target)

    def _fetch(self, broker_id: int, target: Target) -> None:
        part = FetchPartition(target.partition, -1, self._offset, -1, -1, 4_000)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=10_000,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=(FetchTopic("", target.topic_id, (part,)),),
        )
        self.ask(broker_id, FETCH, request, TIMEOUT_MS, partial(self._heard, target))

    def _look_again(self) -> None:
        self._curiosity = 0.7
        self.after_ms(20, partial(self.refresh, self._next))

    def _ask_end(self, broker_id: int, target: Target) -> None:
        part = list_offsets.ListOffsetsPartition(partition_index=target.partition, timestamp=LATEST)
        topic = list_offsets.ListOffsetsTopic(name=target.name, partitions=(part,))
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
        self.ask(broker_id, LIST_OFFSETS, request, TIMEOUT_MS, partial(self._told_end, target))

    def _told_end(self, target: Target, response: list_offsets.ListOffsetsResponse | None) -> None:
        """Ends that are told do not go back (KIP-207), but for those of a leader of before."""
        answer = None if response is None else response.topics[0].partitions[0]
        if answer is not None and answer.error_code is ErrorCode.none:
            self.world.met["end told"] += 1
            epoch, end = self._ends.get(target, (-1, -1))
            if answer.leader_epoch >= epoch:
                self._ends[target] = answer.leader_epoch, answer.offset
                facts = self.world.view.facts((target.topic_id, target.partition))
                may_fall = facts.losses.may_fall(epoch, answer.offset)
                assert answer.offset >= end or may_fall or facts.excused, (
                    f"{facts.name}: the end was {end} in leader epoch {epoch}, now it is "
                    f"{answer.offset} in {answer.leader_epoch}"
                )
            self.after_ms(20, self._next)
        else:
            self._look_again()

    def _heard(self, target: Target, response: FetchResponse | None) -> None:
        if response is None or response.error_code or not response.topics:
            self._look_again()
            return
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            self.world.met[f"consumer told {ErrorCode(answer.error_code).name}"] += 1
            if answer.error_code == ErrorCode.offset_out_of_range and self._offset == 0:
                key = target.topic_id, target.partition
                self._offset = self.world.view.facts(key).deleted_before
            self._look_again()
            return
        found = []
        for buffer in answer.records or ():
            view = memoryview(buffer)
            for pos, header in iter_batches(view):
                verify(view, pos, header)
                assert header.end_offset <= answer.high_watermark, (
                    f"{target}: a consumer was given {header}, the high watermark is "
                    f"{answer.high_watermark}"
                )
                if header.end_offset > self._offset:
                    found.append(Batch.of(header))
        if found:
            assert found[0].base_offset <= self._offset, f"{target}: {found[0]}, {self._offset}"
            self._offset = found[-1].end_offset
            self.world.read((target.topic_id, target.partition), found)
        self.after_ms(10 + self.rng.randrange(self.world.pace_ms), self._next)
