"""Checks as they are read, judged and told; what they do to rows is in tests/spark/pipelines."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.graph import as_mermaid, graph_of
from pipelines.lint.lint import lint_file
from pipelines.model.pipeline import Action
from pipelines.model.plan import compile_plan
from pipelines.transforms.checks import (
    Checked,
    added,
    record_columns,
    told,
    why_no_letters,
    why_not_steady,
    why_refused,
)
from tests.unit.pipelines.config.test_validate import GOOD, complaint

CHECKS = """\
checks:
  positive: { on: clean, expr: id > 0, action: drop, max_ratio: 0.25 }
  early: { on: raw, expr: "timestamp < '2030-01-01'", action: dead_letter }
  named: { on: clean, expr: id is not null, action: warn }
dead_letter: { type: delta, path: /dead }
"""


def pipeline_of(text=GOOD + CHECKS):
    return validate(load(text, "f.yaml", {}))


def linted(tmp_path, text):
    file = tmp_path / "f.yaml"
    file.write_text(text)
    return [str(each).removeprefix(f"{file}:") for each in lint_file(file, {}).problems]


def test_a_check_says_where_what_and_what_becomes_of_the_others():
    positive, early, named = pipeline_of().checks.values()

    assert (positive.on, positive.expr.text, positive.action) == ("clean", "id > 0", Action.DROP)
    assert (positive.ratio_max, named.ratio_max) == (0.25, None)
    assert [each.leaves_out for each in (positive, early, named)] == [True, True, False]


def test_the_first_sink_of_a_source_judges_also_what_sends_its_dead_letters():
    other = "  other: { type: delta, inputs: [raw], path: /other, mode: append }\n"
    swapped = GOOD.replace("sinks:\n", f"sinks:\n{other}") + CHECKS.replace("raw", "clean", 1)
    swapped = swapped.replace("named: { on: clean", "named: { on: raw")
    swapped = swapped.replace("early: { on: raw", "early: { on: clean")
    pipeline = pipeline_of(swapped)
    first, second = compile_plan(pipeline).sinks.values()

    assert [bool(sink.leads) for sink in (first, second)] == [True, False]
    assert [check.name for check in first.checks] == ["named", "early"]
    assert [check.name for check in second.checks] == ["positive", "early", "named"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("on: clean, expr: id > 0", "on: claen, expr: id > 0",
         "f.yaml:17:19: checks.positive.on: no source or transform `claen`; did you mean `clean`?"),
        ("on: clean, expr: id > 0", "on: lake, expr: id > 0",
         "f.yaml:17:19: checks.positive.on: no source or transform `lake`; `clean` has the rows of "
         "sink `lake`"),
        ("action: warn", "action: quarantine",
         "checks.named.action: expected warn, drop, dead_letter or fail; found `quarantine`"),
        ("expr: id > 0, ", "",
         "checks.positive: `expr` is missing; expected a condition over that node's columns, true "
         "of good rows"),
        ("max_ratio: 0.25", "max_ratio: 25",
         "checks.positive.max_ratio: expected the part of a batch's rows that may fail it, from 0 "
         "to 1; found `25`"),
        ("action: drop, max", "action: fail, max",
         "checks.positive.max_ratio: with action fail no row may: take warn to let some pass"),
        ("positive:", "lake:",
         "checks.lake: `lake` is a sink already: tests could not distinguish them"),
        ("dead_letter: { type: delta, path: /dead }\n", "",
         "checks.early: `dead_letter`, where this check sends records, is missing at the top; "
         "expected a mapping with type, path"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_check_is_told_with_its_place(old, new, said):
    assert old in CHECKS

    assert said in complaint(GOOD + CHECKS.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id > 0", "idd > 0",
         "17:32: checks.positive.expr: no column `idd`; did you mean `id`?"),
        ("on: raw, expr: \"timestamp < '2030-01-01'\"", "on: clean, expr: id > 0",
         "18:16: checks.early.on: `clean` does not name the record of a row, as dead letters "
         "must: select `topic`, `partition`, `offset` there too, or check the source"),
        ("timestamp < '2030-01-01'", "timestamp < now()",
         "18:27: checks.early.expr: `now()` changes when the batch is read again, and a row "
         "could be left out without a dead letter: compare with the record's `timestamp`, or use "
         "`action: drop`"),
    ],
)  # fmt: skip
def test_lint_reads_the_conditions(tmp_path, old, new, said):
    assert old in CHECKS

    assert linted(tmp_path, GOOD + CHECKS.replace(old, new, 1)) == [said]
    assert linted(tmp_path, GOOD + CHECKS) == []


def test_a_check_of_what_no_sink_uses_is_told(tmp_path):
    idle = GOOD.replace("sinks:", "  idle: { inputs: [raw], sql: select topic from raw }\nsinks:")

    found = linted(
        tmp_path, idle + CHECKS.replace("on: clean", "on: idle", 1).replace("id >", "1 >")
    )

    assert "18:19: checks.positive.on: no sink uses `idle`, so nothing is looked at" in found


def test_a_batch_is_refused_for_one_row_or_for_too_many():
    positive, _, named = pipeline_of().checks.values()
    (fails,) = pipeline_of(
        GOOD + "checks: { sure: { on: raw, expr: offset > 0, action: fail } }\n"
    ).checks.values()

    assert why_refused(fails, Checked(rows=1200, failed=0)) == ""
    assert why_refused(fails, Checked(rows=1200, failed=1)) == (
        "check `sure` (offset > 0): 1 of 1,200 rows of `raw` fail it; nothing of this batch was "
        "written (action: fail)"
    )
    assert why_refused(positive, Checked(rows=8, failed=2)) == ""
    assert why_refused(positive, Checked(rows=8, failed=3)) == (
        "check `positive` (id > 0): 3 of 8 rows of `clean` fail it, more than max_ratio 0.25 lets "
        "pass; nothing of this batch was written"
    )
    assert why_refused(positive, Checked()) == why_refused(named, Checked(rows=1, failed=1)) == ""


def test_a_row_tells_its_record_by_the_sources_names_or_with_a_line_before():
    early = pipeline_of().checks["early"]

    assert record_columns(["id", "_topic", "Offset", "_offset", "partition"]) == {
        "topic": "_topic",
        "partition": "partition",
        "offset": "Offset",
    }
    assert why_no_letters(early, ["_topic", "_partition", "_offset"]) == ""
    assert "select `partition` there" in why_no_letters(early, ["_topic", "_offset"])


def test_only_dead_letters_need_a_condition_that_stands_still():
    checks = pipeline_of().checks

    assert why_not_steady(checks["positive"], "at < now()") == ""
    assert why_not_steady(checks["early"], "at < nowhere AND unknown(x)") == ""
    assert "`current_timestamp()`" in why_not_steady(checks["early"], "CURRENT_TIMESTAMP() > at")


def test_counts_of_batches_add_up_and_are_told_in_words():
    one = {"positive": Checked(rows=10, failed=1)}
    all_of_it = added(one, {"positive": Checked(rows=1000, failed=0), "named": Checked(rows=1)})

    assert told(pipeline_of().checks, all_of_it) == [
        "check positive: 1 of 1,010 rows failed it and were left out",
        "check named: 0 of 1 row failed it",
    ]


def test_checks_are_in_the_drawing():
    drawn = as_mermaid(graph_of(pipeline_of()))

    assert '    source_raw(["raw<br>orders<br>checks: early"])\n' in drawn
    assert '    transform_clean["clean<br>checks: positive, named"]\n' in drawn
    assert "    source_raw -.-> dead_letter\n" in drawn
