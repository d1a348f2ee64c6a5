"""Members of consumer groups in other languages: a process each, spoken to in lines.

A line says `poll`, `assigned`, `commit` or `close`; the answer is an object a line. The programs
are in `foreign/`, built or fetched once into the user's cache; without the language its tests are
skipped, and say so.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from functools import cache, partial
from pathlib import Path

import pytest

from josefine_spark.cache import cache_dir
from tests.compat.consumers import CALL_SECONDS, Read, Subscribe
from tests.support.apache_kafka import NAME, POM
from tests.support.maven import NoJarsError, jars_of

PROGRAMS = Path(__file__).with_name("foreign")
BUILD_SECONDS = 300


class ForeignError(RuntimeError):
    """What a client raised, in its own words."""


class Foreign:
    """One process."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def _ask(self, line: str) -> dict[str, list[list[int | str]]]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        answer = self._answers.get(timeout=CALL_SECONDS)
        assert answer, f"it ended: {self._process.wait(CALL_SECONDS)}"
        said = json.loads(answer)
        if said.get("error"):
            raise ForeignError(said["error"])
        return said

    def poll(self) -> list[Read]:
        return [
            Read(int(partition), int(offset), base64.b64decode(str(value)))
            for partition, offset, value in self._ask("poll")["records"]
        ]

    def assigned(self) -> set[int]:
        return set(self._ask("assigned")["assigned"])

    def commit(self) -> None:
        self._ask("commit")

    def close(self) -> None:
        if self._process.poll() is None:
            try:
                self._process.communicate(b"close\n", timeout=CALL_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()


def java(
    protocol: str, bootstrap: str, group: str, topic: str, instance_id: str | None = None
) -> Foreign:
    """Apache Kafka's own consumer. The static one is to join a member of librdkafka's."""
    if protocol == "consumer" and instance_id is not None:
        pytest.skip("a group has members of one protocol")
    _needs("javac")
    try:
        jars = os.pathsep.join(jars_of(POM, NAME))
    except NoJarsError as error:
        pytest.skip(str(error))
    program = str(PROGRAMS / "GroupMember.java")
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars)
    return Foreign(["java", *quick, program, protocol, bootstrap, group, topic, instance_id or "-"])


def go(
    client: str, bootstrap: str, group: str, topic: str, instance_id: str | None = None
) -> Foreign:
    """franz-go or Sarama."""
    return Foreign([_go_program(), client, bootstrap, group, topic, instance_id or "-"])


def kafkajs(bootstrap: str, group: str, topic: str, instance_id: str | None = None) -> Foreign:
    """It has no static members."""
    if instance_id is not None:
        pytest.skip("kafkajs has no static members")
    return Foreign(["node", str(_node_folder() / "kafkajs.js"), bootstrap, group, topic])


@cache
def _go_program() -> str:
    _needs("go")
    made = cache_dir("foreign") / f"go-{_digest('*.go', 'go.*')}"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            built = Path(scratch, "member")
            _build(["go", "build", "-o", str(built), "."], PROGRAMS)
            built.rename(made)
    return str(made)


@cache
def _node_folder() -> Path:
    _needs("npm")
    made = cache_dir("foreign") / f"node-{_digest('*.js', '*.json')}"
    if not made.is_dir():
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            for name in ("package.json", "kafkajs.js"):
                shutil.copy(PROGRAMS / name, scratch)
            _build(["npm", "install", "--no-audit", "--no-fund", "--silent"], Path(scratch))
            shutil.copytree(scratch, made)
    return made


def _digest(*patterns: str) -> str:
    files = sorted(file for pattern in patterns for file in PROGRAMS.glob(pattern))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _needs(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool} on this machine")


def _build(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")


FOREIGN: dict[str, Subscribe] = {
    "java": partial(java, "classic"),
    "java-heartbeats": partial(java, "consumer"),
    "franz-go": partial(go, "franz-go"),
    "sarama": partial(go, "sarama"),
    "kafkajs": kafkajs,
}
