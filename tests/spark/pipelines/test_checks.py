"""Checks over real batches: rows counted, left out, lettered; a stop writes nothing; kills change
nothing."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CHECKS = """\
checks:
  known: { on: events, expr: "value.k <> 'k3'", action: dead_letter }
  small: { on: rows, expr: v < 40, action: drop }
  early: { on: rows, expr: "id < 1000 and k <> 'k6'", action: dead_letter }
  told: { on: rows, expr: "v % 2 = 0", action: warn }
sinks:"""


def check(name: str, action: str, expr: str, on: str = "rows", more: str = "") -> str:
    return f"checks: {{ {name}: {{ on: {on}, expr: {expr!r}, action: {action}{more} }} }}\nsinks:"


def write(lab, checks: str) -> None:
    lab.write_file(sinks=checks + lab_sinks())


def lab_sinks() -> str:
    from tests.spark.pipelines.conftest import SINKS

    return SINKS.removeprefix("sinks:")


def events(count: int) -> list[dict]:
    return [{"id": n, "k": f"k{n % 7}", "v": None if n % 3 == 0 else n} for n in range(count)]


def expected(count: int) -> tuple[list[int], dict[int, str], dict[str, list[int]]]:
    """(ids in the tables, id → reason of the letters, check → [rows, failed])."""
    source = events(count)
    letters = {e["id"]: "check known: value.k <> 'k3'" for e in source if e["k"] == "k3"}
    rows = [e for e in source if e["k"] != "k3"]
    late = [e for e in rows if not (e["id"] < 1000 and e["k"] != "k6")]
    letters |= {e["id"]: "check early: id < 1000 and k <> 'k6'" for e in late}
    big = [e for e in rows if e["v"] is None or e["v"] >= 40]
    odd = [e for e in rows if e["v"] is None or e["v"] % 2]
    kept = [e["id"] for e in rows if e not in late and e not in big]
    counts = {
        "known": [count, len(source) - len(rows)],
        "small": [len(rows), len(big)],
        "early": [len(rows), len(late)],
        "told": [len(rows), len(odd)],
    }
    return kept, letters, counts


def assert_as_expected(lab) -> None:
    kept, letters, counts = expected(lab.sent)
    assert sorted(lab.arrow("rows")["id"].to_pylist()) == kept
    assert sum(lab.arrow("sums")["records"].to_pylist()) == len(kept)
    dead = lab.arrow("dead").to_pylist()
    found = {2 * row["offset"] + row["partition"]: row["reason"] for row in dead}
    assert found == letters
    assert len(dead) == len(letters)
    assert all(f'"id": {2 * r["offset"] + r["partition"]}'.encode() in r["value"] for r in dead)
    for name in ("rows", "sums"):
        said = [entry.metadata.get("checks", {}) for entry in lab.history(name)]
        for check_name, [rows, failed] in counts.items():
            each = [one[check_name] for one in said if check_name in one]
            assert sum(one["rows"] for one in each) == rows
            assert sum(one["failed"] for one in each) == failed


DEATHS = ("mid_commit:1", "mid_commit:2")
EVERY_DEATH = pytest.param((*DEATHS, "after_commit_before_log"), marks=pytest.mark.slow)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize("deaths", [DEATHS, EVERY_DEATH], ids=["some", "every"])
def test_rows_are_counted_left_out_and_lettered_once_whatever_is_killed(lab, deaths):
    write(lab, CHECKS)
    lab.produce(30)
    lab.run(rows=20)
    for fail in deaths:
        lab.produce(30)
        lab.die(fail, rows=20)
    lab.lose_checkpoint()
    result = lab.run(rows=70)

    assert_as_expected(lab)
    assert result.sinks["rows"].checked.keys() == {"known", "small", "early", "told"}


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize(
    ("action", "more", "said"),
    [
        ("fail", "", r"`rows` fail it; nothing of this batch was written \(action: fail\)"),
        ("drop", ", max_ratio: 0.1", r"more than max_ratio 0\.1 lets pass; nothing of this batch"),
    ],
)
def test_a_check_that_stops_leaves_the_batch_to_the_next_run(lab, action, more, said):
    write(lab, check("small", action, "v < 4 or v is null", more=more))
    lab.produce(4)
    lab.run()
    lab.produce(6)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 5))

    with pytest.raises(RunError, match=said):
        lab.run()
    assert lab.arrow("rows").num_rows == 4
    assert lab.arrow("dead").num_rows == 0
    lab.write_file()
    lab.run()

    lab.check()


@pytest.mark.parametrize(
    ("on", "action", "expr", "said"),
    [
        ("rows", "drop", "nothing > 0", r"checks\.c\.expr: A column.*`nothing` cannot be resolved"),
        ("rows", "drop", "v + 1", r"checks\.c\.expr: expected a condition; it is INT"),
        ("rows", "drop", "sum(v) > 0", r"checks\.c\.expr: "),
        ("rows", "warn", "sum(v) > 0", r"checks\.c\.expr: .* needs more than one row"),
        (
            "rows",
            "drop",
            "v in (select value.v from events)",
            r"checks\.c\.expr: a subquery needs more than one row",
        ),
        ("events", "dead_letter", "timestamp < now()", r"checks\.c\.expr: `now\(\)` changes when"),
        ("events", "dead_letter", "rand() < 1", r"checks\.c\.expr: `rand\(\)` changes when"),
        ("events", "dead_letter", "to_date(timestamp) <= current_date",
         r"checks\.c\.expr: `current_date\(\)` changes when"),
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused_by_plan(lab, on, action, expr, said):
    write(lab, check("c", action, expr, on))

    with pytest.raises(ConfigError, match=said):
        plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))


def test_a_transform_that_hides_its_records_cannot_send_them(lab):
    write(lab, check("c", "dead_letter", "v > 0"))
    text = lab.file.read_text().replace("offset as _offset", "cast(offset as int) as _offset")
    lab.file.write_text(text)

    with pytest.raises(ConfigError, match="the record of a row: `_offset` is INT, not BIGINT"):
        plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))


TESTS = """
tests:
  - name: what fails each check
    given:
      events:
        - { value: { id: 1, k: k3, v: 2 } }
        - { value: { id: 2, k: k1, v: 50 } }
        - { value: { id: 3, k: k6, v: 1 } }
        - { value: { id: 4, k: k1, v: 1 } }
        - { value: none }
    expect:
      known: { count: 1 }
      small: { rows: [ { id: 2 } ], columns: subset }
      told: { rows: [ { id: 3 }, { id: 4 } ], columns: subset }
      rows: { rows: [ { id: 4 } ], columns: subset }
      dead_letter: { rows: [ { reason: not JSON }, { reason: "check known: value.k <> 'k3'" },
        { reason: "check early: id < 1000 and k <> 'k6'" } ], columns: subset }
  - name: a stop
    given: { events: [ { value: { id: 1, k: a } } ] }
    expect: { rows: { count: 0 } }
"""


def test_a_files_tests_expect_rows_that_fail(lab):
    write(lab, CHECKS.replace("action: drop", "action: drop, max_ratio: 0.5"))
    lab.file.write_text(lab.file.read_text() + TESTS)

    good, stop = run_cases(lab.spark, read_pipeline(lab.file, lab.environment(10)))

    assert good.complaints == ()
    assert stop.complaints == (
        "rows: sink `rows`: check `small` (v < 40): 1 of 1 row of `rows` fail it, more than "
        "max_ratio 0.5 lets pass; nothing of this batch was written",
    )
