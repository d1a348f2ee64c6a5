"""Partials that are merged by delta-rs: real tables against sums in Python, no Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.model import direct_merge as rules
from pipelines.model.direct_merge import Fold, why_not_folded
from pipelines.sinks import direct_merge
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_log import parse_entry
from pipelines.sinks.direct_merge import merge, rows_of
from pipelines.sinks.direct_table import CameBetweenError, DirectTable, NewFile, NotDirectError

FOLD = Fold(
    keys=("k", "at"), functions={"n": "count", "total": "sum", "least": "min", "most": "max"}
)
KINDS = {
    "k": "string", "at": "timestamp", "n": "long", "total": "long", "least": "integer",
    "most": "string",
}  # fmt: skip
FIELDS = [{"name": n, "type": k, "nullable": n != "n", "metadata": {}} for n, k in KINDS.items()]
ARROW = pa.schema(
    [
        ("k", pa.string()), ("at", pa.timestamp("us", "UTC")),
        pa.field("n", pa.int64(), nullable=False), ("total", pa.int64()), ("least", pa.int32()),
        ("most", pa.string()),
    ]
)  # fmt: skip
LINK = Link(pipeline="p", sink="s", run="r")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


def opened(path: Path) -> DirectTable:
    return DirectTable(str(path), FIELDS, {}, partial(why_not_folded, FOLD))


def created(path: Path) -> DirectTable:
    table = opened(path)
    table.check(-1)
    table.create()
    return table


def fold_into(table: DirectTable, version: int, rows: list[Row]) -> None:
    how = partial(merge, pa.Table.from_pylist(rows, ARROW), FOLD, FIELDS, table.path)
    table.merge(how, version, LINK, version + 1, f'{{"n": {version}}}')


def row(k: str | None = "a", **more: Any) -> Row:
    return {"k": k, "at": BEGIN, "n": 1, "total": 1, "least": 1, "most": "x", **more}


def found(path: Path) -> dict[Any, Row]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert len({(each["k"], each["at"]) for each in rows}) == len(rows)
    return {(each["k"], each["at"]): each for each in rows}


def some_of(pick: Any, values: list[Any]) -> Any:
    there = [each for each in values if each is not None]
    return pick(there) if there else None


@pytest.mark.parametrize("seed", range(3))
def test_batches_end_as_one_group_by_of_all_of_them(tmp_path: Path, seed: int) -> None:
    rng, all_rows = Random(seed), list[Row]()
    table = created(tmp_path / "t")

    for version in range(6):
        keys = rng.sample([(k, h) for k in ("a", "b'\"", "", None) for h in (0, 1, None)], 7)
        batch = [
            {
                "k": k, "at": None if h is None else BEGIN + timedelta(hours=h),
                "n": rng.randrange(9), "total": rng.choice([None, -5, 7]),
                "least": rng.choice([None, -1, 3]), "most": rng.choice([None, "", "\u00e9", "z"]),
            }
            for k, h in keys
        ]  # fmt: skip
        all_rows += batch
        fold_into(table, version, batch)

    wanted: dict[Any, list[Row]] = {}
    for each in all_rows:
        wanted.setdefault((each["k"], each["at"]), []).append(each)
    assert found(tmp_path / "t") == {
        key: {
            "k": key[0], "at": key[1],
            "n": sum(each["n"] for each in rows),
            "total": some_of(sum, [each["total"] for each in rows]),
            "least": some_of(min, [each["least"] for each in rows]),
            "most": some_of(max, [each["most"] for each in rows]),
        }
        for key, rows in wanted.items()
    }  # fmt: skip


def test_the_commit_has_the_transaction_the_offsets_and_the_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = created(path)
    fold_into(table, 0, [row("a"), row("b")])
    fold_into(table, 1, [row("b"), row("c"), row(None)])

    text = (path / "_delta_log" / f"{2:020d}.json").read_text()
    entry = parse_entry(2, text, LINK.app_id)

    assert (entry.txn_version, entry.metadata, entry.operation) == (2, {"n": 1}, "WRITE")
    assert entry.metrics["numTargetRowsInserted"] == 2
    assert entry.metrics["numTargetRowsUpdated"] == 1
    (added,) = [json.loads(line)["add"] for line in text.splitlines() if '"add"' in line[:8]]
    assert json.loads(added["stats"])["maxValues"]["k"] == "c"


def test_a_sum_that_may_overflow_is_left_to_spark_which_stops_there(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = created(path)
    fold_into(table, 0, [row(total=(1 << 63) - 3)])
    fold_into(table, 1, [row(total=2)])

    with pytest.raises(NotDirectError, match="total"):
        fold_into(table, 2, [row(total=1)])

    assert found(path)["a", BEGIN]["total"] == (1 << 63) - 1


def test_a_commit_of_others_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "t"
    mine, other = created(path), opened(path)
    fold_into(mine, 0, [row()])
    fold_into(other, 1, [row()])

    with pytest.raises(CameBetweenError):
        opened(path).check(1)
    fold_into(mine, 2, [row()])

    assert found(path)["a", BEGIN]["n"] == 3


@pytest.mark.parametrize("what", ["rows", "bytes", "files", "table", "memory", "feed", "bounds"])
def test_what_is_too_large_or_unusual_is_for_spark(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = created(path)
    fold_into(table, 0, [row()])
    if what in ("rows", "bytes"):
        monkeypatch.setattr(direct_merge, f"{what.upper()}_MAX", 1)
        files = [NewFile(path=each, at_ms=1) for each in path.glob("*.parquet")] * 2
        with pytest.raises(NotDirectError, match="has 2 rows" if what == "rows" else "too long"):
            rows_of(files)
        return
    if what == "files":
        monkeypatch.setattr(direct_merge, "TABLE_BYTES_MAX", 10)
    if what == "memory":
        monkeypatch.setattr(direct_merge, "TABLE_MEMORY_MAX", 10)
    if what == "table":
        monkeypatch.setattr(direct_merge, "TABLE_ROWS_MAX", 0)
    version = 1
    if what == "feed":
        DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
        version = 2
    if what == "bounds":
        monkeypatch.setattr(direct_merge, "_bounds_there", lambda _, names: dict.fromkeys(names))
    with pytest.raises(NotDirectError):
        fold_into(table, version, [row()])
    assert found(path)["a", BEGIN]["n"] == 1


def test_a_text_that_each_row_has_counts_for_each_of_them(tmp_path: Path) -> None:
    """A dictionary's text is once in the file: these 10 KB of a file are 100 MB in memory."""
    path = tmp_path / "long.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["x" * 10_000])
    pq.write_table(pa.table({"most": texts}), path, store_schema=False)

    with pytest.raises(NotDirectError, match="too long"):
        rows_of([NewFile(path=path, at_ms=1)])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_time_after_the_year_9999_is_for_spark(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "t"
    table = created(path)
    late = pa.array([253_402_300_800_000_000], pa.int64()).cast(ARROW.field("at").type)
    rows = pa.Table.from_pylist([row()], ARROW).set_column(1, ARROW.field("at"), late)
    if is_there:
        write_deltalake(path, rows, mode="append")
        rows = pa.Table.from_pylist([row()], ARROW)

    with pytest.raises(NotDirectError):
        table.merge(partial(merge, rows, FOLD, FIELDS, str(path)), int(is_there), LINK, 1, "{}")


def test_files_without_rows_are_none(tmp_path: Path) -> None:
    for at, rows in enumerate(([], [row()], [])):
        pq.write_table(pa.Table.from_pylist(rows, ARROW), tmp_path / f"{at}.parquet")
    files = [NewFile(path=each, at_ms=1) for each in sorted(tmp_path.iterdir())]

    assert rows_of(files).num_rows == 1
    assert rows_of(files[:1]) is rows_of([]) is None
    assert rules.ROWS_MAX > 1


MEANWHILE: list[Any] = [
    lambda path: DeltaTable(path).delete("k = 'a'"),
    lambda path: DeltaTable(path).delete("k = 'b'"),
    lambda path: DeltaTable(path).optimize.compact(),
    lambda path: DeltaTable(path).alter.add_constraint({"some": "n > 0"}),
    lambda path: write_deltalake(path, pa.Table.from_pylist([row("z")], ARROW), mode="append"),
]


@pytest.mark.parametrize("at", range(len(MEANWHILE)))
def test_nothing_may_come_between(tmp_path: Path, at: int) -> None:
    """By itself delta-rs puts a write on top of an OPTIMIZE of the files that it removes."""
    path = tmp_path / "t"
    table = created(path)
    fold_into(table, 0, [row("a")])
    fold_into(table, 1, [row("b")])
    left = []

    def raced(open_table: DeltaTable) -> Any:
        MEANWHILE[at](path)
        left.append(found(path))
        rows = pa.Table.from_pylist([row("a"), row("z")], ARROW)
        return merge(rows, FOLD, FIELDS, str(path), open_table)

    with pytest.raises(CameBetweenError):
        table.merge(raced, 2, LINK, 3, "{}")

    assert left == [found(path)]


def test_only_files_with_changed_rows_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = created(path)
    for version, key in enumerate(("a", "b", None)):
        fold_into(table, version, [row(key), row(f"{key}2")])
    before = {*DeltaTable(path).file_uris()}

    fold_into(table, 3, [row(None), row("new")])

    assert len(before & {*DeltaTable(path).file_uris()}) == 2
    rows = found(path)
    assert len(rows) == 7
    assert rows[None, BEGIN]["n"] == 2
    assert rows["None2", BEGIN]["n"] == 1


def test_texts_are_such_that_arrow_filters_by_them(tmp_path: Path) -> None:
    """delta-rs's own MERGE writes them as views, for which pyarrow 26 has no comparison."""
    path = tmp_path / "t"
    table = created(path)
    fold_into(table, 0, [row("a"), row("b")])
    fold_into(table, 1, [row("a")])

    rows = DeltaTable(path).to_pyarrow_table(filters=[("k", "=", "a")]).to_pylist()

    assert [each["n"] for each in rows] == [2]


def test_a_key_that_the_table_has_twice_is_for_spark(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = created(path)
    for _ in range(2):
        write_deltalake(path, pa.Table.from_pylist([row("z")], ARROW), mode="append")

    with pytest.raises(NotDirectError, match="twice"):
        fold_into(table, 2, [row("a")])


def test_a_count_that_is_null_stays_so_and_a_name_may_be_that_of_another_with_a_function(
    tmp_path: Path,
) -> None:
    fold = Fold(keys=("n_sum",), functions={"n": "count", "m": "sum"})
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("m", "long"), ("n_sum", "string"), ("n", "long"))
    ]
    schema = pa.schema([("n_sum", pa.string()), ("n", pa.int64()), ("m", pa.int64())])
    path = tmp_path / "t"
    table = DirectTable(str(path), fields, {}, partial(why_not_folded, fold))
    table.check(-1)
    table.create()
    for version, (n, m) in enumerate(((None, None), (1, None), (2, 5))):
        rows = pa.Table.from_pylist([{"n_sum": "x", "n": n, "m": m}], schema)
        how = partial(merge, rows, fold, fields, str(path))
        table.merge(how, version, LINK, version + 1, "{}")

    (only,) = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert only == {"m": 5, "n_sum": "x", "n": None}
