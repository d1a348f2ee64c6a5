"""Clients in other languages over TLS with SCRAM and ACLs: transactions and groups as without, and
who has another password, or another authority, does not come in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import NewTopic
from tests.compat.foreign import FOREIGN, TELLERS, ForeignError
from tests.support.certificates import Authority
from tests.support.secured import PASSWORD, USER, Secured, secured_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOPIC = "secured"
REFUSED_SECONDS = 5.0
"""In which who may has long read something."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    acls = {"acls__enabled": True, "acls__super_users": [f"User:{USER}"]}
    with secured_broker(tmp_path_factory.mktemp("secured"), **acls) as served:
        with served.client() as client:
            client.create_topics([NewTopic(name, partitions=2) for name in (TOPIC, "none")])
        yield served


Say = Callable[..., None]


@pytest.fixture
def say(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """What the next client is told."""

    def settings(mechanism: str, password: str = PASSWORD, ca: Path = secured.ca) -> None:
        words = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{JAAS} username="{USER}" password="{password}";',
            "sasl.username": USER,
            "sasl.password": password,
        }
        file = tmp_path / "secured.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
        monkeypatch.setenv("JOSEFINE_SECURED", str(file))

    return settings


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", TELLERS)
def test_transactions_are_written_over_tls_with_scram(
    secured: Secured, say: Say, name: str, mechanism: str
) -> None:
    say(mechanism)
    with closing(TELLERS[name](secured.broker.bootstrap, f"{name}-{mechanism}", TOPIC)) as teller:
        teller.begin()
        teller.send(0, f"{name} {mechanism}".replace(" ", "-"))
        teller.commit()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", FOREIGN)
def test_groups_read_over_tls_with_scram(
    secured: Secured, say: Say, name: str, mechanism: str
) -> None:
    say("SCRAM-SHA-256")
    with closing(TELLERS["java"](secured.broker.bootstrap, f"for-{name}", TOPIC)) as teller:
        teller.begin()
        teller.send(1, f"for-{name}")
        teller.commit()
    say(mechanism)
    group = f"group-{name}-{mechanism}"
    with closing(FOREIGN[name](secured.broker.bootstrap, group, TOPIC)) as member:
        found: list[bytes | None] = []
        deadline = time.monotonic() + 60
        while f"for-{name}".encode() not in found and time.monotonic() < deadline:
            found += [each.value for each in member.poll()]
        member.commit()

    assert f"for-{name}".encode() in found


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("lack", ["password", "authority"])
def test_who_lacks_one_of_them_reads_nothing(
    secured: Secured, say: Say, tmp_path: Path, name: str, lack: str
) -> None:
    if lack == "password":
        say("SCRAM-SHA-256", "guessed")
    else:
        say("SCRAM-SHA-256", ca=Authority(tmp_path / "other").certificate)
    with closing(FOREIGN[name](secured.broker.bootstrap, f"no-{name}-{lack}", TOPIC)) as member:
        found: list[object] = []
        deadline = time.monotonic() + REFUSED_SECONDS
        try:
            while not found and time.monotonic() < deadline:
                found += member.poll()
        except (ForeignError, AssertionError):  # some say so, some end, some try on
            pass

    assert found == []
