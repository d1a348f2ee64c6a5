"""Dead letters in front of a join: each source has its own chain of them, whatever dies."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ChainError
from pipelines.dead_letters.replay import replays
from tests.spark.pipelines.test_joins import PIPELINE, Lab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DEAD = 'dead_letter: { type: delta, path: "${LAB}/dead" }\ntrigger:'
LETTERS = PIPELINE.replace("on_error: fail", "on_error: dead_letter").replace("trigger:", DEAD)
BRANCH = LETTERS.replace(
    "sinks:",
    """\
  checked: { inputs: [ordered], sql: "select value.id, topic, partition, offset from ordered" }
checks:
  known: { on: checked, expr: "id < 1000", action: dead_letter }
sinks:""",
).replace(
    DEAD, '  all: { type: delta, inputs: [checked], path: "${LAB}/all", mode: append }\n' + DEAD
)


class LettersLab(Lab):
    """Which records are letters, by source and offset."""

    def __init__(self, spark, folder):
        super().__init__(spark, folder)
        self.write(LETTERS)
        self.bad: list[tuple[str, int, str]] = []
        self.lines = {"ordered": 0, "paid": 0}

    def add(self, source, *lines):
        super().add(source, *lines)
        self.lines[source] += sum(len(line) + 1 for line in lines)

    def spoil(self, source: str, line: str, reason: str) -> None:
        """A file's offsets are those of its bytes."""
        self.bad.append((source, self.lines[source], reason))
        self.add(source, line)

    def letters(self):
        rows = self.collected("dead")
        return sorted((row.source, row.offset, row.reason) for row in rows)


@pytest.fixture
def lab(spark, tmp_path):
    return LettersLab(spark, tmp_path)


NOT_JSON = "not JSON"
EVERY_DAY = ("mid_commit:1",)
FAILPOINTS = (
    *("after_offsets@2", "before_commit@2", "mid_commit:1@2", "mid_write@2", "mid_commit:2"),
    *("after_commit_before_log@2", *EVERY_DAY),
)


@pytest.mark.long_proof(share=3, among="states of pipelines")
@pytest.mark.parametrize(
    ("fails", "bytes_max"),
    [(EVERY_DAY, 4000), pytest.param(FAILPOINTS, 150, marks=pytest.mark.slow)],
)
def test_bad_records_of_both_sides_are_letters_once_whatever_dies(lab, fails, bytes_max):
    lab.bytes = bytes_max
    for life, fail in enumerate(fails):
        lab.spoil("ordered", f"no order {life}", NOT_JSON)
        lab.live(life)
        lab.spoil("paid", f"no payment {life}", NOT_JSON)
        lab.die(fail)
    lab.end()

    lab.run()

    assert lab.rows() == lab.expected()
    assert lab.letters() == sorted(lab.bad)
    lab.spark.sql(f"RESTORE TABLE delta.`{lab.folder}/dead` TO VERSION AS OF 0")
    lab.end()
    with pytest.raises(ChainError, match="the dead letters' table lacks commits"):
        lab.run()


@pytest.mark.slow
def test_the_join_answers_for_a_check_behind_another_branch_where_it_comes_first(lab):
    lab.write(BRANCH)
    lab.live(0)
    lab.spoil("ordered", '{"id": 1001, "at": "2026-01-01T00:00:01Z"}', "check known: id < 1000")
    lab.end()

    lab.run()

    assert [row for row in lab.rows() if row[0] < 1000] == lab.expected()
    assert sorted(row.id for row in lab.collected("all")) == [*range(lab.orders)]
    assert lab.letters() == lab.bad


@pytest.mark.slow
def test_no_letter_of_a_joined_source_is_replayed_into_the_join(lab):
    lab.live(0)
    lab.add("paid", '{"id": "2", "at": 7}')
    lab.run()
    lab.write(LETTERS.replace("id INT, at TIMESTAMP", "id STRING, at STRING"))

    outlooks = replays(lab.spark, lab.read(), (), lambda replay: replay.look())

    held = {each.source: dict(each.held) for each in outlooks}
    why = "sink `lake` has rows of a state, which gets no replay: name the others"
    assert held == {"ordered": {}, "paid": {why: 1}}
