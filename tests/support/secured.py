"""A real broker that lets in one user, over TLS and with a password, and how clients say both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.security import parse_security
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority

USER, PASSWORD = "alice", "open, sesame=1"


class Secured(NamedTuple):
    """The broker, the authority of its certificate, its users, and the password alone in a file."""

    broker: BrokerProcess
    ca: Path
    users: Path
    password: Path

    def words(self, mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD) -> dict[str, str]:
        """The settings of librdkafka and of ours."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
        }

    def client(self, mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD) -> BlockingClient:
        return BlockingClient(
            self.broker.bootstrap, security=parse_security(self.words(mechanism, password))
        )


@contextlib.contextmanager
def secured_broker(directory: Path, **overrides: object) -> Iterator[Secured]:
    """`overrides` as those of BrokerProcess."""
    authority = Authority(directory / "ca")
    own = authority.issue("broker")
    users, password = directory / "users", directory / "password"
    users.write_text(f"{USER}={PASSWORD}\n")
    users.chmod(0o600)
    password.write_text(PASSWORD)
    settings = {
        "broker__listeners": ["SASL_SSL://127.0.0.1:0"],
        "tls__certificate": str(own.certificate),
        "tls__key": str(own.key),
        "sasl__users": str(users),
        "sasl__failure_delay_ms": 100,
    }
    with BrokerProcess(directory / "broker", **(settings | overrides)) as broker:
        yield Secured(broker, authority.certificate, users, password)
