"""What consumer groups cost: members that only heartbeat, rebalances, commits, a coordinator lost.

Clients are raw frames of `group_client.py` in this process; CPU is the broker's own. On a machine
with other work seconds have that work in them, and CPU seconds have not. A value is the median over
BENCH_ROUNDS. Goals (issue 13): 1,000 groups of 5 idle members under 10 % of a core, a rebalance of
50 members under 3 s, 20,000 offset commits/s, failover with 100,000 offsets under 2 s, a million
commits read back in under 10 s. `consumer_idle` and `consumer_rebalance` are the same with members
of the consumer protocol (KIP-848), which heartbeat as often here; a broker asks for every 5 s.
`./build.sh bench groups` with BENCH_GROUPS_PEER=1 measures Apache Kafka after ours, in each round.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import groups
from josefine_broker.client.io_blocking import BlockingClient, NewTopic, Policy
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.wire import apis
from tests.bench.brokers import Running, wait_until_quiet
from tests.bench.consumer_member import ConsumerMember
from tests.bench.group_client import (
    Flood,
    Member,
    Wire,
    check_commit,
    commit_request,
    find_coordinator,
    until_loaded,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
TOPIC = "bench"
IDLE_GROUPS, IDLE_MEMBERS = int(1_000 * SCALE), 5
IDLE_SECONDS = 15.0
HEARTBEAT_SECONDS = 3.0
"""Kafka's default."""
REBALANCE_MEMBERS = 50
NOTICE_SECONDS = 0.5
"""Between two heartbeats of the members that are to rebalance: the largest part of the time. Those
of `consumer_rebalance_as_told` are heard as often as the broker wants it, every 5 s by default."""
COMMIT_CONNECTIONS = 50
IN_FLIGHT = 5
"""Requests of a connection; no more than clients allow themselves by default."""
COMMIT_SECONDS = 5.0
COMMITS_PER_REQUEST = 10
FAILOVER_OFFSETS = int(100_000 * SCALE)
REPLAYED_COMMITS = int(1_000_000 * SCALE)
PARTITIONS = 100
OFFSETS_PARTITIONS = 8
"""Of `__consumer_offsets`, by default."""
WAIT_SECONDS = 300.0

NewBroker = Callable[..., Any]
"""BrokerProcess, or what looks like it."""
NewMember = type[Member] | type[ConsumerMember]
PREFIX: dict[NewMember, str] = {Member: "", ConsumerMember: "consumer_"}
Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def create(bootstrap: str, partitions: int, replicas: int = 1) -> None:
    with BlockingClient(bootstrap, policy=Policy(request_timeout_ms=60_000)) as admin:
        admin.create_topics([NewTopic(TOPIC, partitions, replicas)])


def idle(
    directory: Path, new_member: NewMember = Member, new_broker: NewBroker = BrokerProcess
) -> Measured:
    """Many groups whose members do nothing but heartbeat."""
    most = IDLE_GROUPS * IDLE_MEMBERS + 100
    limits = {"network__connections_max": most, "network__connections_per_address_max": most}
    with new_broker(directory, **limits) as process:
        create(process.bootstrap, IDLE_MEMBERS)
        broker = Running("josefine", process.bootstrap, process.pid)
        joined_s, cores, beats = uvloop.run(_idle(broker, new_member))
        name = f"{PREFIX[new_member]}idle_{IDLE_GROUPS}_groups_of_{IDLE_MEMBERS}"
        yield name, "join_s", joined_s
        yield name, "heartbeats_per_s", beats
        yield name, "percent_of_a_core", 100 * cores
        yield name, "cpu_us_per_heartbeat", 1e6 * cores / beats
        yield name, "resident_mb", broker.resident_mb()


