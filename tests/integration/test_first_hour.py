"""docs/first-hour.md: its steps are typed in their order, in one directory, as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.broker import REPOSITORY
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

PAGE = REPOSITORY / "docs" / "first-hour.md"
BROKER = "josefine broker\n"
RUN = "josefine pipeline run"
ROWS = re.compile(r"^\d+ +(\d+) +(\w+) +([\d.]+)$", re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Our command whether it is installed or not, and a free port in place of the default one:
    by variables, so that what is typed is what is printed."""
    commands = tmp_path / "bin"
    commands.mkdir()
    python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    for name, text in (("josefine", python.replace('"$@"', '-m josefine_cli.main "$@"')),
                       ("python3", python)):  # fmt: skip
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    port, raft = free_ports(2)
    return {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "JOSEFINE_BOOTSTRAP": f"127.0.0.1:{port}",
        "JOSEFINE__BROKER__LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "JOSEFINE__RAFT__LISTENER": f"127.0.0.1:{raft}",
        "JOSEFINE__ADMIN__ADDRESS": "127.0.0.1:0",
    }


@contextmanager
def first_terminal(step: str, here: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """The broker of the page, until the reader would type Ctrl-C."""
    with (here.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {step}"], cwd=here, env=environment, stdout=log, stderr=log
        )
    started = here / "data" / "broker-1" / "broker.addresses.json"
    try:
        wait_until(lambda: started.exists() or process.poll() is not None, 60, "the broker")
        assert process.poll() is None, (here.parent / "log").read_text()
        yield
    finally:
        process.kill()
        process.wait()


def outputs(steps: list[str], here: Path, environment: Mapping[str, str]) -> list[str]:
    """What each block of the second terminal prints."""
    printed: list[str] = []
    for step in steps:
        done = subprocess.run(
            ["bash", "-e", "-c", step], cwd=here, env=environment, capture_output=True, text=True,
            timeout=500,
        )  # fmt: skip
        assert done.returncode == 0, f"{step}\n{done.stderr}"
        printed.append(done.stdout)
    return printed


def test_records_are_written_and_read_and_become_a_checked_pipeline(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """All steps before the one that starts Spark."""
    (tmp_path / "here").mkdir()
    broker, *steps = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    first_run = next(at for at, step in enumerate(steps) if RUN in step)
    assert broker == BROKER

    with first_terminal(broker, tmp_path / "here", environment):
        records, pipeline = outputs(steps[:first_run], tmp_path / "here", environment)

    assert sorted(re.findall(r'"id": (\d)', records)) == ["1", "2", "3"]
    assert "orders.yaml: good (1 source, 1 transform, 1 sink)" in pipeline
    text = (tmp_path / "here" / "orders.yaml").read_text()
    assert 'schema: "id BIGINT, customer STRING, amount DOUBLE"' in text


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_page_ends_with_the_rows_in_the_table(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "here").mkdir()
    broker, *steps = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)

    with first_terminal(broker, tmp_path / "here", environment):
        printed = outputs(steps, tmp_path / "here", environment)

    three = [("1", "ann", "2.5"), ("2", "bob", "4.0"), ("3", "ann", "1.5")]
    assert sorted(ROWS.findall(printed[-2])) == three
    assert sorted(ROWS.findall(printed[-1])) == [*three, ("4", "eve", "7.0")]
    assert "id BIGINT" in printed[-1]
