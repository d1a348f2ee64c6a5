"""What the engine tells is a line of the log: its message constant, its fields apart."""

import logging

import pytest

from josefine_broker.engine.ports import Gravity
from josefine_broker.host import log_lines


@pytest.mark.parametrize("gravity", Gravity)
def test_line_has_the_level_of_its_gravity_and_the_fields(
    gravity: Gravity, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "josefine_broker")

    log_lines.tell("truncated", gravity=gravity, partition="a-0", **{"from": 7})

    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == (gravity.name, "truncated")
    assert (vars(line)["partition"], vars(line)["from"]) == ("a-0", 7)
