"""Exactly once with real Spark, Delta and broker, without kills: what is lost is lost by hand."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import threading

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from josefine_broker.client.io_blocking import NewTopic
from pipelines.base.errors import ChainError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.offset_chain import Commit, Tip, Verdict
from pipelines.run.run import run_pipeline
from pipelines.sinks.commits import Link, StoppedError
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_log import known_txn_versions
from tests.spark.pipelines.conftest import ONE_SINK, Quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
INT, TEXT = pa.int32(), pa.string()
COLUMNS = [
    *(("id", INT), ("k", TEXT), ("v", INT)),
    *(("_topic", TEXT), ("_partition", INT), ("_offset", pa.int64())),
]


def remove_last(lab, sink: str, log: str) -> None:
    """Lose the newest entry, with the checksum file that Hadoop keeps beside it."""
    folder = lab.checkpoint(sink) / log
    last = max(int(f.name) for f in folder.iterdir() if f.name.isdigit())
    (folder / str(last)).unlink()
    (folder / f".{last}.crc").unlink(missing_ok=True)


def test_tables_equal_the_input_and_the_log_has_the_topics_ends(lab):
    """Checklist row 91. Two runs; the second has nothing to do and commits nothing."""
    lab.produce(100)

    first = lab.run(rows=40)
    commits = len(lab.history("rows"))
    second = lab.run(rows=40)

    lab.check()
    assert first.sinks["rows"].records == first.sinks["rows"].rows == 100
    assert first.sinks["rows"].batches == 3
    assert second.sinks["rows"].batches == 0
    assert len(lab.history("rows")) == commits == 3
    # The group on the broker followed, for lag tools.
    assert lab.committed("lab.rows") == lab.topic_ends()


@ONE_SINK
def test_each_commit_names_the_offsets_it_continues_from(lab):
    lab.write_file(**{"start: earliest": "start: earliest\n    commit_group: lake"})
    lab.produce(100)

    lab.run(rows=40)

    assert lab.committed("lake") == lab.topic_ends()
    assert lab.committed("lab.rows") == {}, "the group of a source is in the place of its sinks'"

    entries = list(reversed(lab.history("rows")))
    assert [entry.txn_version for entry in entries] == [1, 2, 3]
    for before, after in itertools.pairwise(entries):
        assert after.metadata["start"] == before.metadata["end"]
    assert set(entries[0].metadata["topic_ids"]) == {lab.topic}


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize("rows", [27, *(pytest.param(n, marks=pytest.mark.slow) for n in (17, 40))])
def test_a_lost_checkpoint_neither_repeats_nor_loses_a_row(lab, rows):
    """Checklist row 88. Also with other batch sizes than before."""
    lab.produce(60)
    lab.run(rows=40)

    lab.lose_checkpoint()
    lab.produce(40)
    lab.run(rows=rows)

    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_removed_commits_entry_is_replayed_and_skipped(lab):
    lab.produce(60)
    lab.run(rows=40)
    for sink in ("rows", "sums"):
        remove_last(lab, sink, "commits")

    lab.produce(30)
    lab.run(rows=40)

    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_removed_offsets_entry_stops_with_both_maps_and_trusting_the_table_settles_it(lab):
    lab.produce(60)
    lab.run(rows=40)
    for sink in ("rows", "sums"):
        remove_last(lab, sink, "offsets")
        remove_last(lab, sink, "commits")
    lab.produce(30)

    with pytest.raises(ChainError) as stopped:
        lab.run(rows=40)

    text = str(stopped.value)
    assert "the table has more than the checkpoint planned" in text
    assert f'"{lab.topic}": {{"0": 30, "1": 30}}' in text
    assert f"josefine pipeline run {lab.file} --trust table" in text
    lab.run(rows=40, trust=Trust.TABLE)
    lab.check()
    assert (lab.directory / "checkpoints" / "lab.rows.set-aside-1" / "offsets" / "0").exists()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_commits_of_others_do_not_hide_the_chain(lab):
    """OPTIMIZE and VACUUM between runs, then a lost checkpoint: the walk back passes them."""
    lab.produce(40)
    lab.run(rows=20)

    for command in ("OPTIMIZE", "VACUUM"):
        lab.spark.sql(f"{command} delta.`{lab.table('rows')}`")
    lab.lose_checkpoint()
    lab.produce(20)
    lab.run()

    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_restored_table_is_read_on_from_the_restored_offsets(lab):
    lab.produce(80)
    lab.run(rows=80)
    version = lab.history("rows")[0].version
    lab.produce(40)
    lab.run(rows=80)
    lab.spark.sql(f"RESTORE TABLE delta.`{lab.table('rows')}` TO VERSION AS OF {version}")

    with pytest.raises(ChainError, match="the table has less than the checkpoint committed"):
        lab.run(rows=80)
    lab.run(rows=80, trust=Trust.TABLE)

    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_batch_whose_rows_are_all_filtered_still_moves_the_chain(lab):
    """Also of a driver that was killed before, while it wrote its first offsets."""
    offsets = lab.checkpoint("rows") / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.1dcffc94-b5e9-49b8-8ad6-35a3e23b47dd.tmp").touch()
    lab.write_file(**{"where value.id >= 0": "where value.id < 0"})
    lab.produce(30)

    lab.run(rows=40)

    assert lab.arrow("rows").num_rows == 0
    assert lab.chain_ends("rows", "rows") == lab.topic_ends()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_new_partition_is_read_from_its_first_record(lab):
    lab.produce(40)
    lab.run()

    lab.client.create_partitions({lab.topic: 3})
    lab.produce(60, partitions=3)
    lab.lose_checkpoint()
    lab.run()

    lab.check()


@ONE_SINK
def test_a_recreated_topic_stops_and_trusting_the_table_reads_the_new_one(lab):
    lab.produce(40)
    lab.run()
    lab.client.delete_topics([lab.topic])
    lab.client.create_topics([NewTopic(lab.topic, 2)])
    lab.produce(60)

    with pytest.raises(ChainError, match="a topic was deleted and created again"):
        lab.run()
    lab.run(trust=Trust.TABLE)

    rows = lab.arrow("rows")
    assert sorted(rows["id"].to_pylist()) == list(range(100))
    assert lab.chain_ends("rows", "rows") == lab.topic_ends()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_topic_that_leaves_keeps_its_place_and_returns_without_repeats(lab):
    other = f"{lab.topic}-other"
    lab.client.create_topics([NewTopic(other, 2)])
    lab.produce(20)
    lab.produce(20, topic=other)
    lab.write_file(topics=f"topics: [{lab.topic}, {other}]")
    lab.run()
    lab.write_file()
    lab.lose_checkpoint()
    lab.produce(20)
    lab.run()

    assert lab.chain_ends("rows", "rows") == lab.topic_ends() | lab.topic_ends(other)
    lab.produce(20, topic=other)
    lab.write_file(topics=f"topics: [{lab.topic}, {other}]")
    with pytest.raises(ChainError, match="there twice"):
        lab.run()
    lab.run(trust=Trust.TABLE)

    assert sorted(lab.arrow("rows")["id"].to_pylist()) == list(range(80))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_of_two_runs_at_once_one_stops_and_nothing_is_written_twice(lab):
    """Two checkpoints, one table: between two batches of a run, another run reads to the end."""
    lab.produce(60)
    pipeline = read_pipeline(lab.file, lab.environment(20))
    twin = dataclasses.replace(pipeline, checkpoint=str(lab.directory / "twin"))
    other = Quiet()

    class Interrupted(Quiet):
        def batch(self, done):
            if not other.batches:
                session = lab.spark.newSession()
                thread = threading.Thread(target=run_pipeline, args=(session, twin, other))
                thread.start()
                thread.join()

    with pytest.raises(ChainError, match="another run of this sink has committed") as stopped:
        run_pipeline(lab.spark, pipeline, Interrupted())

    assert "Let one run continue and stop the other" in str(stopped.value)
    lab.lose_checkpoint()
    lab.run()
    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_version_that_delta_skips_without_an_error_is_noticed(lab):
    lab.produce(10)
    lab.run()
    chain = DeltaChain(lab.spark, lab.table("rows"), Link(pipeline="lab", sink="rows", run="r"))
    tip = chain.load()
    assert isinstance(tip, Tip)
    stale = Commit(start=tip.reached.ends, end=tip.reached, txn_version=1)

    with pytest.raises(StoppedError) as stopped:
        chain.append(lab.spark.read.format("delta").load(lab.table("rows")), stale, 7)

    assert stopped.value.stop.verdict is Verdict.LOST_RACE
    assert lab.arrow("rows").num_rows == 10


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_an_own_transaction_whose_log_entries_are_gone_is_a_stop_not_a_fresh_start(lab):
    """Old log entries cleaned away behind a Delta checkpoint; the hint beside the table speaks."""
    lab.produce(10)
    lab.run()
    spark, path = lab.spark, lab.table("rows")
    for value in ("'delta.checkpointInterval' = '1'", "'note' = 'x'"):
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({value})")
    assert list(lab.directory.glob("tables/rows/_delta_log/*.checkpoint*.parquet"))
    newest = max(lab.directory.glob("tables/rows/_delta_log/*.json"))
    for file in lab.directory.glob("tables/rows/_delta_log/*.json"):
        if file != newest:
            file.unlink()
    lab.lose_checkpoint()

    with pytest.raises(ChainError, match="the log entry with its offsets is gone") as stopped:
        lab.run()

    assert f'"end": {{"{lab.topic}": {{"0": 5, "1": 5}}}}' in str(stopped.value)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_spark_looks_for_a_transaction_in_the_table_as_delta_rs_left_it(lab):
    """Delta in Spark knew the table from before its first rows, and took it for the newest."""
    path = lab.table("rows")
    DeltaTable.create(path, pa.schema(COLUMNS))
    assert known_txn_versions(lab.spark, path) == {}
    lab.produce(10)
    lab.run()
    table = DeltaTable(path)
    table.alter.set_table_properties({"note": "x"}, raise_if_not_exists=False)
    table.create_checkpoint()
    for file in sorted(lab.directory.glob("tables/rows/_delta_log/*.json"))[:-1]:
        file.unlink()
    lab.lose_checkpoint()

    with pytest.raises(ChainError, match="the log entry with its offsets is gone"):
        lab.run()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_table_deleted_behind_a_run_that_died_in_its_first_batch_stops_the_next(lab):
    """Its checkpoint had gone on from the table's end and has no other batch: the next run took
    that for the beginning, and all rows of before were missing without a word."""
    lab.produce(10)
    lab.run()
    lab.lose_checkpoint()
    lab.produce(10)
    lab.die("before_commit", rows=100)
    shutil.rmtree(lab.table("rows"))

    with pytest.raises(ChainError, match="the table has no commit of this sink"):
        lab.run()
    lab.run(trust=Trust.TABLE)

    lab.check()
