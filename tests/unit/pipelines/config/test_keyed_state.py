"""`state` of a transform: the keys, columns, timers and TTL of a Python class."""

from __future__ import annotations

import pytest

from pipelines.base.variables import Variables
from pipelines.config.keyed_state import keyed_state_of
from pipelines.config.transform_keywords import TRANSFORMS
from pipelines.config.validate import examine
from pipelines.exactly_once.offset_chain import Verdict
from pipelines.exactly_once.state_chain import made_by, other_state, store_stop
from pipelines.lint.lint import lint_file
from pipelines.model.keyed_state import KeyedState
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.sections import section
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD

STATE = 'state: { keys: [id], schema: "id INT, n INT", timers: processing_time, ttl: 1h }'
CLASS = "class Seen(StatefulProcessor):\n    def init(self, h): ...\n    def handleInputRows(self, k, r, t): ...\n"  # noqa: E501
TEXT = (
    GOOD.replace("sql: select value.* from raw", "sql: 'select value.*, timestamp as at from raw'")
    .replace("type: delta, inputs: [clean]", "type: delta, inputs: [seen]")
    .replace(
        "sinks:",
        f"""  seen:
    inputs: [clean]
    python: own.py:Seen
    watermark: {{ clean: {{ column: at, delay: 10m }} }}
    {STATE}
sinks:""",
    )
)


def told(tmp_path, text=TEXT, code=CLASS):
    (tmp_path / "own.py").write_text(code)
    (tmp_path / "f.yaml").write_text(text)
    found = lint_file(tmp_path / "f.yaml", {}).problems
    return [f"{each.path}: {each.message.replace(str(tmp_path), '')}" for each in found]


def test_a_class_has_a_state_of_keys_with_timers_and_a_time_to_live(tmp_path):
    assert told(tmp_path) == []
    assert complaints(TEXT) == []
    pipeline = examine(TEXT, str(tmp_path / "f.yaml"), Variables(env={})).pipeline
    state = pipeline.transforms["seen"].state

    assert isinstance(state, KeyedState)
    assert (state.keys, state.timers, state.ttl_ms) == (("id",), "processing_time", 3_600_000)
    assert compile_plan(pipeline).sinks["lake"].stateful.name == "seen"
    assert keyed_state_of(section("sql: select 1", "transform")) is None


def test_a_state_is_a_section_of_a_transform():
    assert set(TRANSFORMS) == {"transform", "state", "watermark"}
    assert TRANSFORMS["transform"]["state"].of == "state"


WRONG = [
    ("keys: [id]", "keys: [ids]", "transforms.seen.state.keys: no column `ids` in `clean`; did"),
    ("processing_time", "event_time", "transforms.seen.state.ttl: values expire by the clock"),
    ("timers: processing_time", "timers: soon", "transforms.seen.state.timers: expected event_ti"),
    ("python: own.py:Seen", "sql: select * from clean", "transforms.seen.state: only a Python cl"),
    ("    watermark: { clean: { column: at, delay: 10m } }\n", "", "transforms.seen.state: `water"),
    ("own.py:Seen", "own.py:Sen", "transforms.seen.python: /own.py: no class `Sen`; did you mean"),
    ("inputs: [clean]\n    python", "inputs: [clean, raw]\n    python", "transforms.seen.inputs: "
     "a class gets the rows of one input"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_what_a_state_cannot_have_is_told_with_its_place(tmp_path, old, new, words):
    assert old in TEXT

    found = told(tmp_path, TEXT.replace(old, new))

    assert [each for each in found if each.startswith(words)], found


def test_a_class_without_a_method_is_found_before_a_run(tmp_path):
    code = CLASS.replace("def init", "def start")

    assert told(tmp_path, code=code) == [
        "transforms.seen.python: /own.py: class `Seen` in line 1 has no method `init`"
    ]
    assert told(tmp_path, code=code.replace("(StatefulProcessor)", "(Base)")) == []


def test_changes_of_a_class_are_refused_for_a_topic(tmp_path):
    topic = TEXT.replace(
        "type: delta, inputs: [seen], path: /lake, mode: append",
        "type: josefine, inputs: [seen], topic: out, key: id, mode: update",
    )

    assert [each for each in told(tmp_path, topic) if "rows that the class of `seen`" in each]


def test_a_state_continues_with_its_keys_and_columns_and_in_its_store(tmp_path):
    pipeline = examine(TEXT, str(tmp_path / "f.yaml"), Variables(env={})).pipeline
    seen, clean = pipeline.transforms["seen"], pipeline.transforms["clean"]
    now = made_by(seen, {})

    assert now["class"] == ["id", "id INT, n INT", "processing_time"]
    assert "class was" in other_state({"state": {**now, "class": ["k"]}}, now)
    stop = store_stop(seen, "org.x.HDFSBackedStateStoreProvider")
    assert stop is not None
    assert stop.verdict is Verdict.STATE_ELSEWHERE
    assert stop.detail.startswith("its state store is HDFSBackedStateStoreProvider, and the class")
    assert store_stop(seen, "org.x.RocksDBStateStoreProvider") is None
    assert store_stop(seen, "") is None
    assert store_stop(clean, "org.x.HDFSBackedStateStoreProvider") is None
