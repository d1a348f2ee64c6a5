"""The exactly-once sink's protocol with a real broker, without Spark: a driver that ends before and
behind each of its steps, and the next one, which finds what it left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from josefine_arrow.batches.encoder import Identity
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.transaction_admin import open_transactions
from josefine_broker.client.transactions import take_ids
from josefine_spark.base.errors import SinkError
from josefine_spark.options.options import Connection, SinkOptions
from josefine_spark.write.coordinator_store import SinkStore
from josefine_spark.write.protocol import Driver as Driver_
from josefine_spark.write.protocol import (
    Plan,
    Read,
    TakeOver,
    Write,
    Written,
    commit,
    forget,
    give_up,
    judge,
    plan,
)
from josefine_spark.write.state import Batch, SinkState, Verdict, attempt_id
from josefine_spark.write.task_writer import TaskWriter
from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster
from tests.support.committed import committed_records
from tests.support.fixtures import broker_fixture

TIMEOUT_MS = 60_000
TASKS, ROWS = 2, 5


clients: list[BlockingClient] = []
"""Of drivers that ended as they were."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while clients:
        clients.pop().close()


class Killed(BaseException):
    """Nothing that runs later runs."""


class Mortal(SinkStore):
    """Ends after so many half steps."""

    halves = 10**6

    def _take(self, step: Any) -> Any:
        self.half()
        result = super()._take(step)
        self.half()
        return result

    def half(self) -> None:
        self.halves -= 1
        if self.halves < 0:
            raise Killed


class Driver:
    """One life of a driver, with a client of its own."""

    timeout_ms = TIMEOUT_MS
    two_phase: bool | None = None

    def __init__(
        self, broker: BrokerProcess | Cluster, sink_id: str, topic: str, halves: int = 10**6
    ) -> None:
        self.client = BlockingClient(broker.bootstrap)
        clients.append(self.client)
        self.store = Mortal(
            self.client, sink_id, self.timeout_ms, TIMEOUT_MS, two_phase=self.two_phase
        )
        self.store.halves = halves
        self.sink_id, self.topic = sink_id, topic
        self.options = SinkOptions(
            connection=Connection(bootstrap=broker.bootstrap), topic=topic, batch_bytes=2_000
        )

    def run(self, batch: Batch) -> Plan:
        """Raises Killed or SinkError."""
        planned = self.plan(batch)
        if judge(self.sink_id, planned.decided, batch) is Verdict.WRITE:
            written = {}
            for task in range(TASKS):
                name = attempt_id(self.sink_id, planned.generation, task, task)
                written[name] = self.attempt(name, numbers(batch, task))
            self.decide(planned, batch, written)
        return planned

    def plan(self, batch: Batch) -> Plan:
        planned: Plan = self.store.run(
            plan(self.sink_id, batch.query_id, now_ms(), self.timeout_ms)
        )
        return planned

    def decide(self, planned: Plan, batch: Batch, written: Mapping[str, ProducerIdentity]) -> None:
        try:
            steps = commit(planned, Written(batch=batch, transactions=written), now_ms())
            self.store.run(steps)
        except SinkError:
            self.store.run(give_up(planned))
            raise

    def attempt(self, name: str, rows: list[int]) -> ProducerIdentity:
        producer: ProducerIdentity = self.client.run(
            lambda s, t, d: take_ids(
                s, (name,), self.timeout_ms, t, d, two_phase=bool(self.two_phase)
            )
        )[name].result
        identity = Identity(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transactional_id=name,
        )
        writer = TaskWriter(self.client, self.options, 0, identity=identity)
        writer.add(pa.record_batch({"value": pa.array([b"%d" % n for n in rows])}), now_ms())
        writer.flush(now_ms())
        return producer


broker = broker_fixture()


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[BlockingClient]:
    with BlockingClient(broker.bootstrap) as client:
        yield client


def batch(number: int, query: str = "q") -> Batch:
    return Batch(query_id=query, batch_id=number, fingerprint=f"f{number}")


def numbers(one: Batch, task: int) -> list[int]:
    first = (one.batch_id * TASKS + task) * ROWS
    return list(range(first, first + ROWS))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def committed(client: BlockingClient, topic: str) -> list[int]:
    """The rows that a read_committed reader is given."""
    return sorted(int(each.value or b"") for each in committed_records(client, topic))


def left_open(client: BlockingClient, topic: str) -> list[Any]:
    return client.run(lambda s, t, d: open_transactions(s, [topic], t, d))


