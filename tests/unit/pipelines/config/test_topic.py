"""A sink that writes a topic: its words, what it refuses, and what each verb says of it."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import Place
from pipelines.base.finding import ABSENT
from pipelines.base.variables import Variables
from pipelines.config.keywords import WORDS as VOCABULARY
from pipelines.config.topic import reads
from pipelines.config.validate import examine
from pipelines.exactly_once.checkpoint_start import Checkpoint, Recorded
from pipelines.exactly_once.offset_chain import Batch, Stop, Tip, Verdict
from pipelines.exactly_once.verdict_messages import stopped_at_start, stopped_in_batch
from pipelines.inspect.graph import as_mermaid, graph_of
from pipelines.inspect.preflight import Facts, findings
from pipelines.lint.lint import lint_file
from pipelines.model.pipeline import Mode, Pipeline
from pipelines.model.topic import SinkTopic, sink_id
from pipelines.sinks.targets import target_of
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD

OUT = "  out: { type: josefine, inputs: [clean], topic: big, key: id }\n"
TOPIC = GOOD.replace(SINK, OUT)
WORDS = "topic: big, key: id"


OWN = (
    *("type", "inputs", "topic", "bootstrap", "security", "key", "delivery", "mode"),
    "tombstone_when",
)


def read(text: str = TOPIC) -> Pipeline:
    examined = examine(text, "f.yaml", Variables(env={}))
    assert examined.problems == []
    return examined.pipeline


def told(words: str) -> list[str]:
    examined = examine(TOPIC.replace(WORDS, words), "f.yaml", Variables(env={}))
    return [str(each).removeprefix("f.yaml:14:") for each in examined.problems]


def test_a_topic_sink_has_its_sources_brokers_and_writes_exactly_once():
    sink = read().sinks["out"]

    assert sink.topic == SinkTopic(
        bootstrap="localhost:9092",
        topic="big",
        key="id",
        key_place=Place(file="f.yaml", line=14, column=60),
    )
    assert (sink.mode, sink.path, sink.table, sink.told) == (Mode.APPEND, None, None, "topic big")
    more = read(TOPIC.replace(WORDS, "topic: big, mode: append, bootstrap: 'b:1,c:2', "
                              "delivery: at_least_once")).sinks["out"].topic  # fmt: skip
    assert more is not None
    assert (more.bootstrap, more.key, more.exactly_once) == ("b:1,c:2", None, False)


BAD = {
    "topic: big, path: /x": [
        "61: sinks.out.path: `path` is for type delta; this sink's type is josefine"
    ],
    "topic: big, table: x": [
        "62: sinks.out.table: `table` is for type delta or iceberg; this sink's type is josefine"
    ],
    "topic: big, mode: upsert": [
        "61: sinks.out.mode: a topic only grows: expected append or update; found `upsert`"
    ],
    "topic: big, key: id, mode: update": [
        "70: sinks.out.mode: no transform of its rows has a state (`watermark`), so no row "
        "changes: expected append"
    ],
    "topic: big, tombstone_when: id > 0": [
        "71: sinks.out.tombstone_when: `tombstone_when` is for mode update: a record of mode "
        "append replaces none"
    ],
    "topic: big, keys: [id]": [
        "61: sinks.out.keys: `keys` is for type delta; this sink's type is josefine"
    ],
    "topic: big, schema_evolution: add": [
        "73: sinks.out.schema_evolution: `schema_evolution` is for type delta or iceberg; this "
        "sink's type is josefine"
    ],
    "topic: big, deduplicate: { keys: [id] }": [
        "55: sinks.out.deduplicate: `deduplicate` is for type delta; this sink's type is josefine"
    ],
    "key: id": ["3: sinks.out: `topic` is missing; expected the name of an existing topic"],
    "topic: a b": [
        "50: sinks.out.topic: `a b` is not a valid topic name: expected 1 to 249 of "
        "a-z A-Z 0-9 . _ -"
    ],
    "topic: __sinks": [
        "50: sinks.out.topic: `__sinks` is the brokers' own: expected another topic"
    ],
    "topic: orders": [
        "50: sinks.out.topic: source `raw` reads it: its rows would be read again forever"
    ],
    "topic: big, bootstrap: nowhere": [
        "66: sinks.out.bootstrap: expected host:port[,host:port], where not the source's; found "
        "`nowhere`"
    ],
    "topic: big, delivery: twice": [
        "65: sinks.out.delivery: expected exactly_once or at_least_once; found `twice`"
    ],
}


@pytest.mark.parametrize("words", BAD)
def test_what_a_topic_sink_cannot_have_is_told_with_its_place(words):
    assert told(words) == BAD[words]


@pytest.mark.parametrize("words", [w for w in BAD if (w.split(",")[-1].split(":")[0].strip() in (
    "path", "table", "mode", "keys", "schema_evolution", "deduplicate", "delivery",
    "tombstone_when",
) and "key: id, mode" not in w) or w == "key: id"])  # fmt: skip
def test_an_editor_shows_it_too(words):
    assert complaints(TOPIC.replace(WORDS, words)) != []


@pytest.mark.parametrize("word", [w for w in VOCABULARY["sink"] if w not in OWN])
def test_every_word_of_a_table_is_refused(word):
    assert any(
        line.endswith("; this sink's type is josefine") and f"out.{word}: `{word}` is for" in line
        for line in told(f"topic: big, {word}: x")
    )


def test_the_schema_takes_a_topic_sink():
    assert complaints(TOPIC) == []
    assert complaints(TOPIC.replace(WORDS, "topic: big, mode: append")) == []


def test_a_topics_words_are_refused_for_a_table():
    text = GOOD.replace("mode: append", "mode: append, topic: x, key: id")
    examined = examine(text, "f.yaml", Variables(env={}))

    assert [each.message for each in examined.problems] == [
        "`topic` is for type josefine; this sink's type is delta",
        "`key` is for type josefine; this sink's type is delta",
    ]


def test_a_table_may_say_that_it_has_each_row_once_and_nothing_else():
    read(GOOD.replace("mode: append", "mode: append, delivery: exactly_once"))

    text = GOOD.replace("mode: append", "mode: append, delivery: at_least_once")
    (problem,) = examine(text, "f.yaml", Variables(env={})).problems
    assert problem.message == "a table has each row once: expected exactly_once, or no `delivery`"
    assert problem.path == "sinks.lake.delivery"


def test_a_source_without_brokers_names_none_for_its_sink():
    memory = TOPIC.replace(
        "    type: josefine\n    bootstrap: localhost:9092\n    topics: [orders]\n",
        "    type: memory\n    records: [ { value: { id: 1 } } ]\n",
    )

    examined = examine(memory, "f.yaml", Variables(env={}))
    assert [each.message for each in examined.problems] == [
        "`bootstrap` is missing: source `raw` has no brokers"
    ]
    assert read(memory.replace(WORDS, f"{WORDS}, bootstrap: 'b:1'")).sinks["out"].topic is not None


def test_a_record_in_the_brokers_has_a_name_of_150_letters_at_most():
    assert told("topic: " + "x" * (150 - len("orders.out."))) == []
    assert "have 151 characters together in orders.out.x" in told("topic: " + "x" * 140)[0]
    assert sink_id("p", "s", "t") == "p.s.t"


@pytest.mark.parametrize(
    ("bootstrap", "topics", "expected"),
    [
        ("localhost:9092", "topics: [other, big]", True),
        ("other:1,localhost:9092", "topics: [big]", True),
        ("localhost:9092", "pattern: b.*", True),
        ("localhost:9092", "pattern: b", False),
        ("mirror:9092", "topics: [big]", False),
    ],
)
def test_a_source_reads_a_topic_of_its_name_at_its_brokers(bootstrap, topics, expected):
    text = TOPIC.replace("localhost:9092", f"'{bootstrap}'").replace("topics: [orders]", topics)
    text = text.replace(WORDS, f"{WORDS}, bootstrap: 'localhost:9092'")
    pipeline = examine(text, "f.yaml", Variables(env={})).pipeline
    target = pipeline.sinks["out"].topic
    assert target is not None

    assert reads(pipeline.sources["raw"], target) is expected


def test_of_values_that_lint_does_not_know_nothing_is_said(tmp_path):
    text = TOPIC.replace("topics: [orders]", "pattern: .*").replace("localhost:9092", "${WHERE}")
    file = tmp_path / "f.yaml"
    file.write_text(text.replace("topic: big", "topic: '${secret:env:TOPIC}'"))

    problems = [str(each) for each in lint_file(file, {"WHERE": "b:1"}).problems]
    assert [each for each in problems if "sinks" in each] == []


def test_lint_knows_the_key(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(TOPIC.replace("key: id", "key: idd"))

    assert [str(each).removeprefix(f"{file}:") for each in lint_file(file, {}).problems] == [
        "14:60: sinks.out.key: no column `idd` in `clean`; did you mean `id`?"
    ]


def test_the_drawing_names_the_topic():
    assert '[("out<br>append: topic big")]' in as_mermaid(graph_of(read()))


@pytest.mark.parametrize(
    ("why", "line"),
    [
        ("", "ok: sink `out`: topic big is there"),
        (
            ABSENT,
            "error: sink `out`: topic big does not exist; josefine topics create big -b "
            "localhost:9092",
        ),
        (
            "localhost:9092: nobody there",
            "error: sink `out`: localhost:9092: nobody there; start the brokers, or correct "
            "`bootstrap` at f.yaml:14:3",
        ),
    ],
)
def test_check_tells_of_the_topic(why, line):
    facts = Facts(sources={}, folders=(), targets={"out": why})

    assert str(findings(read(), facts)[-1]).replace("topic big: localhost", "localhost") == line


def test_lost_ranges_are_recorded_beside_the_checkpoint():
    pipeline = read()

    assert target_of(pipeline.sinks["out"]).loss_table(pipeline).told == "/ck/orders.out.lost"
    table = validate_good()
    assert target_of(table.sinks["lake"]).loss_table(table).told == "/lake_lost"


def validate_good() -> Pipeline:
    return examine(GOOD, "f.yaml", Variables(env={})).pipeline


def test_a_stop_speaks_of_the_sink_and_of_no_table():
    a = ("t", 0)
    stop = Stop(verdict=Verdict.TABLE_AHEAD)
    both = Recorded(batch=1, end=TopicOffsets(ends={a: 5}))
    tip = Tip(reached=TopicOffsets(ends={a: 9}), txn_version=3)

    start = stopped_at_start(
        "f.yaml", "out", "topic big", "/ck", stop, Checkpoint(planned=both, committed=both), tip
    )
    race, one = Stop(verdict=Verdict.LOST_RACE), Batch(start={}, end=both.end)
    batch = stopped_in_batch("f.yaml", "out", "topic big", race, 1, one, tip)

    assert start.splitlines()[:2] == [
        "sink `out` stopped, nothing was written: the sink has more than the checkpoint planned",
        '  topic big ends at {"t": {"0": 9}}',
    ]
    for text in (start, batch):
        assert "table" not in text.replace("--trust table", "")


CHANGES = "topic: big, mode: update, key: [at, id], tombstone_when: n = 0"
WINDOWS = (
    TOPIC.replace("sql: select value.* from raw", "sql: 'select value.*, timestamp as at from raw'")
    .replace("inputs: [clean], topic", "inputs: [per_minute], topic")
    .replace(
        "sinks:",
        """  per_minute:
    inputs: [clean]
    watermark: { clean: { column: at, delay: 10m } }
    sql: >
      select window.start as at, id, count(*) as n from clean group by window(at, '1m'), id
