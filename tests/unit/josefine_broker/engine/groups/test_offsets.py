"""Committed offsets and their records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerId, TopicPartition
from josefine_broker.engine.groups.offsets import (
    CommittedOffset,
    GroupOffsets,
    coordinator_partition,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from josefine_broker.engine.groups.text_groups import marked

TP = TopicPartition("orders", 3)
times = st.integers(0, 2**50)
fields = {
    "offset": st.integers(-1, 2**63 - 1),
    "metadata": st.text(max_size=20),
    "commit_time_ms": times,
}
offsets = st.builds(
    CommittedOffset, leader_epoch=st.integers(-1, 2**31 - 1), expire_ms=st.just(-1), **fields
) | st.builds(CommittedOffset, leader_epoch=st.just(-1), expire_ms=times, **fields)
"""One that says when it expires has no leader epoch: it comes from clients older than those."""


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 2**31 - 1), offsets)
def test_key_and_value_survive_their_bytes(
    group_id: str, topic: str, partition: int, committed: CommittedOffset
) -> None:
    tp = TopicPartition(topic, partition)

    assert decode_key(encode_key(group_id, tp)) == (group_id, tp)
    assert decode_value(encode_value(committed)) == committed


def test_bytes_are_kafkas() -> None:
    """OffsetCommitKey v1 and OffsetCommitValue v3, as Kafka's own tools decode them."""
    key = encode_key("g", TopicPartition("t", 2))
    value = encode_value(CommittedOffset(5, 1, "m", 7))

    assert key.hex(" ", 1) == "00 01 00 01 67 00 01 74 00 00 00 02"
    assert value.hex() == "0003" + "0000000000000005" + "00000001" + "00016d" + "0000000000000007"


def test_an_offset_that_says_when_it_expires_is_of_the_version_that_can() -> None:
    value = encode_value(CommittedOffset(5, 1, "m", 7, 9))

    assert value.hex() == "0001" + "0000000000000005" + "00016d" + "0000000000000007" + (
        "0000000000000009"
    )


@pytest.mark.parametrize("version", [0, 2])
def test_older_values_are_read(version: int) -> None:
    """Of Kafka's, without leader epoch or expiry."""
    value = version.to_bytes(2) + bytes.fromhex("000000000000000500016d0000000000000007")

    assert decode_value(value) == CommittedOffset(5, -1, "m", 7)


@pytest.mark.parametrize(
    ("group_id", "absolute_hash"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", 1906497762),
        ("Grüße", 69215351),
        ("😀", 1772899),
        ("polygenelubricants", 0),
    ],
)
def test_partition_of_a_group_is_by_javas_hash(group_id: str, absolute_hash: int) -> None:
    """The hashes are a JVM's; the last one is -2**31, which has no absolute value."""
    assert coordinator_partition(group_id, 2**31) == absolute_hash
    assert coordinator_partition(group_id, 50) == absolute_hash % 50


def test_null_value_deletes_and_an_empty_group_is_gone() -> None:
    groups = GroupOffsets()
    groups.replay(encode_key("g", TP), encode_value(CommittedOffset(5, -1, "", 0)))

    groups.replay(encode_key("g", TP), None)

    assert groups.committed("g") == {}
    assert groups.group_ids == []


def test_later_record_wins() -> None:
    groups = GroupOffsets()

    for offset in (5, 3):
        groups.replay(encode_key("g", TP), encode_value(CommittedOffset(offset, -1, "", 0)))

    assert groups.committed("g")[TP].offset == 3


def test_key_of_version_0_is_one_of_version_1() -> None:
    """Their fields are the same; Kafka's oldest brokers wrote it."""
    groups = GroupOffsets()

    groups.replay(b"\0\0" + encode_key("g", TP)[2:], encode_value(CommittedOffset(5, -1, "", 0)))

    assert groups.committed("g")[TP].offset == 5


@pytest.mark.parametrize("key", [None, b"", b"\x00\x02\x00\x01g"])
def test_records_of_other_kinds_are_passed_over(key: bytes | None) -> None:
    groups = GroupOffsets()

    groups.replay(key, b"anything")

    assert groups.group_ids == []


@given(st.binary(max_size=40))
def test_damaged_bytes_are_corrupt_or_read(data: bytes) -> None:
    for decode in (decode_key, decode_value):
        try:
            decode(data)
        except CorruptData:
            continue