async def _idle(broker: Running, new_member: NewMember) -> tuple[float, float, float]:
    """(seconds until all had joined, cores used then, heartbeats per second)."""
    members = []
    for number in range(IDLE_GROUPS):
        for _ in range(IDLE_MEMBERS):
            wire = await Wire.open(broker.bootstrap)
            members.append(new_member(wire, f"group-{number}", TOPIC, IDLE_MEMBERS))
    await find_coordinator(members[0].wire, "group-0")
    began = time.perf_counter()
    await asyncio.gather(*(member.join() for member in members))
    joined_s = time.perf_counter() - began
    sent = 0
    ends = asyncio.Event()

    async def live(member: Member | ConsumerMember, at: int) -> None:
        nonlocal sent
        await asyncio.sleep(HEARTBEAT_SECONDS * at / len(members))
        while not ends.is_set():
            if not await member.heartbeat():
                await member.join()
            sent += 1
            await asyncio.sleep(HEARTBEAT_SECONDS)

    lives = [asyncio.create_task(live(member, at)) for at, member in enumerate(members)]
    groups = [members[at : at + IDLE_MEMBERS] for at in range(0, len(members), IDLE_MEMBERS)]
    deadline = time.perf_counter() + WAIT_SECONDS
    while not all(map(new_member.are_settled, groups)):  # late joiners' rebalances
        if time.perf_counter() > deadline:
            raise RuntimeError("some group is not settled")
        await asyncio.sleep(HEARTBEAT_SECONDS)
    before, cpu, began = sent, broker.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    elapsed = time.perf_counter() - began
    cores = (broker.cpu_seconds() - cpu) / elapsed
    beats = (sent - before) / elapsed
    ends.set()
    for task in lives:
        task.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    for member in members:
        member.wire.close()
    return joined_s, cores, beats


def rebalance(
    directory: Path,
    new_member: NewMember = Member,
    new_broker: NewBroker = BrokerProcess,
    *,
    as_told: bool = False,
) -> Measured:
    """All of a group's members at once, and one that comes to those that are there."""
    with new_broker(directory, group__initial_rebalance_delay_ms=0) as process:
        create(process.bootstrap, REBALANCE_MEMBERS)
        broker = Running("josefine", process.bootstrap, process.pid)
        cpu = broker.cpu_seconds()
        at_once_s, one_more_s = uvloop.run(_rebalance(process.bootstrap, new_member, as_told))
        name = f"{PREFIX[new_member]}rebalance_{REBALANCE_MEMBERS}_members"
        name += "_as_told" if as_told else ""
        yield name, "all_at_once_to_first_fetch_s", at_once_s
        yield name, "one_more_to_first_fetch_of_all_s", one_more_s
        yield name, "cpu_s", broker.cpu_seconds() - cpu


async def _rebalance(bootstrap: str, new_member: NewMember, as_told: bool) -> tuple[float, float]:
    members: list[Any] = [
        new_member(await Wire.open(bootstrap), "group", TOPIC, REBALANCE_MEMBERS)
        for _ in range(REBALANCE_MEMBERS)
    ]
    *first, last = members
    await find_coordinator(last.wire, "group")

    async def settled(member: Any, everybody: Sequence[Any], are: asyncio.Event) -> None:
        """Heartbeats, and joins again when called, until somebody sees that all are settled."""
        while not are.is_set():
            if not await member.heartbeat():
                await member.join()
            if new_member.are_settled(everybody):
                are.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(member.told_s if as_told else NOTICE_SECONDS):
                    await are.wait()
        await member.fetch()

    async def comes(member: Any, everybody: Sequence[Any], are: asyncio.Event) -> None:
        """It is heard from its own join on: who waits for all joins may itself be waited for."""
        await member.join()
        await settled(member, everybody, are)

    began, are = time.perf_counter(), asyncio.Event()
    await asyncio.gather(*(comes(member, first, are) for member in first))
    at_once_s = time.perf_counter() - began
    began, are = time.perf_counter(), asyncio.Event()
    there = (settled(member, members, are) for member in first)
    await asyncio.gather(comes(last, members, are), *there)
    one_more_s = time.perf_counter() - began
    for member in members:
        member.wire.close()
    return at_once_s, one_more_s


def commits(directory: Path, new_broker: NewBroker = BrokerProcess) -> Measured:
    """Offset commits as fast as they go: of one partition a request, and of ten; one in flight a
    connection, and several, where the client costs less than the broker."""
    with new_broker(directory) as process:
        create(process.bootstrap, COMMITS_PER_REQUEST)
        broker = Running("josefine", process.bootstrap, process.pid)
        for offsets, in_flight in itertools.product((1, COMMITS_PER_REQUEST), (1, IN_FLIGHT)):
            cpu = broker.cpu_seconds()
            work = _commits if in_flight == 1 else _piped_commits
            requests, seconds = uvloop.run(work(process.bootstrap, offsets))
            wait_until_quiet(broker)
            name = f"commits_of_{offsets}" + (f"_{in_flight}_in_flight" if in_flight > 1 else "")
            yield name, "offsets_per_s", requests * offsets / seconds
            yield name, "requests_per_s", requests / seconds
            yield name, "offsets_per_cpu_s", requests * offsets / (broker.cpu_seconds() - cpu)


