"""The Delta log read for one sink, over files in memory."""

from __future__ import annotations

import json

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import HandedOn, Tip
from pipelines.exactly_once.other_chains import ChainName, OtherChain
from pipelines.sinks.delta_log import DeltaLogReader, parse_entry
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


def of(app_id: str, version: int, reached: int, **meta: object) -> list[dict]:
    """A commit of another name."""
    info, _, add = own(version, reached, **meta)
    return [info, {"txn": {"appId": app_id, "version": version}}, add]


def log(*entries: list[dict] | None, app_id: str = OURS) -> DeltaLogReader:
    files = MemoryFiles()
    for version, actions in enumerate(entries):
        if actions is not None:
            text = "\n".join(json.dumps(action) for action in actions)
            files.texts[f"/t/_delta_log/{version:020d}.json"] = text
    files.texts["/t/_delta_log/_last_checkpoint"] = "{}"
    return DeltaLogReader(files, "/t", app_id)


def tip(end: int, version: int) -> Tip:
    reached = TopicOffsets(ends={("t", 0): end}, topic_ids={"t": "id"})
    return Tip(reached=reached, txn_version=version)


def test_the_newest_own_commit_is_found_past_those_of_others():
    reader = log(foreign("CREATE TABLE"), own(1, 10), own(2, 20), foreign("OPTIMIZE"))

    assert reader.last_tip() == (tip(20, 2), 3)


def test_chores_of_a_table_are_commits_of_no_chain():
    names = ("OPTIMIZE", "VACUUM START", "VACUUM END")
    chores = [[{"commitInfo": {"operation": name, "operationParameters": {}}}] for name in names]
    reader = log(foreign("CREATE TABLE"), own(1, 10), *chores)

    assert reader.last_tip() == (tip(10, 1), 4)
    assert [entry.txn_version for entry in reader.after(1)] == [None] * 3
    assert [entry.version for entry in reader.own()] == [1]


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


@pytest.mark.parametrize(("before", "after", "is_hidden"), [("a", "a", True), ("a", "b", False)])
def test_a_commit_that_was_put_on_top_of_a_restore_by_a_run_that_had_not_seen_it_is_found(
    before: str, after: str, is_hidden: bool
):
    reader = log(
        own(1, 10, run=before), own(2, 20, run=before), foreign("RESTORE", version="0"),
        foreign("OPTIMIZE"), own(3, 30, run=after),
    )  # fmt: skip

    found, _ = reader.last_tip()

    assert isinstance(found, Unreadable) is is_hidden
    assert not is_hidden or "version 2 restored the table to version 0" in found.hint


def test_a_restore_to_a_time_cannot_be_followed():
    found, _ = log(own(1, 10), foreign("RESTORE", timestamp="2026-01-01")).last_tip()

    assert isinstance(found, Unreadable)
    assert "restored the table to a time" in found.hint


def test_only_commits_after_a_version_are_listed():
    reader = log(own(1, 10), foreign("WRITE"), own(2, 20))

    assert [entry.version for entry in reader.after(0)] == [1, 2]
    assert reader.after(2) == []


OLD = "josefine:p:old"
HANDED = [of(OLD, 1, 10), of(OLD, 2, 20), of(OLD, 3, 20, handed_to=OURS), foreign("OPTIMIZE")]


def test_a_chain_that_was_taken_over_goes_on_at_the_others_end_with_its_own_versions():
    assert log(*HANDED).last_tip() == (tip(20, 0), 3)
    assert log(own(7, 5), *HANDED).last_tip() == (tip(20, 7), 4)
    assert log(*HANDED, own(1, 30)).last_tip() == (tip(30, 1), 4)


def test_a_chain_that_was_handed_on_is_not_continued_under_its_old_name():
    assert log(*HANDED, app_id=OLD).last_tip() == (HandedOn(to=OURS, txn_version=3), 3)
    back = log(*HANDED, own(1, 30, handed_to=OLD), app_id=OLD)
    assert back.last_tip() == (tip(30, 3), 4)


def others(*entries: list[dict] | None, app_id: str = OURS) -> list[OtherChain]:
    return [other for other in log(*entries, app_id=app_id).other_chains().values() if other]


def test_the_chains_of_other_names_are_found_by_their_newest_commits():
    found = others(of(OLD, 1, 10), of("josefine:q:s", 1, 5), foreign("WRITE"), of(OLD, 2, 20))

    assert found == [
        OtherChain(name=ChainName(pipeline="p", sink="old"), reached=tip(20, 0).reached),
        OtherChain(name=ChainName(pipeline="q", sink="s"), reached=tip(5, 0).reached),
    ]


def test_chains_that_were_handed_on_or_taken_back_by_restore_are_not_among_them():
    assert others(*HANDED) == []
    (heir,) = others(*HANDED, app_id="josefine:p:third")
    assert heir.name.app_id == OURS
    assert others(foreign("CREATE TABLE"), of(OLD, 1, 10), foreign("RESTORE", version="0")) == []


def test_what_the_newest_own_commit_says_and_which_queries_wrote_is_told():
    reader = log(own(1, 10, query="a"), of(OLD, 1, 3, query="x"), own(2, 20, query="b"))

    found, _ = reader.last_tip()
    assert isinstance(found, Tip)
    assert found.said["query"] == "b"
    assert reader.queries() == {"a", "b"}


def test_whether_the_log_reaches_back_is_told():
    assert log(foreign("CREATE TABLE")).reaches_back()
    assert log().reaches_back()
    assert not log(None, own(1, 10)).reaches_back()


def test_a_commit_of_many_files_is_read_for_its_two_actions():
    adds = [json.dumps({"add": {"path": f"part-{n}"}}) for n in range(1000)]
    text = "\n".join([*(json.dumps(a) for a in own(7, 10)), *adds])

    entry = parse_entry(3, text, OURS)

    assert (entry.reached(), entry.txn_version) == (tip(10, 7).reached, 7)
    assert entry.metrics == {"numOutputRows": 3}


def test_a_text_with_a_line_separator_is_part_of_its_action():
    """As the predicate of a DELETE may have it: JSON escapes none of these characters."""
    info = {"operation": "DELETE", "operationParameters": {"predicate": "k = 'a\u2028b\u0085'"}}
    txn = {"appId": OURS, "version": 4}
    text = "\n".join(
        json.dumps(each, ensure_ascii=False) for each in ({"commitInfo": info}, {"txn": txn})
    )

    entry = parse_entry(3, text, OURS)

    assert (entry.operation, entry.txn_version) == ("DELETE", 4)


def test_a_file_whose_tags_have_the_names_of_actions_is_no_such_action():
    names = {"txn": {"appId": OURS, "version": 9}, "commitInfo": {"operation": "RESTORE"}}
    texts = ({"add": {"path": "a", **names}}, {"add": names}, *own(7, 10), {"remove": names})
    text = "\r\n".join(json.dumps(each) for each in texts) + "\n"

    entry = parse_entry(3, text, OURS)

    assert (entry.operation, entry.txn_version) == ("WRITE", 7)
