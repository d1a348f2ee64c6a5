"""`on_error` of a sink: the default, and where `dead_letter` cannot work."""

from __future__ import annotations

import pytest

from pipelines.base.variables import Variables
from pipelines.config.on_error import on_error_problems
from pipelines.config.validate import examine
from pipelines.model.pipeline import OnError
from tests.unit.pipelines.config.test_json_schema import complaints as complaints_of_editors

FILE = """\
version: 1
name: lab
spark: { checkpoint: /ck }
sources:
  ev:
    type: josefine
    bootstrap: h:1
    topics: [t]
    decode: { value: { format: json, schema: 'id BIGINT, at TIMESTAMP'EXPLODE } }
transforms:
  rows: { inputs: [ev], sql: "SQL"MARK }
sinks:
  out: { type: delta, inputs: [rows], path: /t, mode: append, on_error: POLICY }
DEAD
trigger: { available_now: true }
"""
DEAD = "dead_letter: { type: delta, path: /dead }"


def text(policy: str = "dead_letter", **words: str) -> str:
    all_words = {"DEAD": DEAD, "EXPLODE": "", "MARK": "", "SQL": "select value.id from ev"} | words
    found = FILE.replace("POLICY", policy)
    for old, new in all_words.items():
        found = found.replace(old, new)
    return found


def complaints(policy: str = "dead_letter", **words: str) -> list[str]:
    return [
        str(each) for each in examine(text(policy, **words), "f.yaml", Variables(env={})).problems
    ]


def test_a_sink_fails_by_default_and_leaves_records_out_on_request() -> None:
    default = examine(text().replace(", on_error: dead_letter", ""), "f.yaml", Variables(env={}))
    asked = examine(text(), "f.yaml", Variables(env={}))

    assert default.pipeline.sinks["out"].on_error is OnError.FAIL
    assert asked.pipeline.sinks["out"].on_error is OnError.DEAD_LETTER
    assert [*on_error_problems(asked.pipeline)] == asked.problems == default.problems == []
    assert complaints("fail", DEAD="") == complaints_of_editors(text()) == []


WINDOW = {
    "MARK": ", watermark: { ev: { column: timestamp, delay: 1m } }",
    "SQL": "select window(timestamp, '1 minute') w, count(*) n from ev group by 1",
}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"DEAD": ""}, "`dead_letter`, where such records go, is missing at the top"),
        (WINDOW, "`rows` combines rows of many batches, and its state has a record already"),
        ({"EXPLODE": ", explode: true"}, "a record of `ev` makes several rows (`explode`)"),
    ],
)
def test_it_is_refused_where_no_single_record_can_be_left_out(
    words: dict[str, str], expected: str
) -> None:
    (line,) = complaints(**words)

    assert line.startswith(f"f.yaml:13:73: sinks.out.on_error: {expected}")


@pytest.mark.parametrize("policy", ["null", "skip"])
def test_a_sink_has_no_other_policy(policy: str) -> None:
    (line,) = complaints(policy)

    assert "sinks.out.on_error: expected dead_letter or fail" in line
