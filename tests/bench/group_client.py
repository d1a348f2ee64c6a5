"""Members of consumer groups by the thousand: one connection each, our codec, no client library.

A member has one request in flight, as those of real clients have. Answers with an error raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from typing import Any, cast

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.consumer_protocol import (
    CONSUMER,
    encode_assignment,
    encode_subscription,
)
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from josefine_broker.wire import fetch as fetching

LENGTH = Struct(">i")
VERSIONS = {
    apis.FIND_COORDINATOR: 3,
    apis.JOIN_GROUP: 9,
    apis.SYNC_GROUP: 5,
    apis.HEARTBEAT: 4,
    apis.CONSUMER_GROUP_HEARTBEAT: 1,
    apis.OFFSET_COMMIT: 8,
    apis.OFFSET_FETCH: 8,
    apis.FETCH: 11,
    apis.SHARE_GROUP_HEARTBEAT: 1,
    apis.SHARE_FETCH: 2,
}
NOT_YET = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
SESSION_MS, REBALANCE_MS = 60_000, 60_000


class Wire(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._waits: tuple[int, asyncio.Future[Any]] | None = None

    @classmethod
    async def open(cls, bootstrap: str) -> Wire:
        host, port = bootstrap.rsplit(":", 1)
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self.last = b""

    async def ask(self, key: int, request: Any) -> Any:
        return await self.ask_frame(key, self.frame(key, request))

    @staticmethod
    def frame(key: int, request: Any) -> bytes:
        return b"".join(codec.encode_request(key, VERSIONS[key], 1, "bench", request))

    async def ask_frame(self, key: int, frame: bytes) -> Any:
        """For who asks the same again: what is sent is encoded once."""
        self._waits = key, asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._waits[1]

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if len(received) < 4 or len(received) < 4 + LENGTH.unpack_from(received)[0]:
            return
        assert self._waits is not None
        (key, answer), self._received, self.last = self._waits, bytearray(), bytes(received)
        if not answer.done():  # who asked may have been ended meanwhile
            frame = memoryview(received)[4:]
            answer.set_result(codec.decode_response(key, VERSIONS[key], frame)[1])

    def connection_lost(self, error: Exception | None) -> None:
        if self._waits is not None and not self._waits[1].done():
            self._waits[1].set_exception(ConnectionError("the broker closed the connection"))

    def close(self) -> None:
        self._transport.abort()


class Flood(asyncio.Protocol):
    """The same request again and again, several in flight; each answer must be as the first one."""

    def __init__(self, frame: bytes, answer: bytes, in_flight: int) -> None:
        """`frame` is answered by `answer`, both with their lengths."""
        self.answers = 0
        self.wrong = b""
        """The first answer that was another; nothing more is sent then."""
        self._frame, self._answer, self._in_flight = frame, answer, in_flight
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._frame * self._in_flight)

    def data_received(self, data: bytes) -> None:
        received = self._received + data
        count = len(received) // len(self._answer)
        whole, self._received = (
            received[: count * len(self._answer)],
            received[count * len(self._answer) :],
        )
        if whole != self._answer * count:
            self.wrong = self.wrong or whole
            return
        self.answers += count
        self._transport.write(self._frame * count)

    def close(self) -> None:
        self._transport.abort()


class Member:
    """One member of a group that reads one topic."""

    def __init__(self, wire: Wire, group: str, topic: str, partitions: int) -> None:
        self.wire, self.group, self.topic, self.partitions = wire, group, topic, partitions
        self.member_id = ""
        self.generation = -1
        self._beat = b""

    async def join(self) -> None:
        """Until it has an assignment of a generation."""
        protocol = e.join_group.JoinGroupRequestProtocol(
            name="range", metadata=encode_subscription([self.topic])
        )
        while True:
            joined = await self.wire.ask(
                apis.JOIN_GROUP,
                e.join_group.JoinGroupRequest(
                    group_id=self.group,
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=REBALANCE_MS,
                    member_id=self.member_id,
                    protocol_type=CONSUMER,
                    protocols=(protocol,),
                ),
            )
            if joined.error_code is ErrorCode.member_id_required:
                self.member_id = joined.member_id
                continue
            if joined.error_code is ErrorCode.rebalance_in_progress:
                continue
            if joined.error_code in NOT_YET:
                await asyncio.sleep(0.05)
                continue
            if joined.error_code is ErrorCode.unknown_member_id:
                self.member_id = ""
                continue
            check(joined.error_code)
            self.member_id, self.generation = joined.member_id, joined.generation_id
            if await self._sync(joined):
                return

    async def _sync(self, joined: Any) -> bool:
        members = [each.member_id for each in joined.members]
        request = e.sync_group.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=CONSUMER,
            protocol_name=joined.protocol_name,
            assignments=tuple(
                e.sync_group.SyncGroupRequestAssignment(
                    member_id=each, assignment=encode_assignment(self._share(at, len(members)))
                )
                for at, each in enumerate(members)
            ),
        )
        synced = await self.wire.ask(apis.SYNC_GROUP, request)
        if synced.error_code is ErrorCode.rebalance_in_progress:
            return False
        check(synced.error_code)
        beat = e.heartbeat.HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        self._beat = self.wire.frame(apis.HEARTBEAT, beat)
        return True

    def _share(self, at: int, members: int) -> Sequence[TopicPartition]:
        return [TopicPartition(self.topic, p) for p in range(at, self.partitions, members)]

    async def heartbeat(self) -> bool:
        """Whether its generation goes on."""
        beat = await self.wire.ask_frame(apis.HEARTBEAT, self._beat)
        if beat.error_code is ErrorCode.rebalance_in_progress:
            return False
        if beat.error_code in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self.member_id, self.generation = "", -1  # Apache Kafka's, of late joiners
            return False
        check(beat.error_code)
        return True

    async def fetch(self) -> None:
        await fetch_once(self.wire, self.topic)

    @staticmethod
    def are_settled(members: Sequence[Member]) -> bool:
        """Whether they are of one generation."""
        generations = {each.generation for each in members}
        return len(generations) == 1 and -1 not in generations


async def fetch_once(wire: Wire, topic: str) -> None:
    """From the beginning of partition 0, without a wait."""
    part = fetching.FetchPartition(
        index=0, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1,
        log_start_offset=-1, max_bytes=1_000,
    )  # fmt: skip
    asked = fetching.FetchTopic(name=topic, topic_id=None, partitions=(part,))
    request = fetching.FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1_000, isolation_level=0,
        session_id=0, session_epoch=-1, topics=(asked,), forgotten=(), rack_id="",
    )  # fmt: skip
    answer = await wire.ask(apis.FETCH, request)
    check(ErrorCode(answer.topics[0].partitions[0].error_code))


NOT_YET = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
"""A single broker answers this only until its coordinator serves."""


async def find_coordinator(wire: Wire, group: str) -> None:
    """Until there is one: the first makes the topic of the offsets."""
    request = e.find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    while True:
        found = await wire.ask(apis.FIND_COORDINATOR, request)
        if found.coordinators[0].error_code is ErrorCode.none:
            return
        await asyncio.sleep(0.05)


async def until_loaded(wire: Wire, request: Any) -> None:
    """Until the coordinator of this group has its partition and has read it, and takes this
    commit: partitions of the offsets' topic get their leaders one after the other."""
    while True:
        answer = await wire.ask(apis.OFFSET_COMMIT, request)
        if answer.topics[0].partitions[0].error_code not in NOT_YET:
            check_commit(answer)
            return
        await asyncio.sleep(0.05)


def commit_request(group: str, topic: str, partitions: int, offset: int) -> Any:
    """OffsetCommit of nobody in particular, for partitions 0 to `partitions` of a topic."""
    entities = e.offset_commit
    parts = tuple(
        entities.OffsetCommitRequestPartition(
            partition_index=p, committed_offset=offset, committed_metadata=""
        )
        for p in range(partitions)
    )
    wanted = entities.OffsetCommitRequestTopic(name=topic, partitions=parts)
    return entities.OffsetCommitRequest(group_id=group, member_id="", topics=(wanted,))


def check_commit(answer: Any) -> None:
    for topic in answer.topics:
        for part in topic.partitions:
            check(part.error_code)


def check(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise RuntimeError(f"the broker answered {code.name}")
