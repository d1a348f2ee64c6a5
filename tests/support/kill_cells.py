"""Which deaths a sink of each mode can die: every failpoint × every mode × {checkpoint kept,
deleted}, as data. `tests/spark/pipelines/test_kill_cells.py` dies them, and
`tests/unit/pipelines/test_kill_cells.py` holds this table equal to what the code has.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

MODES = (
    "append",
    "deduplicate",
    "merge",
    "upsert",
    "cdc",
    "scd2",
    "topic",
    "at_least_once",
    "state",
    "state_topic",
    "update",
    "iceberg",
)
"""What a sink does with a batch's rows. `deduplicate`: append without copies. `cdc`: Debezium's
envelopes into upsert, with deletes. `topic`, `at_least_once`: a topic, by both deliveries. `state`,
`state_topic`: append after a window, into a table or a topic. `update`: each change of a window,
into a topic. `iceberg`: append into an Iceberg table."""
STATE_TOPICS = ("state_topic", "update")
STATES = ("state", *STATE_TOPICS)
TOPICS = ("topic", "at_least_once", *STATE_TOPICS)
TOGETHER = (
    ("append", "deduplicate", "merge"),
    ("upsert", "cdc", "scd2"),
    ("topic", "at_least_once"),
    STATE_TOPICS,
    ("state", "iceberg"),
)
"""Modes whose sinks die in one process."""

BATCH = (
    "after_offsets",
    "before_commit",
    "mid_write",
    "mid_commit:1",
    "mid_commit:2",
    "after_commit_before_log",
    "fail_write",
)
UPKEEP = ("after_upkeep",)
START = ("after_set_aside", "mid_loss:1", "mid_loss:2", "mid_loss:3")
REPLAY = ("mid_replay:0", "mid_replay:1")
TABLES = ("mid_tables:0", "mid_tables:1")
DIRECT = ("mid_direct:1", "mid_direct:2")
POSITION = ("mid_start:1", "mid_start:2")
DEPLOY = tuple(f"mid_deploy:{step}" for step in range(1, 7))
PLACES = (*BATCH, *TABLES, *DIRECT, *UPKEEP, *START, *POSITION, *REPLAY, *DEPLOY)
"""As JOSEFINE_FAIL says them. `mid_replay:1`: the first sink has its rows; more sinks are more of
the same."""

CHECKPOINTS = ("kept", "deleted")
"""What becomes of it after the kill."""


class Cell(NamedTuple):
    """One death."""

    mode: str
    place: str
    checkpoint: str

    def __str__(self) -> str:
        return "-".join(self).replace(":", "")


IMPOSSIBLE: Mapping[tuple[tuple[str, ...], tuple[str, ...]], str] = {
    (MODES, TABLES): "only a `path` with several tables comes there: test_table_family.py dies it",
    (tuple(mode for mode in MODES if mode not in ("append", "merge", "state")), DIRECT): (
        "only appends and sums of a Delta table are committed without Spark"
    ),
    (MODES, DEPLOY): "only `pipeline deploy` comes there: unit/pipelines/deploy/test_deaths.py",
    (MODES, POSITION): "only a stream of a table comes there: `STREAMED` has it",
    (TOPICS, UPKEEP): "the file's words refuse `optimize` and `vacuum` beside a topic",
    (TOPICS, REPLAY): "letters are not replayed into a topic: it gets a line in `dlq replay`",
    (("iceberg",), UPKEEP): "the file's words refuse `optimize` and `vacuum` of an Iceberg table",
    (("iceberg",), REPLAY): "letters are not replayed into an Iceberg table: the CLI says so",
    (STATES, REPLAY): "letters are not replayed into rows of a state",
    (STATES, ("after_set_aside",)): "a state's checkpoint is never set aside: the run stops",
    (STATES, START[1:]): "in front of a state `on_data_loss: skip_and_record` is refused",
}
"""(modes, places) → why no run of these comes there."""

REFUSED = dict.fromkeys(STATES, "its state is gone")
"""Mode → what a run says that finds its checkpoint deleted: the table stays as it is."""

ALL = tuple(Cell(*each) for each in itertools.product(MODES, PLACES, CHECKPOINTS))

STREAMS = ("append", "upsert", "merge", "feed")
"""What a sink does with the rows of a table's stream. `feed`: append the rows of its changes."""
NOT_OF_STREAMS: Mapping[tuple[str, ...], str] = {
    ("mid_commit:1", *REPLAY): "a stream of a table has no dead letters",
    DIRECT: "the write is that of a topic's rows, of which `ALL` has it",
    TABLES: "a stream of a table writes no `path` of several tables",
    START[1:]: "`on_data_loss` is of records: lost versions of a table are a verdict",
    DEPLOY: "only `pipeline deploy` comes there",
    ("fail_write",): "no Python worker takes part in a write of a table's rows",
}
STREAMED = tuple(
    Cell("stream", place, checkpoint)
    for place, checkpoint in itertools.product(PLACES, CHECKPOINTS)
    if not any(place in places for places in NOT_OF_STREAMS)
)
"""Deaths of a pipeline with a sink of each of `STREAMS`, all of tables' streams."""


def why_not(cell: Cell) -> str:
    """Why it cannot be died; "" where it can."""
    for (modes, places), reason in IMPOSSIBLE.items():
        if cell.mode in modes and cell.place in places:
            return reason
    return ""


POSSIBLE = tuple(cell for cell in ALL if not why_not(cell))
