"""A broker without a file handle: it refuses what needs one, loses nothing, and goes on by itself
once the limit is lifted."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from confluent_kafka import Producer

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.offsets import EARLIEST, LATEST
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

RECORD = b"x" * 200_000
SEGMENT = {"segment.bytes": str(1024 * 1024)}


def limit_handles(pid: int, spare: int = 0) -> None:
    """Nothing can be opened any more, but for so many files."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    free = [number for number in range(len(taken) + spare + 1) if number not in taken][spare]
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, hard))


class Writer:
    """A producer of acks=all that gives up soon, and knows what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 1_000}
        self._producer = Producer(settings)
        self.acked = 0
        self.errors: list[str] = []

    def write(self, topic: str = "t") -> bool:
        """Whether one more record was acknowledged."""
        before = self.acked
        self._producer.produce(topic, RECORD, partition=0, on_delivery=self._delivered)
        self._producer.flush(10)
        return self.acked > before

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acked += 1
        else:
            self.errors.append(str(error))


def test_broker_without_file_handles_refuses_and_goes_on_when_it_has_some(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with BlockingClient(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, configs=SEGMENT)])
            writer = Writer(broker.bootstrap)
            assert writer.write()
            limits = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
            limit_handles(broker.pid)

            def is_refused() -> bool:
                writer.write()
                assert writer.acked < 20
                return "Too many open files" in broker.output

            # A segment is full at some record, and the next one needs a handle.
            wait_until(is_refused, 60, "the refusal of a new segment")
            admin.create_topics([NewTopic("late", 1)])
            limit_handles(broker.pid, spare=1)  # for the connection that asks
            status, health = broker.get("/health")
            assert status == 503
            assert "no file can be opened: Too many open files, the limit of this" in health

            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limits)
            wait_until(writer.write, 20, "the log takes records again")
            wait_until(lambda: writer.write("late"), 20, "the new topic's log is opened")
            assert writer.write()
            kept = writer.acked - 1  # without the one of the other topic

            tp = TopicPartition("t", 0)
            assert admin.list_offsets({tp: LATEST})[tp].offset >= kept
            assert admin.list_offsets({tp: EARLIEST})[tp].offset == 0
        broker.kill()
        broker.start()

        with BlockingClient(broker.bootstrap) as admin:
            assert admin.list_offsets({tp: LATEST})[tp].offset >= kept
        assert Writer(broker.bootstrap).write()
