"""What `josefine doctor` makes of facts, and that it, and `config`, tell them."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from josefine_broker.config.broker_config import BrokerConfig
from josefine_cli.broker.doctor_checks import Facts, diagnose
from tests.support.certificates import Authority
from tests.support.cli import josefine

WELL = Facts(
    python=(3, 11), optimized=False, descriptors=65_536, data_dir_trouble="", free_bytes=2**40,
    file_system="ext4", sync_ms=4.0, taken=(),
)  # fmt: skip
VOTERS = ["1@a:9093", "2@b:9093"]


def levels(facts: Facts, **sections: dict[str, object]) -> dict[str, str]:
    config = BrokerConfig.model_validate(sections)
    return {each.what: each.level for each in diagnose(facts, config) if each.level != "ok"}


def test_well_machine_with_the_defaults_has_nothing_to_mend() -> None:
    assert levels(WELL) == {}


@pytest.mark.parametrize(
    ("changed", "word", "level"),
    [
        (replace(WELL, python=(3, 10)), "Python 3.10", "error"),
        (replace(WELL, optimized=True), "-O", "error"),
        (replace(WELL, descriptors=20), "open files", "error"),
        (replace(WELL, descriptors=1_024), "open files", "warning"),
        (replace(WELL, data_dir_trouble="permission denied"), "permission denied", "error"),
        (replace(WELL, free_bytes=5), "5 bytes free", "error"),
        (replace(WELL, file_system="nfs4"), "nfs4", "warning"),
        (replace(WELL, sync_ms=80.0), "80 ms", "warning"),
        (replace(WELL, taken=("cannot listen on h:1 (raft): taken",)), "h:1", "error"),
    ],
)
def test_each_lack_is_found(changed: Facts, word: str, level: str) -> None:
    ((what, found),) = levels(changed).items()

    assert word in what
    assert found == level


def test_cluster_that_cannot_be_reached_or_loses_data_is_told() -> None:
    found = " ".join(levels(WELL, raft={"voters": VOTERS}, broker={"id": 1}))

    assert "names 2 brokers" in found
    assert "reached from this machine alone" in found
    assert "one replica" in found
    assert "without a password" in " ".join(levels(WELL, admin={"address": "0.0.0.0:9644"}))


OPEN = "0.0.0.0"
CLIENTS = {"listeners": [f"PLAINTEXT://{OPEN}:9092"]}
NAMED = {"certificate": "c", "ca": "a", "client_auth": "required"}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"broker": CLIENTS}, ["records can be read", "9092 has no auth"]),
        ({"broker": CLIENTS, "acls": {"enabled": True, "super_users": ["User:a"]}},
         ["records can be read"]),
        ({"broker": {"listeners": [f"SASL_PLAINTEXT://{OPEN}:9092"]}, "sasl": {"users": "u"}},
         ["records and passwords can be read"]),
        ({"broker": {"listeners": [f"SASL_SSL://{OPEN}:9092"]}, "sasl": {"users": "u"},
          "tls": {"certificate": "c"}}, []),
        ({"broker": {"listeners": [f"SSL://{OPEN}:9092"]}, "tls": {"certificate": "c"}},
         ["9092 has no auth"]),
        ({"broker": {"listeners": [f"SSL://{OPEN}:9092"]}, "tls": NAMED}, []),
        ({"broker": {"listeners": [f"SSL://{OPEN}:9092"]},
          "tls": {"by_listener": {"SSL": NAMED}}}, []),
        ({"broker": {"listeners": [f"SSL://{OPEN}:9092"]},
          "tls": {**NAMED, "by_listener": {"SSL": {"client_auth": "none"}}}},
         ["9092 has no auth"]),
        ({"raft": {"listener": f"{OPEN}:9093"}}, ["can act as a broker"]),
        ({"raft": {"listener": f"{OPEN}:9093"}, "raft_tls": {"certificate": "c", "ca": "a"}}, []),
        ({"text": {"port": 9099, "host": OPEN}}, ["9099 is plaintext", "9099 has no auth"]),
        ({"text": {"port": 9099, "host": OPEN, "tls": True}, "tls": NAMED}, []),
        ({"text": {"port": 9099, "host": OPEN, "tls": True}, "tls": {"certificate": "c"},
          "acls": {"enabled": True, "super_users": ["User:a"]}}, []),
        ({"admin": {"address": f"{OPEN}:9644"}}, ["9644 is open to everyone"]),
        ({"admin": {"address": f"{OPEN}:9644"},
          "acls": {"enabled": True, "super_users": ["User:a"]}}, ["passwords in plaintext"]),
        ({"admin": {"address": f"{OPEN}:9644", "tls": True}, "tls": {"certificate": "c"},
          "acls": {"enabled": True, "super_users": ["User:a"]}}, []),
        ({"admin": {"address": f"{OPEN}:9644", "tls": True}, "tls": NAMED}, []),
    ],
)  # fmt: skip
def test_what_is_open_to_strangers_is_told_and_nothing_else(
    sections: dict[str, dict[str, object]], said: list[str]
) -> None:
    found = levels(WELL, **sections)

    assert set(found.values()) <= {"warning"}
    assert len(found) == len(said)
    assert [what for what, word in zip(found, said, strict=True) if word not in what] == []


def secured(directory: Path, days: int, key: str = "", more: str = "") -> Path:
    """A configuration whose certificate is valid for so long; `more` is about its TLS."""
    own = Authority(directory / "ca").issue("broker", days=days)
    file = directory / "broker.yaml"
    file.write_text(
        f"broker: {{data_dir: {directory}/new, listeners: ['SSL://127.0.0.1:0']}}\n"
        "raft: {listener: '127.0.0.1:0'}\nadmin: {address: '127.0.0.1:0'}\n"
        f"tls: {{certificate: {own.certificate}, key: {key or own.key}{more}}}\n"
    )
    return file


@pytest.mark.parametrize(
    ("days", "said"), [(30, ""), (7, "tls.certificate"), (-1, "expired on")], ids=str
)
def test_certificates_that_are_over_or_soon_are_told(tmp_path: Path, days: int, said: str) -> None:
    file = secured(tmp_path, days)

    checked = josefine("", "config", "check", str(file))
    doctor = josefine("", "doctor", "--config", str(file), "--json")

    assert (checked.code, doctor.code) == (0, 0)
    assert ("warning: " in checked.err, said in checked.err) == (bool(said), True)
    warned = [each["what"] for each in json.loads(doctor.out) if each["level"] == "warning"]
    assert [said in each for each in warned] == [True] * bool(said)


def test_files_with_which_no_broker_starts_are_told(tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").issue("other").key
    file = secured(tmp_path, 30, str(other))

    checked = josefine("", "config", "check", str(file))
    doctor = josefine("", "doctor", "--config", str(file), "--json")

    assert (checked.code, doctor.code) == (1, 1)
    assert f"{file}: tls.key: {other} is not the key of the certificate" in checked.err
    errors = [each["what"] for each in json.loads(doctor.out) if each["level"] == "error"]
    assert [str(other) in each for each in errors] == [True]
    assert josefine("", "config", "check", str(file), "--no-files").code == 0
    other.unlink()
    assert "no such file" in josefine("", "config", "check", str(file)).err


def test_own_files_of_a_listener_are_read_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "listener")
    soon, other = authority.issue("soon", days=7), authority.issue("other")

    def check(key: Path) -> str:
        own = f"{{SSL: {{certificate: {soon.certificate}, key: {key}}}}}"
        file = secured(tmp_path, 30, more=f", by_listener: {own}")
        return josefine("", "config", "check", str(file)).err

    told = f"warning: tls.by_listener.SSL.certificate {soon.certificate} expires on"
    assert told in check(soon.key)
    assert f"tls.by_listener.SSL.key: {other.key} is not the key of the" in check(other.key)


def test_doctor_names_the_address_that_is_taken_and_fails(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(
            f"broker: {{data_dir: {tmp_path}/new, listeners: ['PLAINTEXT://{address}']}}\n"
            "raft: {listener: '127.0.0.1:0'}\nadmin: {address: '127.0.0.1:0'}\n"
        )
        done = josefine("", "doctor", "--config", str(file), "--json")

    assert done.code == 1
    errors = [each for each in json.loads(done.out) if each["level"] == "error"]
    assert [address in each["what"] for each in errors] == [True]
    assert not (tmp_path / "new").exists()


def test_config_check_names_the_place_of_a_mistake(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("broker: {id: 7}\n")
    bad.write_text("broker:\n  idd: 7\n")

    assert josefine("", "config", "check", str(good)).out == f"{good}: ok, broker 7\n"
    refused = josefine("", "config", "check", str(bad))
    assert refused.code != 0
    assert f"{bad}:2" in refused.err
    assert "broker.id" in refused.err
    assert json.loads(josefine("", "config", "show", str(good), "--json").out)["broker"]["id"] == 7


def test_place_before_which_records_go_is_checked() -> None:
    refused = josefine("127.0.0.1:1", "delete-records", "orders", "--before", "0", "--yes")

    assert refused.code == 2
    assert "'0' is not PARTITION:OFFSET" in refused.err
