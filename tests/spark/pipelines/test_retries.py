"""A commit that failed for a reason of the machines is tried again, with real Spark and Delta."""

from __future__ import annotations

import pytest

from pipelines.base import failpoints
from pipelines.base.errors import RunError
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.model.retry_policy import ATTEMPTS_MAX, RETRIES
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sources.josefine import JosefineKind
from tests.spark.pipelines.conftest import ONE_SINK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

DIED = "Task 0 failed: Python worker exited unexpectedly (crashed)"
BATCH = 7


@pytest.fixture(autouse=True)
def disarmed():
    yield
    failpoints.arm(None, None)


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize("hit", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_write_whose_workers_die_is_made_again_and_writes_once(lab, hit):
    """The dead letters' append, the rows' append, the merge: whichever comes as the N-th."""
    lab.produce(30)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 15))
    failpoints.arm(f"fail_write@{hit}", None)

    lab.run()

    assert [(batch, says) for _, batch, says in lab.reporter.retries] == [
        (0, "a Python worker died")
    ]
    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_worker_that_does_not_connect_while_spark_plans_begins_the_run_again(lab):
    class NotConnected(JosefineKind):
        failed = False

        def open(self, spark, source, at):
            if not self.failed:
                self.failed = True
                raise RuntimeError("Python worker failed to connect back.")
            return super().open(spark, source, at)

    lab.produce(30)

    lab.run(kind=NotConnected())

    assert lab.reporter.restarts == [("rows", "a Python worker died")]
    # What metrics ask, of Spark's progress.
    assert lab.reporter.latest["rows"]() == lab.topic_ends()
    ends, lag_ms = lab.reporter.batches[-1].ends, lab.reporter.lag_ms["rows"]
    assert lag_ms(ends) == 0
    assert lag_ms({tp: end - 1 for tp, end in ends.items()}) > 0
    lab.check()


@ONE_SINK
def test_a_failure_of_the_rows_is_not_tried_again(lab):
    lab.write_file(
        **{
            "select value.*, topic": (
                "select value.* except (v), cast(concat('x', value.id) as int) as v, topic"
            )
        }
    )
    lab.produce(3)

    with pytest.raises(RunError, match="cannot be cast"):
        lab.run()

    assert lab.reporter.retries == []


class Rewritten:
    """A chain over a table with one commit, whose next write is the test's own."""

    def __init__(self, lab) -> None:
        lab.produce(10)
        lab.run()
        self.told: list[tuple[int, str]] = []
        self.pauses: list[float] = []
        self.chain = DeltaChain(
            lab.spark,
            lab.table("rows"),
            Link(pipeline="lab", sink="rows", run="r"),
            lambda batch_id, retry: self.told.append((batch_id, retry.says)),
            self.pauses.append,
        )
        tip = self.chain.load()
        assert isinstance(tip, Tip)
        version = tip.txn_version + 1
        self.commit = Commit(start=tip.reached.ends, end=tip.reached, txn_version=version)
        self.metadata = self.chain._metadata(self.commit, BATCH, None)
        self.spark = lab.spark
        self.rows = lab.spark.read.format("delta").load(lab.table("rows"))

    def committed(self, write):
        return self.chain._committed(self.spark, write, self.commit, BATCH, self.metadata)


@ONE_SINK
def test_attempts_are_bounded_with_longer_pauses_and_the_last_failure_is_raised(lab):
    made = Rewritten(lab)
    writes = []

    def write():
        writes.append(1)
        raise RuntimeError(DIED)

    with pytest.raises(RuntimeError, match="Python worker exited"):
        made.committed(write)

    assert len(writes) == ATTEMPTS_MAX
    assert made.told == [(BATCH, "a Python worker died")] * (ATTEMPTS_MAX - 1)
    pause_s = next(retry.pause_s for retry in RETRIES if retry.mark in DIED)
    assert made.pauses == [pause_s, 2 * pause_s, 3 * pause_s]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_commit_whose_answer_was_lost_is_found_and_not_made_again(lab):
    made = Rewritten(lab)

    def write():
        writer = made.rows.write.format("delta").mode("append")
        writer = writer.option("userMetadata", made.metadata)
        writer = writer.option("txnAppId", made.chain.link.app_id)
        writer.option("txnVersion", str(made.commit.txn_version)).save(made.chain.path)
        raise RuntimeError(DIED)

    entry = made.committed(write)

    assert entry.txn_version == made.commit.txn_version
    assert made.told == []
    assert lab.arrow("rows").num_rows == 20
