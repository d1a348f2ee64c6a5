"""A long journal is streamed in bounded memory: what its reader takes does not grow with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record
from josefine_journal.blocking import BlockingJournals
from josefine_journal.delta_store import DeltaStore
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.merging import merge
from josefine_journal.ports import Batch
from josefine_journal.records import (
    ActionRecord,
    RecordMetadata,
    action_record,
    encode_append,
    headers_of,
)
from tests.support.broker import REPOSITORY, BrokerProcess

SHORT = 30_000
PER_APPEND = 1_000
GROWTH_KIB_MAX = 16 * 1024
"""The short one is some fetches long already. All of 100,000 events at once take 45 MiB more."""
READER = """
import sys
from josefine_journal.blocking import BlockingJournals

last = 0
with BlockingJournals(sys.argv[1], sys.argv[2]) as journals:
    for record in journals.journal("id").read():
        assert record.event.seq_nr == last + 1
        last = record.event.seq_nr
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM:"))
print(last, peak.split()[1])
"""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("long-journal"))) as process:
        yield process.bootstrap


STORE_READER = """
import sys
from functools import partial
from pathlib import Path
from josefine_journal.delta_store import DeltaStore
from josefine_journal.records import event_records
from josefine_journal.uniqueness import unique

last = 0
snapshot = DeltaStore(Path(sys.argv[1]), sys.argv[2], None).snapshot((0,))
for part in unique(partial(snapshot.appends, 0, "id", snapshot.outline(0, "id")), 1):
    for record in part:
        for each in event_records(record):
            assert each.event.seq_nr == last + 1
            last = each.event.seq_nr
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM:"))
print(last, peak.split()[1])
"""


def write(bootstrap: str, topic: str, count: int) -> None:
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(name=topic, partitions=1)])
    with BlockingJournals(bootstrap, topic) as journals:
        for first in range(1, count + 1, PER_APPEND):
            journals.journal("id").append(
                [
                    Event(seq_nr=SeqNr(n), tags=("tag",), payload=Json({"amount": n}))
                    for n in range(first, first + PER_APPEND)
                ]
            )


def write_store(root: Path, topic: str, count: int) -> None:
    """As a replicator does, a hundred appends a commit."""
    store = DeltaStore(root, topic, None)
    end: int | None = None
    for begin in range(0, count // PER_APPEND, 100):
        until = min(count // PER_APPEND, begin + 100)
        rows = [("id", appended(topic, n)) for n in range(begin, until)]
        store.commit([Batch(partition=0, begin=end, end=until, records=rows)])
        end = until
        while merge(store, 0):
            pass


def appended(topic: str, offset: int) -> ActionRecord:
    first = offset * PER_APPEND + 1
    events = [
        Event(seq_nr=SeqNr(n), tags=("tag",), payload=Json({"amount": n}))
        for n in range(first, first + PER_APPEND)
    ]
    action, value = encode_append(
        events, RecordMetadata(), origin=None, version=None, expected_seq_nr=None
    )
    found = action_record(topic, 0, Record(b"id", value, headers_of(action, ()), 0, offset))
    assert found is not None
    return found


def memory_kib(bootstrap: str, topic: str, count: int, reader: str = READER) -> int:
    """The most that a process took that reads a journal of so many events.

    Of Linux: rusage would count what its parent had when it forked.
    """
    command = [sys.executable, "-c", reader, bootstrap, topic]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    last, taken = map(int, done.stdout.split())
    assert last == count
    return taken


@pytest.mark.long_proof(share=2, among="long journals")
@pytest.mark.parametrize(
    "count",
    [100_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])],
)
def test_long_journal_is_streamed_in_bounded_memory(bootstrap: str, count: int) -> None:
    """Checklist row 67."""
    for topic, events in ((f"short-{count}", SHORT), (f"long-{count}", count)):
        write(bootstrap, topic, events)

    short = memory_kib(bootstrap, f"short-{count}", SHORT)
    long = memory_kib(bootstrap, f"long-{count}", count)

    print(f"{SHORT:,} events: {short:,} KiB; {count:,} events: {long:,} KiB")
    assert long - short < GROWTH_KIB_MAX


@pytest.mark.long_proof(share=2, among="long journals")
@pytest.mark.parametrize(
    "count",
    [100_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])],
)
def test_long_journal_is_streamed_from_the_store_in_bounded_memory(
    tmp_path: Path, count: int
) -> None:
    """Checklist row 67."""
    for topic, events in (("short", SHORT), ("long", count)):
        write_store(tmp_path, topic, events)

    short = memory_kib(str(tmp_path), "short", SHORT, STORE_READER)
    long = memory_kib(str(tmp_path), "long", count, STORE_READER)

    print(f"{SHORT:,} events: {short:,} KiB; {count:,} events: {long:,} KiB")
    assert long - short < GROWTH_KIB_MAX
