"""The message browser: records of a topic's partitions, merged by time. Blocking.

Rules: a page of records is found in a bounded number of fetches, and the answer has the position of
each partition from which to continue, so a search over a large topic takes several requests. The
result of a query by positions is always the same: its address can be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import records_between
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.operations import partition_error
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record
from josefine_cli.base.output import iso_time, put_bytes
from josefine_cli.kafka.names import partition_count

RECORDS_MAX = 200
PARTITIONS_MAX = 200
"""Partitions of one query; of a topic with more, one partition is asked for."""
SHOWN_BYTES_MAX = 64 * 1024
"""Bytes shown per key or value; the rest is cut."""
FETCH_BYTES_MAX = 4 * 1024 * 1024
PARTITION_BYTES_MIN = 64 * 1024
FETCHES_MAX = 50
"""Fetches per query; the result has the positions from which to continue."""

Decode = Callable[[bytes], tuple[str | None, str | None]]
"""Bytes to (JSON text, why there is none); (None, None): not a value of this kind."""
Positions = Mapping[int, int]
"""Partition → offset."""


class Asked(NamedTuple):
    """The records to show. `key`: only those with this key; `search`: only those with this text in
    key, value or a header. `partition` None: all. `at`: from these positions on; `until`: the ones
    before them."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: str | None
    limit: int
    search: str | None = None
    at: Positions | None = None
    until: Positions | None = None

    @property
    def is_newest(self) -> bool:
        """Whether the last records of a range are wanted, not the first."""
        given = (self.offset, self.timestamp_ms, self.key, self.search, self.at)
        return self.until is not None or all(each is None for each in given)


def asked(query: Mapping[str, str]) -> Asked:
    """Parse a query. Raises ValueError."""
    topic = query.get("topic", "")
    if not topic:
        raise ValueError("topic: name one")
    limit = _number(query, "limit", 20)
    if not limit or limit > RECORDS_MAX:
        raise ValueError(f"limit: expected a number from 1 to {RECORDS_MAX}")
    return Asked(
        topic,
        _number(query, "partition", None),
        _number(query, "offset", None),
        _number(query, "timestamp", None),
        query.get("key") or None,
        limit,
        query.get("search") or None,
        _positions(query, "at"),
        _positions(query, "until"),
    )


