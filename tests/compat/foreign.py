"""Members of consumer groups, and transactional producers, in other languages: a process each,
spoken to in lines.

A line says `poll`, `assigned`, `commit` or `close`, or `begin`, `send`, `commit`, `abort` and
`transform`; the answer is an object a line. The programs are in `foreign/`, built or fetched once
into the user's cache; without the language its tests are skipped, and say so.
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
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from josefine_arrow.cache.directory import cache_dir
from tests.compat.consumers import CALL_SECONDS, Read, Subscribe
from tests.support.apache_kafka import NAME, POM
from tests.support.maven import NoJarsError, jars_of

PROGRAMS = Path(__file__).with_name("foreign")
BUILD_SECONDS = 300


class ForeignError(RuntimeError):
    """What a client raised, in its own words."""


class Process:
    """One of them."""

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

    def ask(self, line: str) -> dict[str, Any]:
        """Raises ForeignError, queue.Empty where no answer comes."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        answer = self._answers.get(timeout=CALL_SECONDS)
        assert answer, f"it ended: {self._process.wait(CALL_SECONDS)}"
        said: dict[str, Any] = json.loads(answer)
        if said.get("error"):
            raise ForeignError(said["error"])
        return said

    def close(self) -> None:
        if self._process.poll() is None:
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(b"close\n")
                self._process.stdin.close()
                self._process.wait(CALL_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()


class Member(Process):
    """Of a consumer group."""

    def poll(self) -> list[Read]:
        return [
            Read(partition, offset, base64.b64decode(value))
            for partition, offset, value in self.ask("poll")["records"]
        ]

    def assigned(self) -> set[int]:
        return set(self.ask("assigned")["assigned"])

    def commit(self) -> None:
        self.ask("commit")


class Teller(Process):
    """A transactional producer that writes to one topic; ready when it is made."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(command)
        self.answer()

    def begin(self) -> None:
        self.ask("begin")

    def send(self, partition: int, value: str) -> None:
        """Back when it is acknowledged."""
        self.ask(f"send {partition} {value}")

    def commit(self) -> None:
        self.ask("commit")

    def abort(self) -> None:
        self.ask("abort")

    def transform(self, group: str, source: str, count: int, end: str) -> None:
        """A whole transaction: so many records of a topic, in capitals, and the group's offsets;
        `end` is commit or abort."""
        self.ask(f"transform {group} {source} {count} {end}")


def java(
    protocol: str, bootstrap: str, group: str, topic: str, instance_id: str | None = None
) -> Member:
    """Apache Kafka's own consumer. The static one is to join a member of librdkafka's."""
    if protocol == "consumer" and instance_id is not None:
        pytest.skip("a group has members of one protocol")
    return Member(
        java_command("GroupMember", protocol, bootstrap, group, topic, instance_id or "-")
    )


def go(
    client: str, bootstrap: str, group: str, topic: str, instance_id: str | None = None
) -> Member:
    """franz-go or Sarama."""
    return Member([_go_program(), "member", client, bootstrap, group, topic, instance_id or "-"])


def kafkajs(bootstrap: str, group: str, topic: str, instance_id: str | None = None) -> Member:
    """It has no static members."""
    if instance_id is not None:
        pytest.skip("kafkajs has no static members")
    return Member(["node", str(_node_folder() / "kafkajs.js"), bootstrap, group, topic])


NewTeller = Callable[..., Teller]
"""(bootstrap, transactional id, topic, timeout_ms=60_000) → a producer whose id is its own."""


def java_teller(bootstrap: str, id_: str, topic: str, timeout_ms: int = 60_000) -> Teller:
    """Apache Kafka's own producer."""
    return Teller(java_command("Teller", bootstrap, id_, topic, str(timeout_ms)))


def go_teller(
    client: str, bootstrap: str, id_: str, topic: str, timeout_ms: int = 60_000
) -> Teller:
    """franz-go or Sarama."""
    return Teller([_go_program(), "teller", client, bootstrap, id_, topic, str(timeout_ms)])


def franz(tool: str, bootstrap: str, *arguments: str) -> Any:
    """What a tool of `franz_tools.go` says. Raises ForeignError."""
    command = [_go_program(), tool, "franz-go", bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if done.returncode != 0:
        raise ForeignError(done.stderr.strip())
    return json.loads(done.stdout)


def kafkajs_teller(bootstrap: str, id_: str, topic: str, timeout_ms: int = 60_000) -> Teller:
    program = str(_node_folder() / "teller.js")
    return Teller(["node", program, bootstrap, id_, topic, str(timeout_ms)])


def java_command(program: str, *arguments: str) -> list[str]:
    """How a program of `foreign/` is run. Skips the test where Java or its jars are not there."""
    _needs("javac")
    return tool_command(str(PROGRAMS / f"{program}.java"), *arguments)


def tool_command(main: str, *arguments: str) -> list[str]:
    """How a class of Apache Kafka's is run. Skips likewise."""
    _needs("java")
    try:
        jars = os.pathsep.join(jars_of(POM, NAME))
    except NoJarsError as error:
        pytest.skip(str(error))
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *quick, quiet, main, *arguments]


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
            for file in (PROGRAMS / "package.json", *PROGRAMS.glob("*.js")):
                shutil.copy(file, scratch)
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

TELLERS: dict[str, NewTeller] = {
    "java": java_teller,
    "franz-go": partial(go_teller, "franz-go"),
    "sarama": partial(go_teller, "sarama"),
    "kafkajs": kafkajs_teller,
}
