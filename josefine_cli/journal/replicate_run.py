"""The run of `josefine journal replicate`, for one topic or those with a prefix; signals end it
after a last commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.client.io_asyncio import AsyncClient
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import note, plural
from josefine_cli.journal.client import journal_client, spark_options
from josefine_cli.journal.replicate_report import Telling, tell_restored
from josefine_journal.topic import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from josefine_journal.metrics import Metrics
    from josefine_journal.replicating import Replicating
    from pipelines.journal.spark_rounds import SparkReplicator

REPLICATOR = "josefine-replicator"
"""The client id."""
STOP_S_MAX = 10.0
"""Time limit of the last round; if the broker is unavailable, the next run does its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `replicate`, except for the topics."""

    store: str
    partitions: Sequence[int] | None
    once: bool
    interval_ms: int
    passes_lost: bool
    dead_letters: str | None
    expire_ms: int | None
    metrics_port: int | None
    at: Callable[[str], None]
    as_json: bool
    spark: SparkSession | None = None


async def replicate_one(bootstrap: str, topic: str, asked: Asked) -> int | None:
    """Run until the end; returns the signal that ended it."""
    async with journal_client(bootstrap, REPLICATOR) as client:
        metrics = _metrics(asked)
        work, telling = await _opened(bootstrap, client, topic, asked, metrics)
        number = await _until_signal(work.run(until_caught_up=asked.once), work.stop)
        telling.say()
        return number


async def replicate_all(bootstrap: str, prefix: str, asked: Asked) -> int | None:
    """Run until stopped; returns the signal that stopped it."""
    from josefine_journal.leases import Leases
    from josefine_journal.sharing import Sharing

    async with journal_client(bootstrap, REPLICATOR) as client:
        metrics = _metrics(asked)
        tellings: list[Telling] = []

        async def topics() -> Sequence[str]:
            found = (await client.metadata()).topics.values()
            return [each.name for each in found if _is_ours(each, prefix)]

        async def opened(topic: str) -> Replicating:
            work, telling = await _opened(bootstrap, client, topic, asked, metrics)
            tellings.append(telling)
            return work

        # One topic's failure must not end the others: `Sharing` tries it again later.
        def tell_failed(topic: str, error: Exception) -> None:
            note(f"topic {topic} failed: {error}")
            if metrics is not None:
                metrics.failed(topic)

        sharing = Sharing(
            Leases(Path(asked.store)), topics=topics, opened=opened, tell_failed=tell_failed
        )
        number = await _until_signal(sharing.run(), sharing.stop)
        for telling in tellings:
            telling.say()
        return number


def _is_ours(topic: Any, prefix: str) -> bool:
    is_there = topic.error_code is ErrorCode.none and not topic.is_internal
    return is_there and topic.name.startswith(prefix)


def _metrics(asked: Asked) -> Metrics | None:
    if asked.metrics_port is None:
        return None
    from josefine_journal.metrics import Metrics

    metrics = Metrics()
    note(f"metrics: http://127.0.0.1:{metrics.serve(asked.metrics_port)}/metrics")
    return metrics


async def _opened(
    bootstrap: str, client: AsyncClient, topic: str, asked: Asked, metrics: Metrics | None
) -> tuple[Replicating, Telling]:
    """The run of one topic, and its output."""
    from josefine_journal.dead_letters import burying
    from josefine_journal.delta_store import DeltaStore
    from josefine_journal.expiring import expiring
    from josefine_journal.replicating import EXPIRE_MS, Replicating
    from josefine_journal.replicator import EMPTY_COMMIT_MS, Replicator

    log = TopicLog(client, topic)
    topic_id = await _topic_id(log, asked.partitions)
    count = await log.partition_count()
    store = DeltaStore(asked.store, topic, topic_id, partition_count=count, at=asked.at)
    # A restored store is reported before its range is replicated again: later it is not visible.
    partitions = asked.partitions or range(count)
    tell_restored(topic, await asyncio.to_thread(store.taken_back, partitions))
    letters = asked.dead_letters and asked.dead_letters.replace("{topic}", topic)
    options: dict[str, Any] = {
        "partitions": partitions,
        "passes_lost": asked.passes_lost,
        "bury": burying(client, letters) if letters else None,
        "empty_commit_ms": 0 if asked.once else EMPTY_COMMIT_MS,
        "at": asked.at,
    }
    replicator: Replicator | SparkReplicator
    if asked.spark is None:
        replicator = Replicator(log, store, **options)
    else:
        from pipelines.journal.spark_rounds import SparkReplicator

        options |= {"bootstrap": bootstrap, "options": spark_options(os.environ)}
        replicator = SparkReplicator(asked.spark, log, store, Path(asked.store), **options)
    telling = Telling(topic, replicator, asked.as_json)

    def tell_round(found: Any) -> None:
        telling.round(found)
        if metrics is not None:
            metrics.round(topic, found, replicator.stalled, time.time_ns() // 1_000_000)

    work = Replicating(
        replicator,
        store,
        tell_round=tell_round,
        tell_trouble=telling.trouble,
        interval_ms=asked.interval_ms,
        expire=None if asked.expire_ms is None else expiring(client, store, partitions),
        expire_ms=asked.expire_ms or EXPIRE_MS,
    )
    return work, telling


async def _topic_id(log: TopicLog, partitions: Sequence[int] | None) -> Any:
    """The topic's id. Raises UsageError for a partition that does not exist."""
    count = await log.partition_count()
    for partition in partitions or ():
        if partition >= count:
            raise UsageError(
                f"topic '{log.topic}' has {plural(count, 'partition')}: 0 to {count - 1}"
            )
    return log.topic_id


async def _until_signal(work: Coroutine[Any, Any, None], stop: Callable[[], None]) -> int | None:
    """Run until a signal, and after it until a last commit if that is possible soon; returns the
    signal."""
    running = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def heard(number: int) -> None:
        came.append(number)
        stop()
        loop.call_later(STOP_S_MAX, running.cancel)
        loop.remove_signal_handler(number)  # a second signal has its default effect

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard, number)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return came[0] if came else None
