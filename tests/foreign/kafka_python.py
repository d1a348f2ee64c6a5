"""kafka-python's integration tests, as its source distribution has them, against one broker."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

from tests.foreign.suite import (
    FAILED,
    PASSED,
    SKIPPED,
    Needs,
    Outcome,
    Outcomes,
    build_step,
    built,
    environment,
    why_no,
)

KAFKA_VERSION = "4.3.0"
"""The tests that the suite selects, and the requests that it expects: those of this version."""
LIMIT_SECONDS = 1_800
SERVICE = '''"""Stands in for the module of the suite that starts brokers."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def stop(self):
        pass


class SpawnedService:
    pass
'''
LISTENERS = "the suite configures the listeners of these tests itself, for brokers that it starts"
RESULTS = {"failure": FAILED, "error": FAILED, "skipped": SKIPPED}


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"
    version = "3.0.12"
    needs = Needs(
        overrides={
            "topic_defaults__partitions": 4,
            "group__initial_rebalance_delay_ms": 0,
            "group__min_session_timeout_ms": 1_000,
            "acls__enabled": True,
            "acls__super_users": ["User:ANONYMOUS"],
        }
    )
    """As the suite configures the brokers that it starts itself."""
    excluded: Mapping[str, str] = {
        "test_sasl_integration::*": LISTENERS,
        "test_ssl_integration.*": LISTENERS,
        "test_admin_integration::test_create_partitions": (
            "it assigns replicas to broker 0, which the suite starts; brokers are numbered from 1"
            " here"
        ),
    }
    reasons: Mapping[str, str] = {}

    def why_not(self) -> str:
        return why_no("tar")

    def build(self) -> None:
        self._folder()

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        folder, report = self._folder(), scratch / "report.xml"
        command = [
            str(folder / "venv/bin/python"), "-m", "pytest", "test/integration", "-q",
            "--tb=native", "--timeout=120", "--timeout-method=signal",
            f"--junitxml={report}", f"-o=cache_dir={scratch}",
        ]  # fmt: skip
        settings = environment(
            KAFKA_URI=f"kafka://{bootstrap}",
            KAFKA_VERSION=KAFKA_VERSION,
            KAFKA_ROOT=str(scratch),  # of a Kafka to start brokers of: any folder that is there
        )
        done = subprocess.run(
            command, cwd=folder / "source", env=settings, capture_output=True, text=True,
            timeout=LIMIT_SECONDS,
        )  # fmt: skip
        (scratch / "output.txt").write_text(done.stdout + done.stderr)
        return outcomes_of(report.read_text())

    def _folder(self) -> Path:
        return built(f"kafka-python-{self.version}", self._make)

    def _make(self, folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        wanted = f"kafka-python=={self.version}"
        build_step([*pip, "download", "--no-deps", "--no-binary=:all:", wanted], folder)
        (folder / "source").mkdir()
        (archive,) = folder.glob("*.tar.gz")
        unpack = ["tar", "xzf", str(archive), "--strip-components=1", "-C", "source"]
        build_step(unpack, folder)
        # The archive leaves out two files: without the first, Python's own package `test` is
        # imported, and the second starts brokers, which is not wanted here.
        (folder / "source/test/__init__.py").touch()
        (folder / "source/test/service.py").write_text(SERVICE)
        # The interpreter's path is written into a virtual environment, and its folder is not final
        # yet: `python -m` is used, which does not look at it.
        build_step([sys.executable, "-m", "venv", "venv"], folder)
        own = [str(folder / "venv/bin/python"), *pip[1:]]
        build_step([*own, "install", "./source[testing,crc32c,lz4,snappy,zstd]"], folder)


def outcomes_of(report: str) -> Outcomes:
    """Of a JUnit report."""
    outcomes: dict[str, Outcome] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        place = case.get("classname", "").removeprefix("test.integration.")
        test = f"{place}::{case.get('name')}"
        found = [each for each in case if each.tag in RESULTS]
        if not found:
            outcomes.setdefault(test, Outcome(PASSED))
        else:  # an error of the teardown comes after the test's own result
            outcomes[test] = Outcome(RESULTS[found[0].tag], (found[0].get("message") or "")[:300])
    return outcomes
