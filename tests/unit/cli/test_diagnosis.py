"""What `josefine doctor` makes of facts, and that it, and `config`, tell them."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from josefine_broker.config import BrokerConfig
from josefine_cli.diagnosis import Facts, diagnose
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
