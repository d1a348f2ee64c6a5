"""The exactly-once sink as a participant of a two-phase commit (KIP-939), without Spark: a driver
that is down for longer than its transactions' timeout, and the next one. Checklist row 88."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.transactions import take_ids
from josefine_spark.base.errors import SinkError
from josefine_spark.write.coordinator_store import SinkStore
from josefine_spark.write.protocol import Plan, settle
from josefine_spark.write.state import attempt_id
from tests.integration.test_sink_exactly_once import (
    TASKS,
    TIMEOUT_MS,
    Driver,
    Killed,
    _closed,  # noqa: F401
    batch,
    committed,
    left_open,
    numbers,
)
from tests.support.broker import BrokerProcess
from tests.support.fixtures import broker_fixture
from tests.support.waiting import wait_until

SHORT_MS = 3_000
"""A timeout that a batch of ten rows does not need, and a test can wait for."""
ALL = list(range(10))


class Short(Driver):
    """Its transactions have a timeout that passes."""

    timeout_ms = SHORT_MS
    two_phase = False


class Participant(Short):
    two_phase = True


class Dead(NamedTuple):
    """A driver that ended, and what it had planned and written."""

    driver: Driver
    planned: Plan
    written: dict[str, ProducerIdentity]


broker = broker_fixture(transactions__two_phase_commit_enable=True)


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[BlockingClient]:
    with BlockingClient(broker.bootstrap) as client:
        yield client


def written_by(kind: type[Driver], broker: BrokerProcess, sink: str) -> Dead:
    """Both tasks have written, nothing is decided."""
    driver = kind(broker, sink, sink)
    planned = driver.plan(batch(0))
    names = [attempt_id(sink, planned.generation, n, n) for n in range(TASKS)]
    written = {name: driver.attempt(name, numbers(batch(0), n)) for n, name in enumerate(names)}
    return Dead(driver, planned, written)


def decided_by(kind: type[Driver], broker: BrokerProcess, sink: str) -> Dead:
    """The decision is written, none of its transactions ended."""
    dead = written_by(kind, broker, sink)
    dead.driver.store.halves = 6
    with pytest.raises(Killed):
        dead.driver.decide(dead.planned, batch(0), dead.written)
    return dead


def test_a_driver_that_is_down_for_longer_than_the_timeout_loses_nothing_as_a_participant(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    """Each crash point with and without: the table in docs/reference/spark.md."""
    sinks = ("written", "decided", "written-2p", "decided-2p", "slow", "slow-2p", "clock")
    client.create_topics([NewTopic(each, 2) for each in sinks])
    written_by(Short, broker, "written")
    decided_by(Short, broker, "decided")
    written_by(Participant, broker, "written-2p")
    decided_by(Participant, broker, "decided-2p")
    slow, slow_2p = written_by(Short, broker, "slow"), written_by(Participant, broker, "slow-2p")
    Short(broker, "clock", "clock").attempt("clock", [0])
    wait_until(lambda: not left_open(client, "clock"), 60.0, "the timeout of what came last")

    assert left_open(client, "written") == left_open(client, "decided") == []
    for sink in ("written-2p", "decided-2p", "slow-2p"):
        assert len(left_open(client, sink)) == TASKS, sink
    Short(broker, "written", "written").run(batch(0))
    assert committed(client, "written") == ALL
    with pytest.raises(SinkError, match="batch 0 was decided, but 2 of its 2 transactions ended"):
        Short(broker, "decided", "decided").run(batch(0))
    for sink in ("written-2p", "decided-2p"):
        Participant(broker, sink, sink).run(batch(0))
        assert committed(client, sink) == ALL
        assert left_open(client, sink) == []

    with pytest.raises(SinkError, match="ended before its batch was decided"):
        slow.driver.decide(slow.planned, batch(0), slow.written)
    slow_2p.driver.decide(slow_2p.planned, batch(0), slow_2p.written)
    assert committed(client, "slow-2p") == ALL


def test_what_a_participant_left_undecided_is_ended_by_hand(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    """Where its driver never comes back, and readers wait."""
    client.create_topics([NewTopic("left", 2)])
    written_by(Participant, broker, "left")
    assert len(left_open(client, "left")) == TASKS

    SinkStore(client, "left", TIMEOUT_MS, TIMEOUT_MS).run(settle("left"))

    assert left_open(client, "left") == []
    assert committed(client, "left") == []


def test_the_sink_is_a_participant_where_the_broker_lets_it_and_nobody_forbids_it(
    broker: BrokerProcess, client: BlockingClient
) -> None:
    week_ms = 7 * 24 * 3_600_000
    plans = {}
    for two_phase in (None, False, True):
        driver = Driver(broker, f"asks-{two_phase}", "t")
        driver.store._two_phase = two_phase
        planned = driver.plan(batch(0))
        plans[two_phase] = planned.two_phase, planned.timeout_ms

    assert plans == {None: (True, week_ms), False: (False, TIMEOUT_MS), True: (True, week_ms)}


def test_a_broker_that_lets_nobody_take_part_is_asked_for_ordinary_transactions(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("plain")) as broker:
        planned = Driver(broker, "s", "t").plan(batch(0))
        refused = Participant(broker, "must", "t")

        assert (planned.two_phase, planned.timeout_ms) == (False, TIMEOUT_MS)
        with pytest.raises(SinkError, match=r"set transactions\.two_phase_commit_enable on the"):
            refused.plan(batch(0))
        outcome = refused.client.run(
            lambda s, t, d: take_ids(s, ("x",), TIMEOUT_MS, t, d, two_phase=True)
        )["x"]
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.unsupported_version  # as Kafka: not listed then
