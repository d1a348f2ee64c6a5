"""The table topics of a cluster, by their configs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import PREFIX, TableTopic, table_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """`wrong`: topic → what is wrong with its configs. `counts`: topic → number of partitions."""

    tables: dict[str, TableTopic] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def discover(client: BlockingClient, wanted: Collection[str] = ()) -> Discovered:
    """The table topics among these topics, or all (none named). Raises KafkaError."""
    cluster = client.metadata([*wanted] or None)
    names = [name for name, topic in cluster.topics.items() if not topic.is_internal]
    found = Discovered()
    # Also for a topic that does not exist: its error names it.
    configs = client.describe_configs(names) if names else {}
    for topic in sorted(names):
        values = {n: e.value for n, e in configs[topic].items() if n.startswith(PREFIX)}
        try:
            table = table_topic(topic, values)
        except ValueError as error:
            found.wrong[topic] = str(error)
            continue
        if table is not None:
            found.tables[topic] = table
            found.counts[topic] = len(cluster.topics[topic].partitions)
    return found