def _number(query: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = query.get(name, "")
    return _decimal(name, text) if text else default


def _decimal(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise ValueError(f"{name}={text[:40]}: expected a number")
    return int(text)


def _positions(query: Mapping[str, str], name: str) -> Positions | None:
    """`0:12,1:40`: partition and offset. Raises ValueError."""
    text = query.get(name, "")
    if not text:
        return None
    pairs = (each.partition(":") for each in text.split(","))
    return {_decimal(name, partition): _decimal(name, offset) for partition, _, offset in pairs}


class Found(NamedTuple):
    """One record of the answer, in the order of `merged`."""

    timestamp_ms: int
    partition: int
    offset: int
    row: dict[str, Any]


def browse(client: BlockingClient, wanted: Asked, decode: Decode | None = None) -> dict[str, Any]:
    """{"partitions", "records"}: for each partition its start, end, the position from which the
    next records are read and the one before which older ones are. Raises KafkaError, UserError,
    ValueError."""
    tps = _partitions(client, wanted)
    starts, ends = (_listed(client, tps, at) for at in (EARLIEST, LATEST))
    begin, stop = _range(client, wanted, starts, ends)
    found, reached = _scan(client, wanted, begin, stop, decode)
    chosen = merged(found.values(), wanted.limit, newest=wanted.is_newest)
    first = {tp.partition: at for tp, at in begin.items()}
    after, before = continued(found, chosen, first, reached, newest=wanted.is_newest)
    return {
        "partitions": {
            str(tp.partition): {
                "start": starts[tp],
                "end": ends[tp],
                "next": after[tp.partition],
                "first": before[tp.partition],
            }
            for tp in tps
        },
        "records": [each.row for each in chosen],
    }


def _partitions(client: BlockingClient, wanted: Asked) -> list[TopicPartition]:
    count = partition_count(client, wanted.topic)
    if wanted.partition is None and count > PARTITIONS_MAX:
        raise ValueError(f"{wanted.topic} has {count} partitions: choose one of them")
    if wanted.partition is not None and wanted.partition >= count:
        raise ValueError(f"partition={wanted.partition}: {wanted.topic} has {count}, from 0 on")
    numbers = range(count) if wanted.partition is None else [wanted.partition]
    return [TopicPartition(wanted.topic, each) for each in numbers]


def _listed(
    client: BlockingClient, tps: Iterable[TopicPartition], at: int
) -> dict[TopicPartition, int]:
    found = client.list_offsets(dict.fromkeys(tps, at))
    return {tp: listed.offset for tp, listed in found.items()}


Offsets = Mapping[TopicPartition, int]


def _range(
    client: BlockingClient, wanted: Asked, starts: Offsets, ends: Offsets
) -> tuple[dict[TopicPartition, int], Offsets]:
    """(first, end) of what is read in each partition."""
    stop = ends
    if wanted.until is not None:
        stop = {tp: min(end, wanted.until.get(tp.partition, end)) for tp, end in ends.items()}
    if wanted.is_newest:
        begin = {tp: end - wanted.limit for tp, end in stop.items()}
    elif wanted.at is not None:
        begin = {tp: wanted.at.get(tp.partition, 0) for tp in ends}
    elif wanted.offset is not None:
        begin = dict.fromkeys(ends, wanted.offset)
    elif wanted.timestamp_ms is not None:
        at_time = _listed(client, ends, wanted.timestamp_ms)
        begin = {tp: ends[tp] if at < 0 else at for tp, at in at_time.items()}
    else:
        begin = dict(starts)
    return {tp: max(starts[tp], at) for tp, at in begin.items()}, stop


def _scan(
    client: BlockingClient, wanted: Asked, begin: Offsets, stop: Offsets, decode: Decode | None
) -> tuple[dict[int, list[Found]], dict[int, int]]:
    """(the records that fit, by partition; the position that was reached in each)."""
    found: dict[int, list[Found]] = {tp.partition: [] for tp in begin}
    at = dict(begin)
    share = max(PARTITION_BYTES_MIN, FETCH_BYTES_MAX // max(1, len(begin)))
    for _ in range(FETCHES_MAX):
        open_ = {
            tp: position
            for tp, position in at.items()
            if position < stop[tp] and len(found[tp.partition]) < wanted.limit
        }
        if not open_:
            break
        parts = client.fetch(open_, bytes_max=FETCH_BYTES_MAX, partition_bytes_max=share)
        before = dict(at)
        for tp, part in parts.items():
            if part.error_code is not ErrorCode.none:
                raise partition_error(tp, part.error_code, None)
            rows = found[tp.partition]
            for record in records_between(part.records, at[tp], stop[tp]):
                at[tp] = record.offset + 1
                row = shown(record, tp.partition, decode)
                if _fits(record, row, wanted):
                    rows.append(Found(record.timestamp_ms, tp.partition, record.offset, row))
                if len(rows) >= wanted.limit:
                    break
            else:
                # Transaction markers and compacted records have offsets, too: the batch's end.
                ends = [header.end_offset for _, header in iter_batches(part.records)]
                at[tp] = min(stop[tp], max([at[tp], *ends]))
        if at == before:  # nothing is there to read: another fetch would only wait
            break
    return found, {tp.partition: position for tp, position in at.items()}


def _fits(record: Record, row: Mapping[str, Any], wanted: Asked) -> bool:
    if wanted.key is not None:
        key = bytes(record.key or b"").decode("utf-8", "replace")
        if record.key is None or key != wanted.key:
            return False
    if wanted.search is None:
        return True
    looked_for = wanted.search.encode()
    parts = (record.key, record.value, *(value for _, value in record.headers))
    if any(looked_for in bytes(each) for each in parts if each is not None):
        return True
    return wanted.search in (row.get("decoded") or "")


def merged(found: Iterable[Iterable[Found]], limit: int, *, newest: bool) -> list[Found]:
    """The first records of all partitions, or the last, in the order of time. The records of a
    partition keep their order, whatever their timestamps."""
    ordered: list[Found] = []
    for rows in found:
        highest = -1
        for row in rows:
            highest = max(highest, row.timestamp_ms)
            ordered.append(row._replace(timestamp_ms=highest))
    ordered.sort(key=lambda each: each[:3])
    return ordered[-limit:] if newest else ordered[:limit]


def continued(
    found: Mapping[int, list[Found]],
    chosen: Iterable[Found],
    begin: Positions,
    reached: Positions,
    *,
    newest: bool,
) -> tuple[dict[int, int], dict[int, int]]:
    """(the position after the chosen records, the one before them), by partition: what was read
    and not chosen is read again."""
    taken: dict[int, list[int]] = {}
    for each in chosen:
        taken.setdefault(each.partition, []).append(each.offset)
    after, before = dict(reached), dict(reached if newest else begin)
    for partition, rows in found.items():
        offsets = taken.get(partition, [])
        if offsets:
            before[partition] = min(offsets)
        if newest:
            continue
        last = max(offsets, default=-1)
        left = [each.offset for each in rows if each.offset > last]
        if left:
            after[partition] = left[0] if offsets else begin[partition]
    return after, before


def shown(record: Record, partition: int = 0, decode: Decode | None = None) -> dict[str, Any]:
    """One record as JSON; bytes that are not text as base64, long ones cut. `decoded` is the text
    of a value in a format of its own, `undecoded` why there is none."""
    found: dict[str, Any] = {
        "partition": partition,
        "offset": record.offset,
        "time": iso_time(record.timestamp_ms),
    }
    for name, data in (("key", record.key), ("value", record.value)):
        put_bytes(found, name, _cut(data))
        found[f"{name}_bytes"] = None if data is None else len(data)
    if decode is not None and record.value is not None:
        text, why = decode(bytes(record.value))
        if text is not None:
            found["decoded"] = text[:SHOWN_BYTES_MAX]
        if why is not None:
            found["undecoded"] = why
    found["headers"] = []
    for header, value in record.headers:
        shown: dict[str, Any] = {"name": header}
        put_bytes(shown, "value", _cut(value))
        found["headers"].append(shown)
    return found


def _cut(data: bytes | None) -> bytes | None:
    if data is None or len(data) <= SHOWN_BYTES_MAX:
        return data
    return data[:SHOWN_BYTES_MAX].decode("utf-8", "ignore").encode() or data[:SHOWN_BYTES_MAX]
