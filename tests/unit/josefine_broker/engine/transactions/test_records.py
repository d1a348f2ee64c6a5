"""Records of `__transaction_state`, byte for byte as Kafka writes them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.transactions.records import (
    PLAIN_VERSION,
    TAGGED_VERSION,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import Producer, TransactionRecord

RECORD = TransactionRecord(
    producer=Producer(7, 3),
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("a", 1), TopicPartition("a", 0)}),
    updated_ms=5,
    started_ms=4,
)
BYTES = bytes.fromhex(
    "0000 0000000000000007 0003 0000ea60 01 00000001 0001 61 00000002 00000000 00000001"
    "0000000000000005 0000000000000004"
)


TAGGED = bytes.fromhex(
    "0001 0000000000000007 0003 0000ea60 01 02 02 61 03 00000000 00000001 00"
    "0000000000000005 0000000000000004 00"
)


def test_bytes_are_those_of_the_schema() -> None:
    """TransactionLogKey and TransactionLogValue, version 0."""
    assert encode_key("t") == bytes.fromhex("0000 0001 74")
    assert encode_value(RECORD) == BYTES


def test_tagged_bytes_are_those_of_the_schema() -> None:
    """TransactionLogValue, version 1: compact lengths, and of the tags those that say something."""
    rotating = replace(RECORD, previous_id=6, next_id=8, version=2)

    assert encode_value(RECORD, TAGGED_VERSION) == TAGGED
    assert encode_value(rotating, TAGGED_VERSION) == TAGGED[:-1] + bytes.fromhex(
        "03 00 08 0000000000000006 01 08 0000000000000008 02 02 0002"
    )


def test_tags_of_newer_code_are_passed_over_and_no_partitions_are_none() -> None:
    """Tag 3 is KIP-939's next epoch."""
    newer = TAGGED[:-1] + bytes.fromhex("01 09 02 0007")
    assert decode_value(newer) == RECORD
    nullable = TAGGED[:17] + b"\0" + TAGGED[-17:]
    assert decode_value(nullable) == replace(RECORD, partitions=frozenset())
    with pytest.raises(CorruptData, match="tag 2 of a transaction value has 1 bytes"):
        decode_value(TAGGED[:-1] + bytes.fromhex("01 02 01 02"))


@given(
    st.sampled_from(TransactionState),
    st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 9)), max_size=5),
    st.integers(-1, 2**62),
    st.sampled_from((PLAIN_VERSION, TAGGED_VERSION)),
)
def test_what_is_written_is_read(
    state: TransactionState,
    partitions: frozenset[tuple[str, int]],
    started_ms: int,
    version: int,
) -> None:
    record = TransactionRecord(
        producer=Producer(2**40, 2**15 - 1),
        timeout_ms=1,
        state=state,
        partitions=frozenset(TopicPartition(*each) for each in partitions),
        updated_ms=3,
        started_ms=started_ms,
    )

    assert decode_value(encode_value(record, version)) == record
    rotating = replace(record, previous_id=3, next_id=2**62, next_epoch=7, version=2)
    kept = rotating if version == TAGGED_VERSION else record
    assert decode_value(encode_value(rotating, version)) == kept
    assert decode_key(encode_key("transaction")) == "transaction"


def test_other_versions_are_not_guessed_at() -> None:
    assert decode_key(b"\0\1" + encode_key("t")[2:]) is None
    with pytest.raises(CorruptData, match="version 2"):
        decode_value(b"\0\2" + BYTES[2:])
    with pytest.raises(CorruptData, match="status 9"):
        decode_value(BYTES[:16] + b"\x09" + BYTES[17:])
    for whole in (BYTES, TAGGED):
        for size in range(len(whole)):
            with pytest.raises(CorruptData):
                decode_value(whole[:size])
