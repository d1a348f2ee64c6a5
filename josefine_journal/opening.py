"""The check of a topic when its journals are opened: whether ids still map to the same partitions,
and whether the topic keeps its records.

Rules: the partition count is recorded in the header of every action, so it exists as long as any
record does, for all journals of a topic, with or without a store, on any Kafka. The newest records
of every partition are checked, because only the old partitions of a widened topic have the old
count. Records without a count (of older programs, of kafka-journal) are checked by their keys.
"""

import asyncio
from collections.abc import Mapping, Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER, decode_action, partitions_of
from josefine_journal.errors import JournalError, TopicCompacted, TopicWidened
from josefine_journal.ports import Log

TAIL_RECORDS = 16
"""Newest records of a partition that are checked: foreign records may be among them."""
PARTITIONS_AT_ONCE = 32
UNAUTHORIZED = {ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed}
CLEANUP_POLICY = "cleanup.policy"
RETENTIONS = ("retention.ms", "retention.bytes")


async def check_topic(log: Log, count: int) -> None:
    """Raises TopicCompacted, and TopicWidened if the journals were written with another count."""
    check_cleanup(log.topic, await log.configs())
    check_placement(log.topic, count, await tails(log, count))


def check_cleanup(topic: str, configs: Mapping[str, str]) -> None:
    """Raises TopicCompacted for a compacted topic."""
    policy = configs.get(CLEANUP_POLICY, "")
    if "compact" in policy:
        raise TopicCompacted(topic, policy)


def finite_retention(configs: Mapping[str, str]) -> list[str]:
    """The configurations by which the topic loses records, as NAME=VALUE."""
    if "delete" not in configs.get(CLEANUP_POLICY, "delete"):
        return []
    return [f"{name}={configs[name]}" for name in RETENTIONS if configs.get(name, "-1") != "-1"]


def check_placement(topic: str, count: int, found: Mapping[int, Sequence[Record]]) -> None:
    """Raises TopicWidened if a partition's newest record with a count has another one, or if the
    key of a record without a count maps to another partition."""
    for partition, records in sorted(found.items()):
        for record in reversed(records):
            header = dict(record.headers).get(ACTION_HEADER)
            if not record.key or header is None:
                continue
            recorded = partitions_of(header)
            if recorded is not None and recorded != count:
                where = f"as {topic}-{partition} offset {record.offset} records"
                raise TopicWidened(topic, count, recorded=recorded, where=where)
            if recorded is not None:
                break
            is_misplaced = partition_for_key(record.key, count) != partition
            if is_misplaced and _is_action(header):
                place = f"{topic}-{partition} offset {record.offset}"
                where = f"the id of {place} does not belong there"
                raise TopicWidened(topic, count, recorded=None, where=where)


def _is_action(header: bytes) -> bool:
    """Whether a journal program wrote this header; foreign records may be in any partition."""
    try:
        return decode_action(header) is not None
    except JournalError:
        return False


async def tails(log: Log, count: int) -> dict[int, list[Record]]:
    """The newest records of each partition."""
    starts = await log.start_offsets(range(count))
    ends = await log.end_offsets(range(count))
    found: dict[int, list[Record]] = {}
    for begin in range(0, count, PARTITIONS_AT_ONCE):
        some = range(begin, min(count, begin + PARTITIONS_AT_ONCE))
        read = (_tail(log, each, starts[each], ends[each]) for each in some)
        found |= dict(zip(some, await asyncio.gather(*read), strict=True))
    return found


async def _tail(log: Log, partition: int, start: int, end: int) -> list[Record]:
    """Only the newest record if it has the count, as all of ours do; otherwise more."""
    newest = await _records(log, partition, max(start, end - 1), end)
    if any(partitions_of(dict(each.headers).get(ACTION_HEADER) or b"") for each in newest):
        return newest
    return await _records(log, partition, max(start, end - TAIL_RECORDS), end)


async def _records(log: Log, partition: int, begin: int, end: int) -> list[Record]:
    found: list[Record] = []
    try:
        async for records in log.read(partition, begin, end):
            found += records
    except JournalError:  # a read of the journal raises it again, with its meaning
        pass
    except KafkaError as error:
        if error.code not in UNAUTHORIZED:
            raise  # a writer without the right to read: the topic's readers check it
    return found
