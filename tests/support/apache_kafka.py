"""A real Apache Kafka (KRaft, one node) with the surface of `BrokerProcess`, as the oracle of
compatibility tests: what other people's clients see of it, they should see of ours. For benches
also as a cluster of three.

Its jars come from Maven by tests/compat/pom.xml, once. `python -m tests.support.apache_kafka
COMMAND ...` runs a command while one serves, which JOSEFINE_APACHE_KAFKA names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from tests.support.maven import jars_of
from tests.support.ports import free_ports
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

POM = Path(__file__).parents[1] / "compat/pom.xml"
VERSION = "4.4.0"  # as in the pom
NAME = f"apache-kafka-and-streams-{VERSION}"
START_TIMEOUT_S = 120.0
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"

OVERRIDES = {
    "group__initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group__consumer_heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
    "broker__auto_create_topics": "auto.create.topics.enable",
    "log__retention_ms": "log.retention.ms",
    "network__connections_max": "max.connections",
    "network__connections_per_address_max": "max.connections.per.ip",
    "log__message_bytes_max": "message.max.bytes",
    "transactions__abort_interval_ms": (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    ),
}
"""Our configuration keys that tests set → Kafka's; others have no counterpart there."""

DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "auto.create.topics.enable": "true",
}
IN_THREE = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""As Kafka ships them, and as our cluster of three is run."""
SOON = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
AS_SHIPPED = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip


class Place(NamedTuple):
    """One broker's place in a cluster."""

    number: int
    ports: Mapping[int, tuple[int, int]]
    """Of each broker: its clients' port and its controller's."""


def _two_ports() -> tuple[int, int]:
    one, other = free_ports(2)
    return one, other


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ApacheKafka(ServerProcess):
    """One process. Raises NoJarsError where it cannot be had."""

    def __init__(
        self,
        directory: Path,
        *,
        start: bool = True,
        begins_soon: bool = True,
        heap: str = "",
        place: Place | None = None,
        pem: Path | None = None,
        settings: Mapping[str, str] | None = None,
        **overrides: object,
    ) -> None:
        """`begins_soon`: with a JVM that starts fast; else with the options of Kafka's scripts,
        but for `heap` ("512m"). `place`: in a cluster; None: it is one of its own. `pem`: of a
        listener for TLS besides, its key (PKCS #8) and its certificate in one file. `settings`:
        Kafka's own, before all others."""
        self._options = SOON if begins_soon else AS_SHIPPED
        if heap:
            self._options = (*self._options, f"-Xmx{heap}", f"-Xms{heap}")
        super().__init__(directory, "kafka.log")
        self.config_file = self.directory / "server.properties"
        place = place or Place(1, {1: _two_ports()})
        port, controller = place.ports[place.number]
        (tls,) = free_ports(1)
        self.bootstrap = f"127.0.0.1:{port}"
        self.tls_bootstrap = f"127.0.0.1:{tls}"
        """Where there is `pem`."""
        self._classpath = os.pathsep.join(jars_of(POM, NAME))
        voters = ((number, ports[1]) for number, ports in place.ports.items())
        own = settings or {}
        settings = {
            **DEFAULTS,
            **(IN_THREE if len(place.ports) > 1 else {}),
            "node.id": str(place.number),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in voters),
            "log.dirs": str(self.directory / "data"),
        }
        if pem is not None:
            settings["listeners"] += f",SSL://{self.tls_bootstrap}"
            settings |= {
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"
                ),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(pem),
            }
        for name, value in overrides.items():
            if name not in OVERRIDES:
                pytest.skip(f"{name} is nothing of Apache Kafka's")
            settings[OVERRIDES[name]] = "-1" if value is None else _text(value)
        settings |= own
        self.directory.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self.config_file.write_text(text)
        self._run(
            "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.config_file)
        )
        if start:
            self.start()

    def start(self) -> None:
        """Start and wait until it serves."""
        self.spawn()
        self.wait_serving()

    def spawn(self) -> None:
        """Start without waiting: the first of a cluster serves when there are two."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self._command("kafka.Kafka", str(self.config_file)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )

    def wait_serving(self) -> None:
        """Until it serves, or has ended, which is told."""
        wait_until(self._is_serving, START_TIMEOUT_S, "Apache Kafka to serve")
        assert self.alive, self.output[-3000:]

    def _is_serving(self) -> bool:
        if not self.alive:
            return True  # which `start` tells
        try:
            with BlockingClient(self.bootstrap) as client:
                return bool(client.describe_cluster(timeout_ms=1_000).brokers)
        except (KafkaError, OSError):
            return False

    def get(self, path: str) -> tuple[int, str]:
        """It has no such pages."""
        pytest.skip(f"Apache Kafka has no {path}")

    def _command(self, main: str, *arguments: str) -> list[str]:
        return ["java", *self._options, "-cp", self._classpath, main, *arguments]

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(main, *arguments), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def cluster_of_three(directory: Path, heap: str = "512m") -> Iterator[list[ApacheKafka]]:
    """Three brokers, each a voter too (combined mode), with the options of Kafka's scripts but for
    their heap; topics have three copies, two of them in sync."""
    ports = {number: _two_ports() for number in (1, 2, 3)}
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(
                ApacheKafka(
                    directory / f"kafka-{number}", start=False, begins_soon=False, heap=heap,
                    place=Place(number, ports),
                )
            )
            for number in ports
        ]  # fmt: skip
        for broker in brokers:
            broker.spawn()
        for broker in brokers:
            broker.wait_serving()
        yield brokers


def main(command: list[str]) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="apache-kafka-") as scratch,
        ApacheKafka(Path(scratch)) as broker,
    ):
        environment = {**os.environ, "JOSEFINE_APACHE_KAFKA": broker.bootstrap}
        return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
