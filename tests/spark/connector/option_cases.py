"""The table of options: what our source and Spark's own Kafka source make of the same ones.

Of both connectors by the same words: the values read, sorted, or the class of the error. TOPIC has
partition 0 with values 0 to 9 and partition 1 with 10 to 14, OTHER has 20 to 22 in partition 0,
TRIMMED has 0 to 9 of which the first four are deleted; a timestamp is 1000 × the value.

Where they differ, `theirs` is what Spark's does and `why` the reason for ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Outcome = list[int] | str
REFUSED = "refused"
"""The options are wrong, or name what is not there; no record was read."""
LOST = "lost"
"""Records that were asked for are gone."""
FAILED = "failed"
"""A task failed. Why, Spark says in its log only, where the connector came by ADD JAR as here."""

ALL = list(range(15))
OTHER = [20, 21, 22]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    options: dict[str, str] = field(default_factory=dict)
    """Beside the broker's address and `subscribe`; an option given twice counts as it is here."""
    ours: Outcome = field(default_factory=lambda: ALL)
    theirs: Outcome | None = None
    why: str = ""
    streaming: bool = False
    available_now: bool = True
    """False: a stream of the default trigger, until it has nothing more to do."""
    subscribed: str | None = "TOPIC"


def offsets(zero: int, one: int) -> str:
    return f'{{"TOPIC":{{"0":{zero},"1":{one}}}}}'


def _start(name: str, text: str, ours: Outcome, **more: object) -> Case:
    return Case(name=name, options={"startingOffsets": text}, ours=ours, **more)  # type: ignore[arg-type]


def _end(name: str, text: str, ours: Outcome, **more: object) -> Case:
    return Case(name=name, options={"endingOffsets": text}, ours=ours, **more)  # type: ignore[arg-type]


SUBSCRIBING = [
    Case(name="one topic"),
    Case(name="a list", options={"subscribe": "TOPIC,OTHER"}, ours=[*ALL, *OTHER]),
    Case(name="a list with spaces", options={"subscribe": " TOPIC , OTHER "}, ours=[*ALL, *OTHER]),
    Case(name="a pattern", options={"subscribePattern": "TOPIC|OTHER"}, ours=[*ALL, *OTHER],
         subscribed=None),
    Case(name="a pattern of a part", options={"subscribePattern": "TOPI"}, ours=[],
         subscribed=None),
    Case(name="assign", options={"assign": '{"TOPIC":[1]}'}, ours=[10, 11, 12, 13, 14],
         subscribed=None),
    Case(name="assign no JSON", options={"assign": "TOPIC"}, ours=REFUSED, subscribed=None),
    Case(name="assign what is not there", options={"assign": '{"TOPIC":[7]}'}, ours=REFUSED,
         subscribed=None, theirs=[], why="who names a partition expects its records"),
    Case(name="two ways", options={"assign": '{"TOPIC":[1]}'}, ours=REFUSED),
    Case(name="no way", ours=REFUSED, subscribed=None),
    Case(name="an empty list", options={"subscribe": ""}, ours=REFUSED),
    Case(name="no such topic", options={"subscribe": "nowhere"}, ours=REFUSED),
]  # fmt: skip