async def _commits(bootstrap: str, offsets: int) -> tuple[int, float]:
    wires = [await Wire.open(bootstrap) for _ in range(COMMIT_CONNECTIONS)]
    await find_coordinator(wires[0], "group-0")
    for at, wire in enumerate(wires):
        await until_loaded(wire, commit_request(f"group-{at}", TOPIC, offsets, at))
    began = time.perf_counter()
    end = began + COMMIT_SECONDS * min(1.0, SCALE)

    async def commit(at: int, wire: Wire) -> int:
        frame = wire.frame(apis.OFFSET_COMMIT, commit_request(f"group-{at}", TOPIC, offsets, at))
        count = 0
        while time.perf_counter() < end:
            check_commit(await wire.ask_frame(apis.OFFSET_COMMIT, frame))
            count += 1
        return count

    counts = await asyncio.gather(*(commit(at, wire) for at, wire in enumerate(wires)))
    seconds = time.perf_counter() - began
    for wire in wires:
        wire.close()
    return sum(counts), seconds


async def _piped_commits(bootstrap: str, offsets: int) -> tuple[int, float]:
    """A connection has a group of its own."""
    wires = [await Wire.open(bootstrap) for _ in range(COMMIT_CONNECTIONS)]
    await find_coordinator(wires[0], "group-0")
    makes: list[Callable[[], Flood]] = []
    for at, wire in enumerate(wires):
        request = commit_request(f"group-{at}", TOPIC, offsets, at)
        await until_loaded(wire, request)
        frame = wire.frame(apis.OFFSET_COMMIT, request)
        makes.append(partial(Flood, frame, wire.last, IN_FLIGHT))
        wire.close()
    host, port = bootstrap.rsplit(":", 1)
    loop = asyncio.get_running_loop()
    floods = [(await loop.create_connection(make, host, int(port)))[1] for make in makes]
    began, before = time.perf_counter(), sum(each.answers for each in floods)
    await asyncio.sleep(COMMIT_SECONDS * min(1.0, SCALE))
    count, seconds = sum(each.answers for each in floods) - before, time.perf_counter() - began
    for flood in floods:
        flood.close()
    wrong = [each.wrong for each in floods if each.wrong]
    if wrong:
        raise RuntimeError(f"{len(wrong)} connections were answered something else: {wrong[0]!r}")
    return count, seconds


def groups_of_one_partition(count: int) -> list[str]:
    """Names of groups that are all kept in partition 0 of the offsets topic."""
    names = (f"group-{number}" for number in itertools.count())
    kept = (name for name in names if coordinator_partition(name, OFFSETS_PARTITIONS) == 0)
    return list(itertools.islice(kept, count))


