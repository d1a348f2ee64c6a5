"""Ports for tests: nobody else gets them, however many processes ask."""

import subprocess
import sys
from pathlib import Path

from tests.support.ports import _first_outgoing, free_ports

ROOT = Path(__file__).resolve().parents[2]
ASK = "from tests.support.ports import free_ports; print(*free_ports(20)); input()"


def test_two_processes_never_get_the_same_port_nor_one_that_connections_use() -> None:
    others = [
        subprocess.Popen(
            [sys.executable, "-c", ASK],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for _ in range(2)
    ]  # fmt: skip
    ports = free_ports(20)
    for other in others:
        assert other.stdout is not None
        ports += map(int, other.stdout.readline().split())
    ports += free_ports(20)
    for other in others:
        other.communicate("\n")

    assert len(set(ports)) == len(ports) == 80
    assert max(ports) < _first_outgoing()