STARTING = [
    _start("earliest", "earliest", ALL),
    _start("EARLIEST", "EARLIEST", ALL),
    Case(name="a timestamp in ISO 8601", ours=[9, *range(10, 15)], theirs=REFUSED,
         options={"startingTimestamp": "1970-01-01T00:00:08.500Z",
                  "startingOffsetsByTimestampStrategy": "latest"},
         why="people write times, not milliseconds"),
    _start("latest in a batch", "latest", REFUSED),
    _start("offsets", offsets(4, 3), [4, 5, 6, 7, 8, 9, 13, 14]),
    _start("-2", offsets(4, -2), [*range(4, 10), *range(10, 15)]),
    _start("-1 in a batch", offsets(4, -1), REFUSED),
    _start("a word", "newest", REFUSED),
    _start("at the end", offsets(10, 5), []),
    _start("another topic", '{"OTHER":{"0":1}}', REFUSED),
    _start("some partitions", '{"TOPIC":{"0":4}}', REFUSED),
    _start("a deleted offset", '{"TRIMMED":{"0":1}}', LOST, subscribed="TRIMMED", theirs=FAILED,
           why="the same, told before a task runs"),
    Case(name="a deleted offset, loss allowed", subscribed="TRIMMED", ours=list(range(4, 10)),
         options={"startingOffsets": '{"TRIMMED":{"0":1}}', "failOnDataLoss": "false"}),
    Case(name="a timestamp", ours=[9, *range(10, 15)],
         options={"startingTimestamp": "8500", "startingOffsetsByTimestampStrategy": "latest"}),
    Case(name="a timestamp with no record so late", options={"startingTimestamp": "12500"},
         ours=REFUSED),
    Case(name="no record so late, latest", ours=[13, 14],
         options={"startingTimestamp": "12500", "startingOffsetsByTimestampStrategy": "latest"}),
    Case(name="a strategy of no name", ours=REFUSED,
         options={"startingTimestamp": "8500", "startingOffsetsByTimestampStrategy": "newest"}),
    Case(name="a timestamp that is no number", options={"startingTimestamp": "now"}, ours=REFUSED),
    Case(name="timestamps", options={"startingOffsetsByTimestamp": offsets(3000, 12_000)},
         ours=[*range(3, 10), 12, 13, 14]),
    Case(name="timestamps of some partitions", ours=REFUSED,
         options={"startingOffsetsByTimestamp": '{"TOPIC":{"0":3000}}'}),
    Case(name="one timestamp beats timestamps and offsets", ours=[*range(7, 10), *range(10, 15)],
         options={"startingTimestamp": "7000", "startingOffsets": offsets(0, 0),
                  "startingOffsetsByTimestamp": offsets(3000, 12_000)}),
    Case(name="timestamps beat offsets", ours=[*range(3, 10), 12, 13, 14],
         options={"startingOffsetsByTimestamp": offsets(3000, 12_000),
                  "startingOffsets": "earliest"}),
]  # fmt: skip

ENDING = [
    _end("end latest", "latest", ALL),
    _end("end earliest", "earliest", REFUSED),
    _end("end offsets", offsets(4, 3), [*range(4), 10, 11, 12]),
    _end("end -1", offsets(4, -1), [*range(4), *range(10, 15)]),
    _end("end -2", offsets(4, -2), REFUSED),
    _end("end of some partitions", '{"TOPIC":{"0":4}}', REFUSED),
    Case(name="end timestamp", options={"endingTimestamp": "9000"}, ours=list(range(9))),
    Case(name="end timestamps", ours=[*range(5), *range(10, 15)],
         options={"endingOffsetsByTimestamp": offsets(5000, 99_000)}),
    Case(name="end before start", ours=REFUSED,
         options={"startingOffsets": offsets(5, 0), "endingOffsets": offsets(4, 5)}),
    Case(name="end timestamp before start", ours=REFUSED,
         options={"startingTimestamp": "9000", "endingTimestamp": "5000",
                  "startingOffsetsByTimestampStrategy": "latest"}),
]  # fmt: skip

SPLITTING = [
    Case(name="minPartitions", options={"minPartitions": "5"}),
    Case(name="minPartitions 0", options={"minPartitions": "0"}, ours=REFUSED),
    Case(name="minPartitions a word", options={"minPartitions": "few"}, ours=REFUSED),
    Case(name="maxRecordsPerPartition", options={"maxRecordsPerPartition": "4"}),
    Case(name="maxRecordsPerPartition 0", options={"maxRecordsPerPartition": "0"}, ours=REFUSED),
    Case(name="maxOffsetsPerTrigger in a batch", options={"maxOffsetsPerTrigger": "3"},
         ours=REFUSED, theirs=ALL, why="a limit that limits nothing is told"),
]  # fmt: skip

