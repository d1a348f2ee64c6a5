"""The differential fuzzer with this broker on both sides: equal brokers, equal answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.duel import Duel
from tests.oracle.episodes import episode
from tests.oracle.run import OURS, SAME
from tests.oracle.scenarios import SCENARIOS
from tests.oracle.settle import make_marker
from tests.oracle.side import Side
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("oracle")
    with (
        BrokerProcess(folder / "one", **SAME, **OURS) as one,
        BrokerProcess(folder / "two", **SAME, **OURS) as two,
    ):
        for bootstrap in (one.bootstrap, two.bootstrap):
            side = Side("here", bootstrap)
            make_marker(side)
            side.close()
        yield one.bootstrap, two.bootstrap


@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_two_equal_brokers_do_not_differ(bootstraps: tuple[str, str], number: int) -> None:
    one, two = (Side("here", bootstrap) for bootstrap in bootstraps)
    duel = Duel(one, two, number)

    assert duel.play(episode(number)) == []
    assert duel.used == []
    assert duel.sent > 20


def test_one_answer_that_differs_is_found_and_named(bootstraps: tuple[str, str]) -> None:
    number = len(SCENARIOS)
    steps = episode(number)
    one, two = (Side("here", bootstrap) for bootstrap in bootstraps)
    two.ask(steps[0])  # its topic is there already

    (finding,) = Duel(one, two, number).play(steps)

    assert [str(each) for each in finding.differences] == [
        f"topics[e{number}-a].error_code: here NONE, Apache Kafka TOPIC_ALREADY_EXISTS"
    ]
    assert f"--first {number} 1" in str(finding)
