"""A member of a share group (KIP-932) for the bench: it heartbeats, and waits for records.

As `consumer_member.py`: raw frames and no client library. With a second connection it fetches, too,
which clients do all the time: a fetch of an idle group waits at the broker for half a second.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import apis
from josefine_broker.wire.entities import share_fetch as f
from josefine_broker.wire.entities import share_group_heartbeat as e
from tests.bench.group_client import NOT_YET, Wire, check

RETRIED = (*NOT_YET, ErrorCode.coordinator_not_available)
"""The last one: the topic of the share states is being created."""
FETCH_WAIT_MS = 500
"""Kafka's default."""


class ShareMember:
    """One member that reads one topic."""

    def __init__(self, wire: Wire, group: str, topic: str, partitions: int) -> None:
        self.wire, self.group, self.topic, self.partitions = wire, group, topic, partitions
        self.member_id = str(uuid.uuid4())
        self.epoch, self._session = 0, 0
        self.owned: tuple[e.TopicPartitions, ...] = ()

    async def join(self) -> None:
        """Until it is a member. Its partitions come with heartbeats."""
        self.epoch, self._session = 0, 0
        await self._beat(subscribed_topic_names=(self.topic,))
        while not self.owned:
            await self._beat()

    async def heartbeat(self) -> bool:
        """Whether it still is a member."""
        answer = await self._beat()
        return bool(answer.error_code is ErrorCode.none)

    @staticmethod
    def are_settled(members: Sequence[ShareMember]) -> bool:
        """Whether each has partitions."""
        return all(member.owned for member in members)

    async def fetch(self, wire: Wire) -> None:
        """One fetch by its session, of all that it has."""
        topics = tuple(
            f.FetchTopic(
                topic_id=topic.topic_id,
                partitions=tuple(
                    f.FetchPartition(partition_index=index, acknowledgement_batches=())
                    for index in topic.partitions
                ),
            )
            for topic in (self.owned if self._session == 0 else ())
        )
        request = f.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._session,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=topics,
            forgotten_topics_data=(),
        )
        answer = await wire.ask(apis.SHARE_FETCH, request)
        self._session = self._session + 1 if answer.error_code is ErrorCode.none else 0

    async def _beat(self, **fields: Any) -> e.ShareGroupHeartbeatResponse:
        fields = {"subscribed_topic_names": None} | fields
        request = e.ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        while True:
            answer: e.ShareGroupHeartbeatResponse = await self.wire.ask(
                apis.SHARE_GROUP_HEARTBEAT, request
            )
            if answer.error_code not in RETRIED:
                break
            await asyncio.sleep(0.05)
        check(answer.error_code)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
        return answer
