"""The table topics of a cluster, by their configs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import ARCHIVE_KEYS, PREFIX, TableTopic, table_topic

Parse = Callable[[str, Mapping[str, str | None]], TableTopic | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """`wrong`: topic → what is wrong with its configs. `counts`: table topic → its partitions.
    `ids`: topic → id, of all topics whose configs were read."""

    tables: dict[str, TableTopic] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    ids: dict[str, object] = field(default_factory=dict)


def discover(
    client: BlockingClient,
    wanted: Collection[str] = (),
    known: Discovered | None = None,
    parse: Parse = table_topic,
) -> Discovered:
    """The table topics among these topics, or all (none named). Raises KafkaError.

    `known`: an earlier result; only the configs of topics created since then are read. `parse`:
    what a table of a topic is, by its configs."""
    known = known or Discovered()
    cluster = client.metadata([*wanted] or None)
    names = [name for name, topic in cluster.topics.items() if not topic.is_internal]
    found = Discovered(ids={name: cluster.topic_id(name) for name in names})
    # Also for a topic that does not exist: its error names it.
    new = [name for name in names if known.ids.get(name) != found.ids[name]]
    configs = client.describe_configs(new) if new else {}
    for topic in sorted(names):
        if topic not in configs:
            _keep(found, known, topic, len(cluster.topics[topic].partitions))
            continue
        values = {
            n: e.value
            for n, e in configs[topic].items()
            if n.startswith(PREFIX) or n in ARCHIVE_KEYS
        }
        try:
            table = parse(topic, values)
        except ValueError as error:
            found.wrong[topic] = str(error)
            continue
        if table is not None:
            found.tables[topic] = table
            found.counts[topic] = len(cluster.topics[topic].partitions)
    return found


def _keep(found: Discovered, known: Discovered, topic: str, partitions: int) -> None:
    """What is known of a topic, with its current number of partitions."""
    if topic in known.wrong:
        found.wrong[topic] = known.wrong[topic]
    elif topic in known.tables:
        found.tables[topic] = known.tables[topic]
        found.counts[topic] = partitions