def test_holders_of_the_text_protocol_are_known_also_of_a_log_and_a_transaction() -> None:
    tps = [TopicPartition("t", each) for each in range(3)]

    def held(id_: str) -> CommittedOffset:
        return CommittedOffset(7, -1, marked(id_), 1)

    loaded = GroupOffsets()
    for tp, id_ in zip(tps, ("a", "b", ""), strict=True):
        loaded.replay(encode_key("g", tp), encode_value(held(id_)))
    offsets = GroupOffsets()
    offsets.adopt(loaded)
    assert offsets.holders("g") == {tps[0]: "a", tps[1]: "b"}

    offsets.store("g", tps[0], held(""))
    offsets.store("g", tps[2], held("c"))
    offsets.store_pending(ProducerId(5), "g", tps[1], CommittedOffset(8, -1, "", 1))
    offsets.settle(ProducerId(5), lambda group: True, is_commit=True)
    assert offsets.holders("g") == {tps[2]: "c"}
    assert offsets.holders("another") == {}

    offsets.store("g", tps[2], None)
    assert offsets.holders("g") == {}
    offsets.store("g", tps[2], held("d"))
    offsets.forget(lambda group: True)
    assert offsets.holders("g") == {}


def test_the_later_of_two_records_counts_whenever_its_transaction_ends() -> None:
    """The log cleaner leaves only that one: a replay must find what the coordinator said."""
    offsets, one, two = GroupOffsets(), ProducerId(1), ProducerId(2)
    at = [CommittedOffset(offset, -1, "", 1) for offset in range(5)]
    offsets.store_pending(one, "g", TP, at[0])
    offsets.store_pending(two, "g", TP, at[1])
    offsets.settle(two, lambda group: True, is_commit=True)
    offsets.settle(one, lambda group: True, is_commit=True)
    assert offsets.committed("g") == {TP: at[1]}

    offsets.store_pending(one, "g", TP, at[2])
    offsets.store("g", TP, at[3])
    assert not offsets.is_pending("g", TP)
    offsets.settle(one, lambda group: True, is_commit=True)
    assert offsets.committed("g") == {TP: at[3]}

    offsets.store_pending(one, "g", TP, at[0])
    offsets.store_pending(two, "g", TP, at[1])
    offsets.settle(two, lambda group: True, is_commit=False)
    offsets.settle(one, lambda group: True, is_commit=True)
    assert offsets.committed("g") == {TP: at[0]}, "aborted, it replaces nothing"


def test_what_was_pending_when_a_log_was_read_is_older_than_what_comes_then() -> None:
    loaded, one, two = GroupOffsets(), ProducerId(1), ProducerId(2)
    for offset in (1, 2, 3):
        loaded.store_pending(one, "g", TP, CommittedOffset(offset, -1, "", 1))
    offsets = GroupOffsets()
    offsets.adopt(loaded)

    offsets.store_pending(two, "g", TP, CommittedOffset(4, -1, "", 1))
    offsets.settle(two, lambda group: True, is_commit=True)
    offsets.settle(one, lambda group: True, is_commit=True)

    assert offsets.committed("g")[TP].offset == 4


Written = tuple[int, int, int]
"""Who wrote it (0: nobody's transaction), 0 or 1 for a marker that aborts or commits or 2 for an
offset, and which one."""


def replayed(log: list[Written]) -> dict[TopicPartition, CommittedOffset]:
    offsets = GroupOffsets()
    for producer, kind, offset in log:
        if kind < 2:
            offsets.settle(ProducerId(producer), lambda group: True, is_commit=kind == 1)
        else:
            value = encode_value(CommittedOffset(offset, -1, "", 1))
            offsets.replay(encode_key("g", TP), value, ProducerId(producer) if producer else None)
    return dict(offsets.committed("g"))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30))
def test_a_cleaned_log_of_transactional_commits_says_the_same(
    steps: list[tuple[int, int]],
) -> None:
    """The cleaner drops what was aborted, and of what was committed all but the last record."""
    log = [(who, min(kind, 2), at) for at, (who, kind) in enumerate(steps) if who or kind >= 2]
    log += [(producer, 1, len(steps)) for producer in (1, 2, 3)]
    said = replayed(log)

    ends: dict[int, int] = {0: 1}
    counted = []
    for at, (who, kind, _) in reversed(list(enumerate(log))):
        if kind < 2:
            ends[who] = kind
        elif ends[who] == 1:
            counted.append(at)
    cleaned = [each for at, each in enumerate(log) if each[1] < 2 or at in counted[:1]]

    assert replayed(cleaned) == said
