"""The demo's producer: an ordinary third-party Kafka client, confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from josefine_cli.base.errors import UserError
from josefine_cli.base.waiting import waits
from josefine_cli.dev.demo_flights import FLIGHTS, InputTotals, read_events

PROGRESS_EVERY = 10_000
FLUSH_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """The producing leg: what was sent and how long reading, encoding and sending took together."""

    totals: InputTotals
    seconds: float


def publish(bootstrap: str, topic: str, data_set: Path, console: Console) -> Produced:
    """Publish every flight and wait for the broker's acknowledgement of each (acks=all)."""
    from confluent_kafka import KafkaError, Message, Producer

    failures: list[str] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 20,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 200_000,
            # Ctrl-C stops the broker at the same time, and failures are reported below.
            "log_level": 2,
        }
    )
    totals = InputTotals()
    started = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        waits(lambda: f"{len(producer):,} of {totals.events:,} events are unacknowledged") as moved,
    ):
        bar = progress.add_task("produce    ", total=FLIGHTS)
        for event in read_events(data_set, totals):
            # A full queue is back-pressure, not a failure: serve deliveries until it has room.
            while True:
                try:
                    producer.produce(topic, event.value, event.key, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.05)
            if totals.events % PROGRESS_EVERY == 0:
                producer.poll(0)
                moved()
                progress.update(bar, completed=totals.events)
                if failures:
                    break
        left = producer.flush(FLUSH_SECONDS)
        progress.update(bar, completed=totals.events)
    seconds = time.monotonic() - started
    if failures or left:
        reason = (
            failures[0] if failures else f"{left} events unacknowledged after {FLUSH_SECONDS:.0f} s"
        )
        raise UserError(f"publishing failed: {reason}")
    console.print(
        f"produce     {totals.events:,} events, {totals.null_keys:,} with a null key, "
        f"in {seconds:.1f} s ({totals.events / seconds:,.0f}/s)"
    )
    return Produced(totals=totals, seconds=seconds)


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The exclusive end offset of every partition, asked with the same third-party client."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo-check"})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1]
            for p in partitions
        }
    finally:
        consumer.close()
