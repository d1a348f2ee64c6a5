"""`josefine bench strategies`: a comparison of the three acks settings, with the lost records of
each.

acks=0 gets no acknowledgement (a single send), acks=1 one from the leader (one confirm), acks=all
one from all in-sync replicas (two confirms). Rules: a record is acknowledged if its write ended
without an error; the topic is read back, and an acknowledged record that is missing is lost. A
failed write is in doubt; it is not retried, and the run continues with the next record.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions
from josefine_broker.client.io_blocking import LATEST, BlockingClient, BlockingProducer
from josefine_broker.client.operations import partition_error
from josefine_cli.base.errors import UsageError
from josefine_cli.base.latencies import Latencies
from josefine_cli.base.output import connect, note, plural, print_json, print_table
from josefine_cli.base.waiting import waits
from josefine_cli.cluster.local import DEFAULT_DIRECTORY, LocalCluster
from josefine_cli.cluster.target import AsJson, Bootstrap, Directory, admin_urls, bootstrap_of
from josefine_cli.cluster.view import ask_first
from josefine_cli.kafka.consume_records import FETCH_WAIT_MS, named_when_damaged, records_of
from josefine_cli.kafka.produce import ACKS_NUMBER, Acks

NAMES = {Acks.NONE: "single send", Acks.LEADER: "one confirm", Acks.ALL: "two confirms"}
"""Names of the settings in the book."""
WRITE_RECORDS = 50
"""Records per write, and so between two checks of acknowledgements."""
SETTLE_S = 60.0
PAUSE_S = 0.2


@dataclass(slots=True)
class Outcome:
    """The counts of one strategy's records. Mutable."""

    acks: Acks
    acknowledged: set[int] = field(default_factory=set)
    in_doubt: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)
    """Latencies of writes."""
    found: Counter[int] = field(default_factory=Counter)

    def plain(self) -> dict[str, Any]:
        return {
            "acks": self.acks.value,
            "strategy": NAMES[self.acks],
            "told": len(self.acknowledged),
            "in_doubt": self.in_doubt,
            "lost": len(self.acknowledged - self.found.keys()),
            "twice": sum(count > 1 for count in self.found.values()),
            "records_per_s": round(len(self.acknowledged) / max(self.seconds, 1e-9), 1),
            "latency_ms": self.latencies.quantiles(),
        }


