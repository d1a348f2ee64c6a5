"""`josefine mirror` between two real brokers: the same batches at the same offsets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import create_partitions
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient, NewTopic
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import RecordBatchBuilder
from tests.support.cli import josefine, josefine_process
from tests.support.fixtures import broker_fixture
from tests.support.waiting import wait_until

WAIT_S = 60.0

source = broker_fixture(group__initial_rebalance_delay_ms=0)
target = broker_fixture(group__initial_rebalance_delay_ms=0)


def create(broker: Any, topic: str, partitions: int = 1, **configs: str) -> None:
    # The records are years old.
    named = {"retention.ms": "-1"}
    named |= {name.replace("__", "."): each for name, each in configs.items()}
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(topic, partitions, configs=named)])
        client.partition_count(topic)


def send(broker: Any, topic: str, values: range, **options: object) -> None:
    """Records with keys and headers, from one producer of librdkafka."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **options})
    for n in values:
        producer.produce(
            topic, b"v%d" % n, key=b"k%d" % (n % 3), partition=0,
            headers={"n": str(n)}, timestamp=1_700_000_000_000 + n,
        )  # fmt: skip
    assert producer.flush(WAIT_S) == 0


def in_transaction(broker: Any, topic: str, values: range, *, commits: bool) -> None:
    options = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"t-{topic}"}
    producer = Producer(options)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for n in values:
        producer.produce(topic, b"t%d" % n, key=b"k%d" % (n % 3), partition=0)
    producer.flush(WAIT_S)
    if commits:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def batches(broker: Any, topic: str, partition: int = 0) -> list[bytes]:
    """The batches with records, whole but for their leader epochs."""
    found: list[bytes] = []
    offset, tp = 0, TopicPartition(topic, partition)
    with BlockingClient(broker.bootstrap) as client:
        while True:
            start = client.list_offsets({tp: EARLIEST})[tp].offset
            fetched = client.fetch({tp: max(start, offset)}, max_wait_ms=0)
            data = memoryview(fetched[tp].records)
            if not len(data):
                return found
            for at, header in iter_batches(data):
                offset = header.end_offset
                if header.record_count:
                    batch = bytes(data[at : at + header.size_bytes])
                    found.append(batch[:12] + batch[16:])


def topic_id(broker: Any, topic: str) -> Any:
    """By which checkpoints know it."""
    with BlockingClient(broker.bootstrap) as client:
        return client.metadata([topic]).topics[topic].topic_id


def session_of(broker: Any, topic: str) -> str | None:
    with BlockingClient(broker.bootstrap) as client:
        return client.describe_configs([topic])[topic]["josefine.mirror.session"].value


def has_some(broker: Any, topic: str) -> bool:
    """Whether a batch is there; the topic may be missing."""
    with BlockingClient(broker.bootstrap) as client:
        if client.metadata([topic]).topics[topic].error_code is not ErrorCode.none:
            return False
    return bool(batches(broker, topic))


def mirrored(source: Any, target: Any, topic: str, *more: str) -> Any:
    arguments = ("run", "--from", source.bootstrap, "--topic", topic, "--once")
    return josefine(target.bootstrap, "mirror", *arguments, *more)


@contextmanager
def mirroring(source: Any, target: Any, topic: str, *more: str) -> Iterator[Any]:
    """A running mirror in a process of its own, which is killed in the end."""
    arguments = ("run", "--from", source.bootstrap, "--topic", topic)
    process = josefine_process(target.bootstrap, "mirror", *arguments, *more)
    try:
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)


def test_batches_are_the_same_at_the_same_offsets(source: Any, target: Any) -> None:
    create(source, "all", cleanup__policy="compact,delete")
    send(source, "all", range(100), **{"compression.type": "zstd", "linger.ms": 5})
    in_transaction(source, "all", range(10), commits=True)
    in_transaction(source, "all", range(10), commits=False)
    send(source, "all", range(100, 150), **{"enable.idempotence": True})

    done = mirrored(source, target, "all")
    assert done.code == 0, done.err
    assert batches(target, "all") == batches(source, "all") != []
    assert topic_id(target, "all") == topic_id(source, "all")

    # Resumed at its end: what comes later follows, and nothing is stored twice.
    send(source, "all", range(150, 200))
    assert mirrored(source, target, "all").code == 0
    assert batches(target, "all") == batches(source, "all")
    checked = josefine(
        target.bootstrap, "mirror", "verify", "--from", source.bootstrap, "--topic", "all"
    )
    assert checked.code == 0, checked.err


