"""`josefine bench` against a real broker: it writes and reads what it says; `josefine perf` sees
the broker at work."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from josefine_broker.client.io_blocking import NewTopic
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine, josefine_process
from tests.support.fixtures import broker_fixture
from tests.support.waiting import wait_until

broker = broker_fixture(NewTopic("load", partitions=2))


@pytest.fixture(scope="module")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.bootstrap


def measured(bootstrap: str, *arguments: str) -> dict[str, Any]:
    done = josefine(bootstrap, "bench", *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_records_are_written_and_read_and_told(bootstrap: str) -> None:
    written = measured(bootstrap, "produce", "load", "-n", "3000", "-s", "50", "-z", "zstd")
    slowly = measured(bootstrap, "produce", "load", "-n", "20", "--throughput", "100")
    read = measured(bootstrap, "consume", "load", "--unpack")
    checked = measured(bootstrap, "consume", "load")
    shown = josefine(bootstrap, "bench", "consume", "load")

    assert (written["records"], written["bytes"]) == (3_000, 150_000)
    assert slowly["seconds"] >= 0.19
    assert slowly["latency_ms"]["max"] < 1000 * slowly["seconds"]
    assert (read["records"], read["bytes"]) == (3_020, 152_000)
    assert checked["records"] == 3_020
    assert checked["bytes"] < read["bytes"], "compressed"
    first, second = shown.out.splitlines()
    assert first.startswith("read 3,020 records in ")
    assert second.startswith("latency of a fetch: p50 ")


def test_topic_that_is_not_there_is_one_sentence(bootstrap: str) -> None:
    for verb in ("produce", "consume"):
        done = josefine(bootstrap, "bench", verb, "absent")
        assert (done.code, done.out) == (1, "")
        assert done.err == "error: topic 'absent' does not exist\n"


def test_time_of_a_broker_at_work_is_told_by_api(broker: BrokerProcess) -> None:
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            josefine_process(broker.bootstrap, "topics", "list").communicate(timeout=60)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        wait_until(
            lambda: any(each["api"] == "Metadata" for each in perf(broker)["apis"]), 60, "it"
        )
    finally:
        ended.set()
        loading.join()
    shown = josefine("", "perf", "--admin", broker.admin_url, "--seconds", "0.2")
    assert (shown.code, "requests/s" in shown.out) == (0, True), shown.err


def perf(broker: BrokerProcess) -> dict[str, Any]:
    done = josefine("", "perf", "--admin", broker.admin_url, "--seconds", "1", "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    assert all(each["requests_per_s"] > 0 for each in found["apis"])
    return found


def test_perf_of_a_broker_that_is_not_there_is_one_sentence() -> None:
    done = josefine("", "perf", "--admin", "127.0.0.1:1", "--seconds", "0.1")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: no broker answers at http://127.0.0.1:1: ")
