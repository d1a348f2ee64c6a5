"""The store as a Delta table: what a commit is, who may use the table, what its rows give back."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from unittest import mock
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.records.builder import Record
from josefine_journal.actions import Action, Delete, Purge
from josefine_journal.delta_store import VERSION_KEY, DeltaStore
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.events import Binary, Event, Json, PayloadMetadata, SeqNr, Text
from josefine_journal.merging import MERGED_ROWS_MAX, chosen, merge, merged
from josefine_journal.ports import Batch, Outline
from josefine_journal.records import (
    ActionRecord,
    RecordMetadata,
    action_record,
    encode_append,
    event_records,
    headers_of,
)
from josefine_journal.reduction import Last
from josefine_journal.resolving import settle
from josefine_journal.store_files import StoreFile
from josefine_journal.store_rows import SCHEMA, records_of, table_of
from josefine_journal.store_snapshot import PartFile
from tests.support.journal_world import MemoryStore


def record(offset: int, action: Action, value: bytes | None = None) -> ActionRecord:
    found = action_record("t", 0, Record(b"id", value, headers_of(action, ()), 7, offset))
    assert found is not None
    return found


def append(offset: int, *numbers: int) -> ActionRecord:
    given = [Event(seq_nr=SeqNr(n), payload=Json([n, offset])) for n in numbers]
    action, value = encode_append(
        given, RecordMetadata(), origin="o", version=None, expected_seq_nr=None
    )
    return record(offset, action, value)


def batch(begin: int | None, end: int, *records: ActionRecord, key: str = "id") -> Batch:
    return Batch(partition=0, begin=begin, end=end, records=[(key, each) for each in records])


def numbers(store: DeltaStore, key: str = "id", begin: int = 1) -> list[int]:
    snapshot = store.snapshot((0,))
    outline = snapshot.outline(0, key)
    parts = snapshot.appends(0, key, outline, begin)
    return [e.event.seq_nr for part in parts for one in part for e in event_records(one)]


@pytest.fixture
def store(tmp_path: Path) -> DeltaStore:
    return DeltaStore(tmp_path, "t", None)


def test_a_record_comes_back_with_all_that_was_said_with_it(store: DeltaStore) -> None:
    """Checklist row 57."""
    metadata = RecordMetadata(
        header={"a": [1, {"ä": None}]},
        payload=PayloadMetadata(expire_after=timedelta(days=1), data={"b": 1.5}),
    )
    given = [
        Event(seq_nr=SeqNr(3), tags=("x", "y"), payload=Binary(b"\0\xff")),
        Event(seq_nr=SeqNr(2**62), payload=Text("ü")),
    ]
    action, value = encode_append(
        given, metadata, origin="here", version="1.0", expected_seq_nr=None
    )
    headers = (("h", b"\0"), ("h", None), ("", b""))
    written = action_record("t", 0, Record(b"id", value, headers_of(action, headers), 77, 5))
    assert written is not None

    store.commit([batch(None, 6, written)])

    snapshot = store.snapshot((0,))
    assert list(snapshot.appends(0, "id", snapshot.outline(0, "id"), 1)) == [[written]]
    assert [each.event for each in event_records(written)] == given
    assert snapshot.replicated(0) == 6


def test_rows_and_offset_are_there_together_or_not_at_all(tmp_path: Path) -> None:
    """Checklist rows 78 and 79."""

    class Killed(Exception):
        pass

    def killed_at(place: str) -> Callable[[str], None]:
        def at(reached: str) -> None:
            if reached == place:
                raise Killed(reached)

        return at

    for place, survives in (
        ("before_create", False),
        ("before_files", False),
        ("before_commit", False),
        ("after_commit", True),
    ):
        store = DeltaStore(tmp_path / place, "t", None, at=killed_at(place))
        with pytest.raises(Killed):
            store.commit([batch(None, 3, append(2, 1))])
        again = DeltaStore(tmp_path / place, "t", None)
        end = again.snapshot((0,)).replicated(0)
        assert (end, numbers(again)) == ((3, [1]) if survives else (None, []))
        again.commit([batch(end, 9, append(8, 2))])
        assert numbers(again) == ([1, 2] if survives else [2])


def test_of_two_replicators_the_second_is_told_and_stores_nothing(tmp_path: Path) -> None:
    """Checklist row 77. Whether it looked before the other one committed, or after."""
    first, late = DeltaStore(tmp_path, "t", None), DeltaStore(tmp_path, "t", None)
    first.commit([batch(None, 3, append(2, 1))])
    with pytest.raises(Overtaken):
        late.commit([batch(None, 3, append(2, 1))])

    def overtake(place: str) -> None:
        if place == "before_commit":
            first.commit([batch(3, 5, append(4, 2))])

    late.at = overtake
    with pytest.raises(Overtaken):
        late.commit([batch(3, 5, append(4, 2))])

    assert (numbers(late), late.snapshot((0,)).replicated(0)) == ([1, 2], 5)


def test_partitions_do_not_stand_in_each_others_way(tmp_path: Path) -> None:
    first, other = DeltaStore(tmp_path, "t", None), DeltaStore(tmp_path, "t", None)
    first.commit([batch(None, 3, append(2, 1))])

    def meanwhile(place: str) -> None:
        if place == "before_commit":
            first.commit([batch(3, 5, append(4, 2))])

    other.at = meanwhile
    other.commit([Batch(partition=1, begin=None, end=8, records=[("x", append(7, 1))])])

    snapshot = first.snapshot((0, 1))
    assert (snapshot.replicated(0), snapshot.replicated(1)) == (5, 8)


def test_offset_moves_also_where_nothing_is_to_be_stored(store: DeltaStore) -> None:
    store.commit([batch(None, 4)])
    store.commit([batch(4, 9)])
    assert store.snapshot((0,)).replicated(0) == 9


def test_reader_finds_its_rows_among_many_journals(store: DeltaStore) -> None:
    """Also those of ids too long for statistics, and of a file with many groups of rows."""
    long = "k" * 5_000
    keys = [f"{n:05}" for n in range(20_000)]
    records = [(key, append(n, 1)) for n, key in enumerate(keys)]
    store.commit([Batch(partition=0, begin=None, end=20_000, records=records)])
    store.commit([batch(20_000, 20_001, append(20_000, 2), key=keys[777])])
    store.commit([batch(20_001, 20_002, append(20_001, 1), key=long)])

    assert numbers(store, keys[777]) == [1, 2]
    assert numbers(store, keys[777], begin=2) == [2]
    assert (numbers(store, keys[-1]), numbers(store, long), numbers(store, "no")) == ([1], [1], [])
    lasts = store.snapshot((0,)).lasts(0, [keys[777], long, "no"])
    assert {key: last.seq_nr for key, last in lasts.items()} == {keys[777]: 2, long: 1}


def test_read_from_a_late_number_does_not_read_what_is_before_it(store: DeltaStore) -> None:
    """Checklist row 67."""
    store.commit([batch(None, 9_000, *(append(n, n + 1) for n in range(9_000)))])
    (path,) = store.path.glob("partition=0/0*.parquet")
    file = StoreFile(path)
    assert len(file.groups_from("id", 1)) == 5
    assert len(file.groups_from("id", 8_990)) == 1
    assert numbers(store, begin=8_999) == [8_999, 9_000]


def life(rng: Random, count: int) -> list[ActionRecord]:
    """Settled records of one journal, some of which deletes and purges took."""
    log, last = [], 0
    for offset in range(count):
        match rng.choice("aaaadddp"):
            case "a":
                first = last + rng.randint(1, 2)
                last = first + rng.randint(0, 2)
                log.append(append(offset, *range(first, last + 1)))
            case "d":
                log.append(record(offset, Delete(to=SeqNr(max(1, last + rng.randint(-3, 2))))))
            case "p":
                log.append(record(offset, Purge()))
                last = 0
    return log


def amounts_to(records: list[tuple[str, ActionRecord]]) -> tuple[Outline, list[object]]:
    store = MemoryStore()
    store.commit([Batch(partition=0, begin=None, end=10**6, records=records)])
    outline = store.newest.outline(0, "id")
    outline = Outline(last=outline.last, deleted_to=outline.deleted_to)
    given = [
        event
        for part in store.newest.appends(0, "id", store.newest.outline(0, "id"), 1)
        for one in part
        for event in event_records(one)
        if event.event.seq_nr > outline.deleted_to
    ]
    return outline, given


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32), cuts=st.tuples(st.integers(0, 14), st.integers(0, 14)))
def test_a_merge_changes_nothing_that_a_reader_can_tell(seed: int, cuts: tuple[int, int]) -> None:
    """Checklist row 76. Of any neighbours, at the beginning, the end or in between."""
    begin, end = sorted(cuts)
    settled = settle(life(Random(seed), 14), None).records
    one, two, three = settled[:begin], settled[begin:end], settled[end:]
    rows = table_of([("id", each) for each in two])
    middle = records_of("t", 0, merged("t", 0, rows, is_whole=begin == 0))

    before = amounts_to([("id", each) for each in settled])
    after = amounts_to(
        [*(("id", each) for each in one), *middle, *(("id", each) for each in three)]
    )

    assert before == after


def test_what_was_deleted_or_purged_leaves_the_files(store: DeltaStore) -> None:
    steps = [append(0, 1, 2), record(1, Delete(to=SeqNr(2))), append(2, 3), append(3, 4)]
    for each in steps:
        store.commit([batch(each.offset or None, each.offset + 1, each)])
    assert merge(store, 0) == 4
    snapshot = store.snapshot((0,))
    (file,) = snapshot.files(0)
    rows = snapshot.everything(0, file).to_pylist()
    assert [(row["offset"], row["value"] is None) for row in rows] == [
        (0, True), (1, True), (2, False), (3, False),
    ]  # fmt: skip
    assert numbers(store) == [3, 4]


def test_purge_of_what_stands_in_an_older_file_stays_with_its_merge(store: DeltaStore) -> None:
    """Checklist row 62."""
    store.commit([batch(None, 300, *(append(n, n + 1) for n in range(300)))])
    rows = [record(300, Purge()), *(append(n, n) for n in range(301, 305))]
    for each in rows:
        store.commit([batch(each.offset, each.offset + 1, each)])
    assert merge(store, 0) == 5
    assert numbers(store) == [301, 302, 303, 304]


def test_rows_before_a_purge_count_for_nothing_also_within_a_file(store: DeltaStore) -> None:
    """Whoever wrote the store need not have left them out."""
    store.commit([batch(None, 3, append(0, 1, 2, 3), record(1, Purge()), append(2, 1))])
    assert (numbers(store), store.snapshot((0,)).outline(0, "id").pointer) == ([1], 1)
    assert store.snapshot((0,)).lasts(0, ["id", "no"]) == {"id": Last(seq_nr=SeqNr(1), offset=2)}


def test_merge_that_another_one_overtook_leaves_its_files(tmp_path: Path) -> None:
    store, other = DeltaStore(tmp_path, "t", None), DeltaStore(tmp_path, "t", None)
    for n in range(4):
        store.commit([batch(n or None, n + 1, append(n, n + 1))])
    store.at = lambda place: merge(other, 0) if place == "before_merge_commit" else None

    assert merge(store, 0) == 0
    assert (numbers(store), len(store.snapshot((0,)).files(0))) == ([1, 2, 3, 4], 1)


def test_a_commit_during_a_merge_is_kept(tmp_path: Path) -> None:
    store, other = DeltaStore(tmp_path, "t", None), DeltaStore(tmp_path, "t", None)
    for n in range(4):
        store.commit([batch(n or None, n + 1, append(n, n + 1))])

    def meanwhile(place: str) -> None:
        if place == "before_merge_commit":
            other.commit([batch(4, 5, append(4, 5))])

    store.at = meanwhile
    assert merge(store, 0) == 4
    assert (numbers(store), store.snapshot((0,)).replicated(0)) == ([1, 2, 3, 4, 5], 5)


@given(sizes=st.lists(st.integers(1, 300), max_size=40))
def test_files_stay_few_however_the_commits_come(sizes: list[int]) -> None:
    """Rows are written again as often as there are sizes, and not more."""
    files: list[PartFile] = []
    written, offset = 0, 0
    for rows in sizes:
        files.append(part(offset, rows))
        offset += rows
        while old := chosen(files):
            assert list(old) == files[-len(old) :]
            total = sum(each.rows for each in old)
            written += total
            files[-len(old) :] = [part(old[0].first_offset, total)]
    tiers = 1 + (sum(sizes).bit_length() // 2)
    assert len(files) <= 3 * tiers + 3
    assert written <= tiers * sum(sizes)


def part(offset: int, rows: int) -> PartFile:
    return PartFile(
        path=str(offset),
        size=rows,
        rows=rows,
        first_offset=offset,
        last_offset=offset + rows - 1,
        first_key=None,
        last_key=None,
    )


def test_files_that_do_not_fit_into_memory_together_stay_as_they_are() -> None:
    files = [part(n * 100, 100) for n in range(4)]
    assert len(chosen(files, bytes_max=400)) == 4
    assert chosen(files, bytes_max=399) == ()
    many = [part(n * MERGED_ROWS_MAX, MERGED_ROWS_MAX // 4 + 1) for n in range(4)]
    assert chosen(many) == ()


def test_vacuum_takes_what_a_killed_replicator_left(store: DeltaStore) -> None:
    store.commit([batch(None, 1, append(0, 1))])
    orphan = store.path / "partition=0" / "left.parquet"
    orphan.write_bytes(b"half a file")

    store.vacuum(0)

    assert not orphan.exists()
    assert numbers(store) == [1]


ID, OTHER_ID = UUID(int=1), UUID(int=2)


def test_table_that_is_no_store_of_this_topic_is_left_alone(tmp_path: Path) -> None:
    """Checklist row 85."""
    write_deltalake(tmp_path / "foreign", pa.table({"x": [1]}))
    with pytest.raises(StoreError, match="is a Delta table, but not a store of journals"):
        DeltaStore(tmp_path, "foreign", None).snapshot((0,))

    DeltaStore(tmp_path, "t", ID).commit([batch(None, 1)])
    with pytest.raises(StoreError, match="the topic was deleted and created again"):
        DeltaStore(tmp_path, "t", OTHER_ID).commit([batch(1, 2)])
    DeltaStore(tmp_path, "t", None).snapshot((0,))  # brokers that have no ids cannot tell

    table = DeltaTable(tmp_path / "t")
    table.alter.set_table_properties({VERSION_KEY: "4"}, raise_if_not_exists=False)
    with pytest.raises(StoreError, match="is a store of version 4; this program knows up to 3"):
        DeltaStore(tmp_path, "t", ID).snapshot((0,))


def test_store_that_was_not_looked_at_until_its_log_was_cleaned_up_is_opened_anew(
    store: DeltaStore, tmp_path: Path
) -> None:
    store.commit([batch(None, 1, append(0, 1))])
    other = DeltaStore(tmp_path, "t", None)
    for n in range(1, 4):
        other.commit([batch(n, n + 1, append(n, n + 1))])
    DeltaTable(other.path).create_checkpoint()
    for version in range(4):
        (store.path / "_delta_log" / f"{version:020}.json").unlink()

    assert (numbers(store), store.snapshot((0,)).replicated(0)) == ([1, 2, 3, 4], 4)


def test_file_that_went_away_is_named(store: DeltaStore) -> None:
    store.commit([batch(None, 1, append(0, 1))])
    (file,) = store.path.glob("partition=0/0*.parquet")
    file.unlink()
    with pytest.raises(StoreError, match=f"file {file} of the store cannot be read"):
        store.snapshot((0,)).outline(0, "id")


def test_store_of_version_1_gets_what_it_lacks_once_and_its_files_stay(tmp_path: Path) -> None:
    """Checklist row 85. Killed between the two commits of it, it is done by the next writer."""
    make_version_1(tmp_path, tagged(0, 1))
    with pytest.raises(StopIteration):
        DeltaStore(tmp_path, "t", None, at=stopping("before_migration")).commit([batch(1, 2)])
    assert said_version(tmp_path) == "1"
    assert numbers(DeltaStore(tmp_path, "t", None)) == [1]  # a reader takes it as it is

    store = DeltaStore(tmp_path, "t", None)
    store.commit([batch(1, 3, append(2, 2))])
    versions = DeltaTable(tmp_path / "t").version()
    store.commit([batch(3, 4, append(3, 3))])

    assert (said_version(tmp_path), numbers(store)) == ("3", [1, 2, 3])
    assert DeltaTable(tmp_path / "t").version() == versions + 1
    snapshot = store.snapshot((0,))
    old, *_ = (snapshot.everything(0, each) for each in snapshot.files(0))
    assert old.select(["tags", "expire_on_ms"]).to_pylist() == [
        {"tags": ["x"], "expire_on_ms": 7 + 86_400_000}
    ]
    columns = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by("offset")
    assert columns["tags"].to_pylist() == [None, None, None]


def stopping(place: str) -> Callable[[str], None]:
    def at(reached: str) -> None:
        if reached == place:
            raise StopIteration

    return at


def said_version(root: Path) -> str | None:
    return DeltaTable(root / "t").metadata().configuration.get(VERSION_KEY)


def tagged(offset: int, number: int) -> ActionRecord:
    expires = RecordMetadata(payload=PayloadMetadata(expire_after=timedelta(days=1)))
    event = Event(seq_nr=SeqNr(number), tags=("x",), payload=Json(1))
    action, value = encode_append([event], expires, origin="o", version=None, expected_seq_nr=None)
    return record(offset, action, value)


def make_version_1(root: Path, one: ActionRecord) -> None:
    """As it was written before there were tags and expiry."""
    first = [field for field in SCHEMA if field.name not in ("tags", "expire_on_ms")]
    rows = table_of([("id", one)]).select([f.name for f in first if f.name != "partition"])
    with mock.patch.multiple(
        "josefine_journal.delta_store",
        SCHEMA=pa.schema(first),
        SCHEMA_VERSION=1,
        table_of=lambda records: rows,
    ):
        DeltaStore(root, "t", None).commit([batch(None, 1, one)])


def test_pointer_stays_where_a_duplicate_is_the_last_append_that_is_kept(store: DeltaStore) -> None:
    """Checklist row 65. A delete names what was there, also where the append of it is gone."""
    log = [append(0, 1), append(1, 5), append(2, 1), record(3, Delete(to=SeqNr(9)))]
    store.commit([batch(None, 4, *settle(log, None).records)])

    snapshot = store.snapshot((0,))

    last = Last(seq_nr=SeqNr(5), offset=2)
    assert (snapshot.outline(0, "id").last, snapshot.lasts(0, ["id"])) == (last, {"id": last})
