"""The broker as a process: starting, stopping, refusing to start, saying where it is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tests.integration import raw
from tests.support.broker import (
    COMMAND,
    REPOSITORY,
    START_TIMEOUT_S,
    BrokerProcess,
)
from tests.support.server_process import STOP_TIMEOUT_S
from tests.support.waiting import wait_until

ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "JOSEFINE__RAFT__LISTENER": "127.0.0.1:0"}
"""Another broker of this machine may have the default port."""


def refused(tmp_path: Path, *arguments: str, python: tuple[str, ...] = ()) -> str:
    """Run a broker that must not start; its whole stderr."""
    command = [COMMAND[0], *python, *COMMAND[1:], "broker", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_start_prints_and_writes_where_it_listens(broker: BrokerProcess) -> None:
    """Checklist row 12: of port 0 it is the one it got."""
    addresses = json.loads((broker.data_dir / "broker.addresses.json").read_text())
    assert addresses["listeners"] == {"PLAINTEXT": broker.bootstrap}
    assert addresses["pid"] == broker.pid
    assert re.search(rf"^listening on {re.escape(broker.bootstrap)}$", broker.output, re.MULTILINE)
    assert not (broker.directory / ".hypothesis").exists()  # it stands there


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_signal_ends_it_cleanly(broker: BrokerProcess, number: int) -> None:
    os.kill(broker.pid, number)
    assert broker.process is not None
    assert broker.process.wait(STOP_TIMEOUT_S) == 0
    assert "Traceback" not in broker.output
    assert not (broker.data_dir / "broker.addresses.json").exists()


def test_restart_keeps_port_cluster_and_topics(broker: BrokerProcess) -> None:
    with raw.connect(broker.bootstrap) as connection:
        connection.sendall(raw.metadata_request(1, "kept"))  # auto-created
        raw.read_response(connection)
    before = broker.bootstrap, json.loads(broker.get("/health")[1])["cluster_id"]
    broker.restart()
    assert (broker.bootstrap, json.loads(broker.get("/health")[1])["cluster_id"]) == before
    with raw.connect(broker.bootstrap) as connection:
        connection.sendall(raw.metadata_request(2))
        assert b"kept" in raw.read_response(connection)[1]


def test_stop_answers_long_polls_at_once(tmp_path: Path) -> None:
    """Checklist row 93. A consumer that waits for records does not hold up a shutdown, though there
    is time for what is in flight."""
    patient = {"network__shutdown_timeout_ms": 300_000}
    with (
        BrokerProcess(tmp_path, **patient) as broker,
        raw.connect(broker.bootstrap) as connection,
    ):
        connection.sendall(raw.metadata_request(1, "polled"))
        raw.read_response(connection)
        poll = raw.fetch_body("polled", wait_ms=300_000, bytes_max=1_000)
        connection.sendall(raw.request(raw.FETCH, 4, 2, poll))
        wait_until(
            lambda: "josefine_parked_requests 1.0" in broker.get("/metrics")[1], 60, "the long poll"
        )
        assert broker.stop() == 0  # in STOP_TIMEOUT_S
        assert raw.read_response(connection)[0] == 2
        assert raw.is_closed(connection)


def test_health_and_metrics_answer(broker: BrokerProcess) -> None:
    """Checklist row 93."""
    with raw.connect(broker.bootstrap) as connection:
        connection.sendall(raw.api_versions_request(1))
        raw.read_response(connection)
    status, body = broker.get("/health")
    health = json.loads(body)
    assert status == 200
    assert health["status"] == "ok"
    assert {"listeners", "metadata", "logs"} <= set(health["checks"])
    status, text = broker.get("/metrics")
    assert status == 200
    assert 'josefine_request_seconds_count{api="ApiVersions"} 1.0' in text
    assert broker.get("/other")[0] == 404


def test_health_fails_below_the_reserve_that_the_configuration_asks_for(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, broker__disk_free_bytes_min=1) as broker:
        disk = json.loads(broker.get("/health")[1])["checks"]["disk"]
        assert disk["ok"]
        assert disk["detail"].endswith("bytes free, 1 required")
        broker.stop()
        broker.overrides["broker__disk_free_bytes_min"] = 2**62

        broker.spawn()  # it may serve no client: there is no room for what it would register

        disk = wait_until(lambda: _failing_disk(broker), START_TIMEOUT_S, "its health fails")
        assert str(2**62) in disk["detail"]


def _failing_disk(broker: BrokerProcess) -> dict[str, Any] | None:
    """What /health says of a disk that fails; None as long as it does not."""
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        status, body = broker.get("/health")
        disk: dict[str, Any] = json.loads(body)["checks"]["disk"]
        return disk if status == 503 and not disk["ok"] else None
    return None


def test_shipped_configuration_starts_as_it_is(tmp_path: Path) -> None:
    """Checklist row 13. Only the addresses are moved, for a test machine may use the ports."""
    process = subprocess.Popen(
        [*COMMAND, "broker", "--config", str(REPOSITORY / "conf" / "broker.yaml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            **ENVIRONMENT,
            "JOSEFINE__BROKER__LISTENERS": "PLAINTEXT://127.0.0.1:0",
            "JOSEFINE__ADMIN__ADDRESS": "127.0.0.1:0",
        },
    )
    addresses = tmp_path / "data" / "broker-1" / "broker.addresses.json"
    try:
        wait_until(
            lambda: addresses.exists() or process.poll() is not None, START_TIMEOUT_S, "start"
        )
        process.terminate()
        output, _ = process.communicate(timeout=STOP_TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert "listening on 127.0.0.1:" in output


def test_command_line_overrides_directory_and_address(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "broker", "--data-dir", str(tmp_path / "here"), "--listen", "localhost:0"],
        env={
            **os.environ,
            **ENVIRONMENT,
            "JOSEFINE__ADMIN__ADDRESS": "null",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    path = tmp_path / "here" / "broker.addresses.json"
    try:
        wait_until(lambda: path.exists() or process.poll() is not None, START_TIMEOUT_S, "start")
        addresses = json.loads(path.read_text())
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)
    assert addresses["listeners"]["PLAINTEXT"].startswith("localhost:")
    assert addresses["admin"] is None


def test_two_brokers_on_one_directory_are_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    message = refused(tmp_path, "--data-dir", str(broker.data_dir), "--listen", "127.0.0.1:0")
    assert f"is in use by another broker (process {broker.pid})" in message
    assert broker.get("/health")[0] == 200


def test_a_directory_of_another_broker_id_is_refused(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    broker.overrides["broker__id"] = 2
    broker.spawn()
    assert broker.process is not None
    assert broker.process.wait(START_TIMEOUT_S) == 1
    assert "belongs to broker 1, but broker.id is 2" in broker.output


def test_port_in_use_is_one_sentence(broker: BrokerProcess, tmp_path: Path) -> None:
    data_dir = tmp_path / "second"
    message = refused(tmp_path, "--data-dir", str(data_dir), "--listen", broker.bootstrap)
    assert f"cannot listen on {broker.bootstrap}" in message
    assert "the port is already in use; end what listens there, or set another" in message


def test_admin_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = tmp_path / "b.yaml"
        config.write_text(
            f"broker:\n  listeners: ['A://127.0.0.1:0']\nadmin:\n  address: {address}\n"
        )
        assert f"cannot listen on {address}" in refused(tmp_path, "--config", str(config))


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    """Checklist row 12."""
    config = tmp_path / "b.yaml"
    config.write_text("broker:\n  lissteners: []\n")
    message = refused(tmp_path, "--config", str(config))
    assert "b.yaml:2: unknown key broker.lissteners" in message
    assert "nearest known key is broker.listeners" in message


def test_python_without_assertions_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, "--data-dir", str(tmp_path / "d"), python=("-O",))
    assert "python -O removes the assertions" in message
    assert not (tmp_path / "d").exists()
    assert sys.flags.optimize == 0


def test_clients_are_answered_with_the_address_of_their_listener(tmp_path: Path) -> None:
    overrides = {
        "broker__listeners": ["IN://127.0.0.1:0", "OUT://127.0.0.1:0"],
        "broker__advertised_listeners": ["OUT://broker.example:19092"],
    }
    with BrokerProcess(tmp_path, **overrides) as broker:
        addresses = json.loads((broker.data_dir / "broker.addresses.json").read_text())
        answers = {}
        for name, address in addresses["listeners"].items():
            with raw.connect(address) as connection:
                connection.sendall(raw.metadata_request(1))
                answers[name] = raw.read_response(connection)[1]
    assert b"broker.example" in answers["OUT"]
    assert b"broker.example" not in answers["IN"]
    assert b"127.0.0.1" in answers["IN"]


def test_log_lines_are_objects_where_the_configuration_says_so(tmp_path: Path) -> None:
    """Whatever happens to a broker: its start, a client that talks nonsense, its end."""
    with BrokerProcess(tmp_path, logging__format="json", logging__level="debug") as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(b"\xff" * 64)
            assert client.recv(1) == b""
        assert broker.stop() == 0
        lines = broker.output.splitlines()

    events = [json.loads(line) for line in lines if line.startswith("{")]
    assert {tuple(each) for each in events} == {("time", "level", "logger", "message", "fields")}
    (closed,) = (each for each in events if each["message"] == "connection closed")
    assert closed["level"] == "WARNING"
    assert closed["logger"] == "josefine_broker.host.net.connection"
    assert closed["fields"]["listener"] == "PLAINTEXT"
    others = [line for line in lines if not line.startswith("{")]
    assert [line for line in others if re.match(r"\d{4}-\d\d-\d\dT|\w+:\w+:", line)] == []
