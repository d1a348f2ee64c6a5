"""The matrix of deaths is whole: no failpoint and no mode is without its cells, and each cell that
the crash model knows is died there, without Spark, at every hit of its place."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import pytest

from pipelines.base import failpoints
from pipelines.base.errors import ConfigError
from pipelines.config.keywords import SINK_TYPES, WORDS
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.model.pipeline import Mode
from pipelines.sinks.delta_log import DeltaLogReader
from tests.support.kill_cells import (
    ALL,
    CHECKPOINTS,
    IMPOSSIBLE,
    MODES,
    NOT_OF_STREAMS,
    PLACES,
    POSSIBLE,
    STATES,
    STREAMED,
    TOPICS,
    why_not,
)
from tests.unit.pipelines.engine import CHECKPOINT, CRASH_POINTS, TABLE, World
from tests.unit.pipelines.exactly_once.test_chain_model import attempt, to_the_end

PIPELINES = Path(failpoints.__file__).parents[1]


def places_in_code() -> set[str]:
    """What `hit`, `due` and `disturbed` are called with, as JOSEFINE_FAIL says it."""
    found = set()
    for file in PIPELINES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).removeprefix("failpoints.")
            if name in ("hit", "due") and isinstance(node.args[0], ast.Constant):
                index = f":{ast.unparse(node.args[1])}" if node.args[1:] else ""
                found.add(f"{node.args[0].value}{index}")
    return found


def test_every_failpoint_of_the_code_has_its_cells():
    in_code = {
        place.replace("mid_replay:index", "mid_replay:1").replace(
            "mid_tables:self._committed", "mid_tables:1"
        )
        for place in places_in_code()
    }

    assert in_code == set(PLACES)
    assert {place.partition(":")[0] for place in PLACES} == set(failpoints.NAMES)
    for place in PLACES:
        failpoints.Failpoint(place, failpoints.NAMES)


def test_every_mode_of_a_sink_has_its_cells():
    """Those of tables, `deduplicate` and Debezium beside them, both deliveries of a topic, rows of
    a state, and an Iceberg table. What else a file may say of a sink's rows would be a word
    here."""
    assert {mode.value for mode in Mode} <= set(MODES)
    assert set(WORDS["sink"]["delivery"].choices) == {"exactly_once", "at_least_once"}
    assert set(SINK_TYPES) == {"delta", "iceberg", "josefine"}
    assert set(MODES) - {mode.value for mode in Mode} == {
        *("deduplicate", "cdc", "state", "iceberg"),
        *(name for name in TOPICS if name != "update"),
    }


def test_a_cell_is_run_or_has_a_reason():
    assert len(ALL) == len(set(ALL)) == len(MODES) * len(PLACES) * len(CHECKPOINTS)
    assert {cell for cell in ALL if not why_not(cell)} == set(POSSIBLE)
    for modes, places in IMPOSSIBLE:
        assert set(modes) <= set(MODES)
        assert set(places) <= set(PLACES)


def test_a_table_as_a_stream_dies_at_every_place_or_has_a_reason():
    reasons = {place for places in NOT_OF_STREAMS for place in places}

    assert reasons | {cell.place for cell in STREAMED} == set(PLACES)
    assert not reasons & {cell.place for cell in STREAMED}
    assert len(STREAMED) == len(set(STREAMED))


FILE = """\
version: 1
name: f
spark: { checkpoint: /ck }
sources:
  raw:
    type: josefine
    bootstrap: h:1
    topics: [t]
    start: earliest
    on_data_loss: %s
    decode: { value: { format: json, schema: "id INT, at TIMESTAMP", on_error: fail } }
transforms:
  rows: { inputs: [raw], sql: "select value.* from raw" }
  windows:
    inputs: [rows]
    watermark: { rows: { column: at, delay: 1m } }
    sql: select window.start as at, count(*) as n from rows group by window(at, '1 minute')
sinks:
  out: { inputs: [%s], %s }
trigger: { available_now: true }
"""


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("fail", "rows", "type: josefine, topic: u, optimize: { every: 1 batch }"), "optimize"),
        (("fail", "rows", "type: josefine, topic: u, vacuum: { every: 1 batch }"), "vacuum"),
        (
            (
                "fail",
                "rows",
                "type: iceberg, mode: append, table: a.b, catalog: { warehouse: /w }, "
                "optimize: { every: 1 batch }",
            ),
            "optimize",
        ),
        (
            ("skip_and_record", "windows", "type: delta, path: /t, mode: append"),
            "on_data_loss: expected fail",
        ),
    ],
)
def test_what_makes_a_cell_impossible_is_refused_by_the_words(words, refusal):
    """Of letters and of a state's checkpoint: `test_windows.py`, and the outlook of a replay."""
    with pytest.raises(ConfigError, match=refusal):
        validate(load(FILE % words, "f.yaml", {}))


