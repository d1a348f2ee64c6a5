"""The recipe for three machines in docs/how-to/cluster.md: its lines, run in three namespaces."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.broker import COMMAND, REPOSITORY, START_TIMEOUT_S
from tests.support.cli import Done, josefine
from tests.support.namespaces import CLIENT, Lab
from tests.support.waiting import wait_until

NAMES = {1: "one", 2: "two", 3: "three"}
"""Of the machines, in the recipe."""


def recipe(lab: Lab, id_: int) -> list[str]:
    """What the reader types on this machine; its machines' names become the namespaces'."""
    text = (REPOSITORY / "docs/how-to/cluster.md").read_text()
    found = re.search(r"```\n(HERE=one\nsed .*\n)josefine (broker .*)\n```", text)
    assert found, "the recipe is not where it was"
    typed = found[1].replace("HERE=one", f"HERE={NAMES[id_]}")
    for each, name in NAMES.items():
        typed = re.sub(rf"(?<=[=@]){name}\b", lab.address(each), typed)
    return [typed, found[2].replace("node-1", f"node-{id_}")]


@contextmanager
def machines(lab: Lab, directory: Path) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """The brokers of the recipe, each in a namespace and a working directory of its own."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for id_ in NAMES:
            home = directory / NAMES[id_]
            shutil.copytree(REPOSITORY / "conf", home / "conf")
            edit, command = recipe(lab, id_)
            subprocess.run(["bash", "-ec", edit], cwd=home, check=True, timeout=30)
            with (home / "log").open("wb") as log:
                running[id_] = subprocess.Popen(
                    ["ip", "netns", "exec", lab.name(id_), *COMMAND, *command.split()],
                    cwd=home,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                )
        yield running
    finally:
        for process in running.values():
            process.kill()
        for process in running.values():
            process.wait()


def changed_lines(home: Path, id_: int) -> list[str]:
    shipped = (REPOSITORY / "conf" / "cluster" / f"node-{id_}.yaml").read_text().splitlines()
    edited = (home / "conf" / "cluster" / f"node-{id_}.yaml").read_text().splitlines()
    both = zip(shipped, edited, strict=True)
    return [after for before, after in both if before != after and not before.startswith("#")]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(*NAMES) as lab:
        yield lab


def test_recipe_of_the_manual_makes_a_cluster_that_bears_a_loss(lab: Lab, tmp_path: Path) -> None:
    """Checklist rows 13, 35. Records with acks=all, from a fourth machine; then one dies."""
    bootstrap = ",".join(f"{lab.address(id_)}:{9091 + id_}" for id_ in NAMES)

    def outside(*arguments: str, stdin: str = "") -> Done:
        return lab.inside(CLIENT, lambda: josefine(bootstrap, *arguments, stdin=stdin))

    def log(id_: int) -> str:
        return (tmp_path / NAMES[id_] / "log").read_text()

    with machines(lab, tmp_path) as running:
        wait_until(
            lambda: all("listening on" in log(id_) for id_ in NAMES), START_TIMEOUT_S, "three"
        )
        assert [len(changed_lines(tmp_path / NAMES[id_], id_)) for id_ in NAMES] == [4, 4, 4]
        done = outside("topics", "create", "orders", "-p", "3")
        assert done.code == 0, done.err
        done = outside("produce", "orders", stdin="a\nb\nc\n")
        assert done.code == 0, done.err

        running[2].kill()
        running[2].wait()
        done = outside("produce", "orders", stdin="d\n")
        assert done.code == 0, done.err

        assert sorted(outside("consume", "orders").out.split()) == ["a", "b", "c", "d"]
        assert "warning:" not in "".join(log(id_) for id_ in NAMES)


def test_address_that_was_forgotten_is_told_at_the_start(lab: Lab, tmp_path: Path) -> None:
    """As the shipped file of broker 1 once did: it advertised 127.0.0.1 to all."""
    _, command = recipe(lab, 1)
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    node = tmp_path / "conf" / "cluster" / "node-1.yaml"
    node.write_text(node.read_text().replace("2@127.0.0.1", f"2@{lab.address(2)}"))
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["ip", "netns", "exec", lab.name(1), *COMMAND, *command.split()],
            cwd=tmp_path,
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
    try:
        wait_until(lambda: log.read_text().count("warning: ") == 2, START_TIMEOUT_S, "both")
    finally:
        process.kill()
        process.wait()
    assert "warning: broker.listeners PLAINTEXT is advertised as 127.0.0.1:9092" in log.read_text()
    assert "warning: raft.listener is advertised as 127.0.0.1:9192" in log.read_text()
