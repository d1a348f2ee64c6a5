"""`compression.type` of a topic: the codec that its batches are stored with."""

from itertools import product

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.changes import AlterTopicConfig
from josefine_broker.engine.metadata.topic_config import COMPRESSIONS
from josefine_broker.records.batch import iter_batches, parse_header, stamp_crc, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.codecs import Compression
from josefine_broker.records.reader import read_records
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.transaction_clients import TXN, Client, find
from tests.unit.josefine_broker.api.world import NOW_MS, World, batch_of, values_in

VALUES = (b"first " * 30, b"second " * 30, b"")


def sent(codec: int, **fields: int) -> bytes:
    return batch_of(*VALUES, compression=codec, **fields)


def stored(world: World) -> list[bytes]:
    """Each batch as the log has it."""
    return batches(world.ctx.hosted.partitions["orders", 0])


def batches(hosted: HostedPartition) -> list[bytes]:
    data = b"".join(hosted.log.read(0, 1 << 20)) if hosted.log.log_end_offset else b""
    return [data[pos : pos + header.size_bytes] for pos, header in iter_batches(data)]


@pytest.mark.parametrize(("name", "codec"), list(product(COMPRESSIONS, range(5))))
def test_batch_is_stored_with_the_topics_codec(name: str, codec: int) -> None:
    world = World()
    world.create(compression_type=name)

    offsets = [world.produce(sent(codec)).base_offset for _ in range(2)]

    wanted = COMPRESSIONS[name]
    _, second = stored(world)
    assert offsets == [0, 3]
    assert parse_header(second).compression == (codec if wanted is None else wanted)
    verify(second, 0, parse_header(second))
    assert [each.offset for each in read_records(second)] == [3, 4, 5]
    assert values_in(world.fetch()) == [*VALUES, *VALUES]


@pytest.mark.parametrize(("name", "codec"), [("producer", 3), ("gzip", 1), ("uncompressed", 0)])
def test_batch_that_has_the_codec_is_stored_as_it_was_sent(name: str, codec: int) -> None:
    """Whatever its level is, as in Kafka."""
    world = World()
    world.create(compression_type=name, compression_gzip_level="9")

    world.produce(sent(codec))

    assert stored(world)[0][17:] == sent(codec)[17:], "all but offset, length and leader epoch"


def test_topics_level_is_that_of_its_codec() -> None:
    sizes = {}
    for level in ("1", "9"):
        world = World()
        world.create(compression_type="gzip", compression_gzip_level=level)
        world.produce(batch_of(b"".join(b"%d," % (n * 7919 % 1013) for n in range(3_000))))
        sizes[level] = len(stored(world)[0])

    assert sizes["9"] < sizes["1"]


def test_codec_changes_with_the_topics_config() -> None:
    world = World()
    world.create()
    world.produce(sent(1))
    config = (("compression.type", "zstd"),)
    topic = world.ctx.image.topics["orders"].topic_id
    world.propose(AlterTopicConfig(topic_id=topic, assign=config, remove=()))
    world.produce(sent(1))

    assert [parse_header(each).compression for each in stored(world)] == [1, 4]


def test_repeated_batch_has_its_first_offset() -> None:
    world = World()
    world.create(compression_type="zstd")
    batch = sent(1, producer_id=7, producer_epoch=0, base_sequence=0)

    first, again = world.produce(batch), world.produce(batch)

    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    assert len(stored(world)) == 1


def test_brokers_time_is_stamped_on_a_batch_with_another_codec() -> None:
    world = World()
    world.create(compression_type="lz4", message_timestamp_type="LogAppendTime")
    world.advance(5)

    answer = world.produce(sent(4))

    (batch,) = stored(world)
    verify(batch, 0, parse_header(batch))
    assert answer.log_append_time_ms == NOW_MS + 5
    assert {each.timestamp_ms for each in read_records(batch)} == {NOW_MS + 5}


def test_batch_that_is_too_large_with_the_topics_codec_is_refused() -> None:
    world = World()
    world.create(compression_type="uncompressed", max_message_bytes="1000")

    answer = world.produce(batch_of(b"x" * 5_000, compression=4))

    assert answer.error_code == ErrorCode.message_too_large
    assert answer.error_message is not None
    assert answer.error_message.startswith("a batch of 5")
    assert world.produce(batch_of(b"x")).base_offset == 0


def test_batch_that_cannot_be_decompressed_is_refused() -> None:
    world = World()
    world.create(compression_type="zstd")
    batch = bytearray(build_batch([Record(b"k", b"v")], compression=int(Compression.GZIP)))
    batch[70:] = bytes(len(batch) - 70)
    stamp_crc(batch)

    assert world.produce(batch).error_code != ErrorCode.none
    assert stored(world) == []


def test_followers_store_what_their_leader_has() -> None:
    cluster = Replicas()
    cluster.create(replicas=((1, 2, 3),), compression_type="zstd")
    cluster.produce(1, b"v" * 500)
    cluster.run()

    copies = [batches(cluster.hosted(each)) for each in (1, 2, 3)]

    assert parse_header(copies[0][0]).compression == Compression.ZSTD
    assert copies == [copies[0]] * 3


def test_markers_of_transactions_stay_as_they_are() -> None:
    world = World()
    world.create(compression_type="gzip")
    find(world.ask, TXN, 1)
    client = Client(world.ask)
    client.init()
    client.add()
    client.produce()

    assert client.end() is ErrorCode.none

    headers = [parse_header(each) for each in stored(world)]
    assert [(each.is_control, each.is_transactional, each.compression) for each in headers] == [
        (False, True, Compression.GZIP),
        (True, True, Compression.NONE),
    ]
    assert world.fetch(0, isolation=1).last_stable_offset == headers[-1].end_offset
