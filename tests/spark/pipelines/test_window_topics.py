"""Windows into a topic: each result once (append), or each change of it under its key (update),
whatever is killed. The state is Spark's, so a topic has the rows of the state's batches or the run
stops, as with a table (`test_windows.py`)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from josefine_broker.client.io_blocking import NewTopic
from josefine_broker.records.builder import Record
from pipelines.base.errors import ChainError
from tests.spark.pipelines.conftest import NOW_MS, Lab
from tests.support.committed import committed_records

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BEGIN_S = 1_767_225_600
"""2026-01-01T00:00:00Z, the start of a minute."""
FILE = """\
version: 1
name: lab
spark:
  conf: {{ spark.sql.shuffle.partitions: 2 }}
  checkpoint: ${{LAB}}/checkpoints
sources:
  events:
    type: josefine
    bootstrap: ${{BOOTSTRAP}}
    topics: [{topic}]
    start: earliest
    limit: {{ rows: "${{ROWS:-40}}" }}
    decode: {{ value: {{ format: json, schema: "k STRING, at BIGINT", on_error: fail }} }}
transforms:
  clean:
    inputs: [events]
    sql: select value.k, timestamp_seconds(value.at) as at from events
  per_minute:
    inputs: [clean]
    watermark: {{ clean: {{ column: at, delay: 10s }} }}
    sql: >
      select unix_timestamp(window.start) as minute, k, count(*) as n
      from clean group by window(at, '1 minute'), k
sinks:
  out: {{ type: josefine, inputs: [per_minute], topic: {topic}-out, {sink} }}
trigger: {{ available_now: true }}
"""
APPEND = "mode: append, key: [minute, k]"
UPDATE = "mode: update, key: [minute, k]"

Window = tuple[int, str]


class WindowLab:
    """Events of a topic, a pipeline that counts them by minute and key, and the counts' topic."""

    def __init__(self, lab: Lab, sink: str) -> None:
        self.lab, self.events = lab, list[tuple[str, int]]()
        lab.client.create_topics([NewTopic(f"{lab.topic}-out", 2)])
        self.write(sink)

    def write(self, sink: str, old: str = "", new: str = "") -> None:
        text = FILE.format(topic=self.lab.topic, sink=sink)
        assert old in text
        self.lab.file.write_text(text.replace(old, new) if old else text)

    def produce(self, *events: tuple[str, int]) -> None:
        """(key, seconds after the beginning), all into one partition, so that none is late."""
        values = [json.dumps({"k": k, "at": BEGIN_S + at}).encode() for k, at in events]
        self.lab.append(0, [Record(None, value, (), NOW_MS) for value in values])
        self.events += events

    def counts(self, seconds: int | None = None) -> Counter[Window]:
        """Of all windows, or of those that end at these seconds at the latest."""
        every = Counter((at // 60, k) for k, at in self.events)
        return Counter(
            {w: n for w, n in every.items() if seconds is None or (w[0] + 1) * 60 <= seconds}
        )

    def closed(self) -> Counter[Window]:
        return self.counts(max(at for _, at in self.events) - 10)

    def records(self) -> list[tuple[Window, Any]]:
        """(window, value) of the committed records; those of one key in their order."""
        found = []
        for each in committed_records(self.lab.client, f"{self.lab.topic}-out"):
            key = json.loads(each.key or b"")
            value = json.loads(each.value) if each.value is not None else None
            found.append((((key["minute"] - BEGIN_S) // 60, key["k"]), value))
        return found

    def last(self) -> dict[Window, int]:
        """What a compacted topic would keep."""
        return {window: value["n"] for window, value in self.records() if value is not None}


def test_a_closed_window_is_one_record_of_a_topic_whatever_dies(lab: Lab) -> None:
    """Killed between the decision and the checkpoint's log, and between rows and decision."""
    of = WindowLab(lab, APPEND)
    of.produce(("a", 5), ("b", 20), ("a", 58), ("a", 62))
    lab.die("mid_commit:2", rows=2)
    of.produce(("a", 75), ("b", 125), ("a", 170))
    lab.die("mid_write@2", rows=2)

    lab.run(rows=2)

    found = [(window, value["n"]) for window, value in of.records()]
    assert sorted(found) == sorted(of.closed().items())
    lab.lose_checkpoint()
    with pytest.raises(
        ChainError, match=r"its topic is there(.|\n)*new `topic` in(.|\n)*mode: merge"
    ):
        lab.run()


def test_each_change_of_a_window_is_one_record_and_the_last_one_its_count(lab: Lab) -> None:
    of = WindowLab(lab, UPDATE)
    of.produce(("a", 5), ("b", 20), ("a", 58), ("a", 62))
    lab.die("mid_commit:2", rows=2)
    of.produce(("a", 55), ("b", 65), ("b", 66), ("a", 70))
    lab.die("mid_write@2", rows=2)

    lab.run(rows=2)

    assert of.last() == of.counts()
    assert max(Counter(map(json.dumps, of.records())).values()) == 1, "no change is there twice"
