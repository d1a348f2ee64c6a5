"""Both shells against servers that hang, hang up, or are no brokers: on real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from tests.support.waiting import wait_until

Behaviour = Callable[[socket.socket], None]
Describe = Callable[..., None]


@contextmanager
def server(behaviour: Behaviour) -> Iterator[str]:
    """A listener that treats each connection by `behaviour`; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            thread = threading.Thread(target=_guarded, args=(behaviour, connection), daemon=True)
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=serve, daemon=True)
    acceptor.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in accepted:
            connection.close()
        acceptor.join(5)


def _guarded(behaviour: Behaviour, connection: socket.socket) -> None:
    try:
        behaviour(connection)
    except OSError:
        connection.close()


def read_frame(connection: socket.socket) -> memoryview:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return memoryview(bytearray(connection.recv(size, socket.MSG_WAITALL)))


def greet(connection: socket.socket) -> None:
    """Answer ApiVersions as a broker with one API would."""
    header = codec.parse_request_header(read_frame(connection))
    served = e.api_versions.ApiVersion(api_key=apis.DESCRIBE_CLUSTER, min_version=0, max_version=1)
    response = e.api_versions.ApiVersionsResponse(api_keys=(served,))
    buffers = codec.encode_response(
        apis.API_VERSIONS, header.api_version, header.correlation_id, response
    )
    connection.sendall(b"".join(bytes(b) for b in buffers))


def describe_blocking(address: str, **waits: int) -> None:
    with BlockingClient(address, policy=Policy(**waits)) as client:
        client.describe_cluster()


def describe_asyncio(address: str, **waits: int) -> None:
    async def run() -> None:
        async with AsyncClient(address, policy=Policy(**waits)) as client:
            await client.describe_cluster()

    asyncio.run(run())


both_shells = pytest.mark.parametrize("describe", [describe_blocking, describe_asyncio])


@both_shells
def test_an_unreachable_broker_is_one_sentence_with_the_address(describe: Describe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

    with pytest.raises(KafkaError) as raised:
        describe(address, bootstrap_timeout_ms=100)

    assert raised.value.code is ErrorCode.network_exception
    assert raised.value.message.startswith(
        f"cannot reach a broker at {address} (connection refused), tried "
    )


@both_shells
def test_what_is_no_broker_is_said_to_be_none(describe: Describe) -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()

    with server(http) as address, pytest.raises(KafkaError, match="no Kafka broker"):
        describe(address, bootstrap_timeout_ms=100)


@both_shells
def test_a_broker_that_hangs_up_in_the_hello_is_said_to_be_none(describe: Describe) -> None:
    with server(socket.socket.close) as address, pytest.raises(KafkaError) as raised:
        describe(address, bootstrap_timeout_ms=100)

    assert address in raised.value.message


@both_shells
def test_a_broker_that_never_answers_costs_no_more_than_the_deadline(describe: Describe) -> None:
    def silent(connection: socket.socket) -> None:
        greet(connection)
        read_frame(connection)

    started = time.monotonic()
    with server(silent) as address, pytest.raises(KafkaError) as raised:
        describe(address, request_timeout_ms=1_000)

    assert raised.value.code is ErrorCode.request_timed_out
    assert f"{address} did not answer in time" in raised.value.message
    assert time.monotonic() - started < 10


@both_shells
def test_a_broker_that_never_greets_costs_no_more_than_the_connect_timeout(
    describe: Describe,
) -> None:
    with server(read_frame) as address, pytest.raises(KafkaError, match="no answer in time"):
        describe(address, connect_timeout_ms=100, bootstrap_timeout_ms=300)


@both_shells
def test_a_lost_connection_is_opened_again(describe: Describe) -> None:
    connections: list[int] = []

    def hang_up_once(connection: socket.socket) -> None:
        connections.append(1)
        greet(connection)
        header = codec.parse_request_header(read_frame(connection))
        if len(connections) == 1:
            connection.close()
            return
        response = e.describe_cluster.DescribeClusterResponse(cluster_id="c", brokers=())
        buffers = codec.encode_response(
            header.api_key, header.api_version, header.correlation_id, response
        )
        connection.sendall(b"".join(bytes(b) for b in buffers))
        connection.recv(1)

    with server(hang_up_once) as address:
        describe(address)

    assert len(connections) == 2


@both_shells
def test_a_broken_answer_closes_the_connection(describe: Describe) -> None:
    def lie(connection: socket.socket) -> None:
        greet(connection)
        read_frame(connection)
        connection.sendall((8).to_bytes(4, "big") + b"\x00\x00\x30\x39" + b"\xff" * 4)

    with server(lie) as address, pytest.raises(KafkaError, match="broken answer"):
        describe(address, request_timeout_ms=1_000)


def test_an_api_that_the_broker_does_not_serve_is_refused_at_once() -> None:
    def metadata_only(connection: socket.socket) -> None:
        greet(connection)
        connection.recv(1)

    with (
        server(metadata_only) as address,
        BlockingClient(address) as client,
        pytest.raises(KafkaError, match="does not serve Metadata") as raised,
    ):
        client.metadata()

    assert raised.value.code is ErrorCode.unsupported_version


def test_close_from_another_thread_ends_a_wait() -> None:
    waiting = threading.Event()

    def silent(connection: socket.socket) -> None:
        greet(connection)
        read_frame(connection)
        waiting.set()
        connection.recv(1)

    errors: list[KafkaError] = []
    with server(silent) as address:
        client = BlockingClient(address)

        def describe() -> None:
            try:
                client.describe_cluster()
            except KafkaError as error:
                errors.append(error)

        thread = threading.Thread(target=describe, daemon=True)
        thread.start()
        assert waiting.wait(60)
        client.close()
        wait_until(lambda: errors, 60, "the waiting call to end")

    assert errors[0].message == "the client is closed"


def test_two_tasks_share_one_connection_and_a_cancelled_one_harms_nobody() -> None:
    connections: list[int] = []
    first_arrived = threading.Event()

    def patient(connection: socket.socket) -> None:
        connections.append(1)
        greet(connection)
        headers = [codec.parse_request_header(read_frame(connection))]
        first_arrived.set()
        headers.append(codec.parse_request_header(read_frame(connection)))
        for header in headers:
            response = e.describe_cluster.DescribeClusterResponse(cluster_id="c", brokers=())
            buffers = codec.encode_response(
                header.api_key, header.api_version, header.correlation_id, response
            )
            connection.sendall(b"".join(bytes(b) for b in buffers))
        connection.recv(1)

    async def scenario(address: str) -> str:
        async with AsyncClient(address) as client:
            first = asyncio.ensure_future(client.describe_cluster())
            assert await asyncio.to_thread(first_arrived.wait, 60)
            first.cancel()
            return (await client.describe_cluster()).cluster_id

    with server(patient) as address:
        assert asyncio.run(scenario(address)) == "c"

    assert len(connections) == 1


def close_at_the_first_request(connection: socket.socket) -> None:
    """As a listener that wants a login does with a client that has none."""
    greet(connection)
    read_frame(connection)
    connection.close()


@pytest.mark.parametrize("describe", [describe_blocking, describe_asyncio])
def test_a_listener_that_wants_a_login_is_found_after_a_few_tries(describe: Describe) -> None:
    with server(close_at_the_first_request) as address, pytest.raises(KafkaError) as refused:
        describe(address, request_timeout_ms=60_000)

    message = refused.value.message or ""
    assert f"{address} closes the connection at its first request" in message
    assert "set security.protocol to SASL_SSL or SASL_PLAINTEXT" in message
    assert "tried 6 times" in message
