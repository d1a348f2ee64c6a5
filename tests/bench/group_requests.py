"""CPU of one heartbeat and of one offset commit: `python -m tests.bench.group_requests`.

A broker in memory, without sockets, serves the frames of a member by its dispatcher, by turns with
the plain path and without it. The offsets topic is not synced, so that a commit ends in its
request. Prints a line for each kind: medians of BENCH_ROUNDS, in microseconds of this thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from statistics import median
from time import thread_time_ns
from types import SimpleNamespace
from typing import Any

from josefine_broker.compose.routes import routes, shortcuts
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import Dispatcher, Peer
from josefine_broker.wire import apis
from josefine_broker.wire.codec import encode_request
from josefine_broker.wire.entities import (
    consumer_group_heartbeat,
    heartbeat,
    offset_commit,
    share_group_heartbeat,
)
from tests.unit.josefine_broker.api.consumer_clients import send_beat
from tests.unit.josefine_broker.api.group_clients import find_coordinator, stable
from tests.unit.josefine_broker.api.share_members import Sharer
from tests.unit.josefine_broker.api.world import World

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
REQUESTS = int(2_000 * float(os.environ.get("BENCH_SCALE", "1")))
PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")


def new_world() -> World:
    offsets = OffsetsSettings(flush=False, groups=GroupSettings(initial_rebalance_delay_ms=0))
    settings = BrokerSettings(auto_create_topics=False, data_directory="/data", offsets=offsets)
    world = World(settings)
    world.create("orders")
    find_coordinator(world)
    return world


def requests_of(world: World) -> dict[str, tuple[int, int, Any]]:
    """Kind → API key, version, request."""
    joined = stable(world, group="classic")
    consumer = send_beat(world, group="consumer")
    sharer = Sharer(world, "m", group_id="share").join()
    part = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=""
    )
    return {
        "heartbeat": (apis.HEARTBEAT, 4, heartbeat.HeartbeatRequest(
            group_id="classic", generation_id=joined.generation_id, member_id=joined.member_id,
        )),
        "consumer heartbeat": (
            apis.CONSUMER_GROUP_HEARTBEAT, 1,
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id="consumer", member_id="m", member_epoch=consumer.member_epoch
            ),
        ),
        "share heartbeat": (
            apis.SHARE_GROUP_HEARTBEAT, 1, share_group_heartbeat.ShareGroupHeartbeatRequest(
                group_id="share", member_id="m", member_epoch=sharer.epoch
            ),
        ),
        "offset commit": (apis.OFFSET_COMMIT, 9, offset_commit.OffsetCommitRequest(
            group_id="simple", member_id="",
            topics=(offset_commit.OffsetCommitRequestTopic(name="orders", partitions=(part,)),),
        )),
    }  # fmt: skip


def frames_of(key: int, version: int, request: Any) -> list[memoryview]:
    """The same request with other correlation ids."""
    return [
        memoryview(bytearray(b"".join(encode_request(key, version, at, "client", request))[4:]))
        for at in range(64)
    ]


def timed(serve: Callable[[memoryview, Peer], Any], frames: list[memoryview]) -> float:
    """Microseconds of CPU a request."""
    began = thread_time_ns()
    for at in range(REQUESTS):
        serve(frames[at & 63], PEER)
    return (thread_time_ns() - began) / REQUESTS / 1_000


def main() -> None:
    """By turns."""
    world, metrics = new_world(), Metrics()
    table, tracing = routes(world.ctx, metrics), SimpleNamespace(dispatcher=Dispatcher)
    ways: dict[str, dict[str, Any]] = {
        "general_us": {},
        "plain_us": shortcuts(world.ctx, metrics, tracing),  # type: ignore[arg-type]
    }
    dispatchers = {
        name: Dispatcher(table, lambda: None, metrics.connections, **way)
        for name, way in ways.items()
    }
    for kind, asked in requests_of(world).items():
        frames = frames_of(*asked)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, dispatcher in dispatchers.items():
                found[name].append(timed(dispatcher.serve, frames))
        line = {name: round(median(each), 2) for name, each in found.items()}
        load = round(os.getloadavg()[0], 1)
        print(json.dumps({"request": kind, **line, "rounds": ROUNDS, "load": load}), flush=True)


if __name__ == "__main__":
    main()
