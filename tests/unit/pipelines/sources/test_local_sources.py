"""Sources without a broker, as they are read."""

from __future__ import annotations

import json

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import SetupError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.graph import as_mermaid, graph_of
from pipelines.lint.lint import lint_file
from pipelines.sources.kinds import ANY_KIND, options_of
from pipelines.sources.local_records import Lines, Memory, Rate, records_of
from tests.support.waiting import wait_until
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD, complaint

BROKER = """\
    type: josefine
    bootstrap: localhost:9092
    topics: [orders]
"""
FILE = "    type: file\n    path: /in\n    limit: { bytes: 1MiB }\n"
RATE = "    type: rate\n    rows_per_second: 5\n    start: { last: 100 }\n    limit: { rows: 10 }\n"
RATE_TOPIC = TopicPartition("rate", 0)
MEMORY = """\
    type: memory
    headers: true
    records:
      - { key: a, value: { id: 1 } }
      - { value: none, partition: 3, headers: { trace: t }, timestamp: 2026-01-01T00:00:00.5Z }
      - { key: b }
"""


def text_of(words: str) -> str:
    return GOOD.replace(BROKER, words)


def source_of(words: str):
    return validate(load(text_of(words), "f.yaml", {})).sources["raw"]


@pytest.mark.parametrize("words", [FILE, RATE, MEMORY])
def test_each_type_is_good_by_lint_and_by_the_schema_of_editors(tmp_path, words):
    file = tmp_path / "f.yaml"
    file.write_text(text_of(words))

    assert lint_file(file, {}).problems == []
    assert complaints(text_of(words)) == []


def test_what_the_file_says_arrives_at_the_stream():
    file, rate, memory = (source_of(words) for words in (FILE, RATE, MEMORY))

    assert records_of(options_of(file)) == Lines(path="/in")
    assert (options_of(file)["most"], options_of(file)["start"]) == (str(1 << 20), "earliest")
    assert records_of(options_of(rate)) == Rate(rows_per_second=5)
    assert (options_of(rate)["most"], options_of(rate)["start"]) == ("10", "last 100")
    assert (
        options_of(source_of(RATE.replace("    start: { last: 100 }\n", "")))["start"] == "latest"
    )
    timed = source_of(RATE.replace("{ last: 100 }", "{ timestamp: 2026-01-01T00:00:01Z }"))
    assert options_of(timed)["start"] == "1767225601000ms"
    assert "headers ARRAY" in options_of(memory)["columns"]


def test_records_of_the_file_are_rows_of_their_partitions():
    records = records_of(options_of(source_of(MEMORY)))

    assert isinstance(records, Memory)
    first, third = records.records[TopicPartition("raw", 0)]
    assert (first[0], first[1], first[4], third[:2], third[4]) == (
        b"a", b'{"id": 1}', 0, (b"b", None), 1,
    )  # fmt: skip
    (second,) = records.records[TopicPartition("raw", 3)]
    assert (second[1], second[7]) == (b"none", [("trace", b"t")])
    assert second[5].isoformat() == "2026-01-01T00:00:00.500000+00:00"


def test_topics_are_looked_at_without_a_broker(tmp_path):
    source = source_of(FILE.replace("/in", str(tmp_path)))
    with pytest.raises(SetupError, match="nothing to read there"):
        ANY_KIND.look(source)
    (tmp_path / "a.json").write_text('{"id": 1}\n')

    topics = ANY_KIND.look(source)

    assert topics.latest.ends == {("a.json", 0): 10}
    assert topics.earliest == {("a.json", 0): 0}


def test_a_stream_says_where_its_source_ends_beyond_the_batch(tmp_path):
    from pipelines.sources.local_source import LocalStreamReader

    source = source_of(FILE.replace("/in", str(tmp_path)).replace("1MiB", "10"))
    (tmp_path / "a.json").write_text('{"id": 1}\n' * 4)
    reader = LocalStreamReader(options_of(source))
    assert reader.reportLatestOffset() is None

    end = reader.latestOffset(reader.initialOffset())

    assert ANY_KIND.parse(json.dumps(end)).ends == {("a.json", 0): 10}
    assert ANY_KIND.parse(json.dumps(reader.reportLatestOffset())).ends == {("a.json", 0): 40}


