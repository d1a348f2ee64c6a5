"""Where a sink's end may be put, and what is told of it before it is done."""

from __future__ import annotations

import json

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_cli.main import run
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Checkpoint, Recorded, Trust, Unreadable
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict
from pipelines.inspect.offset_moves import Move, commit_of, of_dead_letters, setting, trusting
from pipelines.model.pipeline import Mode
from tests.unit.pipelines.inspect.test_status import IDS, TOPICS, A, Lake, gone

B = TopicPartition("orders", 1)
C = TopicPartition("other", 0)


def at(ends, ids=IDS):
    return TopicOffsets(ends=ends, topic_ids=ids)


def tip(ends, ids=IDS):
    return Tip(reached=at(ends, ids), txn_version=3)


def checkpoint(ends):
    recorded = Recorded(batch=1, end=TopicOffsets(ends=ends, topic_ids=IDS, first={A: 0}))
    return Checkpoint(planned=recorded, committed=recorded)


def test_going_back_reads_again_and_going_on_leaves_out():
    move = setting(tip({A: 10, B: 10, C: 5}), {A: 4, B: 13}, IDS)

    assert isinstance(move, Move)
    assert dict(move.end.ends) == {A: 4, B: 13, C: 5}
    assert (move.again, move.left_out) == (6, 3)
    assert move.says(Mode.APPEND) == [
        "6 records are read again: their rows would be there twice",
        "3 records would be left out of the table",
    ]
    assert move.says(Mode.UPSERT)[0] == "6 records are read again: the latest rows stay"
    assert "counted twice" in move.says(Mode.MERGE)[0]


def test_what_moves_nothing_says_and_commits_nothing():
    move = setting(tip({A: 10}), {A: 10}, IDS)

    assert isinstance(move, Move)
    assert (move.says(Mode.APPEND), commit_of(move, 3)) == ([], None)


def test_the_commit_goes_from_the_old_end_to_the_new_one_behind_the_last_transaction():
    move = setting(tip({A: 10}), {A: 4}, IDS)

    assert isinstance(move, Move)
    commit = commit_of(move, 3)
    assert commit is not None
    assert (commit.start, commit.end, commit.txn_version) == ({A: 10}, at({A: 4}), 4)


def test_ends_of_a_topic_that_was_made_again_are_not_set():
    assert setting(tip({A: 10}), {A: 4}, {"orders": "new"}) == Stop(
        verdict=Verdict.TOPIC_RECREATED, detail="orders"
    )
    # Another topic of the same table is no obstacle.
    assert isinstance(setting(tip({A: 10}), {C: 4}, {"orders": "new", "other": "o"}), Move)


def test_an_end_can_be_set_where_none_can_be_read():
    move = setting(Unreadable(txn_version=7), {A: 4}, IDS)

    assert isinstance(move, Move)
    assert (move.start, move.end) == (TopicOffsets(), at({A: 4}))


def test_trusting_the_table_moves_nothing_but_what_was_made_again():
    assert trusting(checkpoint({A: 12}), tip({A: 10}), Trust.TABLE, IDS) == Move(
        start=at({A: 10}), end=at({A: 10})
    )
    assert trusting(None, tip({A: 10}), Trust.TABLE, {"orders": "new"}) == Move(
        start=at({A: 10}), end=TopicOffsets()
    )


def test_trusting_the_checkpoint_moves_the_end_to_what_it_committed():
    move = trusting(checkpoint({A: 12}), tip({A: 10}), Trust.CHECKPOINT, IDS)

    assert move == Move(start=at({A: 10}), end=at({A: 12}))
    assert move.left_out == 2
    unreadable = Unreadable(txn_version=7)
    assert trusting(checkpoint({A: 12}), unreadable, Trust.CHECKPOINT, IDS) == Move(
        start=TopicOffsets(), end=at({A: 12})
    )


def test_a_side_that_cannot_be_followed_is_a_stop():
    ways = [
        trusting(checkpoint({A: 12}), Unreadable(txn_version=7), Trust.TABLE, IDS),
        trusting(None, Unreadable(txn_version=7), Trust.CHECKPOINT, IDS),
        trusting(checkpoint({A: 10}), tip({A: 10}), Trust.CHECKPOINT, {"orders": "new"}),
    ]

    assert all(isinstance(each, Stop) for each in ways)


def test_dead_letters_are_never_behind_their_sink_and_never_go_back():
    move = Move(start=at({A: 10, B: 10}), end=at({A: 15, B: 4}))

    dead = of_dead_letters(move, at({A: 10, B: 12}))
    forgotten = of_dead_letters(
        Move(start=at({A: 10}), end=TopicOffsets()), at({A: 10, C: 3}, {**IDS, "other": "o"})
    )

    assert dict(dead.end.ends) == {A: 15, B: 12}
    assert forgotten.end == at({C: 3}, {"other": "o"})


