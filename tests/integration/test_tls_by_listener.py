"""Listeners of one broker with security of their own: an authority, certificates of clients and
mechanisms each, renewed each by itself; and a cluster whose brokers have a listener like that."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic, Policy
from josefine_broker.client.security import parse_security
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority, Identity
from tests.support.cluster import REPLICATED, Cluster
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
HASTY = Policy(bootstrap_timeout_ms=500)
USER, PASSWORD = "alice", "open sesame"
INSIDE, OUTSIDE, LOGIN = "INSIDE", "OUTSIDE", "LOGIN"


class Files(NamedTuple):
    """Of one listener, to be replaced while they are used."""

    certificate: Path
    key: Path

    def hold(self, own: Identity) -> None:
        for new, path in ((own.key, self.key), (own.certificate, self.certificate)):
            shutil.copy(new, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)

    def settings(self) -> dict[str, str]:
        return {name: str(path) for name, path in self._asdict().items()}


class Served(NamedTuple):
    """The broker, where its listeners are, and who made their certificates."""

    broker: BrokerProcess
    ports: dict[str, int]
    authorities: dict[str, Authority]
    files: dict[str, Files]

    def comes_in(
        self, listener: str, own: Identity | None = None, words: dict[str, str] | None = None
    ) -> bool:
        """Whether a client that believes the listener's authority does."""
        settings = {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authorities[listener].certificate),
            **(words or {}),
        }
        if own is not None:
            settings["ssl.certificate.location"] = str(own.certificate)
            settings["ssl.key.location"] = str(own.key)
        address = f"127.0.0.1:{self.ports[listener]}"
        try:
            with BlockingClient(address, security=parse_security(settings), policy=HASTY) as client:
                return bool(client.metadata().brokers)
        except KafkaError:
            return False

    def logs_in(self, listener: str, mechanism: str) -> bool:
        words = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        return self.comes_in(listener, words=words)

    def shown(self, listener: str) -> str:
        return ssl.get_server_certificate(("127.0.0.1", self.ports[listener])).strip()

    def metric(self, name: str, listener: str) -> float:
        line = f'josefine_{name}{{listener="{listener}"}} '
        body = self.broker.get("/metrics")[1]
        return float(body.partition(line)[2].splitlines()[0])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("by-listener")
    ours, public = Authority(directory / "ours"), Authority(directory / "public")
    authorities = {OUTSIDE: public, INSIDE: ours, LOGIN: ours}
    files = {
        name: Files(directory / f"{name}.pem", directory / f"{name}.key")
        for name in (OUTSIDE, INSIDE)
    }
    for name, each in files.items():
        each.hold(authorities[name].issue(f"first-{name}", days=20))
    users = directory / "users"
    users.write_text(f"{USER}={PASSWORD}\n")
    users.chmod(0o600)
    ports = dict(zip(authorities, free_ports(3), strict=True))
    with BrokerProcess(
        directory / "broker",
        broker__listeners=[f"{name}://127.0.0.1:{port}" for name, port in ports.items()],
        broker__listener_security_protocol_map=[
            f"{OUTSIDE}:SASL_SSL", f"{INSIDE}:SSL", f"{LOGIN}:SASL_SSL",
        ],
        tls__certificate=str(files[INSIDE].certificate),
        tls__key=str(files[INSIDE].key),
        tls__ca=str(ours.certificate),
        tls__reload_check_ms=50,
        tls__by_listener={
            OUTSIDE: files[OUTSIDE].settings(),
            INSIDE.lower(): {"client_auth": "required"},
        },
        sasl__users=str(users),
        sasl__failure_delay_ms=50,
        sasl__mechanisms_by_listener={LOGIN: ["PLAIN"]},
    ) as broker:  # fmt: skip
        yield Served(broker, ports, authorities, files)


def test_each_listener_shows_its_own_certificate_and_asks_for_its_own(served: Served) -> None:
    client = served.authorities[INSIDE].issue("client")
    stranger = served.authorities[OUTSIDE].issue("stranger")

    assert served.shown(OUTSIDE) == served.files[OUTSIDE].certificate.read_text().strip()
    assert served.comes_in(INSIDE, client)
    assert not served.comes_in(INSIDE, stranger)
    assert not served.comes_in(INSIDE)
    assert served.logs_in(OUTSIDE, "SCRAM-SHA-256")  # without any certificate


def test_each_listener_has_its_own_mechanisms(served: Served) -> None:
    by_listener = {
        (name, mechanism): served.logs_in(name, mechanism)
        for name in (OUTSIDE, LOGIN)
        for mechanism in ("SCRAM-SHA-256", "PLAIN")
    }

    assert by_listener == {
        (OUTSIDE, "SCRAM-SHA-256"): True,
        (OUTSIDE, "PLAIN"): False,
        (LOGIN, "SCRAM-SHA-256"): False,
        (LOGIN, "PLAIN"): True,
    }


def test_renewal_of_one_leaves_the_other_and_what_does_not_fit_is_counted_there(
    served: Served,
) -> None:
    expires = "listener_certificate_expires_seconds"
    before, inside = served.metric(expires, OUTSIDE), served.shown(LOGIN)
    renewed = served.authorities[OUTSIDE].issue("second", days=200)

    served.files[OUTSIDE].hold(renewed)

    new = renewed.certificate.read_text().strip()
    wait_until(lambda: served.shown(OUTSIDE) == new, 30, "the renewal")
    assert served.metric(expires, OUTSIDE) > before + 100 * 86_400
    assert served.shown(LOGIN) == inside

    served.files[OUTSIDE].key.write_text("no key")
    failures = "listener_tls_reload_failures_total"
    wait_until(lambda: served.metric(failures, OUTSIDE) >= 1, 30, "the failure")
    assert served.metric(failures, INSIDE) == 0
    assert served.shown(OUTSIDE) == new
    assert f"tls.by_listener.{OUTSIDE}.key: " in served.broker.output


def test_brokers_replicate_through_a_listener_of_their_own_authority(tmp_path: Path) -> None:
    """And clients come through another, of an authority that the brokers do not believe."""
    ours, public = Authority(tmp_path / "ours"), Authority(tmp_path / "public")
    facing = public.issue("facing")
    with Cluster(
        tmp_path / "cluster",
        start=False,
        **REPLICATED,
        broker__inter_broker_listener=INSIDE,
        broker__listener_security_protocol_map=[f"{OUTSIDE}:SSL", f"{INSIDE}:SSL"],
        tls__certificate=str(facing.certificate),
        tls__key=str(facing.key),
    ) as cluster:
        for id_, broker in cluster.brokers.items():
            clients, inside = free_ports(2)
            own = ours.issue(f"broker-{id_}")
            broker.overrides = {
                **broker.overrides,
                "broker__listeners": [
                    f"{OUTSIDE}://127.0.0.1:{clients}", f"{INSIDE}://127.0.0.1:{inside}",
                ],
                "tls__by_listener": {
                    INSIDE: {
                        "certificate": str(own.certificate),
                        "key": str(own.key),
                        "ca": str(ours.certificate),
                        "client_auth": "required",
                    }
                },
            }  # fmt: skip
        cluster.start()
        words = {"security.protocol": "SSL", "ssl.ca.location": str(public.certificate)}
        with BlockingClient(cluster.bootstrap, security=parse_security(words)) as client:
            client.create_topics([NewTopic("t", replication_factor=3)])
            producer = BlockingProducer(client)
            producer.send("t", b"k", b"v")
            producer.flush()  # acks=all, and one copy would be too few
