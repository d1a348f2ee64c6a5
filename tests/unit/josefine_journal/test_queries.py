"""Questions to all journals of a store: against a model of what is there."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from josefine_broker.records.builder import Record
from josefine_journal.actions import Action, Delete, Purge
from josefine_journal.delta_store import DeltaStore
from josefine_journal.events import Event, Json, PayloadMetadata, SeqNr
from josefine_journal.merging import merge
from josefine_journal.metrics import Metrics
from josefine_journal.ports import Batch
from josefine_journal.queries import expired, ids, tagged
from josefine_journal.records import (
    ActionRecord,
    RecordMetadata,
    action_record,
    encode_append,
    headers_of,
)
from josefine_journal.replicator import Round
from josefine_journal.resolving import settle
from tests.support.journal import Model

KEYS = [f"k{n:02}" for n in range(12)]


def record(offset: int, action: Action, value: bytes | None = None) -> ActionRecord:
    found = action_record("t", 0, Record(b"id", value, headers_of(action, ()), offset, offset))
    assert found is not None
    return found


def append(offset: int, number: int, tags: tuple[str, ...], expires: int | None) -> ActionRecord:
    after = None if expires is None else timedelta(milliseconds=expires)
    events = [Event(seq_nr=SeqNr(number), tags=tags, payload=Json(offset))]
    action, value = encode_append(
        events,
        RecordMetadata(payload=PayloadMetadata(expire_after=after)),
        origin=None,
        version=None,
        expected_seq_nr=None,
    )
    return record(offset, action, value)


@pytest.mark.parametrize("seed", range(6))
def test_ids_tags_and_expiry_are_those_of_the_journals_that_are_there(
    seed: int, tmp_path: Path
) -> None:
    """Checklist rows 80 and 84. Whatever of the files is merged."""
    rng, store = Random(seed), DeltaStore(tmp_path, "t", None)
    models = {key: Model() for key in KEYS}
    end: int | None = None
    for begin in range(0, 120, 10):
        by_key: dict[str, list[ActionRecord]] = {}
        snapshot = store.snapshot((0,))
        for offset in range(begin, begin + 10):
            key = rng.choice(KEYS)
            model, records = models[key], by_key.setdefault(key, [])
            kind = rng.choice("aaaadp")
            if kind == "a":
                expires = rng.choice((None, 10, 1_000))
                tags = rng.choice(((), ("x",), ("y", "x")))
                one = append(offset, (model.pointer or 0) + 1, tags, expires)
                model.append([Event(seq_nr=SeqNr((model.pointer or 0) + 1), tags=tags)])
                model.expire_on_ms = None if expires is None else offset + expires
                model.last_offset = offset
            elif kind == "d":
                one = record(offset, Delete(to=SeqNr(max(1, (model.pointer or 0) - 1))))
                model.delete(max(1, (model.pointer or 0) - 1))
            else:
                one = record(offset, Purge())
                model.purge()
            records.append(one)
        asked = snapshot.lasts(0, list(by_key))
        rows = [
            (key, row)
            for key, found in by_key.items()
            for row in settle(found, asked.get(key)).records
        ]
        store.commit([Batch(partition=0, begin=end, end=begin + 10, records=rows)])
        end = begin + 10
        if rng.random() < 0.5:
            merge(store, 0)
    snapshot = store.snapshot((0,))

    there = [key for key in KEYS if models[key].pointer is not None]
    assert list(ids(snapshot, 0)) == there
    over = {k: models[k].last_offset for k in there if models[k].is_over(100)}
    assert dict(expired(snapshot, 0, 100)) == over
    for tag in ("x", "y", "z"):
        wanted = {(k, e.seq_nr) for k in there for e in models[k].read() if tag in e.tags}
        given = [(key, each.event.seq_nr) for key, each in tagged(snapshot, 0, tag)]
        assert (len(given), set(given)) == (len(wanted), wanted)


def test_metrics_tell_what_rounds_did() -> None:
    """Checklist rows 72 and 81."""
    metrics = Metrics()
    found = Round(
        replicated={0: 3}, log_ends={0: 5}, records=3, rows=2, committed=(0,), oldest_ms=1_000
    )

    metrics.round("t", found, {1}, 3_000)
    metrics.failed("t")

    text = metrics.text()
    for line in (
        'replicator_replication_latency_sum{topic="t"} 2.0',
        'replicator_records_total{topic="t"} 3.0',
        'replicator_lag{topic="t"} 2.0',
        'replicator_stalled{topic="t"} 1.0',
        'replicator_failures_total{topic="t"} 1.0',
    ):
        assert line in text, text
