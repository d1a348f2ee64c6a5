"""What `consume --decode` makes of its options, without a broker."""

from __future__ import annotations

import json

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UsageError
from josefine_cli.kafka.decode import decoding

TP = TopicPartition("t", 0)
AVRO = json.dumps({"type": "record", "name": "T", "fields": [{"name": "id", "type": "int"}]})


def test_values_are_decoded_by_the_format_that_is_named() -> None:
    with decoding("csv", "t", "id INT, note STRING", None, None) as decoded:
        assert decoded is not None
        assert decoded(TP, Record(None, b"1,a")) == '{"id":1,"note":"a"}'
    with decoding("avro", "t", AVRO, None, None) as decoded:
        assert decoded is not None
        assert decoded(TP, Record(None, b"\x0a")) == '{"id":5}'


def test_without_the_option_nothing_is_decoded_and_its_words_are_refused() -> None:
    with decoding(None, "t", None, None, None) as decoded:
        assert decoded is None
    with pytest.raises(UsageError, match="--registry is of --decode"):
        decoding(None, "t", None, None, "http://r").__enter__()
