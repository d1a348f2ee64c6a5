"""A broker that serves group requests by the plain path, and its twin by the general path: both are
asked alike, and must have the same answers and the same groups, logs and waits after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from josefine_broker.api.plain_heartbeats import beat_classic, beat_consumer, beat_share
from josefine_broker.api.plain_offset_commit import commit_plain
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings, RequestInfo
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.wire import apis
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.api.group_clients import find_coordinator
from tests.unit.josefine_broker.api.world import World

PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")
PLAIN: dict[int, Callable[..., Any]] = {
    apis.HEARTBEAT: beat_classic,
    apis.CONSUMER_GROUP_HEARTBEAT: beat_consumer,
    apis.SHARE_GROUP_HEARTBEAT: beat_share,
    apis.OFFSET_COMMIT: commit_plain,
}
REFUSED = b"closed"
"""In place of an answer: the route ends the connection."""


class Side:
    """One of the twins, with the requests that wait there."""

    def __init__(self, *, is_plain: bool, flush: bool) -> None:
        groups = GroupSettings(initial_rebalance_delay_ms=0, upgrades_classic=True)
        offsets = OffsetsSettings(groups=groups, metadata_bytes_max=8, flush=flush)
        settings = BrokerSettings(auto_create_topics=False, data_directory="/d", offsets=offsets)
        self.syncs = ManualSyncs()
        self.world = World(settings, group=self.syncs.group)
        self.world.create("orders", partitions=3)
        find_coordinator(self.world)
        self.is_plain = is_plain
        self.taken = 0
        """Requests that the plain path has taken."""
        self.waiting: list[tuple[RequestHeader, Parked]] = []

    def ask(self, frame: memoryview) -> bytes | None:
        """The response; None: it waits."""
        plain = PLAIN.get(frame[1]) if self.is_plain and len(frame) > 1 and not frame[0] else None
        answer = None if plain is None else plain(self.world.ctx, frame, PEER)
        self.taken += answer is not None
        try:
            header = parse_request_header(frame)
            if isinstance(answer, tuple):
                assert answer[0] == header
                answer = answer[1]
            if answer is None:
                answer = self._general(header, decode_request(header, frame))
        except CorruptData:
            assert answer is None
            return REFUSED
        self.world.answer()
        if isinstance(answer, Parked) and not answer.done:
            self.waiting.append((header, answer))
            return None
        return encoded(header, answer)

    def _general(self, header: RequestHeader, request: Any) -> Any:
        info = RequestInfo(header, PEER.principal, PEER.address, PEER.listener)
        served = SERVED[header.api_key]
        try:
            return served.handle(self.world.ctx, info, request)
        except KafkaError as error:
            return served.refuse(request, error)

    def late_answers(self) -> list[tuple[RequestHeader, bytes]]:
        """Those of requests that have waited and are done."""
        done = [each for each in self.waiting if each[1].done]
        self.waiting = [each for each in self.waiting if not each[1].done]
        return [(header, encoded(header, each)) for header, each in done]

    def state(self) -> Any:
        """What must not differ."""
        ctx = self.world.ctx
        coordinator = ctx.clients.groups.coordinator
        classic = {
            group_id: (each.state, each.generation, dict(each.sessions), list(each.members))
            for group_id, each in coordinator._groups.items()
        }
        coordinated = [
            (
                dict(each._groups), dict(each._ends), dict(each._sessions), dict(each._armed),
                {key: topics is ctx.image.topics for key, topics in each._seen.items()},
            )
            for each in (coordinator.consumers, coordinator.shares)
        ]  # fmt: skip
        offsets = {
            group_id: dict(coordinator.offsets.committed(group_id))
            for group_id in coordinator.offsets.group_ids
        }
        alarm = ctx.clients.groups.alarm
        waits = sorted((each.deadline_ms, sorted(each.partitions)) for each in ctx.parked.waiting)
        logs = {
            tp: (hosted.log.log_end_offset, hosted.partition.high_watermark, records_of(hosted.log))
            for tp, hosted in ctx.hosted.partitions.items()
        }
        counts = coordinator.counts
        totals = counts.rebalances, counts.members_lost, counts.offsets_committed
        return (
            classic, coordinated, offsets, alarm and alarm.deadline_ms, waits, logs, totals,
        )  # fmt: skip


def records_of(log: Any) -> bytes:
    """The log's bytes."""
    return b"".join(map(bytes, log.read(log.log_start_offset, 1 << 20)))


def encoded(header: RequestHeader, answer: Any) -> bytes:
    """As the dispatcher does."""
    if isinstance(answer, Parked):
        answer = answer.response
    if isinstance(answer, Encoded):
        answer = answer.buffers
    if isinstance(answer, list):
        return b"".join(answer)
    return b"".join(encode_response(*header[:3], answer))


def decoded(api_key: int, version: int, frame: bytes) -> Any:
    """The answer in a response."""
    return decode_response(api_key, version, memoryview(frame)[4:])[1]


class Twins:
    """Both sides, asked alike."""

    def __init__(self, *, flush: bool = True) -> None:
        """`flush`: records of groups count once the disk has them (`settle`)."""
        self.sides = Side(is_plain=True, flush=flush), Side(is_plain=False, flush=flush)
        self._requests = 0

    @property
    def plain(self) -> Side:
        return self.sides[0]

    @property
    def world(self) -> World:
        """To look at, not to change."""
        return self.plain.world

    def frame(self, api_key: int, version: int, request: Any, client_id: str | None = "c") -> bytes:
        """A request with the next correlation id."""
        self._requests += 1
        whole = b"".join(encode_request(api_key, version, self._requests, client_id, request))
        return whole[4:]

    def send(self, api_key: int, version: int, request: Any, client_id: str | None = "c") -> Any:
        """The answer that both have; None: it waits in both."""
        found = self.ask(self.frame(api_key, version, request, client_id))
        return None if found is None else decoded(api_key, version, found)

    def sent(self, api_key: int, version: int, request: Any) -> Any:
        """The answer, for which the disk is waited for if need be; None: it waits for others."""
        found = self.send(api_key, version, request)
        late = self.settle() if found is None else [found]
        return late[-1] if late else None

    def ask(self, frame: bytes) -> bytes | None:
        """The response of both."""
        at_once = [side.ask(memoryview(bytearray(frame))) for side in self.sides]
        assert at_once[0] == at_once[1]
        self.late()
        return at_once[0]

    def late(self) -> list[Any]:
        """The answers to requests that have waited until now."""
        found = [side.late_answers() for side in self.sides]
        assert found[0] == found[1]
        assert self.plain.state() == self.sides[1].state()
        return [decoded(*header[:2], each) for header, each in found[0]]

    def both(self, change: Callable[[Side], object]) -> list[Any]:
        """Change both; the answers to requests that have waited for that."""
        for side in self.sides:
            change(side)
        return self.late()

    def settle(self) -> list[Any]:
        """The disk has everything; the answers to requests that have waited for that."""
        for side in self.sides:
            side.syncs.settle()
            side.world.answer()
        return self.late()

    def advance(self, ms: int) -> list[Any]:
        return self.both(lambda side: side.world.advance(ms))
