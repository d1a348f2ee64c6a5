"""The table of a topic by its configs, and which writer has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.consumer_protocol import round_robin_assignor
from josefine_broker.engine.metadata.config_texts import printed
from josefine_broker.engine.metadata.table_configs import TABLE_KEYS, TableSettings
from josefine_lake.config.leases import lease_partition, leased
from josefine_lake.config.table_topic import PREFIX, Format, TableTopic, table_topic


def test_a_topic_without_a_location_has_no_table() -> None:
    assert table_topic("t", {"josefine.table.location": "", "josefine.table.format": "raw"}) is None


def test_the_brokers_defaults_are_the_writers() -> None:
    shown = {key.name: printed(getattr(TableSettings(), key.attribute)) for key in TABLE_KEYS}

    assert table_topic("t", {**shown, "josefine.table.location": "/t"}) == TableTopic(
        topic="t", location="/t", dead_letter="/t_dead_letter"
    )


def test_fail_means_no_dead_letter_table() -> None:
    found = table_topic(
        "t",
        {PREFIX + "location": "/t", PREFIX + "dead.letter": "fail", PREFIX + "format": "json"},
    )

    assert found is not None
    assert (found.dead_letter, found.format) == (None, Format.JSON)


def test_files_are_kept_for_ever_only_if_the_topic_asks_for_it() -> None:
    def retention_ms(**configs: str) -> int | None:
        found = table_topic("t", {PREFIX + "location": "/t", **configs})
        assert found is not None
        return found.deleted_retention_ms

    week_ms = 7 * 24 * 3_600_000
    assert retention_ms() == week_ms
    assert retention_ms(**{PREFIX + "deleted.file.retention.ms": "-1"}) is None
    assert retention_ms(**{PREFIX + "deleted.file.retention.ms": str(2 * week_ms)}) == 2 * week_ms


@pytest.mark.parametrize(
    ("name", "value"), [("mode", "merge"), ("format", "xml"), ("key.format", "csv")]
)
def test_what_a_newer_broker_accepts_stops_the_table(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=value):
        table_topic("t", {PREFIX + "location": "/t", PREFIX + name: value})


@given(
    counts=st.dictionaries(st.text("abc.", min_size=1, max_size=5), st.integers(1, 8), max_size=9),
    writers=st.integers(1, 5),
)
def test_every_table_is_leased_to_exactly_one_writer(counts: dict[str, int], writers: int) -> None:
    names = [f"w{at}" for at in range(writers)]

    given_ = round_robin_assignor({name: [*counts] for name in names}, counts)

    held = [topic for name in names for topic in leased(given_[name], counts)]
    assert sorted(held) == sorted(counts)


def test_leases_of_topics_with_equal_counts_are_spread() -> None:
    assert len({lease_partition(f"topic{at}", 8) for at in range(100)}) == 8
    assert leased([TopicPartition("gone", 3)], {}) == frozenset()
