"""The admin pages and actions of the verification and repair of logs: `josefine log verify|repair`
and `josefine cluster verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.host.log.damage import DamagedLogs
from josefine_broker.host.log.scrub import Scrub
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.crc import crc32c

RANGE_OFFSETS = 10_000
"""Offsets of one range that replicas are compared by."""
RANGES_MAX = 100
READ_BYTES = 1024 * 1024
"""Bytes read between two turns of the event loop."""


class Healing:
    """The pages, by path. Reads and orders only; one per broker."""

    def __init__(self, ctx: Context, damaged: DamagedLogs, scrub: Scrub, repairs: Repairs) -> None:
        self._ctx = ctx
        self._damaged = damaged
        self._scrub = scrub
        self._repairs = repairs

    def view(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """The body of `/logs`: what was verified, is damaged, and is being done about it."""
        states = {(tp, repair.damage.base_offset): repair for tp, repair in self._repairs}
        segments = []
        for tp, its_log in self._damaged.logs.items():
            for base, damage in its_log.found.items():
                repair = states.get((tp, base))
                segments.append(
                    {
                        "partition": str(tp),
                        "segment": base,
                        "offset": damage.offset,
                        "reason": damage.reason,
                        "state": "found" if repair is None else repair.state.value,
                        "lost": None if repair is None else repair.lost,
                    }
                )
        now_ms = self._ctx.clock.now_ms()
        return {
            "broker_id": self._ctx.broker_id,
            "verify_left": self._scrub.asked_left,
            "bytes_verified": self._damaged.bytes_verified,
            "oldest_unverified_ms": self._scrub.progress.oldest_ms(now_ms),
            "repaired": self._repairs.counters.repaired,
            "damaged": segments,
        }

    def verify(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Start to verify every log here, or those of `topic`, at full speed."""
        topic = query.get("topic")
        found = [
            TopicPartition(*tp)
            for tp in self._ctx.hosted.partitions
            if topic is None or tp[0] == topic
        ]
        if not found:
            raise ValueError(f"no partition of topic '{topic}' is on this broker")
        self._scrub.verify_now(sorted(found))
        return {"broker_id": self._ctx.broker_id, "partitions": len(found)}

    def accept_loss(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Give up what no replica of `partition` has. Raises ValueError."""
        tp, _ = self._hosted(query)
        try:
            given_up = self._repairs.accept_loss(tp)
        except KafkaError as error:
            if error.code is ErrorCode.kafka_storage_error:
                why = f"its damaged segment cannot be read now ({error.message}): try again"
                raise ValueError(f"{tp}: {why}") from error
            if error.code is not ErrorCode.not_leader_or_follower:
                raise
            entry = self._ctx.image.partition(*tp)
            leader = -1 if entry is None else entry.leader
            raise ValueError(f"{tp}: only its leader accepts a loss: broker {leader}") from error
        return {"partition": str(tp), "given_up": given_up}

    async def checksums(self, query: Mapping[str, str]) -> dict[str, Any]:
        """CRC32C of the batches that start in each range of offsets, from `start` to `end`. Of a
        range with a damaged batch there is none (null). Raises ValueError."""
        tp, hosted = self._hosted(query)
        start, end = _number(query, "start", 0), _number(query, "end", -1)
        log, partition = hosted.log, hosted.partition
        limit = partition.high_watermark if end < 0 else min(end, partition.high_watermark)
        offset = max(start, log.log_start_offset)
        ranges: list[list[int | None]] = []
        while offset < limit and len(ranges) < RANGES_MAX:
            stop = min((offset // RANGE_OFFSETS + 1) * RANGE_OFFSETS, limit)
            crc, next_offset = await _crc_of(hosted, offset, stop)
            ranges.append([offset, stop, crc])
            offset = max(stop, next_offset)
        return {
            "partition": str(tp),
            "log_start": log.log_start_offset,
            "high_watermark": partition.high_watermark,
            "ranges": ranges,
            "next": offset if offset < limit else None,
        }

    def _hosted(self, query: Mapping[str, str]) -> tuple[TopicPartition, HostedPartition]:
        name = query.get("partition", "")
        topic, _, index = name.rpartition("-")
        if not topic or not index.isdigit():
            raise ValueError(f"partition={name}: expected TOPIC-NUMBER, such as orders-0")
        tp = TopicPartition(topic, int(index))
        hosted = self._ctx.hosted.partitions.get(tp)
        if hosted is None:
            raise ValueError(f"{tp} has no replica on broker {self._ctx.broker_id}")
        return tp, hosted


async def _crc_of(hosted: HostedPartition, start: int, stop: int) -> tuple[int | None, int]:
    """(CRC of the batches with base offsets in the range, None if one is damaged; where to
    continue)."""
    crc, offset = 0, start
    while offset < stop:
        try:
            buffers = hosted.log.read(
                offset, READ_BYTES, end_offset=hosted.partition.high_watermark
            )
        except KafkaError:
            return None, stop
        if not buffers:
            break
        for buffer in buffers:
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                if header.base_offset < start:
                    offset = header.end_offset  # counted in the range before
                elif header.base_offset < stop:
                    crc = crc32c(data[pos : pos + header.size_bytes], crc)
                    offset = header.end_offset
                else:
                    return crc, stop
        await asyncio.sleep(0)
    return crc, offset


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(query.get(name, default))
    except ValueError as error:
        raise ValueError(f"{name}={query[name]}: expected an offset") from error
