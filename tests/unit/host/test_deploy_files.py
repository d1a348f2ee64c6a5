"""The files of conf/deploy say what a broker takes, and the commands in them are there."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from josefine_broker.config import BrokerConfig, load_config
from josefine_cli.verbs import VERBS

DEPLOY = Path(__file__).resolve().parents[3] / "conf/deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def compose() -> Mapping[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded["services"]


def stateful_set() -> Mapping[str, Any]:
    documents = yaml.safe_load_all((DEPLOY / "statefulset.yaml").read_text())
    return next(each for each in documents if each["kind"] == "StatefulSet")


def pod(number: int) -> BrokerConfig:
    """The configuration of one pod: its environment and what its shell line exports."""
    (container,) = stateful_set()["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    name = f"josefine-{number}"
    exported = container["args"][0].split("exec")[0] + " env"
    told = subprocess.run(
        ["/bin/sh", "-c", exported], env={"HOSTNAME": name, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=30,
    ).stdout  # fmt: skip
    env |= dict(re.findall(r"^(JOSEFINE__\w+)=(.*)$", told, re.MULTILINE))
    return load_config(None, env)


def one_cluster(nodes: list[BrokerConfig]) -> None:
    assert [node.broker.id for node in nodes] == [1, 2, 3]
    assert len({node.raft.voters for node in nodes}) == 1
    assert len({node.broker.advertised_listeners for node in nodes}) == 3
    assert {node.topic_defaults.min_insync_replicas for node in nodes} == {2}


def test_composed_brokers_form_one_cluster() -> None:
    one_cluster([load_config(None, service["environment"]) for service in compose().values()])


def test_pods_form_one_cluster_by_their_names() -> None:
    nodes = [pod(number) for number in range(3)]

    one_cluster(nodes)
    assert str(nodes[0].broker.advertised_listeners[0]).endswith("josefine-0.josefine:9092")


def test_probes_ask_what_there_is() -> None:
    (container,) = stateful_set()["spec"]["template"]["spec"]["containers"]
    paths = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness")}

    assert paths == {"/health/live"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_units_run_verbs_that_there_are_and_pipelines_are_not_killed_with_their_jvm() -> None:
    text = "".join(unit.read_text() for unit in UNITS)
    pipeline = (DEPLOY / "josefine-pipeline@.service").read_text()

    assert set(re.findall(r"/bin/josefine (\w+)", text)) <= set(VERBS)
    assert re.search(r"^KillMode=mixed$", pipeline, re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name.replace("@", "@flights")
    copy.write_text(re.sub(r"/opt/josefine/bin/josefine", "/bin/true", unit.read_text()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert [line for line in done.stderr.splitlines() if unit.name.split("@")[0] in line] == []
