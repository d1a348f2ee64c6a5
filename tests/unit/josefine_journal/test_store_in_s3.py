"""The store of journals in S3, on a store that fails: rows and offsets once, no false conflict."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction

from josefine_journal.delta_store import DeltaStore
from josefine_journal.entity_snapshots import Row
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.merging import merge
from josefine_journal.snapshot_table import SnapshotTable
from josefine_journal.store_commit import commit
from josefine_journal.store_place import delta_options, place_of, s3_settings
from tests.support.hostile_store import Fault, HostileStore, always, by_seed, none, once
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, ObjectStore
from tests.unit.josefine_journal.test_delta_store import append, batch, numbers


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


@pytest.fixture
def proxy(store, monkeypatch) -> Iterator[HostileStore]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    with HostileStore(store.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@pytest.fixture
def root(store, proxy) -> str:
    return f"s3://{store.bucket()}/journals"


UNSURE = (Fault.LOST_ANSWER, Fault.DOUBLED, Fault.CUT_ANSWER)
"""The commit is there, and its writer's last answer is another one."""


def test_rows_are_read_merged_and_vacuumed_as_from_a_folder(root):
    store = DeltaStore(root, "t", None)
    for n in range(1, 6):
        store.commit([batch(n - 1 if n > 1 else None, n, append(n - 1, n))])

    assert numbers(DeltaStore(root, "t", None)) == [1, 2, 3, 4, 5]
    assert merge(store, 0) > 0
    assert store.vacuum(24) == 0
    assert numbers(DeltaStore(root, "t", None)) == [1, 2, 3, 4, 5]


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("fault", Fault)
def test_a_commit_whose_put_fails_once_is_there_once_and_no_conflict(fault, root, proxy):
    store = DeltaStore(root, "t", None)
    store.commit([batch(None, 1, append(0, 1))])
    proxy.plan = once(fault, "PUT", "_delta_log/0")

    store.commit([batch(1, 2, append(1, 2))])

    assert [each[0] for each in proxy.seen] == [fault]
    proxy.plan = none
    assert numbers(DeltaStore(root, "t", None)) == [1, 2]
    store.commit([batch(2, 3, append(2, 3))])
    assert numbers(store) == [1, 2, 3]


def test_another_replicator_s_commit_is_still_a_conflict(root, proxy):
    late, first = DeltaStore(root, "t", None), DeltaStore(root, "t", None)
    first.commit([batch(None, 1, append(0, 1))])
    late.snapshot((0,))

    def overtake(place: str) -> None:
        if place == "before_commit":
            first.commit([batch(1, 3, append(2, 7))])

    late.at = overtake
    with pytest.raises(Overtaken):
        late.commit([batch(1, 2, append(1, 2))])

    assert numbers(DeltaStore(root, "t", None)) == [1, 7]


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("seed", range(3))
def test_commits_through_a_failing_store_lose_and_double_nothing(seed, root, proxy):
    proxy.plan = by_seed(seed, 0.12)
    rng, written, end = Random(seed), [], 0
    store = DeltaStore(root, "t", None)
    for _ in range(4):
        step = rng.randint(1, 3)
        some = [append(end + n, end + n + 1) for n in range(step)]
        given = batch(end or None, end + step, *some)
        try:
            store.commit([given])
        except (StoreError, OSError):
            # Unknown: a replicator starts again where the table ends.
            proxy.plan, plan = none, proxy.plan
            store = DeltaStore(root, "t", None)
            there = store.snapshot((0,)).replicated(0) or 0
            assert there in (end, end + step)
            proxy.plan = plan
            if there == end:
                continue
        written += [end + n + 1 for n in range(step)]
        end += step
    proxy.plan = none

    assert len(proxy.seen) > 1
    assert numbers(DeltaStore(root, "t", None)) == written
    assert DeltaStore(root, "t", None).snapshot((0,)).replicated(0) == (end or None)


@pytest.mark.parametrize("fault", UNSURE)
def test_a_snapshot_whose_answer_was_lost_is_saved_once(fault, root, proxy):
    table = SnapshotTable(root, "t")
    table.put(Row(key="a", id="1"), 1)
    proxy.plan = once(fault, "PUT", "_delta_log/0")

    table.put(Row(key="a", id="2"), 2)

    assert proxy.seen
    assert sorted(row.id for row in SnapshotTable(root, "t").rows("a")) == ["1", "2"]


def test_a_store_that_refuses_for_ever_is_an_error_and_never_a_conflict(root, proxy):
    store = DeltaStore(root, "t", None)
    store.commit([batch(None, 1, append(0, 1))])
    proxy.plan = always(Fault.SLOW_DOWN, "PUT")

    with pytest.raises((StoreError, OSError)) as found:
        store.commit([batch(1, 2, append(1, 2))])

    assert not isinstance(found.value, Overtaken)


def test_a_commit_without_files_is_not_taken_for_one_that_is_there(tmp_path):
    table = DeltaTable.create(str(tmp_path), pa.schema([("a", pa.int64())]))
    late = DeltaTable(str(tmp_path))
    commit(table, [], [Transaction("x", 1)], entry=lambda at: None)

    log = tmp_path / "_delta_log"
    commit(late, [], [Transaction("y", 2)], entry=lambda at: (log / f"{at:020}.json").read_text())

    found = DeltaTable(str(tmp_path))
    assert (found.version(), found.transaction_version("y")) == (2, 2)


@pytest.mark.parametrize("uri", ["gs://lake/journals", "s3:lake/x", "s3:/lake/x", "file:/lake"])
def test_other_uris_are_refused_with_what_is_served(uri: str):
    """None is taken for a folder of the working directory."""
    with pytest.raises(StoreError, match="is a folder of this machine or s3://BUCKET/FOLDER"):
        place_of(uri)


def test_settings_are_those_of_aws_s_variables():
    env = {"AWS_ENDPOINT_URL": "http://a:1/", "AWS_DEFAULT_REGION": "eu-west-1"}

    assert s3_settings({}) == {"endpoint": "", "region": ""}
    assert s3_settings(env) == {"endpoint": "http://a:1", "region": "eu-west-1"}
    assert s3_settings({**env, "AWS_ENDPOINT_URL_S3": "https://b"})["endpoint"] == "https://b"
    assert delta_options(s3_settings(env))["AWS_ALLOW_HTTP"] == "true"
    assert "AWS_ALLOW_HTTP" not in delta_options(s3_settings({}))