def test_the_drawing_says_what_is_read():
    drawn = as_mermaid(graph_of(validate(load(text_of(RATE), "f.yaml", {}))))

    assert 'source_raw(["raw<br>5 rows/s"])' in drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (FILE.replace("    path: /in\n", ""),
         "f.yaml:5:3: sources.raw: `path` is missing; expected a folder whose files are read "),
        (FILE.replace("/in", "s3a://b/in"),
         "f.yaml:7:11: sources.raw.path: expected a folder or a pattern of files on this machine"),
        (FILE.replace("bytes: 1MiB", "rows: 5"),
         "f.yaml:8:20: sources.raw.limit.rows: no `rows` with type file; expected `bytes`"),
        (FILE + "    topics: [a]\n",
         "f.yaml:9:13: sources.raw.topics: `topics` is for type josefine or kafka; this source's "),
        (FILE + "    start: { last: 5 }\n",
         "f.yaml:9:5: sources.raw.start: no `last` with type file; expected one of: earliest, lat"),
        (RATE.replace("{ last: 100 }", "earliest"),
         "f.yaml:8:12: sources.raw.start: no `earliest` with type rate; expected one of: latest, "),
        (RATE.replace(": 5", ": 0"), "sources.raw.rows_per_second: expected a whole number above"),
        (RATE.replace("    rows_per_second: 5\n", ""), "`rows_per_second` is missing; expected a "),
        (MEMORY.replace("key: a,", "key: a, offset: 4,"),
         "sources.raw.records[0].offset: offsets are counted: leave it out"),
        ("    type: memory\n", "sources.raw: `records` is missing; expected a list of mappings "),
        (BROKER + "    path: /in\n",
         "f.yaml:9:11: sources.raw.path: `path` is for type file or delta; this source's "),
        (BROKER.replace("    bootstrap: localhost:9092\n", ""),
         "f.yaml:5:3: sources.raw: `bootstrap` is missing; expected host:port[,host:port]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(words, said):
    assert said in complaint(text_of(words))


def test_a_stream_begins_where_it_began_and_reads_each_row_once():
    """Spark asks for the beginning twice; a rate has gone on meanwhile."""
    stream = pytest.importorskip("pipelines.sources.local_source")
    reader = stream.LocalStreamReader(options_of(source_of(RATE.replace(": 5", ": 1000"))))

    begin = reader.initialOffset()
    wait_until(lambda: reader._look().ends[RATE_TOPIC] > begin["offsets"]["rate"]["0"] + 100, 5, "")
    end = reader.latestOffset(begin)

    assert reader.initialOffset() == begin
    assert end["first"] == begin["offsets"]
    (task,) = reader.partitions(begin, end)
    first = begin["offsets"]["rate"]["0"]
    assert [row[4] for row in reader.read(task)] == list(range(first, first + 10))
    assert [len(row) for row in reader.read(task)] == [7] * 10


def test_a_new_file_is_read_from_its_beginning_and_a_stream_with_nothing_new_stays(tmp_path):
    stream = pytest.importorskip("pipelines.sources.local_source")
    (tmp_path / "a").write_text("1\n")
    reader = stream.LocalStreamReader(options_of(source_of(FILE.replace("/in", str(tmp_path)))))
    begin = reader.latestOffset(reader.initialOffset())
    (tmp_path / "b").write_text("2\n")

    end = reader.latestOffset(begin)

    (task,) = reader.partitions(begin, end)
    assert [(row[1], row[2], row[4]) for row in reader.read(task)] == [(b"2", "b", 0)]
    assert reader.latestOffset(end) == end
