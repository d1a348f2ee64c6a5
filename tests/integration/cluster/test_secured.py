"""Three real brokers behind TLS, mutual, on every port between them, with ACLs: they elect,
replicate, lose one and regain it; strangers can neither vote, propose nor fetch. One cluster.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from josefine_broker.base import acls as words
from josefine_broker.base.acls import Acl
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client import access_admin
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.security import parse_security
from josefine_broker.engine.cluster.frames import Hello, Kind, encode_frame
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker
from raft import GENESIS, NodeId, Term
from raft.codec import encode
from raft.messages import VoteRequest
from tests.integration.cluster.records import produce, read_all
from tests.support.certificates import Authority, Identity
from tests.support.cluster import REPLICATED, Cluster
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
TOPICS = ("copied", "outlasting", "alices")
CERTIFICATES = ("broker-1", "broker-2", "broker-3", "alice")


class Secured(NamedTuple):
    """The cluster, and who has a certificate."""

    cluster: Cluster
    ours: Authority
    people: dict[str, Identity]
    foreign: Identity

    def client(self, who: str = "broker-1") -> BlockingClient:
        own = self.people[who]
        settings = {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ours.certificate),
            "ssl.certificate.location": str(own.certificate),
            "ssl.key.location": str(own.key),
        }
        return BlockingClient(self.cluster.bootstrap, security=parse_security(settings))

    def raft_port(self, id_: int) -> int:
        return int(self.cluster.broker(id_).overrides["raft__listener"].rpartition(":")[2])

    def metric(self, id_: int, name: str) -> float:
        lines = self.cluster.broker(id_).get("/metrics")[1].splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"josefine_{name}"))


def allow(client: BlockingClient, principal: str, kind: words.ResourceType, name: str) -> None:
    operation = words.Operation.DESCRIBE if kind is words.ResourceType.CLUSTER else None
    rule = Acl(
        kind, name, words.PatternType.LITERAL, principal, "*",
        operation or words.Operation.WRITE, words.Permission.ALLOW,
    )  # fmt: skip
    client.run(lambda s, t, d: access_admin.create_acls(s, [rule], t, d))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    ours, foreign = Authority(directory / "ours"), Authority(directory / "foreign")
    people = {name: ours.issue(name) for name in CERTIFICATES}
    names = [f"CN=broker-{id_}" for id_ in (1, 2, 3)]
    shared: dict[str, Any] = {
        "tls__ca": str(ours.certificate),
        "tls__client_auth": "required",
        "tls__reload_check_ms": 100,
        "raft_tls__ca": str(ours.certificate),
        "raft_tls__allowed_names": names,  # for alice has a certificate too
        "acls__enabled": True,
        "acls__super_users": [f"User:{name}" for name in names],
    }
    with Cluster(directory / "cluster", start=False, **REPLICATED, **shared) as cluster:
        for (id_, broker), port in zip(cluster.brokers.items(), free_ports(3), strict=True):
            own = people[f"broker-{id_}"]
            files = {"certificate": str(own.certificate), "key": str(own.key)}
            broker.overrides = {
                **broker.overrides,
                "broker__listeners": [f"SSL://127.0.0.1:{port}"],
                **{f"tls__{name}": path for name, path in files.items()},
                **{f"raft_tls__{name}": path for name, path in files.items()},
            }
        cluster.start()
        found = Secured(cluster, ours, people, foreign.issue("broker-2"))
        with found.client() as client:
            allow(client, "User:ANONYMOUS", words.ResourceType.CLUSTER, "kafka-cluster")
            client.create_topics([NewTopic(name, partitions=3) for name in TOPICS])
        cluster.wait_settled()
        yield found


def stranger(port: int, own: Identity | None, authority: Authority) -> socket.socket:
    """A connection of somebody; with `own`, over TLS."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    if own is None:
        return connection
    context = ssl.create_default_context(cafile=authority.certificate)
    context.load_cert_chain(own.certificate, own.key)
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def told(connection: socket.socket, *frames: bytes) -> bytes:
    """What is answered to whoever greets as a broker, votes and proposes."""
    answer = b""
    with connection, contextlib.suppress(OSError):
        for frame in frames:
            connection.sendall(frame)
        while more := connection.recv(65_536):
            answer += more
    return answer


