"""MirrorMaker 2 between a broker of ours and an Apache Kafka, both ways in one process.

It ships no suite that can meet another broker; what its own integration tests look at are the cases
here: records, headers, partitions, settings of topics, later records, and groups' offsets.

It is 4.3.0's: Maven's registry has Kafka's broker, clients and tools of 4.4.0, but not
`connect-mirror` (asked on 2026-11-27).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.foreign.suite import FAILED, PASSED, Needs, Outcome, Outcomes, UnavailableError, why_no
from tests.support.apache_kafka import NAME, POM, ApacheKafka
from tests.support.maven import NoJarsError, jars_of
from tests.support.waiting import wait_until

MIRROR_POM = Path(__file__).with_name("pom.xml")
VERSION = "4.3.0"
MIRROR_NAME = f"mirror-maker-{VERSION}"
COUNT, PARTITIONS = 600, 3
MIRRORS_SECONDS = 180
SETTINGS = {
    "retention.ms": "-1",
    "min.cleanable.dirty.ratio": "0.0001",
    "cleanup.policy": "delete",
    "segment.bytes": "10485760",
    "max.message.bytes": "2000000",
    "compression.type": "producer",
}
"""Of the source's topic: the copy has to have the same. Kafka describes 0.0001 as 1.0E-4."""
Case = Callable[["Direction"], None]


class MirrorMaker:
    """A pair of clusters, a Java process between them."""

    name = "MirrorMaker 2"
    version = VERSION
    needs = Needs()
    excluded: Mapping[str, str] = {}
    reasons: Mapping[str, str] = {}

    def why_not(self) -> str:
        return why_no("java")

    def build(self) -> None:
        try:
            jars_of(POM, NAME)
            jars_of(MIRROR_POM, MIRROR_NAME)
        except NoJarsError as error:
            raise UnavailableError(str(error)) from error

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        with ApacheKafka(scratch / "kafka") as kafka:
            places = {"ours": bootstrap, "kafka": kafka.bootstrap}
            ways = [Direction("ours", "kafka", places), Direction("kafka", "ours", places)]
            for way in ways:
                way.fill()
            with mirroring(places, scratch):
                return {
                    f"{way.source} → {way.target}: {name}": _outcome(case, way)
                    for way in ways
                    for name, case in CASES.items()
                }


class Direction:
    """From one cluster to the other: a topic, a group that has read half of it, their copies."""

    def __init__(self, source: str, target: str, places: Mapping[str, str]) -> None:
        self.source, self.target = source, target
        self.topic = f"from-{source}"
        self.copy = f"{source}.{self.topic}"
        self.group = f"readers-of-{source}"
        self.at_source, self.at_target = places[source], places[target]

    def fill(self) -> None:
        """Make the topic and the group's commits before anything is mirrored."""
        admin = AdminClient({"bootstrap.servers": self.at_source})
        topic = NewTopic(self.topic, PARTITIONS, 1, config=SETTINGS)
        for created in admin.create_topics([topic]).values():
            created.result()
        self.produce(range(COUNT))
        self.commit(COUNT // PARTITIONS // 2)

    def commit(self, offset: int) -> None:
        """The group's offset in each partition of the source."""
        offsets = [TopicPartition(self.topic, each, offset) for each in self.all()]
        consumer = Consumer({"bootstrap.servers": self.at_source, "group.id": self.group})

        def committed() -> bool:
            # The first request for a coordinator creates the topic of offsets.
            with suppress(KafkaException):
                return bool(consumer.commit(offsets=offsets, asynchronous=False))
            return False

        wait_until(committed, 60, f"a commit of {self.group}")
        consumer.close()

    def all(self) -> range:
        """The partitions."""
        return range(PARTITIONS)

    def produce(self, numbers: range) -> None:
        """A record for each number, spread over the partitions in turn."""
        producer = Producer({"bootstrap.servers": self.at_source, "compression.type": "lz4"})
        for n in numbers:
            producer.produce(
                self.topic, f"v{n}", f"k{n}", partition=n % PARTITIONS, headers={"n": str(n)}
            )
        assert producer.flush(60) == 0

    def ends(self) -> list[int]:
        """The end offsets of the copy; 0 where it is not there yet."""
        consumer = Consumer({"bootstrap.servers": self.at_target, "group.id": "ends"})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(self.copy, each), timeout=10)[1]
                for each in self.all()
            ]
        except KafkaException:
            return []
        finally:
            consumer.close()

    def wait_copied(self, count: int) -> None:
        """Until the copy has so many records."""
        wait_until(lambda: sum(self.ends()) >= count, MIRRORS_SECONDS, f"{count} in {self.copy}")


