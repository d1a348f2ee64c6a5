"""A shell completes the names of topics and groups from the brokers that its line names."""

from __future__ import annotations

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine


def completed(monkeypatch: pytest.MonkeyPatch, bootstrap: str, line: str) -> list[str]:
    """What bash gets for a line whose last word is incomplete."""
    words = line.split(" ")
    with monkeypatch.context() as shell:
        shell.setenv("_JOSEFINE_COMPLETE", "complete_bash")
        shell.setenv("COMP_WORDS", line)
        shell.setenv("COMP_CWORD", str(len(words) - 1))
        done = josefine(bootstrap, *words[1:])
    assert done.err == ""
    return done.out.split()


def test_topics_and_groups_are_completed_and_no_broker_completes_nothing(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = broker.bootstrap
    for topic in ("orders", "orders_old", "rates"):
        assert josefine(where, "topics", "create", topic).code == 0
    josefine(where, "produce", "orders", stdin="x\n")
    assert josefine(where, "consume", "orders", "--group", "readers", "-n", "1").code == 0

    def names(line: str, bootstrap: str = where) -> list[str]:
        return completed(monkeypatch, bootstrap, line)

    assert names("josefine topics describe ord") == ["orders", "orders_old"]
    assert names("josefine topics describe ") == ["orders", "orders_old", "rates"]
    assert names(f"josefine consume -b {where} ra", "127.0.0.1:1") == ["rates"]
    assert names("josefine topics describe __c") == ["__consumer_offsets"]
    assert names("josefine configs describe --topic ra") == ["rates"]
    assert names("josefine groups describe rea") == ["readers"]
    assert names("josefine topics create ord") == []
    assert names("josefine topics describe ord", "127.0.0.1:1") == []
    assert names("josefine topics describe ord", "no address") == []