def strategies(
    topic: Annotated[str, typer.Argument(help="The topic; it must exist.")],
    records: Annotated[
        int, typer.Option("--records", "-n", min=WRITE_RECORDS, help="How many, in each way.")
    ] = 10_000,
    size: Annotated[
        int, typer.Option("--size", "-s", min=40, help="Bytes of a record's value.")
    ] = 100,
    kill: Annotated[
        bool,
        typer.Option(
            "--kill",
            help="Kill a leader of the topic (SIGKILL) in the middle of each, and restart"
            " it: for a local cluster only.",
        ),
    ] = False,
    directory: Directory = DEFAULT_DIRECTORY,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Write with acks 0, 1 and all, and count acknowledged and stored records of each.

    \b
    josefine bench strategies orders
    josefine cluster up && josefine topics create orders -p 3
    josefine bench strategies orders --kill
    """
    local = LocalCluster.load(directory) if kill else None
    if local is not None and len(local.running) < 2:
        raise UsageError("--kill needs at least two running brokers: the others continue")
    address = bootstrap_of(bootstrap, directory)
    run = random.randrange(1 << 32)
    found = []
    # A new client for each strategy, and another for reading: neither inherits connections or
    # retries from one that met a killed broker. The marker identifies the run's records.
    for acks in NAMES:
        with connect(address) as client:
            count = client.partition_count(topic)
            tps = [TopicPartition(topic, index) for index in range(count)]
            starts = client.list_offsets(dict.fromkeys(tps, LATEST))
            marker = b"%08x:%d:" % (run, ACKS_NUMBER[acks])
            outcome = Outcome(acks)
            _write(client, topic, marker, records, size, outcome, local)
        with connect(address) as client:
            _read(client, {tp: at.offset for tp, at in starts.items()}, marker, outcome)
        found.append(outcome.plain())
    _tell(found, as_json)


def _write(
    client: BlockingClient,
    topic: str,
    marker: bytes,
    records: int,
    size: int,
    outcome: Outcome,
    local: LocalCluster | None,
) -> None:
    producer = BlockingProducer(client, acks=ACKS_NUMBER[outcome.acks])
    killed: int | None = None
    began_s = time.perf_counter()
    for first in range(0, records, WRITE_RECORDS):
        numbers = range(first, min(first + WRITE_RECORDS, records))
        asked_s = time.perf_counter()
        try:
            for number in numbers:
                producer.send(topic, None, (marker + b"%020d" % number).ljust(size, b"."))
            producer.flush()
        except KafkaError:
            # Some of these records may be stored, so they count neither as acknowledged nor as
            # lost. A new producer starts with clean sequence numbers (KIP-98).
            outcome.in_doubt += len(numbers)
            producer = BlockingProducer(client, acks=ACKS_NUMBER[outcome.acks])
        else:
            outcome.acknowledged.update(numbers)
            outcome.latencies.add(1000 * (time.perf_counter() - asked_s))
        if local is not None and killed is None and first >= records // 2:
            killed = _leader(local, topic)
            local.kill(killed)
            note(f"acks={outcome.acks.value}: killed broker {killed}")
    outcome.seconds = time.perf_counter() - began_s
    if local is not None and killed is not None:
        local.start([killed], keep=True)
        _wait_in_sync(local, topic)


def _leader(local: LocalCluster, topic: str) -> int:
    """The leader of the topic's first partition that has one."""
    for each in _partitions(local, topic):
        if each["leader"] >= 0:
            leader: int = each["leader"]
            return leader
    raise UsageError(f"no partition of '{topic}' has a leader")


def _partitions(local: LocalCluster, topic: str) -> list[dict[str, Any]]:
    view = ask_first(admin_urls(None, local.directory), "/cluster")
    return [each for each in view["partitions"] if each["topic"] == topic]


def _wait_in_sync(local: LocalCluster, topic: str) -> None:
    """Wait until the records of the killed broker are truncated or replicated everywhere."""
    deadline = time.monotonic() + SETTLE_S
    with waits(lambda: f"the replicas of {topic} in sync"):
        while any(each["under_replicated"] for each in _partitions(local, topic)):
            if time.monotonic() > deadline:
                note(f"replicas of {topic} are not in sync after {SETTLE_S:.0f} s")
                return
            time.sleep(PAUSE_S)


def _read(
    client: BlockingClient, starts: dict[TopicPartition, int], marker: bytes, outcome: Outcome
) -> None:
    """Count the stored records of this run."""
    ends = client.list_offsets(dict.fromkeys(starts, LATEST))
    positions = Positions()
    for tp, start in starts.items():
        positions.assign(tp, min(start, ends[tp].offset), ends[tp].offset)
    while not positions.finished:
        for tp, part in client.fetch(positions.wanted(), max_wait_ms=FETCH_WAIT_MS).items():
            if part.error_code is not ErrorCode.none:
                raise partition_error(tp, part.error_code, None)
            with named_when_damaged(tp):
                for record in records_of(tp, part, positions):
                    value = record.value or b""
                    if value.startswith(marker):
                        outcome.found[int(value[len(marker) :].rstrip(b"."))] += 1
            positions.advance(tp, part.records)


def _tell(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    # "in doubt" and "lost" are separate columns: an unanswered write may be stored, only an
    # acknowledged one that is absent breaks a promise.
    print_table(
        (
            "acks",
            "strategy",
            "acknowledged",
            "in doubt",
            "lost",
            "twice",
            "records/s",
            "p50 ms",
            "p99 ms",
        ),
        [
            (
                each["acks"],
                each["strategy"],
                each["told"],
                each["in_doubt"],
                each["lost"],
                each["twice"],
                round(each["records_per_s"]),
                each["latency_ms"]["p50"],
                each["latency_ms"]["p99"],
            )
            for each in found
        ],
    )
    note(f"a write is {plural(WRITE_RECORDS, 'record')}; lost: acknowledged and not stored")