OTHERS = [
    Case(name="includeHeaders", options={"includeHeaders": "true"}),
    Case(name="includeHeaders a word", options={"includeHeaders": "yes"}, ours=REFUSED),
    Case(name="failOnDataLoss a word", options={"failOnDataLoss": "maybe"}, ours=REFUSED),
    Case(name="kafkaConsumer.pollTimeoutMs", options={"kafkaConsumer.pollTimeoutMs": "60000"}),
    Case(name="read_committed", options={"kafka.isolation.level": "read_committed"}),
    Case(name="no isolation level", options={"kafka.isolation.level": "some"}, ours=REFUSED,
         theirs=FAILED, why="the same, told before a task runs"),
    Case(name="kafka.fetch.max.bytes", options={"kafka.fetch.max.bytes": "1000"}),
    Case(name="names in another case", options={"STARTINGOFFSETS": offsets(4, 3)},
         ours=[4, 5, 6, 7, 8, 9, 13, 14]),
    Case(name="a typo", options={"startingOfsets": "earliest"}, ours=REFUSED, theirs=ALL,
         why="an option that has no effect is told"),
    Case(name="kafka.auto.offset.reset", options={"kafka.auto.offset.reset": "earliest"},
         ours=REFUSED),
    Case(name="kafka.enable.auto.commit", options={"kafka.enable.auto.commit": "true"},
         ours=REFUSED),
    Case(name="kafka.key.deserializer", options={"kafka.key.deserializer": "x"}, ours=REFUSED),
    Case(name="kafka.interceptor.classes", options={"kafka.interceptor.classes": "x"},
         ours=REFUSED),
    Case(name="fetchOffset.numRetries", options={"fetchOffset.numRetries": "5"}),
    Case(name="fetchOffset.retryIntervalMs", options={"fetchOffset.retryIntervalMs": "20"}),
    Case(name="groupIdPrefix", options={"groupIdPrefix": "mine"}),
    Case(name="kafka.group.id", options={"kafka.group.id": "mine"}),
    Case(name="kafka.client.rack", options={"kafka.client.rack": "here"}),
    Case(name="kafka.max.poll.records", options={"kafka.max.poll.records": "100"}),
    Case(name="kafka.session.timeout.ms", options={"kafka.session.timeout.ms": "20000"}),
    Case(name="an unknown kafka option", options={"kafka.no.such.thing": "1"}, ours=REFUSED,
         theirs=ALL, why="the list is closed: a typo in it is told"),
]  # fmt: skip

STREAMING = [
    Case(name="from earliest", options={"startingOffsets": "earliest"}, streaming=True),
    Case(name="from latest, the default", ours=[], streaming=True),
    Case(name="from offsets", options={"startingOffsets": offsets(4, 3)}, streaming=True,
         ours=[4, 5, 6, 7, 8, 9, 13, 14]),
    Case(name="from -1", options={"startingOffsets": offsets(4, -1)}, streaming=True,
         ours=list(range(4, 10))),
    Case(name="from offsets of some partitions", options={"startingOffsets": '{"TOPIC":{"0":4}}'},
         streaming=True, ours=REFUSED),
    Case(name="from a timestamp", streaming=True, ours=[9, *range(10, 15)],
         options={"startingTimestamp": "8500", "startingOffsetsByTimestampStrategy": "latest"}),
    Case(name="to an end", options={"endingOffsets": "latest"}, streaming=True, ours=REFUSED),
    Case(name="in small batches", streaming=True,
         options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}),
    Case(name="maxOffsetsPerTrigger a word", streaming=True, ours=REFUSED,
         options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": "few"}),
    Case(name="the least above the most", streaming=True, ours=REFUSED,
         options={"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "4"}),
    Case(name="fewer than minOffsetsPerTrigger at the first look", streaming=True,
         options={"startingOffsets": "earliest", "minOffsetsPerTrigger": "100",
                  "maxTriggerDelay": "1h"}, available_now=False),
    Case(name="maxTriggerDelay", streaming=True,
         options={"startingOffsets": "earliest", "minOffsetsPerTrigger": "4",
                  "maxTriggerDelay": "1m"}),
    Case(name="maxTriggerDelay a word", streaming=True, ours=REFUSED,
         options={"startingOffsets": "earliest", "minOffsetsPerTrigger": "4",
                  "maxTriggerDelay": "soon"}),
]  # fmt: skip

CASES = [*SUBSCRIBING, *STARTING, *ENDING, *SPLITTING, *OTHERS, *STREAMING]