def _records(way: Direction) -> None:
    way.wait_copied(COUNT)
    assert _read(way, COUNT) == {
        (n % PARTITIONS, n // PARTITIONS, f"k{n}", f"v{n}", str(n)) for n in range(COUNT)
    }


def _read(way: Direction, count: int) -> set[tuple[int, int, str, str, str]]:
    consumer = Consumer({"bootstrap.servers": way.at_target, "group.id": "reader"})
    consumer.assign([TopicPartition(way.copy, each, 0) for each in way.all()])
    found: set[tuple[int, int, str, str, str]] = set()

    def complete() -> bool:
        for each in consumer.consume(1_000, 1.0):
            assert each.error() is None, each.error()
            (header,) = each.headers() or []
            texts = (each.key().decode(), each.value().decode(), header[1].decode())
            found.add((each.partition(), each.offset(), *texts))
        return len(found) >= count

    try:
        wait_until(complete, 60, f"{count} records of {way.copy}")
    finally:
        consumer.close()
    return found


def _settings(way: Direction) -> None:
    way.wait_copied(1)
    admin = AdminClient({"bootstrap.servers": way.at_target})
    resource = ConfigResource(ConfigResource.Type.TOPIC, way.copy)

    def different() -> dict[str, tuple[str, str]]:
        (described,) = admin.describe_configs([resource]).values()
        have = {name: entry.value for name, entry in described.result().items()}
        return {
            name: (have[name], wanted)
            for name, wanted in SETTINGS.items()
            if _number(have[name]) != _number(wanted)
        }

    try:
        wait_until(lambda: not different(), MIRRORS_SECONDS / 3, "the settings of the copy")
    except AssertionError:
        raise AssertionError(f"the copy differs: {different()}") from None


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _later_records(way: Direction) -> None:
    way.wait_copied(COUNT)
    way.produce(range(COUNT, 2 * COUNT))
    way.wait_copied(2 * COUNT)


def _group_offsets(way: Direction) -> None:
    """Only offsets behind what was mirrored since MirrorMaker began can be translated."""
    ends = 2 * COUNT // PARTITIONS
    way.wait_copied(2 * COUNT)
    way.commit(ends)
    admin = AdminClient({"bootstrap.servers": way.at_target})
    partitions = [TopicPartition(way.copy, each) for each in way.all()]
    wanted = ConsumerGroupTopicPartitions(way.group, partitions)

    def translated() -> bool:
        (asked,) = admin.list_consumer_group_offsets([wanted]).values()
        return all(0 < each.offset <= ends for each in asked.result().topic_partitions)

    wait_until(translated, MIRRORS_SECONDS / 2, f"offsets of {way.group} at {way.target}")


def _internal_topics(way: Direction) -> None:
    """Heartbeats cross, and so does the topic of checkpoints come to be where the groups go."""
    admin = AdminClient({"bootstrap.servers": way.at_target})
    wanted = {f"{way.source}.heartbeats", f"{way.source}.checkpoints.internal"}
    wait_until(lambda: wanted <= {*admin.list_topics().topics}, MIRRORS_SECONDS, str(wanted))


CASES: Mapping[str, Case] = {
    "records, keys, headers and partitions": _records,
    "settings of topics": _settings,
    "records that come later": _later_records,
    "offsets of groups": _group_offsets,
    "heartbeats and checkpoints": _internal_topics,
}


def _outcome(case: Case, way: Direction) -> Outcome:
    try:
        case(way)
    except (AssertionError, KafkaException) as error:
        return Outcome(FAILED, str(error)[:300])
    return Outcome(PASSED)


@contextmanager
def mirroring(places: Mapping[str, str], scratch: Path) -> Iterator[None]:
    """MirrorMaker runs meanwhile; what it logs is in `mirror.log`."""
    config = scratch / "mirror.properties"
    config.write_text("".join(f"{line}\n" for line in _configuration(places)))
    jars = os.pathsep.join(jars_of(MIRROR_POM, MIRROR_NAME))
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-cp", jars)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    with (scratch / "mirror.log").open("wb") as log:
        process = subprocess.Popen(
            ["java", *quick, quiet, main, str(config)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _configuration(places: Mapping[str, str]) -> Iterator[str]:
    yield f"clusters={','.join(places)}"
    for name, bootstrap in places.items():
        yield f"{name}.bootstrap.servers={bootstrap}"
        for each in ("offset", "config", "status"):
            yield f"{name}.{each}.storage.replication.factor=1"
    for way in ("ours->kafka", "kafka->ours"):
        yield f"{way}.enabled=true"
        yield f"{way}.topics=from-.*"
        yield f"{way}.groups=readers-.*"
    yield from (
        "replication.factor=1",
        "heartbeats.topic.replication.factor=1",
        "checkpoints.topic.replication.factor=1",
        "offset-syncs.topic.replication.factor=1",
        "refresh.topics.interval.seconds=2",
        "refresh.groups.interval.seconds=2",
        "sync.topic.configs.interval.seconds=2",
        "emit.checkpoints.interval.seconds=2",
        "emit.heartbeats.interval.seconds=2",
        "sync.group.offsets.enabled=true",
        "sync.group.offsets.interval.seconds=2",
        "offset.lag.max=10",
        "consumer.auto.offset.reset=earliest",
    )
