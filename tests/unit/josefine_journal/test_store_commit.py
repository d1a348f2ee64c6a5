"""A store's commit among those of other programs: it is put on top of nothing that changes what it
was made from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from josefine_journal import store_commit
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.merging import merge
from josefine_journal.ports import Batch
from tests.unit.josefine_journal.test_delta_store import append, batch

OTHERS: dict[str, Callable[[DeltaTable], object]] = {
    "optimize": lambda table: table.optimize.compact(),
    "delete": lambda table: table.delete("offset >= 0"),
    "restore": lambda table: table.restore(table.version() - 1),
    "columns": lambda table: table.alter.add_columns([Field("more", PrimitiveType("string"))]),
}


def once(step: str, do: Callable[[], object]) -> Callable[[str], None]:
    """A hook that does something at one step, once."""
    left = [do]

    def hook(reached: str) -> None:
        if reached == step and left:
            left.pop()()

    return hook


def offsets(path: Path) -> list[int]:
    """Of the rows in the table, as any reader of Delta finds them."""
    rows = pa.table(DeltaTable(path).to_pyarrow_table())
    return sorted(rows.filter(pc.is_valid(rows["offset"]))["offset"].to_pylist())


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("step", ["before_merge_commit", "before_commit"])
def test_no_row_is_doubled_or_brought_back(tmp_path: Path, step: str, other: str) -> None:
    store = DeltaStore(tmp_path, "t", None)
    for n in range(4):
        store.commit([batch(n or None, n + 1, append(n, n + 1))])
    path, after = tmp_path / "t", list[int]()

    def meanwhile() -> None:
        OTHERS[other](DeltaTable(path))
        after.extend(offsets(path))

    store.at = once(step, meanwhile)
    committed = []
    with contextlib.suppress(Overtaken, StoreError):
        if step == "before_commit":
            store.commit([batch(4, 5, append(4, 5))])
            committed = [4]
        else:
            merge(store, 0)

    assert offsets(path) == after + committed


def test_a_second_conflict_after_the_first_was_looked_at_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = DeltaStore(tmp_path, "t", None), DeltaStore(tmp_path, "t", None)
    for n in range(4):
        store.commit([batch(n or None, n + 1, append(n, n + 1))])
    of_other = Batch(partition=1, begin=None, end=8, records=[("x", append(7, 1))])
    store.at = once("before_merge_commit", lambda: other.commit([of_other]))
    is_next = store_commit._is_next

    def late(*asked: object) -> bool:
        DeltaTable(tmp_path / "t").optimize.compact()
        return is_next(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(store_commit, "_is_next", late)

    assert merge(store, 0) == 0
    assert offsets(tmp_path / "t") == [0, 1, 2, 3, 7]


def test_a_restored_end_is_a_conflict_for_the_first_commit_of_a_partition(tmp_path: Path) -> None:
    """No transaction tells of it, and this commit removes no end."""
    store, path = DeltaStore(tmp_path, "t", None), tmp_path / "t"
    store.commit([batch(None, 2, append(0, 1), append(1, 2))])
    DeltaTable(path).restore(0)
    store.at = once("before_commit", lambda: DeltaTable(path).restore(1))

    with pytest.raises(Overtaken):
        store.commit([batch(None, 2, append(0, 1), append(1, 2))])

    assert offsets(path) == [0, 1]