sinks:""",
    )
)


def linted(tmp_path, text):
    (tmp_path / "f.yaml").write_text(text)
    problems = lint_file(tmp_path / "f.yaml", {}).problems
    return [f"{each.path}: {each.message}" for each in problems]


def test_changes_of_a_window_have_a_key_of_several_columns(tmp_path):
    text = WINDOWS.replace(WORDS, CHANGES)
    sink = read(text).sinks["out"]

    assert sink.mode is Mode.UPDATE
    assert [name for name, _ in sink.topic.keys] == ["at", "id"]
    assert (sink.topic.key, sink.tombstone_when.text) == (None, "n = 0")
    assert linted(tmp_path, text) == []
    assert complaints(text) == []
    assert linted(tmp_path, WINDOWS.replace(WORDS, "topic: big, key: [id]")) == []


NO_CHANGES = [
    ("key: [at, id]", "bootstrap: 'b:1'", "sinks.out.mode: `key` is missing: a change replaces"),
    ("key: [at, id]", "key: [at, ids]", "sinks.out.key: no column `ids` in `per_minute`; did you"),
    ("n = 0", "m = 0", "sinks.out.tombstone_when: no column `m`"),
    ("'1m'), id", "'1m'), id having n > 1", "transforms.per_minute.sql: a condition (WHERE, HAV"),
    ("group by window", "group by session_window", "transforms.per_minute.sql: Spark gives no ch"),
]


@pytest.mark.parametrize(("old", "new", "words"), NO_CHANGES)
def test_lint_names_what_has_no_changes_before_spark_does(tmp_path, old, new, words):
    text = WINDOWS.replace(WORDS, CHANGES)
    assert old in text

    found = linted(tmp_path, text.replace(old, new).replace("window.start", "min(at)"))

    assert [each for each in found if each.startswith(words)], found


def test_a_condition_after_the_window_leaves_no_change_out(tmp_path):
    text = WINDOWS.replace(WORDS, CHANGES).replace("inputs: [per_minute], topic", "inputs: [m], to"
                                                   "pic")  # fmt: skip
    text = text.replace("sinks:", "  m: { inputs: [per_minute], sql: select * from per_minute "
                        "where n > 1 }\nsinks:")  # fmt: skip

    assert [each[:28] for each in linted(tmp_path, text)] == ["transforms.m.sql: a condition"[:28]]
    assert linted(tmp_path, text.replace(" where n > 1", "")) == []
    assert linted(tmp_path, text.replace("mode: update", "mode: append").replace(
        ", tombstone_when: n = 0", "")) == []  # fmt: skip


def test_a_table_has_no_changes():
    text = GOOD.replace("mode: append", "mode: update")
    (problem,) = examine(text, "f.yaml", Variables(env={})).problems

    assert problem.message.startswith("each change of a result is a record of a topic")
    assert complaints(text) != []


def test_the_ways_out_of_a_lost_state_name_the_topic():
    stop = Stop(verdict=Verdict.STATE_GONE)

    told = stopped_at_start("f.yaml", "out", "topic big", "/ck", stop, None, None, None, "per_min")

    assert "its topic is there and its state is gone" in told
    assert "a new topic: give sink `out` a new name and a new `topic` in f.yaml" in told
    assert "table with `type: delta`, `mode: merge`" in told
