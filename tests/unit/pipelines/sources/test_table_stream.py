"""The Delta source without Spark: its versions and its options."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.base.errors import SetupError
from pipelines.config.table_stream import table_stream_of
from pipelines.exactly_once.table_position import TABLE, VERSION
from pipelines.sources.kinds import ANY_KIND
from pipelines.sources.table_stream import options_of
from tests.unit.pipelines.config.sections import section


def source(path: object, words: str = ""):
    text = f"type: delta\nstream: true\npath: {path}\nschema: id INT{words}"
    return table_stream_of("t", section(text, "source"))


def test_bounds_of_a_table_are_its_versions(tmp_path):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    found = ANY_KIND.look(source(tmp_path))
    assert found.earliest == {TABLE: 0}
    assert found.latest.ends == {TABLE: 3 * VERSION}
    assert found.latest.topic_ids[TABLE.topic]


def test_missing_table_is_named(tmp_path):
    with pytest.raises(SetupError, match=f"{tmp_path}/none is not a Delta table"):
        ANY_KIND.look(source(tmp_path / "none"))


def test_words_of_the_file_are_options_of_delta():
    words = "\non_change: ignore_deletes\nlimit: { files: 2, bytes: 1MiB }\nstart: { version: 4 }"
    assert options_of(source("/t", words)) == {
        "startingVersion": "4",
        "maxFilesPerTrigger": "2",
        "maxBytesPerTrigger": "1048576b",
        "ignoreDeletes": "true",
    }
    assert options_of(source("/t", "\nchanges: true")) == {"readChangeFeed": "true"}