@pytest.fixture
def lake(tmp_path, monkeypatch):
    def no_spark(*_):
        raise AssertionError("Spark is not needed here")

    monkeypatch.setattr("pipelines.run.session.start_session", no_spark)
    topics_are(monkeypatch, TOPICS)
    return Lake(tmp_path)


def topics_are(monkeypatch, topics):
    monkeypatch.setattr("pipelines.sources.at_once.topics_of", lambda client, source: topics)


def offsets(lake, capsys, verb, *arguments):
    code = run(["pipeline", "offsets", verb, str(lake.file), *arguments])
    said = capsys.readouterr()
    return code, [line.rstrip() for line in said.out.splitlines()], said.err


def test_show_has_a_row_for_each_partition_and_one_verdict(lake, capsys):
    lake.commit(12)
    lake.checkpoint(12)

    code, lines, _ = offsets(lake, capsys, "show")

    assert code == 0
    assert lines[0] == f"lake: {lake.folder}/lake (append, transaction 1)"
    assert lines[1].split() == [
        "partition", "begins", "table", "committed", "planned", "ends", "behind",
    ]  # fmt: skip
    assert lines[2].split() == ["orders-0", "2", "12", "12", "12", "20", "8"]
    assert lines[3:] == ["  would continue: table and checkpoint agree"]


def test_show_for_scripts_has_the_same(lake, capsys):
    lake.checkpoint(9)

    code, lines, _ = offsets(lake, capsys, "show", "--json")

    (sink,) = json.loads(lines[0])["sinks"]
    assert (code, sink["stops"], sink["transaction"]) == (1, True, None)
    assert sink["partitions"] == [
        {"topic": "orders", "partition": 0, "begins": 2, "table": None, "committed": 9,
         "planned": 9, "ends": 20, "behind": 18},
    ]  # fmt: skip


def test_reconcile_says_what_trusting_each_side_does_and_changes_nothing(lake, capsys):
    lake.commit(12)
    lake.checkpoint(9)

    code, lines, _ = offsets(lake, capsys, "reconcile")

    assert code == 1
    assert lines == [
        "lake: would stop: the table has more than the checkpoint planned",
        "  --trust table: each record is read once",
        "  --trust checkpoint: 3 records are read again: their rows would be there twice",
        "  nothing was changed: --execute does it",
    ]
    assert (lake.folder / "ck" / "orders.lake").is_dir()


def test_reconcile_with_the_table_sets_the_checkpoint_aside_without_spark(lake, capsys):
    lake.commit(12)
    lake.checkpoint(9)

    code, lines, _ = offsets(lake, capsys, "reconcile", "--trust", "table", "--execute")

    aside = lake.folder / "ck" / "orders.lake.set-aside-1"
    assert (code, lines[-1]) == (0, f"  done: the checkpoint is {aside} now")
    assert (aside / "offsets" / "0").is_file()
    assert offsets(lake, capsys, "show")[0] == 0


def test_sides_that_agree_are_left_alone(lake, capsys):
    lake.commit(12)
    lake.checkpoint(12)

    code, lines, _ = offsets(lake, capsys, "reconcile", "--trust", "table", "--execute")

    assert (code, lines) == (0, ["lake: would continue: table and checkpoint agree"])
    assert (lake.folder / "ck" / "orders.lake").is_dir()


def test_reconcile_tells_of_what_neither_side_settles(lake, capsys, monkeypatch):
    lake.commit(12)
    topics_are(monkeypatch, gone(15, 20))

    code, lines, _ = offsets(lake, capsys, "reconcile", "--trust", "table", "--execute")

    assert code == 1
    assert len(lines) == 1
    assert "its topics have lost records that the table does not have" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "effect", "to"),
    [
        (("--to", "5"), "7 records are read again: their rows would be there twice", "5"),
        (("--shift-by", "3"), "3 records would be left out of the table", "15"),
        (("--to", "latest"), "8 records would be left out of the table", "20"),
    ],
)
def test_set_shows_what_it_would_do(lake, capsys, arguments, effect, to):
    lake.commit(12)

    code, lines, _ = offsets(lake, capsys, "set", *arguments)

    assert code == 0
    assert lines[2].split() == ["orders-0", "12", to]
    assert lines[3:] == [f"  {effect}", "  nothing was changed: --execute does it"]


def test_set_of_what_was_never_committed_is_refused(lake, capsys):
    code, lines, said = offsets(lake, capsys, "set", "--to", "5")

    assert (code, lines) == (1, [])
    assert "sink `lake` has committed nothing: it starts at its source's `start`" in said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("set",), "give one of --to and --shift-by"),
        (("set", "--to", "5", "--shift-by", "1"), "give one of --to and --shift-by"),
        (("set", "--to", "5", "--sink", "lak"), "did you mean `lake`?"),
        (("reconcile", "--execute"), "--execute needs a side to trust"),
    ],
)
def test_a_wrong_command_line_is_refused(lake, capsys, arguments, told):
    verb, *rest = arguments
    code, _, said = offsets(lake, capsys, verb, *rest)

    assert code == 2
    assert told.lower() in said.lower()
