"""Clients that break the protocol, or do not read: a real broker goes on serving the others."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration import raw
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

FUZZ_SEED = 20_260_731
FUZZ_CONNECTIONS = 300


@contextmanager
def served_client(broker: BrokerProcess) -> Iterator[None]:
    """Another client asks all the time; any failure of its requests fails the test."""
    stop = Event()
    served: list[int] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            with raw.connect(broker.bootstrap) as connection:
                while not stop.is_set():
                    connection.sendall(raw.api_versions_request(len(served)))
                    assert raw.read_response(connection)[0] == len(served)
                    served.append(1)
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=ask)
    thread.start()
    try:
        wait_until(lambda: served or failures, 60, "the other client's first answer")
        yield
        before = len(served)
        wait_until(lambda: len(served) > before or failures, 60, "the other client's next answer")
    finally:
        stop.set()
        thread.join(60)
    assert not failures, failures


def test_malformed_oversized_and_cut_frames_end_only_their_connections(
    broker: BrokerProcess,
) -> None:
    """Checklist row 26."""
    too_long = struct.pack(">i", 2**31 - 1)
    cut_header = struct.pack(">i", 4) + b"\0\x03\0\x01"
    cut_body = raw.request(raw.METADATA, 1, 7, struct.pack(">i", 5))
    huge_array = raw.request(raw.METADATA, 1, 7, struct.pack(">i", 2**31 - 1))
    negative = struct.pack(">i", -5)
    http = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served_client(broker):
        for sent in (too_long, cut_header, cut_body, huge_array, negative, http):
            with raw.connect(broker.bootstrap) as connection:
                connection.sendall(sent)
                assert raw.is_closed(connection), sent
        with raw.connect(broker.bootstrap) as connection:
            connection.sendall(raw.metadata_request(1)[:9])  # half a frame, then gone
    assert broker.alive
    assert broker.output.count("connection closed") == 6


def test_random_bytes_never_end_the_broker(broker: BrokerProcess) -> None:
    """Checklist row 26. Whole frames of noise behind valid headers reach every decoder."""
    rng = random.Random(FUZZ_SEED)
    with served_client(broker):
        for _ in range(FUZZ_CONNECTIONS):
            noise = rng.randbytes(rng.randrange(200))
            header = struct.pack(">hhih", rng.randrange(80), rng.randrange(14), 1, -1)
            frame = rng.choice((noise, header + noise, header + b"\0" + noise))
            length = struct.pack(">i", len(frame)) if rng.random() < 0.9 else b""
            try:
                with raw.connect(broker.bootstrap) as connection:
                    connection.sendall(length + frame)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):
                        pass
            except ConnectionError:
                pass
    assert broker.alive, f"seed {FUZZ_SEED}:\n{broker.output[-3000:]}"
    assert "request failed" not in broker.output, f"seed {FUZZ_SEED}:\n{broker.output[-3000:]}"


def test_unknown_api_key_ends_the_connection_and_unknown_version_of_api_versions_is_35(
    broker: BrokerProcess,
) -> None:
    """Checklist row 17."""
    with raw.connect(broker.bootstrap) as connection:
        connection.sendall(raw.request(9_999, 0, 1))
        assert raw.is_closed(connection)
    with raw.connect(broker.bootstrap) as connection:
        connection.sendall(raw.request(raw.API_VERSIONS, 99, 3))
        correlation_id, body = raw.read_response(connection)
        error_code, keys = struct.unpack_from(">hi", body)
        assert (correlation_id, error_code) == (3, 35)
        entries = [struct.unpack_from(">hhh", body, 6 + 6 * each) for each in range(keys)]
        assert 6 + 6 * keys == len(body)
        assert any(key == raw.API_VERSIONS and high >= 3 for key, _, high in entries)
        connection.sendall(raw.api_versions_request(4))  # KIP-511: it asks again on the same one
        assert raw.read_response(connection)[0] == 4


def test_clients_are_served_side_by_side_while_others_wait(broker: BrokerProcess) -> None:
    """Checklist row 27: 30 wait a minute for records, 30 more are answered; one write ends it."""
    with ExitStack() as stack:
        waiting, asking = (
            [stack.enter_context(raw.connect(broker.bootstrap)) for _ in range(30)]
            for _ in range(2)
        )
        asking[0].sendall(raw.metadata_request(0, "shared"))  # auto-created
        raw.read_response(asking[0])
        poll = raw.fetch_body("shared", wait_ms=60_000, bytes_max=1_000)
        for connection in waiting:
            connection.sendall(raw.request(raw.FETCH, 4, 1, poll))
        wait_until(
            lambda: "josefine_parked_requests 30.0" in broker.get("/metrics")[1], 60, "30 polls"
        )
        for round_number in range(1, 4):
            for connection in asking:
                connection.sendall(raw.metadata_request(round_number, "shared"))
            for connection in reversed(asking):
                assert raw.read_response(connection)[0] == round_number

        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("shared", b"for all", partition=0)
        assert producer.flush(30) == 0
        for connection in waiting:
            assert b"for all" in raw.read_response(connection)[1]


def test_a_client_that_does_not_read_does_not_slow_the_others(broker: BrokerProcess) -> None:
    """Checklist row 27: it asks for 200 MB and reads nothing; another one goes on."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for _ in range(1_000):
        producer.produce("slow", b"x" * 10_000, partition=0)
    assert producer.flush(30) == 0
    fetch_from_start = raw.fetch_body("slow", bytes_max=10_000_000)
    with raw.connect(broker.bootstrap) as slow:
        for number in range(20):
            slow.sendall(raw.request(raw.FETCH, 4, number, fetch_from_start))
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "other"})
        consumer.assign([TopicPartition("slow", 0, 0)])
        read = 0
        while read < 1_000:
            messages = consumer.consume(1_000 - read, timeout=60)
            assert messages, f"only {read} of 1,000 records within 60 s"
            read += sum(message.error() is None for message in messages)
        consumer.close()
        assert _resident_bytes(broker.pid) < 400_000_000
        for number in range(20):
            assert raw.read_response(slow)[0] == number


def _resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1_024
