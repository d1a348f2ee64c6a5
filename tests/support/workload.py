"""A producer that never stops while brokers fail, and the account of what was acknowledged.

Each record's value is a number of its own. An acknowledged record must be read back at the offset
it was acknowledged at, once, and in the order in which its partition's records were sent (the
producer is idempotent). librdkafka is the client: the same that most users have.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.waiting import wait_until

READ_TIMEOUT_S = 60.0
FLUSH_TIMEOUT_S = 90.0
LEADER_MOVED = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
}


@dataclass
class Account:
    """What the producer was told, by partition: offset to value, and the times of its answers.

    librdkafka takes the answer to a batch for one to those before it: those have no offset.
    """

    acknowledged: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    unplaced: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    answered_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    sent: int = 0

    @property
    def count(self) -> int:
        known = self.acknowledged.values(), self.unplaced.values()
        return sum(len(each) for kind in known for each in kind)

    def longest_gap_s(self) -> float:
        """The longest time without an answer."""
        times = self.answered_s
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


class Workload:
    """`with Workload(...) as load:` produces in a thread of its own until the block ends."""

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int = 1, acks: str = "all"
    ) -> None:
        self.topic = topic
        self.account = Account()
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._acks = acks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workload")

    def start(self) -> None:
        """Begin; the thread sees the network namespace of whoever starts it."""
        self._thread.start()

    def __enter__(self) -> Workload:
        if not self._thread.ident:
            self.start()
        try:
            self.wait_acknowledged(50)
        except BaseException:
            self.__exit__()  # or its thread would keep this process for ever
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(FLUSH_TIMEOUT_S + 10)

    def wait_acknowledged(self, more: int, timeout_s: float = 60.0) -> None:
        """Until so many more records than now are acknowledged: the cluster goes on."""
        target = self.account.count + more
        wait_until(
            lambda: self.account.count >= target, timeout_s, f"{more} more acknowledged records"
        )

    def _run(self) -> None:
        account = self.account
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": self._acks,
                "enable.idempotence": self._acks == "all",
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": 60_000,
                "topic.metadata.refresh.interval.ms": 2_000,
                "request.timeout.ms": 2_000,  # a broker that stands still is given up
                "socket.timeout.ms": 3_000,
                "log_level": 0,
            }
        )

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                account.failed.append(str(error))
                return
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            if offset is None:
                account.unplaced[partition].append(value)
            else:
                account.acknowledged[partition][offset] = value
            account.answered_s.append(time.monotonic())

        while not self._stop.is_set():
            value = f"{account.sent:08d}".encode()
            with contextlib.suppress(BufferError):
                producer.produce(
                    self.topic,
                    value,
                    partition=account.sent % self._partitions,
                    on_delivery=answered,
                )
                account.sent += 1
            producer.poll(0.002)
        producer.flush(FLUSH_TIMEOUT_S)


def read_back(bootstrap: str, topic: str, partitions: int) -> dict[int, dict[int, bytes]]:
    """Every record below the high watermarks, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    with contextlib.closing(consumer):
        ends = {}
        for index in range(partitions):
            ends[index] = end_offset(consumer, topic, index)
        consumer.assign([TopicPartition(topic, index, 0) for index in ends])
        found: dict[int, dict[int, bytes]] = {index: {} for index in ends}
        for message in _messages(consumer):
            index, offset, value = message.partition(), message.offset(), message.value()
            assert index is not None
            assert offset is not None
            assert isinstance(value, bytes)
            found[index][offset] = value
            if all(not end or end - 1 in found[each] for each, end in ends.items()):
                return found
    raise AssertionError(f"{topic}: read {[len(each) for each in found.values()]} of {ends}")


def end_offset(consumer: Consumer, topic: str, partition: int) -> int:
    """The high watermark. librdkafka asks the leader it knows, once: where leadership moves at
    that moment (home to the preferred replica, after a restart) it is asked again."""

    def asked() -> tuple[int] | None:
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        except KafkaException as error:
            if error.args[0].code() not in LEADER_MOVED:
                raise
            return None
        return (end,)

    (end,) = wait_until(asked, READ_TIMEOUT_S, f"the end of {topic}-{partition}")
    return end


def _messages(consumer: Consumer) -> Iterator[Message]:
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            yield message


def check(account: Account, found: dict[int, dict[int, bytes]]) -> None:
    """Nothing acknowledged is lost or elsewhere, nothing is there twice, the order is that of
    sending."""
    for index, acknowledged in account.acknowledged.items():
        records = found[index]
        wrong = {
            offset: (value, records.get(offset))
            for offset, value in acknowledged.items()
            if records.get(offset) != value
        }
        assert not wrong, f"partition {index}: (acknowledged, read) by offset: {wrong}"
        values = [records[offset] for offset in sorted(records)]
        lost = set(account.unplaced[index]) - set(values)
        assert not lost, f"partition {index}: acknowledged without an offset and lost: {lost}"
        assert len(values) == len(set(values)), f"partition {index}: records are there twice"
        assert values == sorted(values), f"partition {index}: records changed places"
