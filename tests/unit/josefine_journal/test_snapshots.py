"""Snapshots of entities: against a model, through merges, deaths and two writers at once."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_journal.actions import PayloadType
from josefine_journal.entity_snapshots import (
    Criteria,
    EntitySnapshot,
    Row,
    Saved,
    decoded,
    deleted,
    least,
    replaced,
)
from josefine_journal.entity_snapshots import given as given_to_reader
from josefine_journal.errors import JournalError, StoreError
from josefine_journal.events import Binary, Json, SeqNr, Text
from josefine_journal.snapshot_table import FOLDER, SCHEMA, VERSION_KEY
from josefine_journal.snapshots import BlockingSnapshots
from tests.unit.josefine_journal.test_store_commit import add_vector

KEPT = 3
CRITERIA = st.builds(
    Criteria,
    min_seq_nr=st.integers(0, 4),
    max_seq_nr=st.integers(2, 9),
    min_timestamp_ms=st.integers(0, 5),
    max_timestamp_ms=st.integers(5, 30),
)
STEPS = st.lists(st.one_of(st.integers(1, 8), CRITERIA, st.none()), max_size=20)
"""A number: it is saved; criteria: they are deleted; None: some rows are merged."""


class Model:
    """One journal's snapshots: the time of each number."""

    def __init__(self) -> None:
        self.times: dict[int, int] = {}

    def save(self, seq_nr: int, now_ms: int) -> None:
        others = sorted(set(self.times) - {seq_nr}, reverse=True)[: KEPT - 1]
        self.times = {n: self.times[n] for n in others} | {seq_nr: now_ms}

    def find(self, wanted: Criteria) -> list[tuple[int, int]]:
        return [
            (n, at)
            for n, at in sorted(self.times.items(), reverse=True)
            if wanted.min_seq_nr <= n <= wanted.max_seq_nr
            and wanted.min_timestamp_ms <= at <= wanted.max_timestamp_ms
        ]

    def delete(self, wanted: Criteria) -> int:
        gone = self.find(wanted)
        for n, _ in gone:
            del self.times[n]
        return len(gone)


@settings(deadline=None)
@given(steps=STEPS, wanted=CRITERIA, rng=st.randoms(use_true_random=False))
def test_rows_in_any_order_and_merged_in_any_groups_amount_to_the_same(
    steps: list[int | Criteria | None], wanted: Criteria, rng: Random
) -> None:
    """Checklist row 84."""
    rows: list[Row] = []
    model = Model()
    for now_ms, step in enumerate(steps):
        match step:
            case int():
                saved = Saved(
                    seq_nr=step, timestamp_ms=now_ms, payload_type=PayloadType.JSON, value=b""
                )
                gone = replaced(rows, saved, KEPT)
                rows.append(Row(key="k", id=str(now_ms), saved=saved, gone=gone))
                model.save(step, now_ms)
            case Criteria():
                gone = deleted(rows, step)
                rows.append(Row(key="k", id=str(now_ms), gone=gone))
                assert len(gone) == model.delete(step)
            case None:
                rng.shuffle(rows)
                at = rng.randint(0, len(rows))
                rows = [*least(rows[:at], is_whole=False), *rows[at:]]
                if rng.random() < 0.3:
                    rows = least(rows, is_whole=True)
                    assert len(rows) == len(model.times)
        found = [(each.seq_nr, each.timestamp_ms) for each in given_to_reader(rows, wanted)]
        assert found == model.find(wanted)


@pytest.mark.parametrize("seed", range(2))
def test_snapshots_of_many_journals_are_as_their_models(seed: int, tmp_path: Path) -> None:
    """Checklist row 84. Two processes write; their files are merged meanwhile."""
    rng, now_ms = Random(seed), 0
    writers = [
        BlockingSnapshots(tmp_path, "t", kept_max=KEPT, clock_ms=lambda: now_ms) for _ in range(2)
    ]
    models = {key: Model() for key in ("a", "b", "k" * 300)}
    for now_ms in range(32):
        writer, key = rng.choice(writers), rng.choice(list(models))
        model, number = models[key], rng.randint(1, 8)
        if rng.random() < 0.8:
            writer.save(key, number, Json([key, number, now_ms]), {"at": now_ms})
            model.save(number, now_ms)
        else:
            wanted = Criteria(max_seq_nr=number)
            assert writer.delete(key, wanted) == model.delete(wanted)
        wanted = Criteria(max_seq_nr=rng.randint(1, 8))
        found = rng.choice(writers).find(key, wanted)
        assert [(each.seq_nr, each.timestamp_ms) for each in found] == model.find(wanted)
        assert all(e.payload == Json([key, e.seq_nr, e.timestamp_ms]) for e in found)
        newest = rng.choice(writers).load(key, wanted)
        assert newest == (found[0] if found else None)
    assert len(DeltaTable(tmp_path / FOLDER / "t").file_uris()) < 12


def test_a_snapshot_comes_back_with_all_that_was_said_with_it(tmp_path: Path) -> None:
    """Checklist row 84."""
    snapshots = BlockingSnapshots(tmp_path, "t", clock_ms=lambda: 7)
    for number, payload in enumerate((Json({"ä": [1, None]}), Text("ü"), Binary(b"\0"), None), 1):
        snapshots.save("id", number, payload, {"by": ["me"]})
        assert snapshots.load("id") == EntitySnapshot(
            seq_nr=SeqNr(number), timestamp_ms=7, payload=payload, metadata={"by": ["me"]}
        )
    assert snapshots.load("other") is None


