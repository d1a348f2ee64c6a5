"""How far sinks are and whether a run would stop, from files on this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_cli.main import run
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import SetupError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.status import status
from pipelines.run.failure_notes import forget, note
from pipelines.sources.josefine import Topics
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.memory import offset_text, wal_text

A = TopicPartition("orders", 0)
IDS = {"orders": "id"}
TOPICS = Topics(earliest={A: 2}, latest=TopicOffsets(ends={A: 20}, topic_ids=IDS))


class Lake:
    """A pipeline of one sink with its table's log and its checkpoint."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "f.yaml"
        text = GOOD.replace("/ck", str(folder / "ck")).replace("/lake", str(folder / "lake"))
        self.file.write_text(text)
        self.version = 0

    def commit(self, end, app="josefine:orders:lake", table="lake", **said):
        meta = {"josefine": 1, "end": {"orders": {"0": end}}, "topic_ids": IDS, "query": "q"}
        meta |= said
        info = {"operation": "WRITE", "userMetadata": json.dumps(meta), "engineInfo": "delta-rs:1"}
        txn = {"appId": app, "version": self.version + 1}
        self.write(
            f"{table}/_delta_log/{self.version:020d}.json",
            json.dumps({"commitInfo": info}) + "\n" + json.dumps({"txn": txn}),
        )
        self.version += 1

    def checkpoint(self, end, sink="orders.lake"):
        self.write(f"ck/{sink}/offsets/0", wal_text(offset_text({A: end}, {A: 0}, IDS)))
        self.write(f"ck/{sink}/commits/0", "v1")
        self.write(f"ck/{sink}/metadata", '{"id": "q"}')

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def status(self, topics=TOPICS):
        def look(source):
            if topics is None:
                raise SetupError("no broker there")
            return topics

        (found,) = status(read_pipeline(self.file, {}), look)
        return found


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_a_sink_that_was_never_run_has_everything_before_it(lake):
    found = lake.status()

    assert (found.ends, found.behind, found.stops, found.unknown) == ({}, 18, "", "")


def test_why_a_sink_failed_is_told_until_it_begins_again(lake, capsys):
    pipeline = read_pipeline(lake.file, {})
    note(pipeline, "lake", "nobody made the folder", 1)
    assert lake.status().failed == ""

    lake.commit(20)
    lake.checkpoint(20)
    note(pipeline, "lake", "disk full", 1_767_225_600_000)

    assert (lake.status().failed, lake.status().failed_ms) == ("disk full", 1_767_225_600_000)
    assert run(["pipeline", "status", str(lake.file)]) == 1
    assert "    it failed (2026-01-01T00:00:00.000Z): disk full\n" in capsys.readouterr().out

    forget(pipeline, "lake")
    assert lake.status().failed == ""


def test_a_note_that_nobody_can_read_is_none(lake):
    lake.checkpoint(20)
    for text in ("", "[]", '{"reason": "x"}'):
        lake.write("ck/orders.lake.failed", text)
        assert lake.status().failed == ""


@pytest.mark.parametrize("place", ["orders.lake", "lake"])
def test_a_sink_that_would_go_on_says_how_far_it_is(lake, place):
    lake.commit(12)
    lake.checkpoint(12, place)

    found = lake.status()

    assert (dict(found.ends), found.behind, found.stops) == ({A: 12}, 8, "")


def gone(earliest, end, ids=IDS):
    return Topics(earliest={A: earliest}, latest=TopicOffsets(ends={A: end}, topic_ids=ids))


@pytest.mark.parametrize(
    ("topics", "checkpoint", "verdict"),
    [
        (TOPICS, 9, "the table has more than the checkpoint planned"),
        (TOPICS, 15, "the table has less than the checkpoint committed"),
        (gone(15, 20), 12, "its topics have lost records that the table does not have; orders-0"),
        (gone(0, 5), 12, "a topic ends before the table's end"),
        (gone(0, 20, {"orders": "new"}), 12, "a topic was deleted and created again"),
    ],
)
def test_a_sink_that_would_stop_says_why(lake, topics, checkpoint, verdict):
    lake.commit(12)
    lake.checkpoint(checkpoint)

    assert lake.status(topics).stops.startswith(verdict)


def test_a_renamed_sink_and_a_checkpoint_of_nobody_are_told(lake):
    lake.checkpoint(12, "lake")
    assert "nothing shows whether it is of this pipeline" in lake.status().stops

    lake.commit(12, app="josefine:orders:pond")
    assert "the rows of another name" in lake.status().stops


