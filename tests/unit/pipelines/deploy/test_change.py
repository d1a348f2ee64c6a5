"""What a change of a file means for each sink, as a table: old and new text → the verdict."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.deploy.change import Verdict, compare
from pipelines.model.meaning import fingerprint
from pipelines.model.plan import compile_plan

FILE = """\
version: 1
name: orders
spark: { checkpoint: /ck }
sources:
  raw:
    type: josefine
    bootstrap: localhost:9092
    topics: [orders]
    start: earliest
    decode:
      value: { format: json, schema: "id INT, n INT, m INT", on_error: fail }
transforms:
  clean: { inputs: [raw], sql: "select value.* from raw" }
checks:
  some: { on: clean, expr: "n > 0", action: drop }
sinks:
  lake: { type: delta, inputs: [clean], path: /lake, mode: upsert, keys: [id], order_by: n }
trigger: { available_now: true }
"""
COLUMNS = {"id": "int", "n": "int"}

SAME, COMPATIBLE, OPEN, BREAKING = Verdict.SAME, Verdict.COMPATIBLE, Verdict.OPEN, Verdict.BREAKING
CASES = [
    ("layout", ("name: orders", "name:   orders  # a comment"), COLUMNS, SAME, []),
    ("spaces in sql", ("value.* from", "value.*   from"), COLUMNS, SAME, []),
    ("a renamed transform", ("clean", "tidy"), COLUMNS, OPEN,
     ["meaning: check `some` differs in on"]),
    ("limits", ("start: earliest", "start: earliest\n    limit: { rows: 5 }"), COLUMNS, SAME, []),
    ("start", ("earliest", "latest"), COLUMNS, COMPATIBLE,
     ["start: `start` of source `raw` differs; the deploy starts where the table did"]),
    ("sql", ("select value.*", "select value.id, value.n * 2 as n"), COLUMNS, OPEN,
     ["meaning: transform `clean` differs in sql"]),
    ("a column more", ("value.*", "value.*, 1 as k"), {**COLUMNS, "k": "int"}, OPEN,
     ["meaning: transform `clean` differs in sql",
      "columns: k added: null in the rows that are there"]),
    ("a column less", ("value.*", "value.id"), {"id": "int"}, BREAKING,
     ["meaning: transform `clean` differs in sql", "columns: n removed"]),
    ("another type", ("value.*", "value.*"), {"id": "int", "n": "string"}, BREAKING,
     ["types: n was int, is string"]),
    ("a wider type", ("value.*", "value.*"), {"ID": "bigint", "n": "int"}, COMPATIBLE,
     ["types: ID was int, is bigint"]),
    ("keys", ("keys: [id]", "keys: [id, m]"), COLUMNS, BREAKING, ["keys: was id, is id, m"]),
    ("mode", ("mode: upsert, keys: [id], order_by: n", "mode: append"), COLUMNS, BREAKING,
     ["mode: was upsert, is append", "keys: was id, is none",
      "meaning: `latest` of the sink differs"]),
    ("order", ("order_by: n", "order_by: m"), COLUMNS, BREAKING,
     ["meaning: `latest` of the sink differs"]),
    ("a check", ("n > 0", "n > 1"), COLUMNS, OPEN, ["meaning: check `some` differs in expr"]),
    ("another topic", ("[orders]", "[orders, more]"), COLUMNS, BREAKING,
     ["sources: source `raw` differs in topics"]),
    ("decoding", ("id INT, n INT", "id INT, n LONG"), COLUMNS, BREAKING,
     ["sources: source `raw` differs in decode"]),
    ("another table", ("/lake", "/pond"), COLUMNS, BREAKING, ["target: was /lake, is /pond"]),
]  # fmt: skip


def pipeline(text=FILE):
    return validate(load(text, "f.yaml", {}))


@pytest.mark.parametrize(("change", "columns", "verdict", "reasons"), [c[1:] for c in CASES],
                         ids=[c[0] for c in CASES])  # fmt: skip
def test_a_change_has_a_verdict_and_each_reason(change, columns, verdict, reasons):
    assert change[0] in FILE
    old, new = pipeline(), pipeline(FILE.replace(*change))

    (found,) = compare(old, new, {"lake": COLUMNS}, {"lake": columns})

    assert [f"{each.part}: {each.what}" for each in found.reasons] == reasons
    assert found.verdict is verdict
    assert found.to_json()["verdict"] == verdict.name.lower()


def test_a_sink_that_only_one_file_has_is_new_or_gone():
    line = "  more: { type: delta, inputs: [clean], path: /more, mode: append }\n"
    other = FILE.replace("trigger:", f"{line}trigger:")
    columns = {"lake": COLUMNS, "more": COLUMNS}

    new = compare(pipeline(), pipeline(other), columns, columns)
    gone = compare(pipeline(other), pipeline(), columns, columns)

    assert [(each.sink, each.verdict) for each in new] == [("lake", SAME), ("more", Verdict.NEW)]
    assert [(each.sink, each.verdict) for each in gone] == [("lake", SAME), ("more", Verdict.GONE)]


def test_a_fingerprint_is_that_of_the_meaning_not_of_the_text():
    plain = fingerprint(compile_plan(pipeline()), "lake")

    assert fingerprint(compile_plan(pipeline("# comment\n" + FILE)), "lake") == plain
    assert fingerprint(compile_plan(pipeline(FILE.replace("n > 0", "n > 9"))), "lake") != plain
