"""What is said through the text protocol is read by Spark, and the reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.connector.conftest import Topics
from tests.spark.connector.test_sink import ALL_COLUMNS, write
from tests.support.broker import BrokerProcess
from tests.support.text import TextSocket, text_address

pytestmark = pytest.mark.spark


def test_what_text_writes_spark_reads_and_the_reverse(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, read: Callable[..., DataFrame]
) -> None:
    """Checklist row 52."""
    topic = topics.create()
    with TextSocket(text_address(broker)) as text:
        said = text.say(f'PUBS {topic} {{"Header":"h","Key":"k","Body":"said"}}')
        found = read(topic, includeHeaders="true").collect()
        row: dict[str, Any] = {
            "key": b"key", "value": "geschrieben ü".encode(), "topic": topic, "partition": 0,
            "headers": [("Header", b"head")],
        }  # fmt: skip
        write(spark.createDataFrame([tuple(row.values())], ALL_COLUMNS), topics)
        (id_,) = text.data(f"SUBS {topic} readers")
        told = text.data(f"CONS {topic} {id_} 1")

    assert said == "Done"
    assert [(r.key, r.value, r.headers[0].key, r.headers[0].value) for r in found] == [
        (b"k", b"said", "Header", b"h")
    ]
    assert [(each["Header"], each["Key"], each["Body"]) for each in told] == [
        ("head", "key", "geschrieben ü")
    ]