def test_clients_cannot_write_to_a_mirror(source: Any, target: Any) -> None:
    create(source, "closed")
    send(source, "closed", range(3))
    assert mirrored(source, target, "closed").code == 0
    builder = RecordBatchBuilder()
    builder.append(b"k", b"v")
    batch = builder.build()
    with (
        BlockingClient(target.bootstrap) as client,
        pytest.raises(KafkaError, match="josefine mirror cutover") as refused,
    ):
        client.produce({TopicPartition("closed", 0): batch})
    assert refused.value.code is ErrorCode.policy_violation

    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": "t-closed"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("closed", b"t", partition=0)
    producer.flush(WAIT_S)
    with pytest.raises(KafkaException, match="Policy violation"):
        producer.commit_transaction(WAIT_S)
    assert batches(target, "closed") == batches(source, "closed")


def test_cut_over_topic_continues_at_the_next_record(source: Any, target: Any) -> None:
    create(source, "moved")
    send(source, "moved", range(20), **{"enable.idempotence": True})
    with BlockingClient(source.bootstrap) as client:
        client.commit_offsets("readers-1", {TopicPartition("moved", 0): 7})
    assert mirrored(source, target, "moved").code == 0
    send(source, "moved", range(20, 25))
    done = josefine(
        target.bootstrap, "mirror", "cutover", "--from", source.bootstrap, "--topic", "moved",
        "--group", "readers-*",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert batches(target, "moved") == batches(source, "moved")
    # The same producer id, epoch and sequence as the source's first batch: another producer here.
    send(target, "moved", range(20), **{"enable.idempotence": True})
    with BlockingClient(target.bootstrap) as client:
        tp = TopicPartition("moved", 0)
        assert client.committed_offsets("readers-1", [tp]) == {tp: 7}
        end = client.list_offsets({tp: -1})[tp]
        assert end.offset == 45
        configs = client.describe_configs(["moved"])["moved"]
        assert configs["josefine.mirror.end.epochs"].value == f"0:{end.leader_epoch}"
    again = mirrored(source, target, "moved")
    assert again.code
    assert "cut over" in again.err


def test_cut_over_without_the_source(source: Any, target: Any) -> None:
    create(source, "lost")
    send(source, "lost", range(5))
    assert mirrored(source, target, "lost").code == 0
    arguments = ("mirror", "cutover", "--topic", "lost")
    assert josefine(target.bootstrap, *arguments).code == 2, "neither --from nor --as-is"
    # A wrong topic among them ends no mirror of the others.
    before = session_of(target, "lost")
    for how in (("--as-is",), ("--from", source.bootstrap)):
        assert josefine(target.bootstrap, *arguments, "--topic", "none", *how).code == 1
        assert session_of(target, "lost") == before != ""
    done = josefine(target.bootstrap, *arguments, "--as-is")
    assert done.code == 0, done.err
    assert "lost-0: clients write from offset 5 on" in done.out
    send(target, "lost", range(5))
    again = josefine(target.bootstrap, *arguments, "--as-is")
    assert "topic 'lost' is not a mirror" in again.err


def test_idle_mirror_ends_at_a_cut_over_and_leaves_the_groups_alone(
    source: Any, target: Any
) -> None:
    """It appends nothing, so no broker refuses it; the source's offsets are old by now."""
    create(source, "idle")
    send(source, "idle", range(5))
    tp = TopicPartition("idle", 0)
    with BlockingClient(source.bootstrap) as theirs, BlockingClient(target.bootstrap) as ours:
        theirs.commit_offsets("idle-1", {tp: 2})
        with mirroring(source, target, "idle", "--group", "idle-1") as process:
            wait_until(lambda: has_some(target, "idle"), WAIT_S, "the first record")
            wait_until(lambda: ours.committed_offsets("idle-1", [tp]) == {tp: 2}, WAIT_S, "group")
            arguments = ("cutover", "--from", source.bootstrap, "--topic", "idle")
            assert josefine(target.bootstrap, "mirror", *arguments).code == 0
            ours.commit_offsets("idle-1", {tp: 5})
            assert process.wait(WAIT_S) == 0
        assert ours.committed_offsets("idle-1", [tp]) == {tp: 5}
    assert "topic 'idle' was cut over" in process.stderr.read()


def test_open_transaction_is_awaited_before_the_cut_over(source: Any, target: Any) -> None:
    create(source, "open")
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "t-open"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("open", b"t", partition=0)
    producer.flush(WAIT_S)
    arguments = ("cutover", "--from", source.bootstrap, "--topic", "open", "--timeout")
    refused = josefine(target.bootstrap, "mirror", *arguments, "300ms")
    assert refused.code
    assert "a transaction is open in open-0" in refused.err
    producer.abort_transaction(WAIT_S)
    done = josefine(target.bootstrap, "mirror", *arguments, "30s")
    assert done.code == 0, done.err
    assert batches(target, "open") == batches(source, "open")
    assert len(batches(target, "open")) == 2


def test_log_start_and_gaps_are_those_of_the_source(source: Any, target: Any) -> None:
    create(source, "trimmed")
    send(source, "trimmed", range(30), **{"linger.ms": 100})
    tp = TopicPartition("trimmed", 0)
    with BlockingClient(source.bootstrap) as client:
        client.delete_records({tp: 17})
    assert mirrored(source, target, "trimmed").code == 0
    assert mirrored(source, target, "trimmed").code == 0
    with BlockingClient(target.bootstrap) as client:
        assert client.list_offsets({tp: EARLIEST})[tp].offset == 17
        assert client.list_offsets({tp: LATEST})[tp].offset == 30


def test_source_that_has_no_mirrored_record_left_is_known_by_its_epochs(
    source: Any, target: Any
) -> None:
    check_epochs(source, target)


def test_source_that_cannot_show_what_it_had_stops_the_mirror(source: Any, target: Any) -> None:
    check_unknown(source, target)


def check_epochs(source: Any, target: Any) -> None:
    """A source that has no mirrored record left is known by its leader epochs."""
    create(source, "led")
    send(source, "led", range(3))
    tp = TopicPartition("led", 0)
    assert mirrored(source, target, "led").code == 0

    source.restart()  # another leader epoch, of which the mirror learns while nothing is written
    assert mirrored(source, target, "led").code == 0
    with BlockingClient(source.bootstrap) as client:
        epoch = client.list_offsets({tp: LATEST})[tp].leader_epoch
        client.delete_records({tp: 3})
    send(source, "led", range(3, 5))
    assert mirrored(source, target, "led").code == 0
    with BlockingClient(target.bootstrap) as client:
        assert client.list_offsets({tp: LATEST})[tp].offset == 5
        notes = client.describe_configs(["led"])["led"]["josefine.mirror.epochs"].value
    assert f"0:3:{epoch}:" in (notes or "")


def check_unknown(source: Any, target: Any) -> None:
    """Another leader, no record of the one before it, and no mirror that saw it change."""
    create(source, "gone")
    send(source, "gone", range(3))
    assert mirrored(source, target, "gone").code == 0
    source.restart()
    send(source, "gone", range(3, 4))
    with BlockingClient(source.bootstrap) as client:
        client.delete_records({TopicPartition("gone", 0): 3})

    found = mirrored(source, target, "gone")

    assert found.code == 1
    assert "has deleted everything before offset 3" in found.err


def test_configs_follow_the_source(source: Any, target: Any) -> None:
    create(source, "configured", 2, retention__ms="111", segment__bytes="4096")
    assert mirrored(source, target, "configured").code == 0
    with BlockingClient(source.bootstrap) as client:
        client.alter_configs({"configured": {"retention.ms": None, "segment.bytes": "8192"}})
        client.run(lambda s, t, d: create_partitions(s, {"configured": 3}, False, t, d))
    assert mirrored(source, target, "configured").code == 0
    with BlockingClient(target.bootstrap) as client:
        assert client.partition_count("configured") == 3
        found = client.describe_configs(["configured"])["configured"]
    assert found["retention.ms"].is_default
    assert found["segment.bytes"].value == "8192"


def test_source_that_was_created_again_is_another_one(source: Any, target: Any) -> None:
    create(source, "again")
    send(source, "again", range(3))
    with mirroring(source, target, "again") as process:
        wait_until(lambda: has_some(target, "again"), WAIT_S, "the first record")
        with BlockingClient(source.bootstrap) as client:
            client.delete_topics(["again"])
        create(source, "again")
        send(source, "again", range(9))
        assert process.wait(WAIT_S) == 1
    assert "was deleted and created again" in process.stderr.read()
    refused = mirrored(source, target, "again")
    assert refused.code
    assert "deleted and created again" in refused.err


def test_last_mirror_ends_the_one_before(source: Any, target: Any) -> None:
    create(source, "twice")
    send(source, "twice", range(3))
    with mirroring(source, target, "twice") as process:
        wait_until(lambda: has_some(target, "twice"), WAIT_S, "the first record")
        assert mirrored(source, target, "twice").code == 0
        send(source, "twice", range(3))
        # No failure: a service manager must not start it again.
        assert process.wait(WAIT_S) == 0
    assert "this session no longer mirrors the topic" in process.stderr.read()


def test_mirror_that_is_killed_repeats_and_skips_nothing(source: Any, target: Any) -> None:
    create(source, "killed")
    send(source, "killed", range(20))
    count = 20
    for _ in range(3):
        with mirroring(source, target, "killed") as process:
            wait_until(lambda: has_some(target, "killed"), WAIT_S, "the first record")
            before = len(batches(target, "killed"))
            while len(batches(target, "killed")) < before + 2:
                send(source, "killed", range(count, count + 20))
                count += 20
            process.kill()
    assert mirrored(source, target, "killed").code == 0
    assert batches(target, "killed") == batches(source, "killed")
