"""Records of `__transaction_state`, byte for byte as Kafka writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.transactions.records import (
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


def test_bytes_are_those_of_the_schema() -> None:
    """TransactionLogKey and TransactionLogValue, version 0."""
    assert encode_key("t") == bytes.fromhex("0000 0001 74")
    assert encode_value(RECORD) == BYTES


@given(
    st.sampled_from(TransactionState),
    st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 9)), max_size=5),
    st.integers(-1, 2**62),
)
def test_what_is_written_is_read(
    state: TransactionState, partitions: frozenset[tuple[str, int]], started_ms: int
) -> None:
    record = TransactionRecord(
        producer=Producer(2**40, 2**15 - 1),
        timeout_ms=1,
        state=state,
        partitions=frozenset(TopicPartition(*each) for each in partitions),
        updated_ms=3,
        started_ms=started_ms,
    )

    assert decode_value(encode_value(record)) == record
    assert decode_key(encode_key("transaction")) == "transaction"


def test_other_versions_are_not_guessed_at() -> None:
    assert decode_key(b"\0\1" + encode_key("t")[2:]) is None
    with pytest.raises(CorruptData, match="version 1"):
        decode_value(b"\0\1" + BYTES[2:])
    with pytest.raises(CorruptData, match="status 9"):
        decode_value(BYTES[:16] + b"\x09" + BYTES[17:])
    for size in range(len(BYTES)):
        with pytest.raises(CorruptData):
            decode_value(BYTES[:size])
