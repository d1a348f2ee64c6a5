"""Good record batches and thousands of ways to break one, with what Apache Kafka answers to them.

`python -m tests.compat.produced_batches` starts an Apache Kafka, sends it every case and writes
`produced_batches.json`: the bytes of each and Kafka's error code. The daily tests replay the file
against a broker of ours in memory; `./build.sh test oracle` sends it to the real thing again.
"""

from __future__ import annotations

import base64
import json
import socket
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.batch import CRC_START, HEADER, HEADER_BYTES, stamp_crc
from josefine_broker.records.builder import varint
from josefine_broker.records.compression import compress
from josefine_broker.wire import apis, codec
from josefine_broker.wire.frames import FrameBuffer
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

TABLE = Path(__file__).with_suffix(".json")
SEED = 4
RANDOM_CASES_PER_CODEC = 24
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VERSION = 12
NOW_MS = 1_700_000_000_000
FAR_AHEAD_MS = 4_000_000_000_000
CLOSED = -1000
"""In place of an error code: the connection was closed."""

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append_time": {"message.timestamp.type": "LogAppendTime"},
}


class Case(NamedTuple):
    """One batch for one topic; `kind` is what was done to a good one."""

    name: str
    topic: str
    batch: bytes

    @property
    def kind(self) -> str:
        return self.name.split("/")[1]

    @property
    def codec(self) -> str:
        return self.name.split("/")[0]


class Verdict(NamedTuple):
    """A case and Kafka's error code."""

    case: Case
    code: int


def record(delta: int, **changed: bytes) -> bytes:
    """A record of format v2 with one header, field by field: `changed` replaces encoded fields, of
    which `length` is also the record's own, counted unless it is given."""
    fields = {
        "attributes": b"\0",
        "timestamp": varint(delta),
        "offset": varint(delta),
        "key_length": varint(2),
        "key": b"k%d" % delta,
        "value_length": varint(6),
        "value": b"value%d" % delta,
        "header_count": varint(1),
        "name_length": varint(1),
        "name": b"h",
        "header_length": varint(1),
        "header": b"x",
        "rest": b"",
    }
    length = changed.pop("length", None)
    body = b"".join({**fields, **changed}.values())
    return (varint(len(body)) if length is None else length) + body


HEADER_FIELDS = {
    "base_offset": 0, "batch_length": 1, "leader_epoch": 2, "magic": 3, "crc": 4, "attributes": 5,
    "last_offset_delta": 6, "base_timestamp_ms": 7, "max_timestamp_ms": 8, "producer_id": 9,
    "producer_epoch": 10, "base_sequence": 11, "record_count": 12,
}  # fmt: skip


def batch(
    records: Sequence[bytes], codec: int = 0, packed: bytes | None = None, **changed: int
) -> bytes:
    """A batch of encoded records with a right checksum; `packed` in place of their compressed
    bytes, `changed` in place of header fields."""
    body = bytes(compress(codec, b"".join(records))) if packed is None else packed
    count = len(records)
    values = [
        0, HEADER_BYTES - 12 + len(body), -1, 2, 0, codec, count - 1, NOW_MS, NOW_MS + count - 1,
        -1, -1, -1, count,
    ]  # fmt: skip
    for name, value in changed.items():
        values[HEADER_FIELDS[name]] = value
    built = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(built, 0, *values)
    if "crc" not in changed:
        stamp_crc(built)
    return bytes(built)


def good() -> list[bytes]:
    return [record(delta) for delta in range(3)]


def second(**changed: bytes) -> list[bytes]:
    """Three records of which the second is changed."""
    return [record(0), record(1, **changed), record(2)]


