"""The start offsets of a query: the position of its options, resolved once with the brokers.

The rules are in `offsets.py` and `options/positions.py`; this module sends the requests for them.
"""

from collections.abc import Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import SourceOptions
from josefine_spark.options.positions import Position, at_time
from josefine_spark.read.discovery import Found, all_bounds, discover, offsets_at
from josefine_spark.read.offsets import (
    Bounds,
    check_order,
    resolve_end,
    resolve_group,
    resolve_start,
    timestamp_queries,
)


def starts(
    client: BlockingClient, options: SourceOptions, now_ms: int
) -> tuple[Found, dict[TopicPartition, int]]:
    """The existing partitions and the start offset of each. `now_ms` is since 1970."""
    found, bounds = _look(client, options)
    return found, _starts(client, options, bounds, now_ms)


def ranges(
    client: BlockingClient, options: SourceOptions, now_ms: int
) -> tuple[Found, dict[TopicPartition, int], dict[TopicPartition, int]]:
    """For a batch read: as `starts`, with the end offset (exclusive) of each partition."""
    found, bounds = _look(client, options)
    start = _starts(client, options, bounds, now_ms)
    ending = at_time(options.ending, now_ms)
    end = resolve_end(ending, bounds, _found_at(client, options, ending, bounds))
    return found, start, check_order(options.starting, start, ending, end)


def _look(
    client: BlockingClient, options: SourceOptions
) -> tuple[Found, dict[TopicPartition, Bounds]]:
    found = discover(client, options.subscription, must_exist=True)
    _check_ids(options, found.topic_ids)
    bounds = all_bounds(client, found.partitions, read_committed=options.read.read_committed)
    return found, bounds


def _starts(
    client: BlockingClient,
    options: SourceOptions,
    bounds: Mapping[TopicPartition, Bounds],
    now_ms: int,
) -> dict[TopicPartition, int]:
    group = options.starting_group
    starting = at_time(options.starting, now_ms)
    others = None
    if group is None or options.starting_given:
        others = resolve_start(
            starting,
            bounds,
            _found_at(client, options, starting, bounds),
            options.missing,
            fail_on_data_loss=options.read.fail_on_data_loss,
        )
        if group is None:
            return others
    return resolve_group(
        group,
        client.committed_offsets(group, bounds),
        bounds,
        others,
        fail_on_data_loss=options.read.fail_on_data_loss,
    )


def _found_at(
    client: BlockingClient,
    options: SourceOptions,
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
) -> dict[TopicPartition, int]:
    queries = timestamp_queries(position, bounds)
    return offsets_at(client, queries, read_committed=options.read.read_committed)


def _check_ids(options: SourceOptions, topic_ids: Mapping[str, str]) -> None:
    """Offsets that come with topic ids are valid for the topics with these ids only."""
    for topic, given in (options.starting.topic_ids or {}).items():
        if topic in topic_ids and given != topic_ids[topic]:
            raise OptionError(
                f"{options.starting.option}: topic {topic} was deleted and created again "
                f"(id {given}, now {topic_ids[topic]}): its offsets mean other records now"
            )
