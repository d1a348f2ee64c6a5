"""Ctrl-C at any line of a command that follows a topic: no error, and its member has left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import REPOSITORY, environment, josefine
from tests.support.interruptions import Outcome

TOPIC = "followed"
MEMBER = ("--group", "interrupted", "--from", "latest")
ENDS = {0, 130}
"""130: before the command waits for records."""


def interrupted(bootstrap: str, trials: int, seed: int, *command: str) -> list[Outcome]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.interruptions", str(trials), str(seed), *command],
        cwd=REPOSITORY,
        env=environment(bootstrap),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("trials", "seed"), [(40, 0), pytest.param(1_500, 1, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("as_member", [False, True])
def test_no_line_is_a_wrong_one_to_be_interrupted_at(
    tmp_path: Path, trials: int, seed: int, as_member: bool
) -> None:
    member = MEMBER if as_member else ()
    with BrokerProcess(tmp_path, group__initial_rebalance_delay_ms=0) as broker:
        josefine(broker.bootstrap, "topics", "create", TOPIC)
        found = interrupted(broker.bootstrap, trials, seed, "consume", TOPIC, "--follow", *member)
        described = josefine(broker.bootstrap, "groups", "describe", "interrupted", "--json")

    assert len(found) == trials + 1
    assert [each for each in found if each.code not in ENDS or "rror" in each.stderr] == []
    if as_member:
        assert json.loads(described.out)["members"] == []
