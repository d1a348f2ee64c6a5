"""One journal is a small read however large its table is: counted in groups of rows and bytes.

The files are those that merges leave (two million rows each, `josefine_journal.merging`), made
column by column: by rows, ten million take a quarter of an hour.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from josefine_journal.delta_store import DeltaStore
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.merging import MERGED_ROWS_MAX, chosen
from josefine_journal.ports import Batch
from josefine_journal.records import RecordMetadata, encode_append, event_records
from josefine_journal.store_files import GROUP_BYTES_MAX, GROUP_ROWS_MAX, StoreFile
from josefine_journal.store_rows import FILE_SCHEMA

PER_JOURNAL = 10
PER_FILE = 2
"""Events that a file has of each journal: five files have all."""
READS = 50


def written(root: Path, rows: int) -> DeltaStore:
    """Every journal in every file, as writers of all journals at once leave it."""
    store = DeltaStore(root, "t", None)
    journals = rows // PER_JOURNAL
    keys = pa.array([f"journal-{n:09}" for n in range(journals)])
    keys = keys.take(pa.array(np.repeat(np.arange(journals), PER_FILE)))
    per_file = journals * PER_FILE
    for number in range(PER_JOURNAL // PER_FILE):
        begin = number * per_file
        table = pa.table(dict(columns(keys, number, journals)), schema=FILE_SCHEMA)
        file = store._written(0, table)
        batch = Batch(partition=0, begin=begin or None, end=begin + per_file, records=())
        store.commit_files([batch], [file])
    return store


def columns(keys: pa.Array, number: int, journals: int) -> Iterator[tuple[str, pa.Array]]:
    """Of the file that has so many before it."""
    count = journals * PER_FILE
    within = np.tile(np.arange(PER_FILE), journals)
    seq_nrs = number * PER_FILE + 1 + within
    values = [payload(number * PER_FILE + 1 + n) for n in range(PER_FILE)]
    made = {
        "key": keys,
        "offset": number * count + within * journals + np.repeat(np.arange(journals), PER_FILE),
        "kind": pa.repeat("append", count),
        "first_seq_nr": seq_nrs,
        "last_seq_nr": seq_nrs,
        "timestamp_ms": pa.repeat(0, count),
        "payload_type": pa.repeat("json", count),
        "value": pa.array(values).take(pa.array(within)),
    }
    for field in FILE_SCHEMA:
        found = made.get(field.name)
        yield field.name, pa.nulls(count, field.type) if found is None else pa.array(found)


def payload(number: int) -> bytes:
    event = Event(seq_nr=SeqNr(number), payload=Json({"amount": number, "of": "x" * 40}))
    return encode_append(
        [event], RecordMetadata(), origin=None, version=None, expected_seq_nr=None
    )[1]


def read(store: DeltaStore, key: str) -> list[int]:
    snapshot = store.snapshot((0,))
    parts = snapshot.appends(0, key, snapshot.outline(0, key), 1)
    return [e.event.seq_nr for part in parts for one in part for e in event_records(one)]


@pytest.mark.parametrize(
    "rows",
    [100_000, pytest.param(10_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])],
)
def test_one_journal_is_a_small_read_however_large_the_table(rows: int, tmp_path: Path) -> None:
    """Checklist row 86."""
    store = written(tmp_path, rows)
    files = store.snapshot((0,)).files(0)
    assert sum(each.rows for each in files) == rows
    assert rows < MERGED_ROWS_MAX or not chosen(files), "a replicator would merge these"

    journals = rows // PER_JOURNAL
    keys = [f"journal-{n * 7919 % journals:09}" for n in range(READS)]
    for key in keys:
        groups = taken = 0
        for file in files:
            opened = StoreFile(store.path / file.path)
            found = opened.groups_of(key)
            groups += len(found)
            footer = opened._file.metadata
            taken += sum(footer.row_group(n).total_byte_size for n in found)
            assert all(footer.row_group(n).num_rows <= GROUP_ROWS_MAX for n in found)
        assert groups <= 2 * len(files)
        assert taken <= 2 * GROUP_BYTES_MAX * len(files)

    cold = DeltaStore(tmp_path, "t", None)
    cpu_ms = []
    for key in keys:
        begun = time.process_time()
        assert read(cold, key) == list(range(1, PER_JOURNAL + 1))
        cpu_ms.append(1_000 * (time.process_time() - begun))
    size = sum(each.size for each in files) / 1e6
    print(
        f"{rows:,} events, {len(files)} files, {size:,.0f} MB: {PER_JOURNAL} events in "
        f"{cpu_ms[0]:.0f} ms of CPU, then {median(cpu_ms):.1f}; {taken:,} bytes decoded"
    )
