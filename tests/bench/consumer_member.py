"""A member of a group of the consumer protocol (KIP-848) for the bench: it only heartbeats.

As `group_client.Member`: one connection, one request in flight, no client library. It gives up and
takes what it is told at once, and says so at once, as Kafka's client and librdkafka do.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import apis
from josefine_broker.wire.entities import consumer_group_heartbeat as e
from tests.bench.group_client import NOT_YET, REBALANCE_MS, Wire, check, fetch_once

LOST = (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id)
"""Its group goes on without it: it joins again."""


class ConsumerMember:
    """One member that reads one topic."""

    def __init__(self, wire: Wire, group: str, topic: str, partitions: int) -> None:
        self.wire, self.group, self.topic, self.partitions = wire, group, topic, partitions
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: tuple[e.TopicPartitions, ...] = ()
        self.told_s = 0.0
        """In how long the broker wants to hear it again."""
        self._heard: tuple[int, e.Assignment | None] = (0, None)
        self._beat = b""
        """Encoded once, and anew when it hears something new."""

    async def join(self) -> None:
        """Until it is a member. Its partitions come with heartbeats."""
        self.epoch, self.owned, self._heard = 0, (), (0, None)
        await self._say(
            subscribed_topic_names=(self.topic,),
            rebalance_timeout_ms=REBALANCE_MS,
            topic_partitions=(),
        )

    async def heartbeat(self) -> bool:
        """Whether it still is a member."""
        while True:
            before = self.owned
            answer = await self.wire.ask_frame(apis.CONSUMER_GROUP_HEARTBEAT, self._beat)
            if not self._hear(answer):
                return False
            if self.owned == before:
                return True

    async def fetch(self) -> None:
        await fetch_once(self.wire, self.topic)

    @staticmethod
    def are_settled(members: Sequence[ConsumerMember]) -> bool:
        """Whether they are of one epoch, and each partition is with one of them."""
        counts = [sum(len(each.partitions) for each in member.owned) for member in members]
        epochs = {member.epoch for member in members}
        return len(epochs) == 1 and all(counts) and sum(counts) == members[0].partitions

    async def _say(self, **fields: Any) -> None:
        request = self._request(**fields)
        while True:
            answer = await self.wire.ask(apis.CONSUMER_GROUP_HEARTBEAT, request)
            if answer.error_code not in NOT_YET:
                break
            await asyncio.sleep(0.05)
        self._hear(answer)

    def _request(self, **fields: Any) -> e.ConsumerGroupHeartbeatRequest:
        return e.ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, **fields
        )

    def _hear(self, answer: e.ConsumerGroupHeartbeatResponse) -> bool:
        if answer.error_code in LOST:
            return False
        check(answer.error_code)
        self.told_s = answer.heartbeat_interval_ms / 1_000
        said = answer.member_epoch, answer.assignment
        if said != self._heard:
            self._heard, self.epoch = said, answer.member_epoch
            says: dict[str, Any] = {}
            if answer.assignment is not None:
                self.owned = answer.assignment.topic_partitions
                says = {"topic_partitions": self.owned}
            self._beat = self.wire.frame(apis.CONSUMER_GROUP_HEARTBEAT, self._request(**says))
        return True
