"""`josefine consume` of several topics, by names and by a pattern, with a template."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_cli.base.errors import EXIT_FAILURE, EXIT_USAGE
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("many")
    with BrokerProcess(directory) as broker:
        for topic in ("orders.a", "orders.b", "rates"):
            assert josefine(broker.bootstrap, "topics", "create", topic, "-p", "2").code == 0
            josefine(broker.bootstrap, "produce", topic, "--key", "k", stdin=f"of {topic}\n")
        yield broker.bootstrap


def test_topics_are_read_by_their_names_or_by_a_pattern(where: str) -> None:
    template = ("--format", "{topic} {key}={value}")
    named = josefine(where, "consume", "orders.a", "rates", "orders.a", *template)
    like = josefine(where, "consume", "--pattern", r"orders\..*", *template)
    full = josefine(where, "consume", "orders.a", "rates", "--format", "full")

    assert sorted(named.out.splitlines()) == ["orders.a k=of orders.a", "rates k=of rates"]
    assert sorted(like.out.splitlines()) == ["orders.a k=of orders.a", "orders.b k=of orders.b"]
    assert {each.split("-")[0] for each in full.out.splitlines()} == {"orders.a", "rates"}
    assert (named.err, like.err, full.err) == ("", "", "")


def test_a_group_reads_all_topics_of_a_pattern_and_commits_each(where: str) -> None:
    first = josefine(where, "consume", "--pattern", r"orders\..*", "--group", "g")
    again = josefine(where, "consume", "--pattern", r"orders\..*", "--group", "g")

    assert sorted(first.out.splitlines()) == ["of orders.a", "of orders.b"]
    assert again.out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), EXIT_USAGE, "which topics? Name one or more, or give --pattern"),
        (("rates", "--pattern", "r.*"), EXIT_USAGE, "which topics?"),
        (("--pattern", "("), EXIT_USAGE, "--pattern '(' is not a regular expression"),
        (("--pattern", "order"), EXIT_FAILURE, "no topic's whole name matches --pattern 'order'"),
        (("rates", "rate"), EXIT_FAILURE, "topic 'rate' does not exist: did you mean 'rates'?"),
        (("rates", "orders.a", "--decode", "f.yaml"), EXIT_USAGE, "--decode f.yaml is for one"),
    ],
)
def test_wrong_topics_are_one_sentence(
    where: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = josefine(where, "consume", *arguments)

    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"error: {words}")