OVERLONG = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
WIDE = b"\x84\x80\x80\x80\x10"
"""Two, and a bit beyond 32 of them, which Java's reader drops."""
STRUCTURE: dict[str, list[bytes]] = {
    "good": good(),
    "null_key": second(key_length=b"\x01", key=b""),
    "null_value": second(value_length=b"\x01", value=b""),
    "null_header_value": second(header_length=b"\x01", header=b""),
    "no_headers": second(
        header_count=b"\0", name_length=b"", name=b"", header_length=b"", header=b""
    ),
    "attributes_set": second(attributes=b"\x07"),
    "name_not_utf8": second(name=b"\xff"),
    "padded_varint": second(key_length=b"\x84\0"),
    "length_too_short": second(length=varint(5)),
    "length_too_long": second(length=varint(29)),
    "length_zero": second(length=b"\0"),
    "length_negative": second(length=varint(-1)),
    "length_beyond": second(length=varint(1 << 20)),
    "length_overlong": second(length=OVERLONG),
    "timestamp_overlong": second(timestamp=OVERLONG),
    "offset_repeated": second(offset=varint(0)),
    "offset_skipped": second(offset=varint(5)),
    "offset_negative": second(offset=varint(-1)),
    "offset_overlong": second(offset=OVERLONG),
    "key_beyond": second(key_length=varint(1000)),
    "key_negative": second(key_length=varint(-2), key=b""),
    "key_wide": second(key_length=WIDE),
    "key_overlong": second(key_length=OVERLONG),
    "value_beyond": second(value_length=varint(1000)),
    "value_negative": second(value_length=varint(-5), value=b""),
    "header_count_negative": second(header_count=varint(-1)),
    "header_count_beyond": second(header_count=varint(1000)),
    "header_count_more": second(header_count=varint(2)),
    "header_count_less": second(header_count=varint(0)),
    "header_name_null": second(name_length=b"\x01", name=b""),
    "header_name_negative": second(name_length=varint(-3), name=b""),
    "header_name_beyond": second(name_length=varint(500)),
    "header_value_negative": second(header_length=varint(-3), header=b""),
    "header_value_beyond": second(header_length=varint(500)),
    "bytes_behind_fields": second(rest=b"\0\0"),
    "record_cut": [record(0), record(1), record(2)[:-3]],
    "record_header_only": [record(0), record(1), b"\x40"],
    "bytes_behind_records": [record(0), record(1), record(2) + b"\0"],
    "far_ahead": second(timestamp=varint(FAR_AHEAD_MS - NOW_MS)),
    "timestamp_none": second(timestamp=varint(-1 - NOW_MS)),
    "timestamp_negative": second(timestamp=varint(-5 - NOW_MS)),
    "earlier_than_first": second(timestamp=varint(-5)),
}
HEADERS: dict[str, dict[str, int]] = {
    "base_offset_1": {"base_offset": 1},
    "base_offset_negative": {"base_offset": -1},
    "length_less": {"batch_length": 60},
    "length_least": {"batch_length": 49},
    "length_0": {"batch_length": 0},
    "length_negative": {"batch_length": -1},
    "length_more": {"batch_length": 1000},
    "leader_epoch_7": {"leader_epoch": 7},
    "magic_0": {"magic": 0},
    "magic_1": {"magic": 1},
    "magic_3": {"magic": 3},
    "magic_negative": {"magic": -1},
    "crc_wrong": {"crc": 1},
    "append_time": {"attributes": 8},
    "append_time_ahead": {"attributes": 8, "max_timestamp_ms": FAR_AHEAD_MS},
    "append_time_none": {"attributes": 8, "max_timestamp_ms": -1},
    "transactional": {"attributes": 16},
    "transactional_no_producer": {"attributes": 16, "base_sequence": 0},
    "control": {"attributes": 32},
    "delete_horizon": {"attributes": 64},
    "attribute_128": {"attributes": 128},
    "attribute_256": {"attributes": 256},
    "last_delta_less": {"last_offset_delta": 1},
    "last_delta_more": {"last_offset_delta": 3},
    "last_delta_negative": {"last_offset_delta": -1},
    "count_0": {"record_count": 0},
    "count_less": {"record_count": 2},
    "count_more": {"record_count": 4},
    "count_negative": {"record_count": -1},
    "count_and_delta_less": {"record_count": 2, "last_offset_delta": 1},
    "count_and_delta_more": {"record_count": 4, "last_offset_delta": 3},
    "count_and_delta_most": {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
    "count_0_delta_none": {"record_count": 0, "last_offset_delta": -1},
    "max_timestamp_more": {"max_timestamp_ms": NOW_MS + 999},
    "max_timestamp_less": {"max_timestamp_ms": NOW_MS},
    "max_timestamp_none": {"max_timestamp_ms": -1},
    "max_timestamp_far_ahead": {"max_timestamp_ms": FAR_AHEAD_MS},
    "base_timestamp_far_ahead": {"base_timestamp_ms": FAR_AHEAD_MS},
    "base_timestamp_none": {"base_timestamp_ms": -1},
    "base_timestamp_least": {"base_timestamp_ms": -(2**63)},
    "sequence_missing": {"producer_id": 4000, "producer_epoch": 0},
    "sequence_negative": {"producer_id": 4000, "producer_epoch": 0, "base_sequence": -7},
    "producer_id_negative": {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0},
}


def cases() -> Iterator[Case]:
    """All of them, the same on every run with the same libraries."""
    for number, codec_name in enumerate(CODECS):
        yield from _of_codec(number, codec_name)
    for name, changed in HEADERS.items():
        yield Case(f"none/header_{name}", "plain", batch(good(), **changed))
    for name in ("append_time", "far_ahead"):
        attributes = 8 if name == "append_time" else 0
        records = STRUCTURE["far_ahead" if name == "far_ahead" else "good"]
        sent = batch(records, attributes=attributes)
        yield Case(f"none/{name}_on_append_time", "append_time", sent)
    for unknown in (5, 6, 7):
        yield Case(f"none/codec_{unknown}", "plain", batch(good(), attributes=unknown))
    yield Case("none/two_batches", "plain", batch(good()) * 2)
    yield Case("none/no_batch", "plain", b"\0")
    yield Case("none/cut_in_header", "plain", batch(good())[:40])
    yield Case("none/cut_in_records", "plain", batch(good())[:-4])
    yield Case("none/bytes_behind_batch", "plain", batch(good()) + b"\0\0")


def _of_codec(number: int, codec_name: str) -> Iterator[Case]:
    for name, records in STRUCTURE.items():
        yield Case(f"{codec_name}/{name}", "plain", batch(records, number))
    for name in ("good", "null_key"):
        yield Case(
            f"{codec_name}/{name}_for_compacted", "compacted", batch(STRUCTURE[name], number)
        )
    for name in ("count_and_delta_more", "count_and_delta_less", "count_and_delta_most"):
        changed = HEADERS[name]
        yield Case(f"{codec_name}/{name}", "plain", batch(good(), number, **changed))
    yield Case(f"{codec_name}/no_bytes", "plain", batch(good(), number, packed=b""))
    garbage = bytes(range(7, 67))
    yield Case(f"{codec_name}/garbage", "plain", batch(good(), number, packed=garbage))
    rng = Random(f"{SEED} {codec_name}")
    packed = bytes(compress(number, b"".join(good())))
    if number:
        for cut in (1, 4, len(packed) // 2, len(packed) - 2):
            sent = batch(good(), number, packed=packed[:-cut])
            yield Case(f"{codec_name}/cut_{'by_one' if cut == 1 else 'more'}/{cut}", "plain", sent)
        behind = batch(good(), number, packed=packed + b"\x01\x02\x03")
        yield Case(f"{codec_name}/bytes_behind_frame", "plain", behind)
        twice = batch(good(), number, packed=packed + packed)
        yield Case(f"{codec_name}/frame_twice", "plain", twice)
        other = bytes(compress(number % 4 + 1, b"".join(good())))
        yield Case(f"{codec_name}/of_another_codec", "plain", batch(good(), number, packed=other))
        plain = batch(good(), number, packed=b"".join(good()))
        yield Case(f"{codec_name}/not_compressed", "plain", plain)
        nested = bytes(compress(number, packed))
        yield Case(f"{codec_name}/compressed_twice", "plain", batch(good(), number, packed=nested))
    for each in range(RANDOM_CASES_PER_CODEC):
        changed = bytearray(packed)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        sent = batch(good(), number, packed=bytes(changed))
        yield Case(f"{codec_name}/random/{each}", "plain", sent)


def fuzzed(seed: int, count: int) -> Iterator[Case]:
    """Good batches with a few bytes changed: of a record before it is compressed, of what was
    compressed, or of the header."""
    rng = Random(seed)
    for number in range(count):
        codec_number = rng.randrange(len(CODECS))
        body = bytearray(b"".join(good()))
        place = rng.choice(("records", "records", "packed", "header"))
        if place == "records":
            _change(body, rng)
        packed = bytearray(compress(codec_number, bytes(body)))
        if place == "packed":
            _change(packed, rng)
        built = bytearray(batch(good(), codec_number, packed=bytes(packed)))
        if place == "header":
            # Not the lengths and the magic, of which the table has the interesting values.
            at = rng.randrange(CRC_START, HEADER_BYTES)
            built[at] ^= 1 << rng.randrange(8)
            stamp_crc(built)
        yield Case(f"{CODECS[codec_number]}/random/{number}", "plain", bytes(built))


def _change(data: bytearray, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del data[at : at + rng.randrange(1, 4)]
                data += b"" if data else b"\0"
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 4))


def load() -> list[Verdict]:
    """The recorded cases."""
    return [
        Verdict(Case(name, topic, base64.b64decode(sent)), code)
        for name, topic, code, sent in json.loads(TABLE.read_text())
    ]


def store(verdicts: Sequence[Verdict]) -> None:
    rows = [
        json.dumps([case.name, case.topic, code, base64.b64encode(case.batch).decode()])
        for case, code in verdicts
    ]
    TABLE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


class Sender:
    """Sends batches to a broker, one after another, as a client would that checks nothing."""

    def __init__(self, bootstrap: str, names: dict[str, str]) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._at = host, int(port)
        self._names = names
        self.socket = socket.create_connection(self._at, timeout=20)

    def code(self, case: Case) -> int:
        part = ProducePartition(0, memoryview(bytearray(case.batch)))
        topic = ProduceTopic(self._names[case.topic], None, (part,))
        request = ProduceRequest(None, 1, 10_000, (topic,))
        self.socket.sendall(b"".join(codec.encode_request(apis.PRODUCE, VERSION, 1, "c", request)))
        frames = FrameBuffer()
        while True:
            received = self.socket.recv_into(frames.get_buffer())
            if not received:
                self.socket.close()
                self.socket = socket.create_connection(self._at, timeout=20)
                return CLOSED
            found = frames.buffer_updated(received)
            if found:
                break
        _, response = codec.decode_response(apis.PRODUCE, VERSION, found[0])
        return int(response.topics[0].partitions[0].error_code)

    def close(self) -> None:
        self.socket.close()


def ask(bootstrap: str, asked: Sequence[Case]) -> list[Verdict]:
    """What the broker there answers to each, in topics of their own."""
    mark = uuid.uuid4().hex[:8]
    names = {name: f"batches-{name}-{mark}" for name in TOPICS}
    with BlockingClient(bootstrap) as client:
        for name, configs in TOPICS.items():
            client.create_topics([NewTopic(names[name], 1, 1, configs)])
    sender = Sender(bootstrap, names)
    try:
        return [Verdict(case, sender.code(case)) for case in asked]
    finally:
        sender.close()


def main() -> None:
    from tests.support.apache_kafka import ApacheKafka

    with (
        tempfile.TemporaryDirectory(prefix="produced-batches-") as scratch,
        ApacheKafka(Path(scratch)) as broker,
    ):
        store(ask(broker.bootstrap, list(cases())))


if __name__ == "__main__":
    main()
