"""The state is computed for the newest version only, and the session is as before. A commit that
another driver has replaced in S3 is noticed before the next one."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit, Verdict
from pipelines.sinks.commits import Link, StoppedError
from pipelines.sinks.delta_commits import DeltaChain, compute_state

errors = pytest.importorskip("pyspark.errors")
WHOLE, MODE = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"


class Session:
    """A session with settings, and Delta's cached snapshot of a version."""

    def __init__(self, version, error=None, **settings):
        self.settings, self.computed, self.error = settings, [], error
        self.conf = SimpleNamespace(
            get=self.settings.get, set=self.settings.__setitem__, unset=self.settings.pop
        )
        snapshot = SimpleNamespace(version=lambda: version, transactions=self._compute)
        log = SimpleNamespace(unsafeVolatileSnapshot=lambda: snapshot)
        of = SimpleNamespace(forTable=lambda session, path: log)
        delta = SimpleNamespace(DeltaLog=of)
        sql = SimpleNamespace(delta=delta)
        spark = SimpleNamespace(sql=sql)
        apache = SimpleNamespace(spark=spark)
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=apache))
        self._jsparkSession = None

    def _compute(self):
        if self.error:
            raise self.error
        self.computed.append(dict(self.settings))


def test_the_newest_version_is_computed_without_generated_code():
    session = Session(7, **{MODE: "FALLBACK"})

    compute_state(session, "/t", 7)

    assert session.computed == [{WHOLE: "false", MODE: "NO_CODEGEN"}]
    assert session.settings == {MODE: "FALLBACK"}


def test_a_snapshot_that_the_commit_will_not_use_is_left_alone():
    session = Session(6)

    compute_state(session, "/t", 7)

    assert session.computed == []


@pytest.mark.parametrize("error", [errors.AnalysisException("gone"), TypeError("no such class")])
def test_a_failure_is_left_to_the_commit_and_the_settings_are_restored(error):
    session = Session(7, error, **{MODE: "FALLBACK"})

    compute_state(session, "/t", 7)

    assert session.settings == {MODE: "FALLBACK"}


class Bucket:
    """The objects of a store that replaces what is there. Mutable: the objects, and the reads."""

    def __init__(self):
        self.texts, self.reads = {}, 0

    def read_text(self, path):
        self.reads += 1
        return self.texts.get(path)

    def names(self, folder):
        return sorted(p.removeprefix(f"{folder}/") for p in self.texts if p.startswith(folder))

    def write_text(self, path, text):
        self.texts[path] = text


P0 = ("t", 0)


class Driver:
    """A run of one sink. Mutable: its chain."""

    def __init__(self, bucket, run, path="s3a://b/t", sink="s"):
        self._bucket, self._path = bucket, path
        link = Link(pipeline="p", sink=sink, run=run)
        self.chain = DeltaChain(None, path, link, pause=lambda _: None, files=bucket)
        self.chain.load()

    def batch(self, end, at=None, between=lambda: None):
        """Commit up to an offset, as version `at`, by default the next one; `between`: what others
        do meanwhile."""
        tip = self.chain.tip
        start, number = (tip.reached.ends, tip.txn_version + 1) if tip else ({}, 1)

        def add(version, metadata):
            self.put(version + 1 if at is None else at, number, metadata)
            between()

        commit = Commit(start=start, end=TopicOffsets(ends={P0: end}), txn_version=number)
        self.chain.add(add, commit, number, {})

    def put(self, version, number, metadata):
        info = {"operation": "WRITE", "userMetadata": metadata}
        txn = {"appId": self.chain.link.app_id, "version": number}
        lines = (json.dumps({"commitInfo": info}), json.dumps({"txn": txn}))
        self._bucket.texts[f"{self._path}/_delta_log/{version:020d}.json"] = "\n".join(lines)