def test_a_save_that_dies_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Checklist row 84. At each of its steps, and those of a merge."""

    class Killed(Exception):
        pass

    def killed_at(place: str) -> Callable[[str], None]:
        def at(reached: str) -> None:
            if reached == place:
                raise Killed(reached)

        return at

    well = BlockingSnapshots(tmp_path, "t")
    assert well.load("id") is None
    numbers = 0
    for place, is_there in (
        ("before_create", False),
        ("before_files", False),
        ("before_commit", False),
        ("after_commit", True),
        ("before_merge", True),
        ("before_merge_commit", True),
        ("after_merge", True),
    ):
        died = False
        while not died:  # a merge is due now and then
            dying = BlockingSnapshots(tmp_path, "t", kept_max=2, at=killed_at(place))
            try:
                dying.save("id", numbers + 1, Json(numbers + 1))
            except Killed:
                died = True
            numbers += is_there or not died
            found = [each.seq_nr for each in well.find("id")]
            assert found == [n for n in (numbers, numbers - 1) if n > 0]


@pytest.mark.parametrize("step", ["before_create", "before_files", "before_commit"])
def test_two_savers_of_one_number_at_a_time_leave_one(step: str, tmp_path: Path) -> None:
    """Checklist row 84. Also the first of all; and the next save takes both away."""
    first, other = (
        BlockingSnapshots(tmp_path, "t", kept_max=1, clock_ms=lambda at=at: at) for at in (1, 2)
    )
    if step != "before_create":
        first.save("id", 1, Text("old"))
    first._table.at = lambda place: other.save("id", 5, Text("theirs")) if place == step else None
    first.save("id", 5, Text("mine"))
    first._table.at = lambda place: None

    assert [each.payload for each in other.find("id")] == [Text("theirs")]  # the later one
    other.save("id", 6, Text("next"))
    assert [each.seq_nr for each in first.find("id")] == [6]


@pytest.mark.parametrize("error", [CommitFailedError, DeltaError])
def test_a_save_whose_answer_is_lost_is_there_once_though_others_merge_and_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The merged file has the row under another name, or no longer: it was committed again."""
    first, other = (BlockingSnapshots(tmp_path, "t", clock_ms=lambda: 1) for _ in range(2))
    first.save("id", 1, Text("one"))
    called = DeltaTable.create_write_transaction

    def lost(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(DeltaTable, "create_write_transaction", called)
        called(*args, **more)
        other.save("else", 1, Text("else"))
        assert other.delete("id") == 2
        for number in range(2, 5):
            other.save("else", number, Text("else"))
        raise error("the answer was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    first.save("id", 2, Text("two"))

    assert first.find("id") == []
    ids = DeltaTable(tmp_path / FOLDER / "t").to_pyarrow_table()["id"].to_pylist()
    assert len(ids) == len(set(ids))
    assert "id" not in DeltaTable(tmp_path / FOLDER / "t").to_pyarrow_table()["key"].to_pylist()


def test_a_table_that_others_change_while_it_is_open_is_not_written(tmp_path: Path) -> None:
    """Another version of the layout, or rows that are deleted by a vector."""
    snapshots, path = BlockingSnapshots(tmp_path, "t"), tmp_path / FOLDER / "t"
    snapshots.save("id", 1, Text("one"))
    version = {VERSION_KEY: "2"}
    DeltaTable(path).alter.set_table_properties(version, raise_if_not_exists=False)

    with pytest.raises(StoreError, match="of version 2; this program knows"):
        snapshots.save("id", 2, Text("two"))
    assert DeltaTable(path).version() == 2
    DeltaTable(path).restore(1)
    assert [each.seq_nr for each in snapshots.find("id")] == [1]
    add_vector(path)
    with pytest.raises(StoreError, match="by deletion vectors"):
        snapshots.find("id")


def test_files_that_others_have_written_again_are_read(tmp_path: Path) -> None:
    """delta-rs writes texts as Arrow's views, by which Arrow does not filter."""
    snapshots, path = BlockingSnapshots(tmp_path, "t", clock_ms=lambda: 1), tmp_path / FOLDER / "t"
    for key in ("a", "b", "k" * 300):
        snapshots.save(key, 1, Text(key))
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("key = 'a'")

    found = [[each.payload for each in snapshots.find(key)] for key in ("a", "b", "k" * 300)]
    assert found == [[], [Text("b")], [Text("k" * 300)]]
    for number in range(2, 6):
        snapshots.save("b", number, Text("new"))
    assert [each.seq_nr for each in snapshots.find("b")] == [5, 4, 3, 2, 1]


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    snapshots = BlockingSnapshots(tmp_path, "t")
    for key, number, payload, said in (
        ("", 1, None, "must not be empty"),
        ("\ud800", 1, None, "not valid UTF-8"),
        ("id", 0, None, "sequence number 0 is not within"),
        ("id", 1, Json(float("nan")), "not representable as JSON"),
    ):
        with pytest.raises(JournalError, match=said):
            snapshots.save(key, number, payload)
    with pytest.raises(JournalError, match="kept_max is 0"):
        BlockingSnapshots(tmp_path, "t", kept_max=0)
    damaged = Saved(seq_nr=1, timestamp_ms=0, payload_type=PayloadType.JSON, value=b"{")
    with pytest.raises(JournalError, match="not valid JSON"):
        decoded(damaged)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (None, "is a Delta table, but not a table of snapshots"),
        ("2", "of version 2; this program knows"),
    ],
)
def test_table_that_is_no_table_of_snapshots_is_left_alone(
    said: str | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / FOLDER / "t"
    write_deltalake(path, SCHEMA.empty_table())
    if said is not None:
        DeltaTable(path).alter.set_table_properties({VERSION_KEY: said}, raise_if_not_exists=False)
    version = DeltaTable(path).version()
    with pytest.raises(StoreError, match=told):
        BlockingSnapshots(tmp_path, "t").load("id")
    assert DeltaTable(path).version() == version
