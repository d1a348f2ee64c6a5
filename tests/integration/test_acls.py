"""ACLs at real brokers: other people's clients, the command, the text protocol, HTTP, and brokers
among themselves.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer
from josefine_broker.client.io_blocking_socket import SocketConnection
from josefine_broker.client.io_tls import secured
from josefine_broker.client.security import PLAINTEXT, Security, parse_security
from josefine_broker.wire import apis, codec
from josefine_cli.base.client_config import http_headers
from josefine_cli.base.errors import CLIENT_CONFIG
from josefine_cli.dashboard.access_page import access_page
from josefine_cli.dashboard.watching import Watcher
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.cli import josefine
from tests.support.cluster import REPLICATED, Cluster
from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tests.unit.josefine_broker.api.test_table import empty_request
from tests.unit.josefine_broker.api.world import fetch_request
from tests.unit.josefine_broker.text.client import message

pytestmark = pytest.mark.timeout(240)
ROOT, ALICE = "root", "alice"
PASSWORD = "open, sesame=1"


class Guarded(NamedTuple):
    """A broker with passwords and ACLs, and a text listener."""

    broker: BrokerProcess
    config: dict[str, Path]
    text_port: int

    def words(self, user: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    def librdkafka(self, user: str, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.bootstrap, **self.words(user), **more}

    def client(self, user: str) -> BlockingClient:
        return BlockingClient(self.broker.bootstrap, security=parse_security(self.words(user)))

    def josefine(self, user: str, *arguments: str) -> tuple[int, str]:
        done = josefine(
            self.broker.bootstrap, "--client-config", str(self.config[user]), *arguments
        )
        return done.code, done.out + done.err


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("acls")
    users = directory / "users"
    users.write_text(f"{ROOT}={PASSWORD}\n{ALICE}={PASSWORD}\n")
    users.chmod(0o600)
    (text_port,) = free_ports(1)
    with BrokerProcess(
        directory / "broker",
        broker__listeners=["SASL_PLAINTEXT://127.0.0.1:0"],
        sasl__users=str(users),
        sasl__failure_delay_ms=50,
        acls__enabled=True,
        acls__super_users=[f"User:{ROOT}"],
        text__port=text_port,
    ) as broker:
        found = Guarded(broker, {}, text_port)
        for user in (ROOT, ALICE):
            found.config[user] = directory / f"{user}.properties"
            lines = (f"{name}={value}\n" for name, value in found.words(user).items())
            found.config[user].write_text("".join(lines))
        yield found


def write(client: BlockingClient) -> None:
    """A record, on every replica in sync."""
    client.partition_count("t", create=True)
    producer = BlockingProducer(client)
    producer.send("t", None, b"x")
    producer.flush()


def binding(
    topic: str,
    operation: AclOperation,
    user: str = ALICE,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, topic, pattern, f"User:{user}", "*", operation, permission)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(30) for future in futures.values()]


def refused(futures: dict[Any, Any]) -> set[str]:
    names = set()
    for future in futures.values():
        with pytest.raises(KafkaException) as caught:
            future.result(30)
        names.add(caught.value.args[0].name())
    return names


def test_librdkafka_makes_acls_and_then_may_do_what_they_say(guarded: Guarded) -> None:
    root = AdminClient(guarded.librdkafka(ROOT))
    alice = AdminClient(guarded.librdkafka(ALICE))
    assert refused(alice.create_topics([NewTopic("orders", 1, 1)])) == {
        "TOPIC_AUTHORIZATION_FAILED"
    }
    assert refused(alice.create_acls([binding("orders", AclOperation.ALL)])) == {
        "CLUSTER_AUTHORIZATION_FAILED"
    }
    done(root.create_topics([NewTopic("orders", 1, 1)]))
    group = ResourceType.GROUP
    prefixed = ResourcePatternType.PREFIXED
    acls = [
        binding("ord", AclOperation.WRITE, pattern=prefixed),
        binding("orders", AclOperation.READ),
        binding("readers", AclOperation.READ, kind=group),
    ]
    done(root.create_acls(acls))

    producer = Producer(guarded.librdkafka(ALICE))
    told: list[Any] = []
    producer.produce("orders", b"1", on_delivery=lambda error, _: told.append(error))
    producer.flush(30)
    assert told == [None]
    # librdkafka tells it in the delivery report, or in the call itself
    # where the broker's metadata came before the record was put in line
    try:
        producer.produce("others", b"1", on_delivery=lambda error, _: told.append(error))
    except KafkaException as error:
        told.append(error.args[0])
    producer.flush(30)
    assert told[1].name() in ("TOPIC_AUTHORIZATION_FAILED", "_UNKNOWN_TOPIC")
    consumer = Consumer(
        guarded.librdkafka(ALICE, **{"group.id": "readers", "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["orders"])
    got: list[Any] = []
    wait_until(lambda: got.extend(consumer.consume(1, 0.2)) or bool(got), 60, "the record")
    assert got[0].value() == b"1"
    consumer.close()
    shown = alice.list_topics(timeout=30).topics
    assert list(shown) == ["orders"]

    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.MATCH, f"User:{ALICE}", None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    assert len(root.describe_acls(every).result(30)) == 3
    deleted = done(root.delete_acls([every]))
    assert len(deleted[0]) == 3
    assert list(alice.list_topics(timeout=30).topics) == []


def test_kafka_python_and_aiokafka_administer_acls(guarded: Guarded) -> None:
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import TopicAuthorizationFailedError
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
    )
    from kafka.admin import ResourceType as KafkaPythonType

    words: dict[str, Any] = {
        "bootstrap_servers": guarded.broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_password": PASSWORD,
    }
    root = KafkaAdminClient(sasl_plain_username=ROOT, **words)
    acl = ACL(
        f"User:{ALICE}",
        "*",
        ACLOperation.DESCRIBE,
        ACLPermissionType.ALLOW,
        ResourcePattern(KafkaPythonType.TOPIC, "kp"),
    )
    assert len(root.create_acls([acl])["succeeded"]) == 1
    wanted = ACLFilter(
        f"User:{ALICE}", None, ACLOperation.ANY, ACLPermissionType.ANY,
        ResourcePatternFilter(KafkaPythonType.TOPIC, "kp", ACLResourcePatternType.ANY),
    )  # fmt: skip
    found, _ = root.describe_acls(wanted)
    assert [(each.principal, each.resource_pattern.resource_name) for each in found] == [
        (f"User:{ALICE}", "kp")
    ]
    root.delete_acls([wanted])
    assert root.describe_acls(wanted)[0] == []
    root.close()

    async def scenario() -> None:
        from aiokafka import AIOKafkaProducer

        admin = AIOKafkaAdminClient(sasl_plain_username=ALICE, **words)
        await admin.start()
        assert await admin.list_topics() == []
        await admin.close()
        async with AIOKafkaProducer(sasl_plain_username=ALICE, **words) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("kp", b"x")

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_command_adds_lists_and_removes_rules(guarded: Guarded) -> None:
    code, said = guarded.josefine(
        ROOT, "acls", "add", "--user", "carol", "--operation", "read", "--operation",
        "describe-configs", "--topic", "eu.", "--prefixed",
    )  # fmt: skip
    assert (code, said) == (0, "2 rules added\n")
    code, said = guarded.josefine(ROOT, "acls", "list", "--topic", "eu.orders", "--json")
    assert code == 0
    assert [(each["user"], each["operation"], each["pattern"]) for each in json.loads(said)] == [
        ("carol", "read", "prefixed"), ("carol", "describe-configs", "prefixed"),
    ]  # fmt: skip
    code, said = guarded.josefine(ALICE, "acls", "list")
    assert code != 0
    assert "User:alice may not DESCRIBE this CLUSTER" in said
    assert guarded.josefine(ROOT, "acls", "remove", "--user", "carol", "--yes") == (
        0, "2 rules removed\n",
    )  # fmt: skip
    assert guarded.josefine(ROOT, "acls", "remove", "--user", "carol", "-y") == (
        0,
        "no rule matches\n",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "--topic", "t"), "a rule names --user, --operation and one of"),
        (
            ("add", "-u", "a", "-o", "reed", "-t", "x"),
            "'reed' is not a valid operation there: read, write",
        ),
        (
            ("add", "-u", "a", "-o", "write", "-g", "x"),
            "'write' is not a valid operation there: read",
        ),
        (("add", "-u", "a", "-o", "read", "-t", "x", "-g", "y"), "one resource at a time"),
        (("remove",), "name the rules to remove: give --user or a resource"),
    ],
)
def test_command_says_what_a_rule_lacks(
    guarded: Guarded, arguments: tuple[str, ...], words: str
) -> None:
    code, said = guarded.josefine(ROOT, "acls", *arguments)

    assert code != 0
    assert words in said


def test_librdkafka_sets_a_password_that_lets_its_user_in(guarded: Guarded) -> None:
    """KIP-554."""
    root = AdminClient(guarded.librdkafka(ROOT))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8_192)
    wanted = UserScramCredentialUpsertion("dave", info, PASSWORD.encode())
    done(root.alter_user_scram_credentials([wanted]))

    told = root.describe_user_scram_credentials(["dave"])["dave"].result(30)
    assert [(each.mechanism, each.iterations) for each in told.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8_192)
    ]
    with guarded.client("dave") as client:
        client.metadata(())
    alice = AdminClient(guarded.librdkafka(ALICE))
    assert refused(alice.alter_user_scram_credentials([wanted])) == {"CLUSTER_AUTHORIZATION_FAILED"}
    gone = UserScramCredentialDeletion("dave", ScramMechanism.SCRAM_SHA_256)
    done(root.alter_user_scram_credentials([gone]))
    with pytest.raises(KafkaError) as caught, guarded.client("dave") as client:
        client.metadata(())
    assert caught.value.code is ErrorCode.sasl_authentication_failed


def test_command_sets_lists_and_removes_users(guarded: Guarded, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    command = ("users", "set", "erin", "--password-from", f"file:{secret}")
    assert guarded.josefine(ROOT, *command) == (0, "password of user 'erin' set\n")
    code, said = guarded.josefine(ROOT, "users", "list", "--json")
    assert (code, json.loads(said)) == (
        0, {"erin": {"SCRAM-SHA-256": 4_096, "SCRAM-SHA-512": 4_096}},
    )  # fmt: skip
    with guarded.client("erin") as client:
        client.metadata(())
    assert guarded.josefine(ROOT, "users", "remove", "erin", "-y") == (0, "user 'erin' removed\n")
    for arguments, words in (
        (("set", "erin"), "a password without a terminal to ask on needs --password-from"),
        (("set", "erin", "--password-from", PASSWORD), "--password-from"),
        (("set", "erin", "--iterations", "100"), "4096"),
        (("remove", "erin"), "there is no user 'erin' in the metadata"),
    ):
        code, said = guarded.josefine(ROOT, "users", *arguments)
        assert code != 0
        assert words in said
        assert PASSWORD not in said
    assert PASSWORD not in guarded.broker.output


def test_text_protocol_may_do_what_everybody_may(guarded: Guarded) -> None:
    root = AdminClient(guarded.librdkafka(ROOT))
    done(root.create_topics([NewTopic("texts", 1, 1)]))
    publish = f"PUBS texts {message('hello')}"
    lines = [publish, "SUBS texts g", "CONS texts g|0|x 0", "CRTP texts 3", "CRTP new"]
    for line in lines:
        assert "may not" in say(guarded, line), line
    assert "new" not in root.list_topics(timeout=30).topics

    anonymous = [
        binding("texts", AclOperation.ALL, "ANONYMOUS"),
        binding("g", AclOperation.READ, "ANONYMOUS", ResourceType.GROUP),
    ]
    done(root.create_acls(anonymous))
    assert "may not" not in say(guarded, publish)
    assert "may not" not in say(guarded, "SUBS texts g")
    assert "may not" in say(guarded, "SUBS texts other")


def say(guarded: Guarded, line: str) -> str:
    with socket.create_connection(("127.0.0.1", guarded.text_port), 30) as sock:
        sock.sendall(f"{line}\n".encode())
        return sock.makefile().readline()


def test_pages_ask_who_looks(guarded: Guarded) -> None:
    assert page(guarded, "/health") == 200
    for path in ("/metrics", "/cluster", "/cluster/chain", "/debug"):
        assert page(guarded, path) == 401
        assert page(guarded, path, ROOT, "guess") == 401
        assert page(guarded, path, "nobody", PASSWORD) == 401
        assert page(guarded, path, ALICE, PASSWORD) == 403
        assert page(guarded, path, ROOT, PASSWORD) == 200


def page(guarded: Guarded, path: str, user: str = "", password: str = "") -> int:
    request = urllib.request.Request(guarded.broker.admin_url + path)
    if user:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def test_stranger_is_hung_up_on_whatever_it_asks(guarded: Guarded) -> None:
    """Every API key without credentials, at the socket."""
    host, _, port = guarded.broker.bootstrap.rpartition(":")
    open_to_all = (apis.API_VERSIONS, apis.SASL_HANDSHAKE)
    for key, spec in apis.APIS.items():
        version = min(spec.max_version, 12)
        frame = b"".join(codec.encode_request(key, version, 1, "c", empty_request(key, version)))
        with socket.create_connection((host, int(port)), 30) as sock:
            sock.sendall(frame)
            answered = bool(sock.recv(4))
        assert answered is (key in (*open_to_all, apis.SASL_AUTHENTICATE)), spec.name


def test_brokers_copy_from_each_other_by_the_name_of_their_listener(tmp_path: Path) -> None:
    """Acks=all with all three in sync, while clients have to have ACLs."""
    users = tmp_path / "users"
    users.write_text(f"{ROOT}={PASSWORD}\n")
    users.chmod(0o600)
    with Cluster(
        tmp_path / "cluster",
        start=False,
        **REPLICATED,
        broker__inter_broker_listener="INSIDE",
        sasl__users=str(users),
        acls__enabled=True,
        acls__super_users=[f"User:{ROOT}"],
        acls__inter_broker_principal="User:brokers",
    ) as cluster:
        for broker in cluster.brokers.values():
            clients, inside = free_ports(2)
            broker.overrides = {
                **broker.overrides,
                "broker__listeners": [
                    f"SASL_PLAINTEXT://127.0.0.1:{clients}", f"INSIDE://127.0.0.1:{inside}",
                ],
            }  # fmt: skip
        cluster.start()
        words = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": ROOT,
            "sasl.password": PASSWORD,
        }
        with BlockingClient(cluster.bootstrap, security=parse_security(words)) as client:
            write(client)
        first = cluster.brokers[1]
        outside, inside = (each.partition("//")[2] for each in first.overrides["broker__listeners"])
        assert error_of_follower(outside, parse_security(words)) == (
            ErrorCode.cluster_authorization_failed
        )
        known = error_of_follower(inside, PLAINTEXT)
        assert known == ErrorCode.stale_broker_epoch  # it may ask, and is not broker 2


def error_of_follower(bootstrap: str, security: Security) -> int:
    """What a fetch as broker 2 is answered, as a whole."""
    host, _, port = bootstrap.rpartition(":")
    request = fetch_request(topic="t", replica_id=2)
    deadline_ms = time.monotonic_ns() // 1_000_000 + 60_000
    address = Address(host, int(port))
    connection = SocketConnection.open(address, "c", deadline_ms, secured(security))
    try:
        connection.send(apis.FETCH, request._replace(topics=()), deadline_ms)
        return int(connection.receive(deadline_ms).error_code)
    finally:
        connection.close()


def test_broker_whose_own_name_is_no_super_user_says_so_at_the_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    own = authority.issue("broker")
    first, second = free_ports(2)
    broker = BrokerProcess(
        tmp_path / "b",
        start=False,
        broker__listeners=["SSL://127.0.0.1:0"],
        tls__certificate=str(own.certificate),
        tls__key=str(own.key),
        tls__ca=str(authority.certificate),
        tls__client_auth="required",
        raft__voters=[f"1@127.0.0.1:{first}", f"2@127.0.0.1:{second}"],
        raft__listener=f"127.0.0.1:{first}",
        acls__enabled=True,
        acls__super_users=["User:root"],
    )
    broker.spawn()
    wait_until(lambda: not broker.alive, 60, "the end")

    (line,) = broker.output.splitlines()
    assert line.startswith("error: acls.super_users lacks User:CN=broker, ")


def test_commands_say_to_a_page_who_asks(guarded: Guarded) -> None:
    where = ("--admin", guarded.broker.admin_url)

    code, said = guarded.josefine(ROOT, "cluster", "status", *where, "--json")
    assert (code, json.loads(said)["controller"]) == (0, 1), said
    assert "User:alice may not DESCRIBE" in guarded.josefine(ALICE, "cluster", "status", *where)[1]
    nobody = josefine(guarded.broker.bootstrap, "cluster", "status", *where)
    assert "User:ANONYMOUS may not DESCRIBE the cluster; give credentials" in nobody.err
    seen = {user: asyncio.run(_first_view(guarded, user)) for user in (ROOT, ALICE)}
    assert seen[ROOT]["counts"]["brokers"] == 1
    assert "403: User:alice may not DESCRIBE" in seen[ALICE]["error"]


def test_page_of_access_has_each_part_that_its_user_may_read(guarded: Guarded) -> None:
    rule = ("--user", ALICE, "--operation", "read", "--topic", "shown")
    assert guarded.josefine(ROOT, "acls", "add", *rule)[0] == 0
    quota = ("--user", ALICE, "--producer-byte-rate", "1000000")
    assert guarded.josefine(ROOT, "quotas", "set", *quota)[0] == 0

    with guarded.client(ROOT) as client, guarded.client(ALICE) as other:
        found, refused = access_page(client), access_page(other)

    shown = {
        "principal": "User:alice", "host": "*", "permission": "allow", "operation": "read",
        "resource": "topic", "name": "shown", "pattern": "literal",
    }  # fmt: skip
    assert shown in found["acls"]
    bounds = {"producer_byte_rate": 1_000_000.0}
    assert {"user": ALICE, "client_id": None, "bounds": bounds} in found["quotas"]
    assert [*map(str, refused["acls"])] == ["error"]
    assert guarded.josefine(ROOT, "acls", "remove", *rule, "--yes")[0] == 0
    assert guarded.josefine(ROOT, "quotas", "remove", "--user", ALICE, "--yes")[0] == 0


async def _first_view(guarded: Guarded, user: str) -> dict[str, Any]:
    """What the dashboard shows that this user started."""
    env = {CLIENT_CONFIG: str(guarded.config[user])}
    watcher = Watcher([guarded.broker.admin_url], headers=lambda url: http_headers(url, env))
    await watcher.start()
    try:
        found: dict[str, Any] = json.loads(await asyncio.wait_for(watcher.enter().get(), 60))
        return found
    finally:
        await watcher.stop()