def test_a_driver_that_ends_at_any_step_loses_and_repeats_nothing(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    """Checklist row 88, for the protocol."""
    for halves in count():
        topic = sink_id = f"killed-{halves}"
        client.create_topics([NewTopic(topic, 2)])
        Driver(broker, sink_id, topic).run(batch(0))
        try:
            Driver(broker, sink_id, topic, halves).run(batch(1))
            break
        except Killed:
            Driver(broker, sink_id, topic).run(batch(1))
        Driver(broker, sink_id, topic).run(batch(2))

        assert committed(client, topic) == list(range(3 * TASKS * ROWS)), f"after {halves}"
        assert left_open(client, topic) == []
    assert halves > 20


def test_a_driver_that_was_overtaken_decides_nothing(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    client.create_topics([NewTopic("overtaken", 2)])
    old = Driver(broker, "overtaken", "overtaken")
    planned = old.store.run(plan("overtaken", "q", now_ms(), TIMEOUT_MS))
    late = attempt_id("overtaken", planned.generation, 0, 7)
    producer = old.attempt(late, numbers(batch(0), 0))
    Driver(broker, "overtaken", "overtaken").run(batch(0))

    with pytest.raises(SinkError, match="another run has taken it over"):
        old.decide(planned, batch(0), {late: producer})

    assert committed(client, "overtaken") == list(range(TASKS * ROWS))
    assert left_open(client, "overtaken") == []


def test_a_broker_that_is_killed_between_decision_and_ends_loses_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("t", 2)])
        driver = Driver(broker, "s", "t")
        planned = driver.store.run(plan("s", "q", now_ms(), TIMEOUT_MS))
        names = [attempt_id("s", planned.generation, n, n) for n in range(TASKS)]
        written = {name: driver.attempt(name, numbers(batch(0), n)) for n, name in enumerate(names)}
        driver.store.halves = 6  # read, look, decide: the ends are not reached
        with pytest.raises(Killed):
            driver.decide(planned, batch(0), written)
        assert committed(client, "t") == []
        broker.kill()
        broker.start()

        Driver(broker, "s", "t").run(batch(0))

        assert committed(client, "t") == list(range(TASKS * ROWS))


def test_twins_of_accepted_attempts_write_nothing_to_see(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    """Speculative ones: whether they end before the decision, or begin behind it."""
    client.create_topics([NewTopic("twins", 2)])
    driver = Driver(broker, "twins", "twins")
    planned = driver.store.run(plan("twins", "q", now_ms(), TIMEOUT_MS))
    accepted, twin, late = (attempt_id("twins", planned.generation, 0, n) for n in range(3))
    producer = driver.attempt(accepted, numbers(batch(0), 0))
    driver.attempt(twin, numbers(batch(0), 0))

    driver.decide(planned, batch(0), {accepted: producer})

    assert left_open(client, "twins") == []
    driver.attempt(late, numbers(batch(0), 0))
    assert left_open(client, "twins") != []
    Driver(broker, "twins", "twins").run(batch(1))
    assert left_open(client, "twins") == []
    assert committed(client, "twins") == [*numbers(batch(0), 0), *range(10, 20)]


def test_a_transaction_that_ended_before_the_decision_stops_it(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    client.create_topics([NewTopic("gone", 2)])
    driver = Driver(broker, "gone", "gone")
    planned = driver.store.run(plan("gone", "q", now_ms(), TIMEOUT_MS))
    names = [attempt_id("gone", planned.generation, n, n) for n in range(TASKS)]
    written = {name: driver.attempt(name, numbers(batch(0), n)) for n, name in enumerate(names)}
    client.run(lambda s, t, d: take_ids(s, names[:1], TIMEOUT_MS, t, d))

    with pytest.raises(SinkError, match="ended before its batch was decided"):
        driver.decide(planned, batch(0), written)

    assert committed(client, "gone") == []
    assert left_open(client, "gone") == []


def test_a_decision_that_nobody_ended_in_time_is_said_and_forgotten_by_hand(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    """What is past the operator's bound: the transactions are aborted, the rows are not there."""
    client.create_topics([NewTopic("late", 2)])
    driver = Driver(broker, "late", "late")
    planned = driver.store.run(plan("late", "q", now_ms(), TIMEOUT_MS))
    names = [attempt_id("late", planned.generation, n, n) for n in range(TASKS)]
    written = {name: driver.attempt(name, numbers(batch(0), n)) for n, name in enumerate(names)}
    driver.store.halves = 6
    with pytest.raises(Killed):
        driver.decide(planned, batch(0), written)
    client.run(lambda s, t, d: take_ids(s, names[:1], TIMEOUT_MS, t, d))

    with pytest.raises(SinkError, match=r"batch 0 was decided, but 1 of its 2 transactions"):
        Driver(broker, "late", "late").run(batch(0))
    SinkStore(client, "late", TIMEOUT_MS, TIMEOUT_MS).run(forget("late"))
    Driver(broker, "late", "late").run(batch(0))

    assert committed(client, "late") == sorted([*range(10), *numbers(batch(0), 1)])


def test_an_older_driver_writes_nothing_also_where_its_producer_was_another(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    """A producer id is used up after 32,766 take-overs, and forgotten after a week."""
    store = SinkStore(client, "pid", TIMEOUT_MS, TIMEOUT_MS)
    old = store._take(TakeOver())
    strange = client.init_producer_id()
    other = Driver_(strange.producer_id, strange.producer_epoch, 0)
    other = store._take(Write(other, SinkState().planned()))

    store._take(TakeOver())

    for driver in (old, other):
        with pytest.raises(SinkError, match="another run has taken it over"):
            store._take(Write(driver, SinkState().planned()))


def test_of_two_writes_with_one_number_the_first_counts(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    store = SinkStore(client, "number", TIMEOUT_MS, TIMEOUT_MS)
    driver = store._take(TakeOver())
    first = SinkState().planned()

    after = store._take(Write(driver, first))

    assert store._take(Write(driver, first.planned())) == after
    assert store._take(Read()) == first
