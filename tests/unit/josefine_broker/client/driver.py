"""Runs operations without a socket: a clock that only pauses move, and answers from a function."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.effects import Call, Effect, Operation, Pause, Resumed, Unanswered
from josefine_broker.client.session import Policy, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

T = TypeVar("T")
Answer = Callable[[Call], Any]
START_MS = 1_000
TIMEOUT_MS = 30_000
TOPIC_ID = UUID(int=7)


class Driver:
    """One client's session with a scripted cluster; `calls` and `paused_ms` say what it did."""

    def __init__(self, answer: Answer, policy: Policy | None = None) -> None:
        self.session = Session((Address("boot", 1),), policy or Policy(), Random(1))
        self.session.connected()
        self.now_ms = START_MS
        self.calls: list[Call] = []
        self.paused_ms = 0
        self._answer = answer

    def run(self, operation: Callable[[int, int], Operation[T]], timeout_ms: int = TIMEOUT_MS) -> T:
        steps = operation(self.now_ms, self.now_ms + timeout_ms)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._perform(effect))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, effect: Effect) -> Resumed:
        if isinstance(effect, Pause):
            self.paused_ms += effect.until_ms - self.now_ms
            self.now_ms = effect.until_ms
            return Resumed(self.now_ms)
        self.calls.extend(effect.calls)
        return Resumed(self.now_ms, tuple(self._answer(call) for call in effect.calls))

    @property
    def asked(self) -> list[tuple[int, int]]:
        """(api key, node) of every call, in order."""
        return [(call.api_key, call.node) for call in self.calls]


def unreachable(where: str = "boot:1") -> Unanswered:
    return Unanswered(
        KafkaError(ErrorCode.network_exception, f"cannot reach a broker at {where} (refused)")
    )


def metadata(leaders: dict[str, list[int]], brokers: tuple[int, ...] = (1, 2)) -> Any:
    """A Metadata response: topic → leader of each partition. A topic not in it is unknown."""
    return e.metadata.MetadataResponse(
        brokers=tuple(
            e.metadata.MetadataResponseBroker(node_id=n, host=f"host{n}", port=n) for n in brokers
        ),
        cluster_id="cluster",
        controller_id=brokers[0] if brokers else -1,
        topics=tuple(
            e.metadata.MetadataResponseTopic(
                name=name,
                topic_id=TOPIC_ID,
                partitions=tuple(
                    e.metadata.MetadataResponsePartition(partition_index=p, leader_id=leader)
                    for p, leader in enumerate(nodes)
                ),
            )
            for name, nodes in leaders.items()
        ),
    )


def unknown_topic(name: str) -> Any:
    return e.metadata.MetadataResponse(
        brokers=(e.metadata.MetadataResponseBroker(node_id=1, host="host1", port=1),),
        topics=(
            e.metadata.MetadataResponseTopic(
                error_code=ErrorCode.unknown_topic_or_partition, name=name, partitions=()
            ),
        ),
    )


def listed(call: Call, codes: dict[int, ErrorCode] | None = None) -> Any:
    """A ListOffsets response: offset 100 + partition, or an error code."""
    return e.list_offsets.ListOffsetsResponse(
        topics=tuple(
            e.list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    e.list_offsets.ListOffsetsPartitionResponse(
                        partition_index=p.partition_index,
                        error_code=(codes or {}).get(p.partition_index, ErrorCode.none),
                        offset=100 + p.partition_index,
                    )
                    for p in topic.partitions
                ),
            )
            for topic in call.request.topics
        )
    )


def is_metadata(call: Call) -> bool:
    return call.api_key == apis.METADATA
