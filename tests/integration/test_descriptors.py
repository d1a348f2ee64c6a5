"""A real broker under a small limit of open files: told, divided, and nobody is kept out."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from tests.integration import raw
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until


def limited_to(files: int) -> tuple[str, ...]:
    return ("bash", "-c", f'ulimit -n {files} && exec "$@"', "limited")


def test_a_limit_that_no_broker_can_work_with_is_one_sentence(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, start=False, prefix=limited_to(100))
    with broker:
        broker.spawn()
        wait_until(lambda: not broker.alive, 60, "the refusal")

    assert "the system allows this process 100 open files (ulimit -n)" in broker.output
    assert "Traceback" not in broker.output


def test_idle_clients_up_to_the_limit_keep_no_newcomer_out(tmp_path: Path) -> None:
    """300 descriptors: 75 are kept back, 112 are for clients, the rest for log files."""
    with BrokerProcess(tmp_path, prefix=limited_to(300)) as broker, ExitStack() as open_ones:
        assert "leaves 112 client connections of the 2000" in broker.output
        host, port = broker.bootstrap.rsplit(":", 1)
        for _ in range(400):
            open_ones.enter_context(socket.create_connection((host, int(port)), timeout=20))

        def is_served() -> bool:
            """A newcomer may have to wait until the others have been idle for a second."""
            try:
                with raw.connect(broker.bootstrap, timeout_s=10) as newcomer:
                    newcomer.sendall(raw.api_versions_request(7))
                    return raw.read_response(newcomer)[0] == 7
            except OSError:
                return False

        wait_until(is_served, 60, "a served newcomer")
        assert broker.get("/health")[0] == 200