def commit_all(bootstrap: str, offsets: int, groups: Sequence[str]) -> None:
    """So many offsets in all, round after round over these groups."""

    async def run() -> None:
        wires = [await Wire.open(bootstrap) for _ in range(8)]
        await find_coordinator(wires[0], groups[0])
        numbers = iter(range(offsets // PARTITIONS))

        async def some(wire: Wire) -> None:
            for number in numbers:
                group = groups[number % len(groups)]
                request = commit_request(group, TOPIC, PARTITIONS, number)
                check_commit(await wire.ask(apis.OFFSET_COMMIT, request))

        await asyncio.gather(*map(some, wires))
        for wire in wires:
            wire.close()

    uvloop.run(run())


def committed_at(bootstrap: str, group: str, timeout_ms: int) -> bool:
    """Whether the coordinator says what `group` has committed."""
    tp = TopicPartition(TOPIC, PARTITIONS - 1)
    try:
        with BlockingClient(bootstrap, policy=Policy(request_timeout_ms=timeout_ms)) as client:
            return tp in client.committed_offsets(group, [tp])
    except KafkaError:
        return False


def failover(directory: Path) -> Measured:
    """The coordinator of groups with many offsets is killed with SIGKILL."""
    groups = groups_of_one_partition(max(1, FAILOVER_OFFSETS // PARTITIONS))
    with Cluster(directory, 3, **REPLICATED) as cluster:
        create(cluster.bootstrap, PARTITIONS, 3)
        look_up(cluster.bootstrap, groups[0])
        cluster.wait_settled()
        leader = cluster.leader_of(OFFSETS_TOPIC)
        commit_all(cluster.broker(leader).bootstrap, FAILOVER_OFFSETS, groups)
        alive = ",".join(b.bootstrap for id_, b in cluster.brokers.items() if id_ != leader)
        began = time.perf_counter()
        cluster.kill(leader)
        wait_until(lambda: is_committed(alive, groups[-1]), WAIT_SECONDS, "the next coordinator")
        yield f"failover_{FAILOVER_OFFSETS}_offsets", "s", time.perf_counter() - began


def replay(directory: Path) -> Measured:
    """A broker that is killed reads every commit of its partition back."""
    groups = groups_of_one_partition(1_000)
    with BrokerProcess(directory) as process:
        create(process.bootstrap, PARTITIONS)
        look_up(process.bootstrap, groups[0])
        empty_s, empty_cpu_s = _restart(process)
        commit_all(process.bootstrap, REPLAYED_COMMITS, groups)
        seconds, cpu_s = _restart(process, groups[0])
        name = f"replay_{REPLAYED_COMMITS}_commits"
        yield name, "s", seconds - empty_s
        yield name, "cpu_s", cpu_s - empty_cpu_s


def look_up(bootstrap: str, group: str) -> None:
    """The first look for a coordinator makes the topic of the offsets."""
    with BlockingClient(bootstrap) as client:
        client.run(lambda s, t, d: groups.find_coordinator(s, s.start(t, d, "find"), group))


def is_committed(bootstrap: str, group: str) -> bool:
    """Whether the coordinator says what `group` has committed."""
    tp = TopicPartition(TOPIC, PARTITIONS - 1)
    try:
        with BlockingClient(bootstrap, policy=Policy(request_timeout_ms=60_000)) as client:
            return tp in client.committed_offsets(group, [tp])
    except KafkaError:
        return False


def _restart(process: BrokerProcess, group: str = "") -> tuple[float, float]:
    """(seconds, CPU seconds) from kill -9 until it serves, and `group` if it is named."""
    process.kill()
    began = time.perf_counter()
    process.start()
    if group:
        wait_until(lambda: is_committed(process.bootstrap, group), WAIT_SECONDS, "its groups")
    seconds = time.perf_counter() - began
    return seconds, Running("josefine", process.bootstrap, process.pid).cpu_seconds()


MEASURES = {
    "idle": idle,
    "rebalance": rebalance,
    "consumer_idle": partial(idle, new_member=ConsumerMember),
    "consumer_rebalance": partial(rebalance, new_member=ConsumerMember),
    "consumer_rebalance_as_told": partial(rebalance, new_member=ConsumerMember, as_told=True),
    "commits": commits,
    "failover": failover,
    "replay": replay,
}
PEER = partial(ApacheKafka, begins_soon=False)
WITH_PEER = ("idle", "rebalance", "consumer_rebalance", "consumer_rebalance_as_told", "commits")


def _measured(measure: str, directory: Path) -> Measured:
    yield from MEASURES[measure](directory / "ours")
    if measure in WITH_PEER and os.environ.get("BENCH_GROUPS_PEER"):
        for name, unit, value in MEASURES[measure](directory / "peer", new_broker=PEER):
            yield f"apache_kafka_{name}", unit, value


def main() -> None:
    """BENCH_GROUPS chooses measures, like `idle,commits`."""
    wanted = os.environ.get("BENCH_GROUPS", ",".join(MEASURES)).split(",")
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        for measure in wanted:
            with tempfile.TemporaryDirectory(prefix="josefine-groups-") as directory:
                for name, unit, value in _measured(measure, Path(directory)):
                    values[name, unit].append(value)
                    say(f"round {number + 1}: {name} {unit} {value:.3f}")
    for (name, unit), each in values.items():
        line = {"bench": "groups", "measure": name, "unit": unit, "value": round(median(each), 3)}
        print(json.dumps(line | {"rounds": len(each)}), flush=True)


if __name__ == "__main__":
    main()
