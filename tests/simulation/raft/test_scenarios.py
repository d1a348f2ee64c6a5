"""The text scenarios: what happens is what stands in the file, and each cites what it plays."""

import re
from pathlib import Path

import pytest

from tests.simulation.raft.lab import COMMANDS, Lab
from tests.simulation.raft.scenarios import SCENARIOS, play


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_commands_lead_to_the_trace_in_the_file(path: Path) -> None:
    """After a wanted change: python -m tests.simulation.raft.scenarios --rewrite, read the diff.

    Checklist rows 3, 4, 7-9, 11 and 16.
    """
    text = path.read_text()

    assert play(text) == text


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_cites_its_section(path: Path) -> None:
    heading = path.read_text().split("\n\n")[0]

    assert all(line.startswith("#") for line in heading.splitlines())
    assert re.search(r"(\(|[Ss]ection |[Tt]hesis |[Ff]igure )\d", heading)


def test_every_command_is_played_somewhere() -> None:
    words = {line.split()[0] for path in SCENARIOS for line in path.read_text().split("\n") if line}

    assert words >= COMMANDS.keys()


def test_an_unknown_command_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no command 'propsoe'"):
        Lab().run("propsoe 1 a")
