"""`josefine configs` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = Path(tmp_path_factory.mktemp("cli-configs"))
    with BrokerProcess(directory, topic_defaults__partitions=3) as process:
        assert josefine(process.bootstrap, "topics", "create", "orders").code == 0
        yield process.bootstrap


def described(bootstrap: str, *arguments: str) -> dict[str, tuple[str, str, bool]]:
    """Name → value, source, whether it may change."""
    done = josefine(bootstrap, "configs", "describe", *arguments, "--json")
    assert done.code == 0
    return {
        each["name"]: (each["value"], each["source"], each["may_change"])
        for each in json.loads(done.out)
    }


def test_topics_value_is_set_and_removed(bootstrap: str) -> None:
    done = josefine(
        bootstrap, "configs", "set", "-t", "orders", "retention.ms=7m", "segment.bytes=2048"
    )
    assert (done.code, done.out) == (0, "topic orders: 2 configurations set\n")
    assert described(bootstrap, "--topic", "orders") == {
        "retention.ms": ("420000", "topic", True),
        "segment.bytes": ("2048", "topic", True),
    }
    table = josefine(bootstrap, "configs", "describe", "-t", "orders").out.splitlines()
    assert table[0].split() == ["configuration", "value", "from", "may", "change"]
    assert table[1].split() == ["retention.ms", "420000", "topic", "yes"]

    done = josefine(bootstrap, "configs", "remove", "-t", "orders", "retention.ms", "segment.bytes")

    assert done.out == "topic orders: 2 configurations back to the default\n"
    assert josefine(bootstrap, "configs", "describe", "-t", "orders").out == (
        "topic orders has defaults alone; --all shows them\n"
    )
    assert described(bootstrap, "-t", "orders", "--all")["retention.ms"] == (
        "604800000", "default", True,
    )  # fmt: skip


def test_brokers_values_say_where_they_come_from_and_that_they_stay(bootstrap: str) -> None:
    assert described(bootstrap, "--broker", "1")["num.partitions"] == ("3", "broker's file", False)
    all_values = described(bootstrap, "--broker", "1", "--all")
    assert all_values["log.retention.ms"] == ("604800000", "default", False)
    assert "at a start" in josefine(bootstrap, "configs", "describe", "--broker", "1").out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("describe",), "name one of --topic, --broker and --group"),
        (("describe", "-t", "a", "--broker", "1"), "name one of --topic, --broker and --group"),
        (("describe", "-t", "nope"), "no topic 'nope'"),
        (("describe", "--broker", "9"), "there is no broker 9: there are 1"),
        (("set", "-t", "orders", "retention.ms"), "'retention.ms' is not KEY=VALUE"),
        (("set", "-t", "orders", "retention.mss=1"), "retention.mss"),
        (("set", "--broker", "1", "num.partitions=4"), "a broker's settings are in its file"),
        (("remove", "--broker", "1", "num.partitions"), "a broker's settings are in its file"),
        (
            ("remove", "-t", "orders", "retention.mss"),
            "'retention.mss' is not a topic configuration; the nearest known key is retention.ms",
        ),
    ],
)
def test_mistake_is_one_sentence(bootstrap: str, arguments: tuple[str, ...], sentence: str) -> None:
    done = josefine(bootstrap, "configs", *arguments)

    assert done.code != 0
    assert sentence in done.err
    assert "Traceback" not in done.err
