"""`josefine bench`: the write and read throughput of a cluster, from the shell.

As Kafka's kafka-producer-perf-test and kafka-consumer-perf-test, with our own client: figures are
of client and broker together, on one thread of the client. A MB is 1,000,000 bytes: of values when
writing, of stored batches when reading or, with --unpack, of keys and values. A latency is from the
hand-over of a record to its acknowledgement, or from a fetch to its response.
"""

from __future__ import annotations

import random
import string
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient, BlockingProducer
from josefine_broker.client.operations import partition_error
from josefine_broker.client.producing import BATCH_BYTES_MAX, BUFFER_BYTES_MAX
from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.records.compression import Compression
from josefine_broker.records.reader import read_records
from josefine_cli.base.errors import EXIT_SIGNAL
from josefine_cli.base.latencies import Latencies
from josefine_cli.base.output import connect, note, plural, print_json
from josefine_cli.base.signals import StopSignals
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.dev.bench_strategies import strategies
from josefine_cli.kafka.consume_records import FETCH_WAIT_MS, named_when_damaged
from josefine_cli.kafka.produce import ACKS_NUMBER, Acks, CompressionName

app = typer.Typer(
    help="Measure the throughput of writes and reads.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Topic = Annotated[str, typer.Argument(help="The topic; it must exist.")]

app.command()(strategies)

PAYLOADS = 1_000
"""Number of different values: as incompressible as one long text of random characters."""
LOOK_RECORDS = 64
"""Records between two checks for acknowledgements: the checks cost no measurable time."""
TELL_SECONDS = 5.0


class Progress:
    """Counts of the run, reported on stderr every few seconds. Mutable."""

    def __init__(self, verb: str) -> None:
        self.records = 0
        self.bytes = 0
        self.latencies = Latencies()
        self.began_s = self._told_s = time.perf_counter()
        self._verb = verb
        self._told = 0

    def look(self) -> None:
        """Report, if it is due."""
        now_s = time.perf_counter()
        if now_s - self._told_s < TELL_SECONDS:
            return
        rate = (self.records - self._told) / (now_s - self._told_s)
        note(f"{self._verb} {plural(self.records, 'record')}, now {rate:,.0f} records/s")
        self._told_s, self._told = now_s, self.records

    def report(self, topic: str, as_json: bool, of: str) -> None:
        seconds = max(time.perf_counter() - self.began_s, 1e-9)
        rates = {
            "records_per_s": round(self.records / seconds, 1),
            "mb_per_s": round(self.bytes / seconds / 1e6, 3),
        }
        quantiles = self.latencies.quantiles()
        if as_json:
            print_json(
                {
                    "topic": topic,
                    "records": self.records,
                    "bytes": self.bytes,
                    "seconds": round(seconds, 3),
                    **rates,
                    "latency_ms": quantiles,
                }
            )
            return
        print(
            f"{self._verb} {plural(self.records, 'record')} in {seconds:.2f} s:"
            f" {rates['records_per_s']:,.0f} records/s, {rates['mb_per_s']:,.2f} MB/s"
        )
        shown = ", ".join(f"{name} {ms:,.1f} ms" for name, ms in quantiles.items())
        print(f"latency of a {of}: {shown}")


@app.command()
def produce(
    topic: Topic,
    records: Annotated[
        int, typer.Option("--records", "-n", min=1, help="How many to write.")
    ] = 100_000,
    size: Annotated[
        int, typer.Option("--size", "-s", min=0, help="Bytes of a record's value.")
    ] = 100,
    throughput: Annotated[
        int, typer.Option("--throughput", min=0, help="Records per second; 0: as fast as possible.")
    ] = 0,
    acks: Annotated[
        Acks, typer.Option("--acks", help="Which replicas must have a record before it counts.")
    ] = Acks.ALL,
    compression: Annotated[
        CompressionName, typer.Option("--compression", "-z", help="Of the batches.")
    ] = CompressionName.NONE,
    batch_bytes: Annotated[
        int, typer.Option("--batch-bytes", min=1, help="A batch is not larger.")
    ] = BATCH_BYTES_MAX,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Write records of random characters.

    \b
    josefine bench produce orders --records 1000000 --size 1000
    josefine bench produce orders --throughput 500 --acks 1 --json
    """
    payloads = _payloads(size)
    with connect(bootstrap_of(bootstrap)) as client, StopSignals() as stop:
        partitions = client.partition_count(topic)
        producer = BlockingProducer(
            client,
            acks=ACKS_NUMBER[acks],
            compression=Compression[compression.name],
            batch_bytes_max=batch_bytes,
            # A request is sent when it is half full, with a batch for each partition.
            buffer_bytes_max=min(BUFFER_BYTES_MAX, 2 * batch_bytes * partitions),
        )
        load = _Load(producer, topic, size)
        for number in range(records):
            if stop.number is not None:
                break
            load.wait_for_turn(number, throughput)
            load.send(payloads[number % len(payloads)])
        load.flush()
    load.progress.report(topic, as_json, "record")
    if stop.number is not None:
        raise typer.Exit(EXIT_SIGNAL + stop.number)


class _Load:
    """Hands records to the producer and measures their acknowledgements. Mutable."""

    def __init__(self, producer: BlockingProducer, topic: str, size: int) -> None:
        self.progress = Progress("wrote")
        self._producer, self._topic, self._size = producer, topic, size
        self._waiting: deque[float] = deque()
        """Hand-over times of unacknowledged records."""

    def wait_for_turn(self, number: int, per_s: int) -> None:
        """Wait until record `number` is due; waiting records are sent before."""
        if not per_s:
            return
        left_s = self.progress.began_s + number / per_s - time.perf_counter()
        if left_s > 0:
            self.flush()
            time.sleep(max(0.0, self.progress.began_s + number / per_s - time.perf_counter()))

    def send(self, value: bytes) -> None:
        self._waiting.append(time.perf_counter())
        self._producer.send(self._topic, None, value)
        if len(self._waiting) % LOOK_RECORDS == 0:
            self._settle()

    def flush(self) -> None:
        self._producer.flush()
        self._settle()

    def _settle(self) -> None:
        """Count the newly acknowledged records; those of one write come all at once."""
        progress = self.progress
        done = sum(each.record_count for each in self._producer.delivered.values())
        if done == progress.records:
            return
        now_s = time.perf_counter()
        for _ in range(done - progress.records):
            progress.latencies.add(1000 * (now_s - self._waiting.popleft()))
        progress.bytes += (done - progress.records) * self._size
        progress.records = done
        progress.look()


def _payloads(size: int) -> Sequence[bytes]:
    letters = string.ascii_uppercase.encode()
    rng = random.Random(size)
    return [bytes(rng.choices(letters, k=size)) for _ in range(PAYLOADS if size else 1)]


@app.command()
def consume(
    topic: Topic,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="Default: all there are now.")
    ] = None,
    fetch_bytes: Annotated[
        int, typer.Option("--fetch-bytes", min=1, help="Of a partition, in one fetch.")
    ] = 8 * 1024 * 1024,
    unpack: Annotated[
        bool, typer.Option("--unpack", help="Decode each record, not only check batches.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Read a topic from its start, and discard the records.

    Batches are checked against their checksums and their records counted; --unpack decompresses
    and reads them, which costs this command more than the broker.

    \b
    josefine bench consume orders
    josefine bench consume orders --records 1000000 --unpack --json
    """
    progress = Progress("read")
    with connect(bootstrap_of(bootstrap)) as client, StopSignals() as stop:
        positions = _all_of(client, topic)
        # Bound by the ends at the start, so that a bench under load ends.
        while not positions.finished and stop.number is None:
            asked_s = time.perf_counter()
            fetched = client.fetch(
                positions.wanted(), partition_bytes_max=fetch_bytes, max_wait_ms=FETCH_WAIT_MS
            )
            progress.latencies.add(1000 * (time.perf_counter() - asked_s))
            for tp, part in fetched.items():
                if part.error_code is not ErrorCode.none:
                    raise partition_error(tp, part.error_code, None)
                with named_when_damaged(tp):
                    _count(progress, part.records, unpack)
                positions.advance(tp, part.records)
            progress.look()
            if records is not None and progress.records >= records:
                break
    progress.report(topic, as_json, "fetch")
    if stop.number is not None:
        raise typer.Exit(EXIT_SIGNAL + stop.number)


def _all_of(client: BlockingClient, topic: str) -> Positions:
    count = client.partition_count(topic)
    tps = [TopicPartition(topic, number) for number in range(count)]
    earliest = client.list_offsets(dict.fromkeys(tps, EARLIEST))
    latest = client.list_offsets(dict.fromkeys(tps, LATEST))
    positions = Positions()
    for tp in tps:
        positions.assign(tp, earliest[tp].offset, latest[tp].offset)
    return positions


def _count(progress: Progress, data: memoryview, unpack: bool) -> None:
    """Count whole batches; control batches have no user records."""
    for pos, header in iter_batches(data):
        if header.is_control:
            continue
        verify(data, pos, header)
        batch: Any = data[pos : pos + header.size_bytes]
        if unpack:
            for record in read_records(batch):
                progress.records += 1
                progress.bytes += len(record.key or b"") + len(record.value or b"")
        else:
            progress.records += header.record_count
            progress.bytes += header.size_bytes