def test_a_run_whose_commit_another_run_of_its_sink_has_replaced_stops_before_the_next_one():
    bucket = Bucket()
    one, other = Driver(bucket, "one"), Driver(bucket, "other")
    one.batch(5)
    other.chain._own_after = lambda: None  # it has looked before, and writes now
    with pytest.raises(StoppedError):
        other.batch(7, at=0)
    before = dict(bucket.texts)

    with pytest.raises(StoppedError) as stopped:
        one.batch(10)

    assert stopped.value.stop.verdict is Verdict.LOST_RACE
    assert bucket.texts == before
    third = Driver(bucket, "third")
    third.batch(12)
    assert third.chain.tip.reached.ends == {P0: 12}


def test_a_run_whose_commit_another_writer_has_replaced_stops_with_the_version():
    bucket = Bucket()
    one, writer = Driver(bucket, "one"), Driver(bucket, "other", sink="another")
    one.batch(5)
    writer.put(0, 1, None)
    before = dict(bucket.texts)

    with pytest.raises(StoppedError) as stopped:
        one.batch(10)

    assert stopped.value.stop.verdict is Verdict.TABLE_BEHIND
    assert stopped.value.stop.detail.endswith("replaced its version 0, a commit of this run")
    assert bucket.texts == before


def test_a_commit_that_was_replaced_after_a_start_stops_its_first_batch():
    bucket = Bucket()
    late = Driver(bucket, "late")
    Driver(bucket, "one").batch(5)
    two = Driver(bucket, "two")
    late.chain._own_after = lambda: None
    with pytest.raises(StoppedError):
        late.batch(7, at=0)

    with pytest.raises(StoppedError) as stopped:
        two.batch(10)

    assert stopped.value.stop.verdict is Verdict.LOST_RACE


def test_a_commit_that_is_replaced_while_the_next_one_is_made_stops_the_run_after_it():
    bucket = Bucket()
    one, writer = Driver(bucket, "one"), Driver(bucket, "other", sink="another")
    one.batch(5)

    with pytest.raises(StoppedError):
        one.batch(10, between=lambda: writer.put(0, 1, None))


def test_commits_of_others_are_continued_after_and_may_be_replaced():
    bucket = Bucket()
    one, writer = Driver(bucket, "one"), Driver(bucket, "other", sink="another")
    one.batch(5)
    writer.put(1, 1, None)
    one.batch(10)
    writer.put(3, 2, None)
    assert one.chain._own_after() is None
    writer.put(3, 3, None)

    one.batch(15)

    assert one.chain.version == 4


def test_a_table_that_was_made_again_stops_the_run_where_commits_cannot_be_replaced():
    bucket = Bucket()
    one = Driver(bucket, "one", "/lake/t")
    writer = Driver(bucket, "other", "/lake/t", sink="another")
    one.batch(5)
    writer.put(1, 1, None)
    assert one.chain._own_after() is None
    writer.put(1, 2, None)

    with pytest.raises(StoppedError) as stopped:
        one.batch(10)

    assert stopped.value.stop.verdict is Verdict.TABLE_BEHIND


@pytest.mark.parametrize("path", ["/lake/t", "s3a://b/t"])
def test_a_run_goes_on_after_a_cleanup_of_the_log_has_deleted_the_commit_it_knew(path):
    bucket = Bucket()
    one, writer = Driver(bucket, "one", path), Driver(bucket, "other", path, sink="another")
    one.batch(5)
    writer.put(1, 1, None)
    del bucket.texts[f"{path}/_delta_log/{0:020d}.json"]

    one.batch(10)

    assert one.chain.version == 2


def test_where_commits_cannot_be_replaced_the_last_one_is_read_less_often():
    reads = []
    for path in ("/lake/t", "s3a://b/t"):
        bucket = Bucket()
        Driver(bucket, "one", path).batch(5)
        bucket.reads = 0
        Driver(bucket, "two", path).batch(10)
        reads.append(bucket.reads)

    assert reads == [7, 8]
