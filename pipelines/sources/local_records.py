"""Records of local sources: lines of files, a steady rate, a list in the file. Plain Python.

Each kind behaves like topics: it has partitions, end offsets, and records between two offsets.
Rules: the records between two offsets never change, so that a batch that is read again has the same
rows; a topic's id changes if its content is replaced, as with a topic that was deleted and created
again.

| kind | topic | offset |
|---|---|---|
| file | a file, by its path below the folder | the byte position of a line; whole lines only |
| rate | `rate` | the number of rows since 2026 |
| memory | the topic of its records | their index in the list |
"""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets

RATE_BEGAN_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, row 0 of every rate."""
_ID_BYTES_MAX = 4096
"""Bytes of a file's first line that identify the file."""
_LOOK_BYTES = 1 << 16

Row = tuple[Any, ...]
"""key, value, topic, partition, offset, timestamp, timestampType, headers."""


class Records(Protocol):
    """The records of one source."""

    def look(self, now_ms: int) -> TopicOffsets: ...

    def cut(self, begin: ByPartition, end: ByPartition, most: int | None) -> ByPartition: ...

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[Row]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Rows at a steady rate per second, each made of its number: `{"n": 42, "at": "2026-..."}`."""

    rows_per_second: int

    def look(self, now_ms: int) -> TopicOffsets:
        return TopicOffsets(
            ends={_RATE: self.number_at(now_ms)}, topic_ids={"rate": f"{self.rows_per_second}/s"}
        )

    def number_at(self, time_ms: int) -> int:
        """The number of rows at a time."""
        return max(0, (time_ms - RATE_BEGAN_MS) * self.rows_per_second // 1000)

    def cut(self, begin: ByPartition, end: ByPartition, most: int | None) -> ByPartition:
        """`end`, or `begin` plus `most` rows if that is less."""
        return _by_rows(begin, end, most)

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[Row]:
        for n in range(start, end):
            micros = RATE_BEGAN_MS * 1000 + n * 1_000_000 // self.rows_per_second
            at = datetime.fromtimestamp(micros // 1_000_000, UTC)
            at = at.replace(microsecond=micros % 1_000_000)
            value = json.dumps({"n": n, "at": at.isoformat()}).encode()
            yield None, value, partition.topic, partition.partition, n, at, 0, []


_RATE = TopicPartition("rate", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A list of records, by partition."""

    records: Mapping[TopicPartition, Sequence[Row]]

    def look(self, now_ms: int) -> TopicOffsets:
        ids: dict[str, Any] = {}
        for (topic, _), rows in sorted(self.records.items()):
            ids.setdefault(topic, hashlib.sha256(repr(rows[0]).encode()).hexdigest()[:16])
        ends = {tp: len(rows) for tp, rows in self.records.items()}
        return TopicOffsets(ends=ends, topic_ids=ids)

    def cut(self, begin: ByPartition, end: ByPartition, most: int | None) -> ByPartition:
        """`end`, or `begin` plus `most` records if that is less."""
        return _by_rows(begin, end, most)

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[Row]:
        yield from self.records[partition][start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines of a folder's files, or of the files of a pattern; hidden files are not read."""

    path: str

    def look(self, now_ms: int) -> TopicOffsets:
        ends, ids = {}, {}
        for topic, file in self._files().items():
            end, known_by = _whole_lines(file)
            if end:
                ends[TopicPartition(topic, 0)] = end
                ids[topic] = known_by
        return TopicOffsets(ends=ends, topic_ids=ids)

    def cut(self, begin: ByPartition, end: ByPartition, most: int | None) -> ByPartition:
        """`end`, or about `most` bytes after `begin`: whole lines, at least one."""
        if most is None:
            return dict(end)
        files, left, ends = self._files(), most, dict(end)
        for tp in sorted(end):
            start = begin.get(tp, 0)
            if end[tp] - start > left:
                ends[tp] = start
                if left > 0:
                    ends[tp] = _line_end(files[tp.topic], start, start + left, end[tp])
            left -= ends[tp] - start
        return ends

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[Row]:
        topic, number = partition
        found = self._files().get(topic)
        if found is None:
            raise FileNotFoundError(f"{topic}, which a batch is to read, is not in {self.path}")
        with open(found, "rb") as file:
            file.seek(start)
            at = start
            while at < end:
                line = file.readline()
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                yield None, text, topic, number, at, None, 0, []
                at += len(line)

    def _files(self) -> dict[str, str]:
        """Topic → file."""
        if os.path.isdir(self.path):
            base, pattern = self.path, os.path.join(glob.escape(self.path), "**")
        else:
            base, pattern = os.path.dirname(self.path), self.path
            while glob.has_magic(base):
                base = os.path.dirname(base)
        found = {
            os.path.relpath(file, base): file
            for file in sorted(glob.glob(pattern, recursive=True))
            if os.path.isfile(file)
        }
        return {t: f for t, f in found.items() if not any(p[0] in "._" for p in t.split(os.sep))}


def _by_rows(begin: ByPartition, end: ByPartition, most: int | None) -> ByPartition:
    if most is None:
        return dict(end)
    ends, left = {}, most
    for tp in sorted(end):
        start = begin.get(tp, 0)
        ends[tp] = max(start, min(end[tp], start + left))
        left -= ends[tp] - start
    return ends


def _whole_lines(file: str) -> tuple[int, str]:
    """(the end of the last whole line, the identity of the file)."""
    with open(file, "rb") as opened:
        first = opened.readline(_ID_BYTES_MAX)
        end = opened.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - _LOOK_BYTES)
            opened.seek(begin)
            newline = opened.read(end - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1, hashlib.sha256(first).hexdigest()[:16]
            end = begin
    return 0, ""


def _line_end(file: str, start: int, near: int, last: int) -> int:
    """The end of the last whole line before `near`, or of the first line after `start`."""
    with open(file, "rb") as opened:
        at = max(start, near - _LOOK_BYTES)
        opened.seek(at)
        newline = opened.read(near - at).rfind(b"\n")
        if newline >= 0:
            return at + newline + 1
        opened.seek(near)
        opened.readline()
        return min(opened.tell(), last)


def memory_of(text: str) -> Memory:
    """The records in a text of `memory_text`."""
    records: dict[TopicPartition, list[Row]] = {}
    for topic, number, key, value, time_ms, headers in json.loads(text):
        rows = records.setdefault(TopicPartition(topic, number), [])
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
        heads = [(name, _bytes(each)) for name, each in headers]
        rows.append((_bytes(key), _bytes(value), topic, number, len(rows), at, 0, heads))
    return Memory(records=records)


def memory_text(records: Sequence[Any]) -> str:
    """Records of a pipeline file (`case_model.Record`) as the text of an option."""
    return json.dumps(
        [
            (
                each.topic,
                each.partition,
                _text(each.key),
                _text(each.value),
                round(each.timestamp.timestamp() * 1000),
                [(name, _text(value)) for name, value in each.headers],
            )
            for each in records
        ]
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def records_of(options: Mapping[str, str]) -> Records:
    """The records that a stream's options name."""
    kind = options["kind"]
    if kind == "rate":
        return Rate(rows_per_second=int(options["rows_per_second"]))
    if kind == "memory":
        return memory_of(options["records"])
    return Lines(path=options["path"])


def start_of(records: Records, text: str, now: TopicOffsets) -> ByPartition:
    """The start offsets for `earliest`, `latest`, `last N`, `Nms ago`, or a time in ms."""
    if text == "earliest":
        return dict.fromkeys(now.ends, 0)
    if text.startswith("last "):
        return {tp: max(0, end - int(text[5:])) for tp, end in now.ends.items()}
    if text.endswith("ms") and isinstance(records, Rate):
        return {tp: min(end, records.number_at(int(text[:-2]))) for tp, end in now.ends.items()}
    return dict(now.ends)


def next_end(
    records: Records, begin: TopicOffsets, now: TopicOffsets, most: int | None
) -> TopicOffsets:
    """The end of the batch that starts at `begin`, limited by the batch size."""
    at = {tp: begin.ends.get(tp, 0) for tp in now.ends}
    ends = records.cut(at, now.ends, most)
    return TopicOffsets(
        ends={**begin.ends, **ends},
        first={**dict.fromkeys(now.ends, 0), **begin.first},
        topic_ids={**begin.topic_ids, **now.topic_ids},
    )
