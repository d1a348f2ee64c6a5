"""Validation of produced batches in a real broker, and readers of what one without it stored."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis, codec
from josefine_broker.wire.frames import FrameBuffer
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.compat.produced_batches import STRUCTURE, VERSION, Case, Sender, batch, good
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine

LZ4 = 3
PIPELINED = 40


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that looks at headers alone, with a batch that cannot be read in `orders`."""
    directory = Path(tmp_path_factory.mktemp("lax"))
    with BrokerProcess(
        directory, log__retention_ms=None, log__validate_records="headers"
    ) as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic("orders", 1, 1)])
        sender = Sender(broker.bootstrap, {"plain": "orders"})
        for records in (good(), STRUCTURE["key_beyond"], good()):
            assert sender.code(Case("none/stored", "plain", batch(records))) == 0
        sender.close()
        yield broker.bootstrap


def test_consume_names_the_batch_and_the_command_that_goes_past_it(lax: str) -> None:
    stopped = josefine(lax, "consume", "orders")

    assert stopped.code == 1
    # Also the batch's first record: it can be read.
    assert stopped.out.splitlines() == ["value0", "value1", "value2", "value0"]
    assert "orders-0 at offset 3: the batch with the offsets 3 to 5 cannot be read" in stopped.err
    assert "record 1 of 3: its key's length is not valid" in stopped.err
    command = stopped.err.partition("To skip it: josefine ")[2].split()
    assert command == ["consume", "orders", "--partitions", "0", "--from", "6"]

    behind = josefine(lax, *command)

    assert (behind.code, behind.out.splitlines()) == (0, ["value0", "value1", "value2"])


def test_large_compressed_batches_keep_the_order_of_their_connection(tmp_path: Path) -> None:
    """Every third is small: alone, it would be stored while the one before it is validated."""
    with BrokerProcess(tmp_path) as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic("orders", 1, 1)])
        sender = Sender(broker.bootstrap, {"plain": "orders"})
        frames = b"".join(request(number) for number in range(PIPELINED))
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(sender.socket.sendall, frames)
            offsets = answered(sender, PIPELINED)
            sent.result()
        sender.close()

        read = josefine(broker.bootstrap, "consume", "orders", "-f", "key-value").out

    assert offsets == list(range(PIPELINED))
    keys = [line.partition("\t")[0] for line in read.splitlines()]
    assert keys == [str(number) for number in range(PIPELINED)]


def request(number: int) -> bytes:
    value = b"small" if number % 3 == 2 else b"x" * 300_000
    built = build_batch([Record(b"%d" % number, value)], compression=LZ4)
    part = ProducePartition(0, memoryview(built))
    topic = ProduceTopic("orders", None, (part,))
    message = ProduceRequest(None, 1, 30_000, (topic,))
    return b"".join(codec.encode_request(apis.PRODUCE, VERSION, number, "t", message))


def answered(sender: Sender, count: int) -> list[int]:
    """The base offset of each answer; the answers come in the order of the requests."""
    frames, found = FrameBuffer(), []
    while len(found) < count:
        received = sender.socket.recv_into(frames.get_buffer())
        assert received, "the broker closed the connection"
        found += frames.buffer_updated(received)
    answers = [codec.decode_response(apis.PRODUCE, VERSION, frame) for frame in found]
    assert [number for number, _ in answers] == list(range(count))
    return [response.topics[0].partitions[0].base_offset for _, response in answers]
