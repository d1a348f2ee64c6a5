"""Addresses as people write them, and metadata laid over older metadata."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import Address, from_response, parse_bootstrap
from tests.unit.josefine_broker.client.driver import metadata, unknown_topic


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("host:1", [Address("host", 1)]),
        ("host:65535", [Address("host", 65535)]),
        (" a:1 , b:2,", [Address("a", 1), Address("b", 2)]),
        ("[::1]:9092", [Address("::1", 9092)]),
    ],
)
def test_bootstrap_lists_are_read(text: str, addresses: list[Address]) -> None:
    assert list(parse_bootstrap(text)) == addresses


@pytest.mark.parametrize("text", ["", ",", "host", "host:", ":1", "host:x", "host:0", "host:65536"])
def test_a_bootstrap_that_is_no_address_is_refused_with_the_form_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        parse_bootstrap(text)


def test_newer_metadata_replaces_topics_it_speaks_of_and_keeps_the_others() -> None:
    older = from_response(metadata({"a": [1], "b": [1]}))

    merged = older.merge(from_response(unknown_topic("a")))

    assert merged.routing_error(TopicPartition("a", 0)) is ErrorCode.unknown_topic_or_partition
    assert merged.routing_error(TopicPartition("b", 0)) is ErrorCode.none
    assert merged.partitions_of("b") == (TopicPartition("b", 0),)


def test_a_partition_whose_leader_is_no_known_broker_has_no_leader() -> None:
    cluster = from_response(metadata({"t": [-1, 9]}))

    for partition in (0, 1):
        code = cluster.routing_error(TopicPartition("t", partition))
        assert code is ErrorCode.leader_not_available