def test_a_table_of_dead_letters_that_is_gone_is_told(lake):
    text = lake.file.read_text().replace("on_error: fail", "on_error: dead_letter")
    dead = lake.folder / "dead"
    lake.file.write_text(f"{text}dead_letter: {{ type: delta, path: {dead} }}\n")
    lake.commit(12, dead_letters=str(dead))

    assert lake.status().stops.startswith(
        "the dead letters' table lacks commits that this source's"
    )
    lake.commit(12, app="josefine:orders:dead_letter.raw", table="dead")
    assert lake.status().stops == ""


def test_without_a_broker_the_table_still_says_how_far_it_is(lake):
    lake.commit(12)

    found = lake.status(None)

    assert (dict(found.ends), found.behind, found.unknown) == ({A: 12}, None, "no broker there")


def test_the_lines_of_the_command_say_it_for_people(lake, capsys, monkeypatch):
    lake.commit(12)
    lake.checkpoint(9)
    monkeypatch.setattr("pipelines.sources.at_once.topics_of", lambda client, source: TOPICS)

    assert run(["pipeline", "status", str(lake.file)]) == 1

    assert capsys.readouterr().out.splitlines() == [
        "orders",
        f"  lake: {lake.folder}/lake ends at orders 0:12, 8 records behind",
        "    last commit: version 0, by delta-rs:1",
        "    a run would stop: the table has more than the checkpoint planned",
    ]
    assert run(["pipeline", "graph", str(lake.file), "--live"]) == 0
    assert "<br>a run would stop" in capsys.readouterr().out
    lake.checkpoint(12)
    assert run(["pipeline", "status", str(lake.file)]) == 0
    capsys.readouterr()
    assert run(["pipeline", "graph", str(lake.file), "--live"]) == 0
    assert "<br>8 records behind" in capsys.readouterr().out


def test_the_judgement_needs_no_spark():
    code = (
        "import sys, pipelines.inspect.status, josefine_cli.pipeline.status;"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("{}/lake", "has nothing, 9 bytes behind\n"),
        (
            "abfss://lake/t",
            "  lake: abfss://lake/t\n    not known: abfss://lake/t names no container",
        ),
    ],
)
def test_a_source_of_files_is_behind_by_bytes(table, told, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"a": 1}\n')
    file = tmp_path / "f.yaml"
    file.write_text(f"""\
version: 1
name: files
spark: {{ master: "local[1]", checkpoint: {tmp_path}/ck }}
sources:
  lines:
    type: file
    path: {tmp_path}/in
    decode: {{ value: {{ format: json, schema: a INT }} }}
sinks:
  lake: {{ inputs: [lines], type: delta, path: "{table.format(tmp_path)}", mode: append }}
trigger: {{ available_now: true }}
""")

    run(["pipeline", "status", str(file)])

    assert told in capsys.readouterr().out


def test_a_sink_that_lags_names_its_first_unread_offset(lake):
    assert dict(lake.status().unread) == {A: 2}

    lake.commit(12)
    lake.checkpoint(12)
    assert dict(lake.status().unread) == {A: 12}

    lake.commit(20)
    assert dict(lake.status().unread) == {}
    assert dict(lake.status(None).unread) == {}


def test_a_stop_comes_with_the_commands_of_a_run(lake):
    lake.commit(12)
    lake.checkpoint(12)
    assert lake.status().settles == ""

    lake.checkpoint(16)
    found = lake.status()

    assert found.stops
    assert f"  josefine pipeline run {lake.file} --trust table" in found.settles
    assert 'ends at {"orders": {"0": 12}}' in found.settles


@pytest.mark.parametrize(
    ("end", "first", "lag_s"),
    [
        (7, lambda source, at: None if at != {A: 7} else 1, "old"),
        (20, lambda source, at: pytest.fail("nothing is left to look at"), 0),
        (7, None, None),
    ],
)
def test_age_of_the_lag_is_of_the_first_record_after_the_table(lake, end, first, lag_s):
    lake.commit(end)
    (found,) = status(read_pipeline(lake.file, {}), lambda source: TOPICS, first)

    age = found.to_json()["lag_s"]
    assert (age > 1_000_000) if lag_s == "old" else age == lag_s


def test_age_of_the_lag_is_unknown_while_brokers_fail(lake):
    def first(source, positions):
        raise SetupError("no broker there")

    lake.commit(7)
    (found,) = status(read_pipeline(lake.file, {}), lambda source: TOPICS, first)
    assert (found.behind, found.lag_ms) == (13, None)
