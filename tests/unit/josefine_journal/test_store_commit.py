"""A store's commit among those of other programs: it is put on top of nothing that changes what it
was made from."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import string
import struct
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
    rules, looks = store_commit._rules, []

    def late(table: DeltaTable) -> tuple[object, ...]:
        looks.append(table.version())
        if len(looks) == 2:
            DeltaTable(tmp_path / "t").optimize.compact()
        return rules(table)

    monkeypatch.setattr(store_commit, "_rules", late)

    assert merge(store, 0) == 0
    assert offsets(tmp_path / "t") == [0, 1, 2, 3, 7]


def test_a_restored_end_is_a_conflict_for_the_first_commit_of_a_partition(tmp_path: Path) -> None:
    """This commit removes no end, so it is not missed."""
    store, path = DeltaStore(tmp_path, "t", None), tmp_path / "t"
    store.commit([batch(None, 2, append(0, 1), append(1, 2))])
    DeltaTable(path).restore(0)
    store.at = once("before_commit", lambda: DeltaTable(path).restore(1))

    with pytest.raises(Overtaken):
        store.commit([batch(None, 2, append(0, 1), append(1, 2))])

    assert offsets(path) == [0, 1]


def test_rows_that_are_deleted_by_a_vector_are_not_read_nor_merged(tmp_path: Path) -> None:
    """Spark's DELETE leaves them in the file, and delta-rs by itself does not tell."""
    store, path = DeltaStore(tmp_path, "t", None), tmp_path / "t"
    for n in range(4):
        store.commit([batch(n or None, n + 1, append(n, n + 1))])
    add_vector(path)

    for reader in (store, DeltaStore(tmp_path, "t", None)):
        with pytest.raises(StoreError, match=r"by deletion vectors.*restore the version before"):
            reader.snapshot((0,))

    DeltaTable(path).restore(4)
    assert store.snapshot((0,)).replicated(0) == 4


def add_vector(path: Path) -> None:
    """Delete the first row of a file as Spark does, in a commit of its own."""
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": features, "writerFeatures": features}
    log = path / "_delta_log"
    added = [
        json.loads(line)["add"]
        for line in (log / f"{1:020d}.json").read_text().splitlines()
        if '"add"' in line and "replicated" not in line
    ]
    # One bitmap of one container: magic, count, key; then Roaring's cookie, size, key, count - 1,
    # offset and value.
    bits = struct.pack("<iqiIIHHIH", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 0)
    ascii85 = base64.b85encode(bits + bytes(-len(bits) % 4)).decode()
    vector = {
        "storageType": "i", "pathOrInlineDv": ascii85.translate(str.maketrans(PYTHON_85, Z85)),
        "sizeInBytes": len(bits), "cardinality": 1,
    }  # fmt: skip
    gone = {each: added[0][each] for each in ("path", "partitionValues", "size")}
    actions = [
        {"protocol": protocol},
        {"remove": {**gone, "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**added[0], "deletionVector": vector}},
    ]
    lines = "".join(json.dumps(each) + "\n" for each in actions)
    (log / f"{DeltaTable(path).version() + 1:020d}.json").write_text(lines)


DIGITS, SMALL, LARGE = string.digits, string.ascii_lowercase, string.ascii_uppercase
PYTHON_85 = DIGITS + LARGE + SMALL + "!#$%&()*+-;<=>?@^_`{|}~"
Z85 = DIGITS + SMALL + LARGE + ".-:+=^!/*?&<>()[]{}@%$#"


def test_the_log_of_a_table_with_a_retention_of_its_own_is_not_cleaned_up(tmp_path: Path) -> None:
    store, path = DeltaStore(tmp_path, "t", None), tmp_path / "t"
    store.commit([batch(None, 1, append(0, 1))])
    # Delta for Spark reads that, delta-rs does not and takes 30 days.
    rules = {"delta.logRetentionDuration": "365 days", "delta.checkpointInterval": "3"}
    DeltaTable(path).alter.set_table_properties(rules)
    for n in range(1, 8):
        for each in (path / "_delta_log").iterdir():
            then = each.stat().st_mtime - 40 * 86_400
            os.utime(each, (then, then))
        store.commit([batch(n, n + 1, append(n, n + 1))])

    assert [*path.glob("_delta_log/*.checkpoint.parquet")]
    assert (path / "_delta_log" / f"{0:020}.json").exists()
