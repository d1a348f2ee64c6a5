"""The Delta log read for one sink, over files in memory."""

from __future__ import annotations

import json

import pytest

from josefine_spark.topic_offsets import TopicOffsets
from pipelines.chain import Tip
from pipelines.delta_log import DeltaLogReader, parse_entry
from pipelines.reconcile import Unreadable
from tests.unit.pipelines.memory import MemoryFiles

OURS = "josefine:p:s"


def own(version: int, reached: int, **meta: object) -> list[dict]:
    value = {"josefine": 1, "end": {"t": {"0": reached}}, "topic_ids": {"t": "id"}} | meta
    info = {"operation": "WRITE", "userMetadata": json.dumps(value)}
    return [
        {"commitInfo": info | {"operationMetrics": {"numOutputRows": "3"}}},
        {"txn": {"appId": OURS, "version": version}},
        {"add": {"path": "part-0"}},
    ]


def foreign(operation: str, **parameters: object) -> list[dict]:
    info = {"operation": operation, "operationParameters": parameters}
    return [{"commitInfo": info}, {"txn": {"appId": "else", "version": 99}}]


def log(*entries: list[dict] | None) -> DeltaLogReader:
    files = MemoryFiles()
    for version, actions in enumerate(entries):
        if actions is not None:
            text = "\n".join(json.dumps(action) for action in actions)
            files.texts[f"/t/_delta_log/{version:020d}.json"] = text
    files.texts["/t/_delta_log/_last_checkpoint"] = "{}"
    return DeltaLogReader(files, "/t", OURS)


def tip(end: int, version: int) -> Tip:
    reached = TopicOffsets(ends={("t", 0): end}, topic_ids={"t": "id"})
    return Tip(reached=reached, txn_version=version)


def test_the_newest_own_commit_is_found_past_those_of_others():
    reader = log(foreign("CREATE TABLE"), own(1, 10), own(2, 20), foreign("OPTIMIZE"))

    assert reader.last_tip() == (tip(20, 2), 3)


def test_a_table_without_own_commits_has_no_tip():
    assert log(foreign("CREATE TABLE"), foreign("WRITE")).last_tip() == (None, 1)
    assert log().last_tip() == (None, -1)


def test_a_log_that_was_cleaned_before_the_own_commit_is_unreadable():
    found, newest = log(None, None, foreign("OPTIMIZE"), foreign("WRITE")).last_tip()

    assert found == Unreadable(txn_version=0, hint="log entries up to version 1 are gone")
    assert newest == 3


@pytest.mark.parametrize(
    "meta", [{"josefine": 2}, {"end": "text"}, {"end": {"t": {"x": 1}}}, {"topic_ids": 5}]
)
def test_an_own_commit_without_offsets_that_we_can_read_is_unreadable(meta):
    found, _ = log(foreign("CREATE TABLE"), own(4, 10, **meta)).last_tip()

    assert isinstance(found, Unreadable)
    assert found.txn_version == 4


def test_a_restore_sends_the_walk_to_the_restored_version_but_keeps_the_newest_txn_version():
    reader = log(own(1, 10), own(2, 20), own(3, 30), foreign("RESTORE", version="0"))

    assert reader.last_tip() == (tip(10, 3), 3)


def test_a_restore_before_the_first_own_commit_keeps_the_txn_version():
    reader = log(foreign("CREATE TABLE"), own(1, 10), foreign("RESTORE", version="0"), own(2, 5))

    assert reader.last_tip() == (tip(5, 2), 3)


def test_a_restore_to_a_time_cannot_be_followed():
    found, _ = log(own(1, 10), foreign("RESTORE", timestamp="2026-01-01")).last_tip()

    assert isinstance(found, Unreadable)
    assert "restored the table to a time" in found.hint


def test_only_commits_after_a_version_are_listed():
    reader = log(own(1, 10), foreign("WRITE"), own(2, 20))

    assert [entry.version for entry in reader.after(0)] == [1, 2]
    assert reader.after(2) == []


def test_a_commit_of_many_files_is_read_for_its_two_actions():
    adds = [json.dumps({"add": {"path": f"part-{n}"}}) for n in range(1000)]
    text = "\n".join([*(json.dumps(a) for a in own(7, 10)), *adds])

    entry = parse_entry(3, text, OURS)

    assert entry.tip() == tip(10, 7)
    assert entry.metrics == {"numOutputRows": 3}
