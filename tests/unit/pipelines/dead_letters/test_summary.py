"""A dead letter as a person reads it."""

from __future__ import annotations

import pytest

from pipelines.dead_letters.summary import letter_as_text, waiting
from pipelines.formats.decode import UNREADABLE_REASON
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.local_hadoop import LocalHadoop


def letter(**more):
    row = {"source": "raw", "topic": "t", "partition": 0, "offset": 7, "timestamp": "now",
           "reason": "not JSON", "key": None, "value": b"x"}  # fmt: skip
    return letter_as_text({**row, "headers": [], **more})


@pytest.mark.parametrize(
    ("data", "text"), [(None, None), (b"", ""), ("é".encode(), "é"), (b"a\xff", "a\\xff")]
)
def test_bytes_are_shown_as_text_and_what_is_no_text_is_escaped(data, text):
    assert letter(value=data)["value"] == text
    assert letter(key=bytearray(data) if data else data)["key"] == text


def test_the_bytes_of_a_record_batch_are_counted_and_not_shown():
    found = letter(reason=f"{UNREADABLE_REASON}3 to 5: crc", value=b"abc", key=b"k")

    assert (found["key"], found["value"]) == (None, "3 bytes of a batch")
    assert letter(reason=f"{UNREADABLE_REASON}3 to 5: crc", value=b"a")["value"] == (
        "1 byte of a batch"
    )


def test_a_letter_shows_its_record_and_its_reason_and_no_other_column():
    assert [*letter()] == [
        "source", "topic", "partition", "offset", "timestamp", "reason", "sink", "stage",
        "key", "value",
    ]  # fmt: skip


def test_without_a_table_nothing_waits(tmp_path):
    pipeline, _, _ = read(GOOD + f"dead_letter: {{ type: delta, path: {tmp_path}/dead }}\n")

    assert waiting(LocalHadoop(), pipeline, every=False) == []
