"""A data directory that is not what was written: a start that refuses says so in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from confluent_kafka import Producer

from tests.support.broker import START_TIMEOUT_S, BrokerProcess
from tests.support.cli import josefine
from tests.support.waiting import wait_until


def produced(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0


def refusal(broker: BrokerProcess) -> str:
    """Start it, expecting that it does not; its last line."""
    said = len(broker.output)
    broker.spawn()
    assert broker.process is not None
    assert broker.process.wait(START_TIMEOUT_S) == 1
    output = broker.output[said:]
    assert "Traceback" not in output
    assert "listening on" not in output
    return output.strip().splitlines()[-1]


def flip_byte(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_damaged_metadata_stops_the_start_and_a_damaged_log_only_its_partition(
    broker: BrokerProcess,
) -> None:
    produced(broker, "orders")
    assert broker.stop() == 0
    whole = broker.directory / "whole"
    shutil.copytree(broker.data_dir, whole)

    segment = min(broker.data_dir.glob("raft/*.seg"))
    flip_byte(segment, segment.stat().st_size // 2)
    message = refusal(broker)
    assert "cannot start: metadata: " in message
    assert segment.name in message

    shutil.rmtree(broker.data_dir)
    shutil.copytree(whole, broker.data_dir)
    (broker.data_dir / "orders-0" / "00000000000000000000.log").unlink()
    broker.start()
    status, body = broker.get("/health")
    assert status == 503
    check = json.loads(body)["checks"]["logs"]
    assert not check["ok"]
    assert check["detail"].startswith("offline, for the log is damaged: orders-0; ")
    assert "had been synced from 0 to 1: restore the file" in check["detail"]
    produced(broker, "other")
    described = josefine(broker.bootstrap, "topics", "describe", "orders", "other")
    assert (described.code, described.err) == (0, "")
    offline, served = described.out.split("other: ")
    assert ("offline" in offline, "offline" in served) == (True, False)
    assert broker.stop() == 0

    shutil.rmtree(broker.data_dir)
    shutil.copytree(whole, broker.data_dir)
    (broker.data_dir / "broker.json").write_text('{"version": 9, "broker_id": 1, "cluster_id": ""}')
    assert "broker.json has version 9; this code reads version 1" in refusal(broker)

    shutil.rmtree(broker.data_dir)
    shutil.copytree(whole, broker.data_dir)
    broker.start()
    produced(broker, "orders")


def test_a_log_that_cannot_be_made_is_told_by_health_and_leaves_others_served(
    broker: BrokerProcess,
) -> None:
    produced(broker, "orders")
    (broker.data_dir / "blocked-0").write_text("a file where the directory should be")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("blocked", b"value")  # it goes on trying
    wait_until(lambda: broker.get("/health")[0] == 503, 60, "a broker that is not well")
    producer.purge()
    assert producer.flush(30) == 0
    status, body = broker.get("/health")
    assert status == 503
    check = json.loads(body)["checks"]["logs"]
    assert check == {"ok": False, "detail": "storage failed: blocked-0"}
    produced(broker, "orders")
