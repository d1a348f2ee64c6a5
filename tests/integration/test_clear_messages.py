"""Messages of the command for common mistakes, at real brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_cli.base.errors import CLIENT_CONFIG
from tests.support.broker import BrokerProcess
from tests.support.cli import Done, josefine

pytestmark = pytest.mark.timeout(120)
ROOT, ALICE, PASSWORD = "root", "alice", "open, sesame=1"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Path]]:
    """A broker that wants logins and has ACLs, and the folder of its users' settings."""
    directory = tmp_path_factory.mktemp("guarded")
    users = directory / "users"
    users.write_text(f"{ROOT}={PASSWORD}\n{ALICE}={PASSWORD}\n")
    users.chmod(0o600)
    for user in (ROOT, ALICE):
        (directory / user).write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f"sasl.username={user}\nsasl.password={PASSWORD}\n"
        )
    with BrokerProcess(
        directory / "broker",
        broker__listeners=["SASL_PLAINTEXT://127.0.0.1:0"],
        sasl__users=str(users),
        acls__enabled=True,
        acls__super_users=[f"User:{ROOT}"],
    ) as broker:
        yield broker, directory


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker without settings, with two records in `t`."""
    with BrokerProcess(tmp_path_factory.mktemp("plain")) as broker:
        josefine(broker.bootstrap, "topics", "create", "t")
        josefine(broker.bootstrap, "produce", "t", stdin="a\nb\n")
        yield broker


def test_a_client_without_a_login_learns_that_the_listener_wants_one_within_seconds(
    guarded: tuple[BrokerProcess, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, _ = guarded
    monkeypatch.delenv(CLIENT_CONFIG, raising=False)
    started_s = time.monotonic()

    done = josefine(broker.bootstrap, "topics", "list")

    assert done.code == 1
    assert f"{broker.bootstrap} closes the connection at its first request" in done.err
    assert "set security.protocol to SASL_SSL or SASL_PLAINTEXT" in done.err
    assert time.monotonic() - started_s < 20  # it was 30 s, and on an idle machine it is one


def test_a_user_who_may_not_write_learns_which_right_is_missing(
    guarded: tuple[BrokerProcess, Path],
) -> None:
    broker, directory = guarded

    def as_user(user: str, *arguments: str) -> Done:
        settings = str(directory / user)
        return josefine(broker.bootstrap, "--client-config", settings, *arguments, stdin="a\n")

    assert as_user(ROOT, "topics", "create", "t").code == 0
    unseen = as_user(ALICE, "produce", "t")
    allowed = as_user(
        ROOT, "acls", "add", "--user", ALICE, "--operation", "describe", "--topic", "t"
    )
    unwritten = as_user(ALICE, "produce", "t")

    assert allowed.code == 0, allowed.err
    assert unseen.err.startswith("error: partition t-0: topic authorization failed: this user")
    assert unwritten.err.startswith("error: this user may write to no topic: it needs an ACL")
    assert "WRITE on the topic" in unwritten.err


def test_tls_to_a_listener_without_it_is_one_sentence(plain: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("security.protocol=SSL\n")

    done = josefine(plain.bootstrap, "--client-config", str(tmp_path / "tls"), "topics", "list")

    assert done.err.count("\n") == 1
    assert "hung up on, perhaps a listener without TLS" in done.err


def test_records_after_the_end_are_not_deleted_and_the_end_is_named(plain: BrokerProcess) -> None:
    done = josefine(plain.bootstrap, "delete-records", "t", "--before", "0:1000", "--yes")
    whole = josefine(plain.bootstrap, "delete-records", "t", "--before", "0:2", "--yes")

    assert (done.code, done.err) == (
        1,
        "error: partition 0 of 't' ends at offset 2, before 1000: nothing was deleted; "
        "0:end deletes all its records\n",
    )
    assert (whole.code, whole.out) == (0, "partition 0 starts at offset 2\n"), whole.err


def test_an_unknown_topic_or_group_is_answered_with_the_nearest_one(plain: BrokerProcess) -> None:
    josefine(plain.bootstrap, "topics", "create", "payments")
    josefine(plain.bootstrap, "produce", "payments", stdin="a\n")
    josefine(plain.bootstrap, "consume", "payments", "--group", "readers", "--max", "1")

    for verb in (("consume",), ("produce",), ("delete-records", "--before", "0:end", "--yes")):
        done = josefine(plain.bootstrap, verb[0], "payment", *verb[1:], stdin="x\n")
        assert done.err == (
            "error: topic 'payment' does not exist: did you mean 'payments'? "
            "If not: josefine topics create payment\n"
        )
    described = josefine(plain.bootstrap, "groups", "describe", "reader")
    assert described.err == "error: group 'reader' does not exist: did you mean 'readers'?\n"


def test_a_key_goes_with_every_record_that_has_none_of_its_own(plain: BrokerProcess) -> None:
    josefine(plain.bootstrap, "topics", "create", "keyed")
    lines = '{"value": "a"}\n{"key": "own", "value": "b"}\n'

    done = josefine(
        plain.bootstrap, "produce", "keyed", "--key", "k1", "--format", "json", stdin=lines
    )
    both = josefine(plain.bootstrap, "produce", "keyed", "--key", "k", "-k", ":", stdin="a:b\n")
    read = josefine(plain.bootstrap, "consume", "keyed", "--json")

    assert done.code == 0, done.err
    assert [json.loads(line)["key"] for line in read.out.splitlines()] == ["k1", "own"]
    assert "--key and --key-separator are two ways to set the key" in both.err


def test_a_topic_that_no_schema_can_be_inferred_from_gets_no_file(
    plain: BrokerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    for topic, lines in (("empty", ""), ("text", "a\nb\n"), ("mixed", 'x\n{"id": 1}\n')):
        josefine(plain.bootstrap, "topics", "create", topic)
        josefine(plain.bootstrap, "produce", topic, stdin=lines)

    def init(topic: str) -> Done:
        return josefine(plain.bootstrap, "pipeline", "init", str(file), "--topic", topic)

    assert "topic 'empty' has no records to infer a schema from: produce some" in init("empty").err
    assert "topic 'text': none of 2 records is a JSON object with fields" in init("text").err
    assert not file.exists()
    assert init("mixed").err == "1 record of 2 not in JSON: dead letters of a run\n"
    assert 'schema: "id BIGINT"' in file.read_text()
