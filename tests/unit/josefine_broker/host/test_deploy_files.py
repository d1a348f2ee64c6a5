"""The files of conf/deploy say what a broker takes, and the commands in them are there."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from conf.distributions.table import DISTRIBUTIONS
from josefine_broker.config.broker_config import BrokerConfig, load_config
from josefine_cli.verbs import VERBS
from pipelines.config.validate import read_pipeline
from tests.support.certificates import Authority

ROOT = Path(__file__).resolve().parents[4]
DEPLOY = ROOT / "conf/deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def composed() -> Mapping[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def compose() -> Mapping[str, Any]:
    services: dict[str, Any] = composed()["services"]
    return services


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
    brokers = {name: each for name, each in compose().items() if name.startswith("broker")}

    one_cluster([load_config(None, service["environment"]) for service in brokers.values()])


def test_composed_pipeline_is_one_that_there_is_and_reaches_the_brokers_among_themselves() -> None:
    service = compose()["pipeline"]
    mounts = dict(each.split(":")[:2] for each in service["volumes"])
    (source, target) = next(each for each in mounts.items() if each[0].startswith(".."))
    file = DEPLOY / source / Path(service["command"][-1]).relative_to(target)

    assert service["command"][:2] == ["pipeline", "run"]
    pipeline = read_pipeline(file, service["environment"])
    (read,) = pipeline.sources.values()
    inside = {
        str(address).removeprefix("INSIDE://")
        for name, each in compose().items()
        if name.startswith("broker")
        for address in load_config(None, each["environment"]).broker.advertised_listeners
    }
    assert {*read.bootstrap.split(",")} <= inside
    kept = [target for source, target in mounts.items() if source in composed()["volumes"]]
    assert {pipeline.sinks["flights"].path.startswith(each) for each in kept} == {True}


def test_image_is_built_of_what_wheels_are_made_of_and_of_nothing_else() -> None:
    """Docker's rules: the last line that fits decides."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [each for each in lines if each and not each.startswith("#")]
    assert rules[0] == "*"
    taken = {each[1:] for each in rules if each.startswith("!")}

    wanted = {source.split("/")[0] for each in DISTRIBUTIONS for source in each.sources}
    documents = {"pyproject.toml", "README.md", "LICENSE"}
    assert taken == wanted | documents | {"conf"}
    assert [each for each in sorted(taken) if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_check_of_the_image_follows_the_broker_in_its_health_and_its_tls(
    scheme: str, tmp_path: Path
) -> None:
    """The line of the Dockerfile, at a server of ours."""
    (line,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", (DEPLOY / "Dockerfile").read_text(), re.M)
    python, *arguments = json.loads(line)
    assert python == "python"
    arguments[-1] = arguments[-1].replace("/var/lib/josefine", str(tmp_path))
    statuses = [200, 503]

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/health/ready"
            self.send_response(statuses.pop(0))
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        if scheme == "https":
            own = Authority(tmp_path / "ca").issue("broker")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(own.certificate, own.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        admin = f"{scheme}://127.0.0.1:{server.server_port}"
        (tmp_path / "broker.addresses.json").write_text(json.dumps({"admin": admin}))
        codes = [
            subprocess.run([sys.executable, *arguments], timeout=60, capture_output=True).returncode
            for _ in (200, 503)
        ]
        server.shutdown()
        thread.join()

    assert codes == [0, 1]


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
