"""CPU of one heartbeat and of one offset commit: `python -m tests.bench.group_requests`.

A broker in memory, without sockets, serves the frames of a member by its dispatcher, by turns with
the plain path and without it. The offsets topic is not synced, so that a commit ends in its
request; `synced` are commits of which AT_ONCE share a sync, with their answers and without the
sync itself. Prints a line for each kind: medians of BENCH_ROUNDS, in microseconds of this thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
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
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.api.consumer_clients import send_beat
from tests.unit.josefine_broker.api.group_clients import find_coordinator, stable
from tests.unit.josefine_broker.api.share_members import Sharer
from tests.unit.josefine_broker.api.world import World

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
REQUESTS = int(2_000 * float(os.environ.get("BENCH_SCALE", "1")))
AT_ONCE = 6
"""50 connections that commit to 8 partitions."""
PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")

Serve = Callable[[memoryview, Peer], Any]


def new_world(syncs: ManualSyncs | None = None) -> World:
    """With `syncs` the offsets topic is synced."""
    groups = GroupSettings(initial_rebalance_delay_ms=0)
    offsets = OffsetsSettings(flush=syncs is not None, groups=groups)
    settings = BrokerSettings(auto_create_topics=False, data_directory="/data", offsets=offsets)
    world = World(settings, group=None if syncs is None else syncs.group)
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


def timed(serve: Serve, frames: list[memoryview]) -> float:
    """Microseconds of CPU a request."""
    began = thread_time_ns()
    for at in range(REQUESTS):
        serve(frames[at & 63], PEER)
    return (thread_time_ns() - began) / REQUESTS / 1_000


def timed_synced(
    world: World, syncs: ManualSyncs, dispatcher: Dispatcher, frames: list[memoryview]
) -> float:
    """The same of commits that wait for a sync, with their answers."""
    answered: list[Any] = []
    spent_ns = 0
    for at in range(0, REQUESTS, AT_ONCE):
        began = thread_time_ns()
        for place in range(at, at + AT_ONCE):
            waiting: Any = dispatcher.serve(frames[place & 63], PEER)
            finish = partial(dispatcher.finish, waiting)
            waiting.parked.on_done = lambda _, finish=finish: answered.append(finish())
        spent_ns += thread_time_ns() - began
        syncs.end_turn()
        due, syncs.submitted = syncs.submitted, []
        for sync, _, _ in due:
            sync()
        began = thread_time_ns()
        for _, done, _ in due:
            done()
        world.ctx.parked.run_completed()
        spent_ns += thread_time_ns() - began
        for *_, after in due:
            after()
    return spent_ns / len(answered) / 1_000


def dispatchers_of(world: World) -> dict[str, Dispatcher]:
    """Without the plain path, and with it."""
    metrics, tracing = Metrics(), SimpleNamespace(dispatcher=Dispatcher)
    table = routes(world.ctx, metrics)
    ways: dict[str, Any] = {
        "general_us": {},
        "plain_us": shortcuts(world.ctx, metrics, tracing),  # type: ignore[arg-type]
    }
    return {
        name: Dispatcher(table, lambda: None, metrics.connections, **way)
        for name, way in ways.items()
    }


def measure(kind: str, ways: dict[str, Callable[[], float]]) -> None:
    """By turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            found[name].append(way())
    line = {name: round(median(each), 2) for name, each in found.items()}
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"request": kind, **line, "rounds": ROUNDS, "load": load}), flush=True)


def main() -> None:
    """All kinds."""
    world, syncs = new_world(), ManualSyncs()
    asked = requests_of(world)
    for kind, each in asked.items():
        frames = frames_of(*each)
        measure(kind, {
            name: partial(timed, way.serve, frames) for name, way in dispatchers_of(world).items()
        })  # fmt: skip
    world = new_world(syncs)
    syncs.settle()
    frames = frames_of(*asked["offset commit"])
    measure("offset commit, synced", {
        name: partial(timed_synced, world, syncs, way, frames)
        for name, way in dispatchers_of(world).items()
    })  # fmt: skip


if __name__ == "__main__":
    main()
