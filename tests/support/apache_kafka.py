"""A real Apache Kafka (KRaft, one node) with the surface of `BrokerProcess`, as the oracle of
compatibility tests: what other people's clients see of it, they should see of ours.

Its jars come from Maven by tests/compat/pom.xml, once. `python -m tests.support.apache_kafka
COMMAND ...` runs a command while one serves, which JOSEFINE_APACHE_KAFKA names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from tests.support.maven import jars_of
from tests.support.ports import free_ports
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

POM = Path(__file__).parents[1] / "compat/pom.xml"
NAME = "apache-kafka-and-streams-4.3.0-2"
START_TIMEOUT_S = 120.0
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"

OVERRIDES = {
    "group__initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group__consumer_heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
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
SOON = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
AS_SHIPPED = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip


class ApacheKafka(ServerProcess):
    """One process. Raises NoJarsError where it cannot be had."""

    def __init__(
        self,
        directory: Path,
        *,
        start: bool = True,
        begins_soon: bool = True,
        pem: Path | None = None,
        **overrides: object,
    ) -> None:
        """`begins_soon`: with a JVM that starts fast; else with the options of Kafka's scripts.
        `pem`: of a listener for TLS besides, its key (PKCS #8) and its certificate in one file."""
        self._options = SOON if begins_soon else AS_SHIPPED
        super().__init__(directory, "kafka.log")
        self.config_file = self.directory / "server.properties"
        port, controller, tls = free_ports(3)
        self.bootstrap = f"127.0.0.1:{port}"
        self.tls_bootstrap = f"127.0.0.1:{tls}"
        """Where there is `pem`."""
        self._classpath = os.pathsep.join(jars_of(POM, NAME))
        settings = {
            **DEFAULTS,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
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
            settings[OVERRIDES[name]] = "-1" if value is None else str(value)
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
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self._command("kafka.Kafka", str(self.config_file)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )
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


def main(command: list[str]) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="apache-kafka-") as scratch,
        ApacheKafka(Path(scratch)) as broker,
    ):
        environment = {**os.environ, "JOSEFINE_APACHE_KAFKA": broker.bootstrap}
        return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