def test_records_are_on_every_replica_over_tls_alone(secured: Secured) -> None:
    with secured.client() as client:
        sent = produce(client, "copied", 100)
        views = secured.cluster.wait_settled()

        assert read_all(client, "copied") == sent
    assert {tuple(sorted(each["isr"])) for each in views[0]["partitions"]} == {(1, 2, 3)}
    assert {view["raft"]["leader"] for view in views} == {secured.cluster.controller()}


@pytest.mark.parametrize("who", ["plaintext", "foreign", "alice"])
def test_stranger_can_neither_vote_nor_propose(secured: Secured, who: str) -> None:
    own = {"foreign": secured.foreign, "alice": secured.people["alice"]}.get(who)
    before = secured.cluster.view(1)
    term, cluster_id = before["raft"]["term"], before["cluster_id"]
    for id_ in (1, 3):
        failed = secured.metric(id_, "raft_handshakes_failed_total")
        hello = Hello(node_id=2, to=id_, cluster_id=cluster_id, address="")
        vote = VoteRequest(
            sender=NodeId(2), to=NodeId(id_), term=Term(term + 1_000), cluster_id=cluster_id,
            head=GENESIS, pre=False, forced=True,
        )  # fmt: skip
        change = RegisterBroker(broker_id=2, incarnation="x", endpoints=())
        answer = told(
            stranger(secured.raft_port(id_), own, secured.ours),
            hello.encode(Kind.HELLO),
            encode_frame(Kind.RAFT, encode(vote)),
            encode_frame(Kind.PROPOSE, encode_change(change, Origin(2, 1))),
        )

        assert b"josefine-raft" not in answer
        metric = partial(secured.metric, id_, "raft_handshakes_failed_total")
        wait_until(lambda: metric() > failed, 30, "the count")  # noqa: B023
        assert "raft TLS refused" in secured.cluster.broker(id_).output
    views = secured.cluster.wait_settled()
    assert max(view["raft"]["term"] for view in views) < term + 1_000


def test_broker_that_is_lost_comes_back_and_one_without_tls_is_told_why(secured: Secured) -> None:
    cluster = secured.cluster
    third = cluster.broker(3)
    cluster.kill(3)
    with secured.client() as client:
        sent = produce(client, "outlasting", 50)

        as_it_was = third.overrides
        third.overrides = {
            name: value for name, value in as_it_was.items() if not name.startswith("raft_tls")
        }
        third.spawn()
        wait_until(lambda: any(map(says_why, third.output.splitlines())), 60, "the sentence")
        assert "listening on" not in third.output.rpartition("metadata:")[2]

        third.overrides = as_it_was
        third.close()
        third.start()
        cluster.wait_settled()
        assert read_all(client, "outlasting") == sent


def says_why(line: str) -> bool:
    return "waiting for a majority" in line and "raft_tls is set on one side only" in line


def test_renewed_certificate_is_shown_to_brokers_without_a_restart(secured: Secured) -> None:
    new = secured.ours.issue("broker-1", days=90)  # in the place of the former
    shown = partial(ssl.get_server_certificate, ("127.0.0.1", secured.raft_port(1)))

    wait_until(lambda: shown().strip() == new.certificate.read_text().strip(), 30, "renewal")
    secured.cluster.kill(2)
    secured.cluster.restart(2)  # it dials broker 1, and is dialled by it
    secured.cluster.wait_settled()


def test_client_with_a_certificate_needs_acls_and_no_broker_does(secured: Secured) -> None:
    with secured.client() as root, secured.client("alice") as alice:
        with pytest.raises(KafkaError) as caught:
            produce(alice, "alices", 1)
        assert caught.value.code is ErrorCode.cluster_authorization_failed  # no producer id
        allow(root, "User:CN=alice", words.ResourceType.TOPIC, "alices")

        def is_written() -> bool:
            """The block may be on its way to the leader."""
            with contextlib.suppress(KafkaError):
                produce(alice, "alices", 1)
                return True
            return False

        wait_until(is_written, 30, "the ACL at the leader")
