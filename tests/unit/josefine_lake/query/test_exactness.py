"""The rows of a query are those of the printed offsets, wherever the table's writer committed.

Random records, tombstones, bad records, markers, aborted and open transactions in memory; real
Delta tables, the real writer and DuckDB.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.josefine_lake.query.world import MemoryTopic, ask, json_topic, write

KEYS = 5
STEPS = 40


def a_step(topic: MemoryTopic, chance: random.Random) -> None:
    """One thing that happens to a topic."""
    at = chance.randrange(len(topic.logs))
    key = str(chance.randrange(KEYS) * len(topic.logs) + at)
    match chance.choice([*["row"] * 5, "tombstone", "bad", "gap", "open", *["decide"] * 3]):
        case "row":
            value = {"id": int(key), "amount": chance.randrange(100) / 4}
            topic.send(at, json.dumps(value).encode(), key=b'{"id":' + key.encode() + b"}")
        case "tombstone":
            topic.send(at, None, key=b'{"id":' + key.encode() + b"}")
        case "bad":
            topic.send(at, b"not json")
        case "gap":
            topic.move(at, chance.randrange(1, 4))
        case "open":
            topic.last[at] += 1  # the last stable offset stays before an open transaction
        case "decide":
            topic.stable[at] = topic.last[at]


def rows_of(topic: MemoryTopic, ends: dict[Any, int]) -> tuple[list[tuple[Any, ...]], int]:
    """(the rows of mode append up to these offsets, the bad records)."""
    rows, bad = [], 0
    for number, log in enumerate(topic.logs):
        for at, _, value in log:
            if at >= ends[topic.partition(number)]:
                continue
            if value is None or not value.startswith(b"{"):
                bad += 1
            else:
                rows.append((json.loads(value)["id"], number, at))
    return sorted(rows), bad


def latest_of(topic: MemoryTopic, ends: dict[Any, int]) -> list[tuple[Any, ...]]:
    """The rows of mode upsert up to these offsets. A key is in one partition."""
    rows: dict[int, tuple[Any, ...]] = {}
    for number, log in enumerate(topic.logs):
        for at, key, value in log:
            if at >= ends[topic.partition(number)] or key is None:
                continue
            name = json.loads(key)["id"]
            rows.pop(name, None)
            if value is not None:
                rows[name] = (name, number, at)
    return sorted(rows.values())


SELECT = "select id, _partition, _offset from orders order by all"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_query_has_the_rows_of_its_offsets_at_every_moment(
    tmp_path: Path, mode: str, seed: int
) -> None:
    chance = random.Random(f"{mode} {seed}")
    topic = json_topic(tmp_path, mode=mode, **({"keys": "id"} if mode == "upsert" else {}))
    seams = 0
    for _ in range(STEPS):
        a_step(topic, chance)
        if chance.random() < 0.15:
            write(topic)
        if chance.random() < 0.5:
            rows, holds = ask(SELECT, topic)
            ends = dict(holds["orders"].ends)
            assert ends == {topic.partition(n): topic.stable[n] for n in range(len(topic.logs))}
            expected = rows_of(topic, ends)[0] if mode == "append" else latest_of(topic, ends)
            assert rows == expected
            seams += bool(holds["orders"].version and holds["orders"].tail_rows)

    before, _ = ask(SELECT, topic)
    write(topic)
    after, _ = ask(SELECT, topic, tail=False)
    assert before == after, "what a query shows is what the writer's next commit makes"
    assert seams, "no query had rows of both"
