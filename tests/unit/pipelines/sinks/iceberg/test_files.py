"""Folders of an Iceberg sink's commits: which can never be committed any more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.exactly_once.other_chains import ChainName
from pipelines.sinks.iceberg.files import SparkFiles, _settings, folder_name, folder_of, orphans
from tests.unit.pipelines.local_hadoop import LocalHadoop
from tests.unit.pipelines.sinks.test_delta_commits import Session

RUNS = st.sampled_from(["aa", "bb", "cc"])
COMMITS = st.tuples(st.integers(1, 5), RUNS)


def test_a_folder_is_named_after_the_table_the_chain_and_the_commit():
    name = ChainName(pipeline="orders", sink="lake")

    assert folder_of("/w/shop/orders/", "u-1", name) == (
        "/w/shop/orders/data/josefine/u-1/orders.lake"
    )
    assert folder_name(7, "ab12") == "0000000007-ab12"


@given(st.sets(COMMITS), st.sets(COMMITS), st.sets(st.sampled_from(["tmp", "x-1", "7"])))
def test_only_folders_of_a_number_that_another_run_has_committed_are_orphans(
    there, committed, others
):
    runs: dict[int, set[str]] = {}
    for number, run in committed:
        runs.setdefault(number, set()).add(run)
    names = [folder_name(*each) for each in sorted(there)] + sorted(others)

    assert orphans(names, runs) == [
        folder_name(number, run)
        for number, run in sorted(there)
        if number in runs and run not in runs[number]
    ]


def test_a_folder_is_listed_and_removed_with_its_files_and_a_missing_one_is_empty(tmp_path):
    files = SparkFiles(LocalHadoop())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.parquet").touch()

    assert files.names(f"{tmp_path}/a") == ["x.parquet"]
    files.remove(f"{tmp_path}/a")
    assert files.names(f"{tmp_path}/a") == []


def test_settings_of_a_write_are_those_of_before_afterwards():
    session = Session(0, a="1")

    with _settings(session, {"a": "2", "b": "3"}):
        assert session.settings == {"a": "2", "b": "3"}

    assert session.settings == {"a": "1"}
