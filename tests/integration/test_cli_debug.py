"""`josefine debug bundle` at a protected broker: what is in it, and that no secret is."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from josefine_cli.base.errors import EXIT_USAGE
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine

AWAY = ("--admin", "127.0.0.1:1")
PASSWORD, WORD, RECORD = "open, sesame=1", "hunter22", "payload-of-a-record"


def members(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        found = {}
        for each in archive.getmembers():
            data = archive.extractfile(each)
            assert data is not None
            found[each.name.partition("/")[2]] = data.read().decode()
        return found


def test_a_bundle_has_every_part_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    users, login, log = tmp_path / "users", tmp_path / "login", tmp_path / "app.log"
    users.write_text(f"root={PASSWORD}\n")
    users.chmod(0o600)
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username=root\nsasl.password={PASSWORD}\n"
    )
    log.write_text(f"connecting with {PASSWORD}\nsent token {WORD}\nready\n")
    monkeypatch.setenv("APP_TOKEN", WORD)
    monkeypatch.setenv("JOSEFINE_CLIENT_CONFIG", str(login))
    with BrokerProcess(
        tmp_path / "broker",
        broker__listeners=["SASL_PLAINTEXT://127.0.0.1:0"],
        sasl__users=str(users),
        acls__enabled=True,
        acls__super_users=["User:root"],
    ) as broker:
        where = broker.bootstrap
        assert josefine(where, "topics", "create", "orders").code == 0
        assert josefine(where, "produce", "orders", stdin=f"{RECORD}\n").code == 0
        files = ("--config", str(broker.config_file), "--config", str(login), "--log", str(log))
        done = josefine(where, "debug", "bundle", "--to", "b.tar.gz", *files, "--json")
    stopped = josefine(where, "debug", "bundle", "--to", "c.tar.gz", *AWAY, "--log", str(log))

    assert (done.code, done.err) == (0, "")
    parts = members(tmp_path / "b.tar.gz")
    assert json.loads(done.out) == {
        "file": "b.tar.gz", "parts": sorted(parts), "missing": [],
    }  # fmt: skip
    assert {
        "about.json", "missing.txt", "kafka/topics.json", "kafka/broker_configs.json",
        "broker-1/health.json", "broker-1/metrics.txt", "config/0-broker.yaml",
        "config/1-login", "logs/0-app.log",
    } <= set(parts)  # fmt: skip
    assert "orders" in parts["kafka/topics.json"]
    assert "sasl.username=root" in parts["config/1-login"]
    assert parts["logs/0-app.log"] == "connecting with ***\nsent token ***\nready\n"
    whole = "\n".join(parts.values())
    assert not [each for each in (PASSWORD, WORD, RECORD) if each in whole]
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600
    # Without brokers it has the rest, and names what is missing.
    assert stopped.code == 0
    assert "kafka of " in stopped.out
    assert "logs/0-app.log" in members(tmp_path / "c.tar.gz")


def test_a_private_key_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\n"
    (tmp_path / "a.log").write_text(key)

    done = josefine("127.0.0.1:1", "debug", "bundle", *AWAY, "--log", "a.log", "--to", "b.tar.gz")
    absent = josefine("127.0.0.1:1", "debug", "bundle", "--log", "no.log", "--to", "b.tar.gz")
    (tmp_path / "b.tar.gz").touch()
    again = josefine("127.0.0.1:1", "debug", "bundle", "--to", "b.tar.gz")

    assert done.err.endswith(
        "error: nothing was written: logs/0-a.log: it has a private key in PEM; "
        "leave this file out\n"
    )
    assert "MIIEvQ" not in done.err
    assert absent.err == "error: cannot read no.log: no such file or directory\n"
    assert "b.tar.gz exists already" in again.err
    assert (absent.code, again.code) == (EXIT_USAGE, EXIT_USAGE)
    assert (tmp_path / "b.tar.gz").stat().st_size == 0