# -- every cell in the crash model -----------------------------------------------------------------

MODELLED = tuple(mode for mode in MODES if mode not in (*STATES, "iceberg"))
"""A state is Spark's own; that nothing goes on without it is `test_state_offsets.py`. The chain of
an Iceberg table dies in a real catalog: `unit/pipelines/exactly_once/test_iceberg_chain.py`."""
IN_MODEL = tuple(place for place in PLACES if place in CRASH_POINTS)
SEEDS = range(12)


class Folded:
    """A sink's rows by its mode; only `extend` writes them."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._rows: list = []
        self._keys: dict = {}

    def extend(self, rows: list) -> None:
        for row in rows:
            _, partition, offset = row
            key, order = (partition, offset % 3), offset
            if self._mode in ("append", *TOPICS):
                self._rows.append(row)
            elif self._mode == "deduplicate":
                self._keys.setdefault(key)
            elif self._mode == "merge":
                count, total = self._keys.get(key, (0, 0))
                self._keys[key] = (count + 1, total + offset)
            elif self._mode == "scd2":
                self._keys[key, order] = row
            else:
                self._keys[key] = max(self._keys.get(key, row), row)

    def __iter__(self):
        return iter([*self._rows, *self.content()])

    def content(self) -> list:
        """Of `cdc` the last one of each key that deletes nothing."""
        held = {k: v for k, v in self._keys.items() if self._mode != "cdc" or v[2] % 2}
        return sorted(self._rows) + sorted(map(repr, held.items()))


def loses_records(world: World, read: dict) -> set:
    """Retention takes some that were not read, and perhaps some that were."""
    taken = set()
    for partition, end in world.ends.items():
        begin = world.rng.randint(read.get(partition, 0) + 1, end)
        taken |= {(*partition, offset) for offset in range(read.get(partition, 0), begin)}
        world.begins[partition] = begin
    return taken


def brought_near(world: World, place: str) -> set:
    """All before the run that dies; the records that it lost."""
    world.produce(8)
    if place == "mid_loss:2":
        world.dies_at = "before_commit"
        assert attempt(world, 0.0) == "crash"
        return loses_records(world, {})
    assert attempt(world, 0.0) == "done"
    read = dict(world.ends)
    world.produce(17)
    return loses_records(world, read) if place.startswith("mid_loss") else set()


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("place", IN_MODEL)
@pytest.mark.parametrize("mode", MODELLED)
def test_each_cell_ends_as_the_model_says_without_spark(mode, place, checkpoint):
    """Checklist row 88."""
    for seed in SEEDS:
        world = World(Random(seed))
        world.table.rows = Folded(mode)
        world.at_least_once = mode == "at_least_once"
        world.optimizes = place == "after_upkeep"
        world.batch_rows = world.rng.randint(2, 9)
        lost = brought_near(world, place)
        world.dies_at, trust = place, Trust.NEITHER
        if place == "after_set_aside" and not lost:
            trust = Trust.TABLE
        assert attempt(world, 0.0, trust) == "crash", seed
        if checkpoint == "deleted":
            world.files.remove(CHECKPOINT)
        world.produce(7)
        world.batch_rows = world.rng.randint(2, 9)
        to_the_end(world)

        kept = [r for r in world.records({}, world.visible()) if r not in lost]
        check_cell(world, mode, kept)
        recorded = [(*r.partition, o) for r in world.lost for o in range(r.start, r.end)]
        assert sorted(recorded) == sorted(lost)


def check_cell(world: World, mode: str, kept: list) -> None:
    expected = Folded(mode)
    expected.extend([r for r in kept if not world.is_bad(r)])
    found = world.table.rows.content()
    if mode == "at_least_once":
        assert len(found) <= len(set(found)) + world.batch_rows + 9
        found = sorted(set(found))
    assert found == expected.content()
    assert sorted(world.dead.rows) == [r for r in kept if world.is_bad(r)]
    tip, _ = DeltaLogReader(world.files, TABLE, "own").last_tip()
    assert {p: tip.reached.ends.get(p, 0) for p in world.visible()} == world.visible()
