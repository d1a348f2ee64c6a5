"""`josefine sinks` against a real broker: what a dead driver left is seen, ended and forgotten."""

from __future__ import annotations

import json

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_spark.write.protocol import plan
from josefine_spark.write.state import attempt_id
from tests.integration.test_sink_exactly_once import (
    TASKS,
    TIMEOUT_MS,
    Driver,
    Killed,
    batch,
    committed,
    now_ms,
    numbers,
)
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.fixtures import broker_fixture

broker = broker_fixture()


def test_what_a_dead_driver_decided_is_shown_and_ended(broker: BrokerProcess) -> None:
    none = josefine(broker.bootstrap, "sinks", "list")
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("t", 2)])
        driver = Driver(broker, "s", "t")
        planned = driver.store.run(plan("s", "q", now_ms(), TIMEOUT_MS))
        names = [attempt_id("s", planned.generation, n, n) for n in range(TASKS)]
        written = {name: driver.attempt(name, numbers(batch(0), n)) for n, name in enumerate(names)}
        driver.store.halves = 6
        with pytest.raises(Killed):
            driver.decide(planned, batch(0), written)
        driver.client.close()

        listed = json.loads(josefine(broker.bootstrap, "sinks", "list", "--json").out)
        settled = josefine(broker.bootstrap, "sinks", "settle", "s")
        again = josefine(broker.bootstrap, "sinks", "settle", "s")
        shown = josefine(broker.bootstrap, "sinks", "list")
        rows = committed(client, "t")
    forgotten = josefine(broker.bootstrap, "sinks", "forget", "s", "--json")
    unknown = josefine(broker.bootstrap, "sinks", "forget", "x")

    assert (none.code, none.out) == (0, "no sinks\n")
    assert [(each["sink"], each["phase"], each["batch_id"]) for each in listed] == [
        ("s", "decided", 0)
    ]
    assert listed[0]["transactions"] == names
    assert (settled.code, settled.out) == (0, "s: its last batch is committed now\n")
    assert again.out == "s: no decision was pending\n"
    assert shown.out.split("\n")[1].split() == ["s", "settled", "q", "0", str(TASKS)]
    assert rows == [*numbers(batch(0), 0), *numbers(batch(0), 1)]
    assert json.loads(forgotten.out) == {"sink": "s", "forgotten": True}
    assert (unknown.code, unknown.err) == (1, "error: no sink 'x': there are s\n")
