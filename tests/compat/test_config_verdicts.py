"""Topic configs: what is accepted, how it is printed and which error code a refusal has, as in
Apache Kafka.

The daily suite replays a recorded table here; `./build.sh test oracle` compares the table with an
Apache Kafka that it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.compat.brokers import WITH_APACHE_KAFKA
from tests.compat.config_candidates import DELETE, DIFFERENT, SET
from tests.compat.config_verdicts import (
    COMMAND,
    VERSIONS,
    Ask,
    Verdicts,
    altered,
    collect,
    created,
    described,
    recorded,
    socket_ask,
    versions,
)
from tests.support.apache_kafka import ApacheKafka
from tests.unit.josefine_broker.api.world import World

OURS_ALONE = frozenset({"log.segment.records"})
"""Configs of a broker that Kafka does not have."""
IN_EFFECT = frozenset(
    {"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"}
)
"""Configs of a broker that are null in Kafka, where another unit's default is in effect: here they
have the value."""


@pytest.fixture(scope="module")
def ask() -> Ask:
    world = World()
    return lambda api_key, request: world.ask(api_key, request, version=VERSIONS[api_key])


@pytest.fixture(scope="module")
def ours(ask: Ask) -> Verdicts:
    return collect(ask, recorded()["types"])


def test_every_verdict_is_kafkas(ours: Verdicts) -> None:
    """Accepted or not, the printed value, the error code: of values, lists, deletions, defaults."""
    kafkas, here = dict(_rows(recorded())), dict(_rows(ours))
    unequal = {label: (here.get(label), kafkas[label]) for label in kafkas}
    unequal = {label: pair for label, pair in unequal.items() if pair[0] != pair[1]}
    known = {label: _known(label) for label in unequal}

    assert {label: unequal[label] for label, pattern in known.items() if not pattern} == {}
    assert set(known.values()) == {each.pattern for each in DIFFERENT}, (
        "a known difference that there is not"
    )


def test_configs_of_a_broker_have_kafkas_types_and_defaults(ours: Verdicts) -> None:
    kafkas = recorded()["broker_configs"]
    alone, unequal, kinds = set(), set(), {}
    for name, (kind, _, *default) in ours["broker_configs"].items():
        if name not in kafkas:
            alone.add(name)
            continue
        kafkas_kind, _, *kafkas_default = kafkas[name]
        if kind != kafkas_kind:
            kinds[name] = (kind, kafkas_kind)
        if default and kafkas_default and default != kafkas_default:
            unequal.add(name)

    assert (alone, unequal, kinds) == (OURS_ALONE, IN_EFFECT, {})


def test_defaults_of_a_topics_configs_have_kafkas_names(ours: Verdicts) -> None:
    """Kafka names none where the broker's config of that unit is not set."""
    for name, names in recorded()["broker_names"].items():
        if names:
            assert ours["broker_names"][name] == names[:1]


@pytest.mark.skipif(not WITH_APACHE_KAFKA, reason="only against Apache Kafka")
def test_recorded_table_is_what_apache_kafka_answers(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path) as broker:
        found = collect(socket_ask(broker.bootstrap))
    table = recorded()

    assert versions()["kafka"] == table["kafka"], f"record the table again: {COMMAND}"
    assert {key: table[key] for key in found} == found, f"record the table again: {COMMAND}"


def test_configs_that_a_kafka_describes_can_be_set_here_one_to_one(ask: Ask) -> None:
    """MirrorMaker 2 sets what differs from the default on the source, and deletes the rest."""
    table = recorded()
    for number, source in enumerate(_source_topics(table)):
        topic = f"mirrored-{number}"
        changes = tuple(
            (name, DELETE if value == table["defaults"][name] else SET, value)
            for name, value in source.items()
        )
        given = tuple((name, value) for name, operation, value in changes if operation == SET)

        assert created(ask, {topic: given}) == {topic: 0}
        assert altered(ask, {topic: changes}) == {topic: 0}
        copy = {name: each.value for name, each in described(ask, [topic])[topic].items()}
        assert {name: copy[name] for name in source} == source


def _source_topics(table: Verdicts) -> Iterator[dict[str, str]]:
    """Topics of a Kafka as it describes them: each value that it prints is in one of them."""
    printed = {
        name: list(dict.fromkeys(each for each in texts.values() if isinstance(each, str)))
        for name, texts in table["set"].items()
        if name in table["defaults"]
    }
    # Not the lags together: the one must not exceed the other.
    printed["min.compaction.lag.ms"].sort(key=int)
    printed["max.compaction.lag.ms"].sort(key=int)
    for at in range(max(map(len, printed.values()))):
        yield {name: values[min(at, len(values) - 1)] for name, values in printed.items() if values}


def _rows(table: Verdicts) -> Iterator[tuple[str, Any]]:
    """A table as (label, verdict)."""
    for section in ("types", "defaults", "created_unlike_set"):
        for name, value in table[section].items():
            yield f"{section} {name}", value
    for name, texts in table["set"].items():
        for text, verdict in texts.items():
            yield f"set {name}={text}", verdict
    for section in ("creations", "replacements"):
        for configs, verdict in table[section]:
            yield f"{section} {configs}", verdict
    for before, changes, verdict in table["edits"]:
        told = ", ".join(f"{name}={operation}:{value}" for name, operation, value in changes)
        yield f"edits {before} {told}", verdict
    for broker, name, operation, value, verdict in table["broker_edits"]:
        yield f"broker_edits {broker} {name}={operation}:{value}", verdict


def _known(label: str) -> str | None:
    return next((each.pattern for each in DIFFERENT if fnmatchcase(label, each.pattern)), None)
