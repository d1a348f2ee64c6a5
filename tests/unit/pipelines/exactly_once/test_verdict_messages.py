"""What a stopped run says: both offset maps and the commands that settle it."""

from __future__ import annotations

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Checkpoint, Recorded, Unreadable
from pipelines.exactly_once.offset_chain import Batch, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName, OtherChain
from pipelines.exactly_once.verdict_messages import (
    Losing,
    clear_reason,
    stopped_at_start,
    stopped_for_others,
    stopped_in_batch,
)

A = ("t", 0)
STATE = Checkpoint(
    planned=Recorded(batch=3, end=TopicOffsets(ends={A: 9})),
    committed=Recorded(batch=2, end=TopicOffsets(ends={A: 5})),
)


def at_start(verdict, tip, checkpoint=STATE, detail=""):
    stop = Stop(verdict=verdict, detail=detail)
    return stopped_at_start("f.yaml", "lake", "/lake", "/ck/lake", stop, checkpoint, tip)


def test_a_stop_at_the_start_shows_both_sides_and_both_ways_out():
    text = at_start(Verdict.TABLE_AHEAD, Tip(reached=TopicOffsets(ends={A: 12}), txn_version=4))

    assert text.splitlines() == [
        "sink `lake` stopped, nothing was written: the table has more than the checkpoint planned",
        '  table /lake ends at {"t": {"0": 12}}',
        '  checkpoint /ck/lake: committed {"t": {"0": 5}}, planned {"t": {"0": 9}}',
        "Decide which side is right:",
        "  josefine pipeline run f.yaml --trust table       "
        "# set the checkpoint aside and continue at the table's offsets",
        "  josefine pipeline run f.yaml --trust checkpoint  # keep the table's rows and continue "
        "at the checkpoint's offsets",
    ]


def test_an_unreadable_table_is_never_offered_as_the_side_to_trust():
    text = at_start(Verdict.TABLE_UNREADABLE, Unreadable(txn_version=4, hint="gone"), detail="gone")

    assert "--trust table" not in text
    assert "--trust checkpoint" in text
    assert at_start(Verdict.TABLE_UNREADABLE, Unreadable(txn_version=4), None).endswith(
        "Neither side can be followed: restore the table's log or write to a new path."
    )


def test_a_stop_in_a_batch_names_partitions_and_both_maps():
    stop = Stop(verdict=Verdict.GAP, partitions=(A,))
    batch = Batch(start={A: 5}, end=TopicOffsets(ends={A: 9}))

    text = stopped_in_batch("f.yaml", "lake", "/lake", stop, 7, batch, None)

    assert "would be missing (t-0)" in text
    assert '  batch 7 reads from {"t": {"0": 5}} to {"t": {"0": 9}}' in text


def test_a_recreated_topic_offers_to_read_the_new_one():
    text = at_start(Verdict.TOPIC_RECREATED, Tip(reached=TopicOffsets(ends={A: 12}), txn_version=4))

    assert "keep the old topic's rows and read the new topic from its beginning" in text
    assert "--trust checkpoint" not in text


def test_a_table_with_the_rows_of_another_name_offers_to_rename_and_to_write_beside():
    own, old = ChainName(pipeline="p", sink="lake"), ChainName(pipeline="p", sink="pond")
    others = [OtherChain(name=old, reached=TopicOffsets(ends={A: 12}))]
    stop = Stop(verdict=Verdict.OTHER_CHAIN, detail=str(old))

    text = stopped_for_others("f.yaml", own, "/lake", stop, others)

    assert text.splitlines() == [
        "sink `lake` stopped, nothing was written: its table has the rows of another name that "
        "read the same topics: all of them would be there twice; `pond` of pipeline `p`",
        '  table /lake: `pond` of pipeline `p` ends at {"t": {"0": 12}}',
        "Decide what it is:",
        "  josefine pipeline run f.yaml --rename pond=lake  # lake is `pond` of pipeline `p` "
        "under a new name: continue at its offsets",
        "  josefine pipeline run f.yaml --new-chain lake    # lake has other rows of these "
        "topics: add them to those that are there",
    ]


def test_lost_records_offer_to_go_on_without_them_and_to_keep_the_others():
    stop = Stop(verdict=Verdict.RECORDS_LOST, detail="t-0 offsets [12, 20)")
    tip = Tip(reached=TopicOffsets(ends={A: 12}), txn_version=4)
    losing = Losing(table="/lake_lost", topics=["t"], bootstrap="b:1")

    text = stopped_at_start("f.yaml", "lake", "/lake", "/ck", stop, None, tip, losing)

    assert text.splitlines() == [
        "sink `lake` stopped, nothing was written: its topics have lost records that the table "
        "does not have; t-0 offsets [12, 20)",
        '  table /lake ends at {"t": {"0": 12}}',
        "  checkpoint /ck: there is none",
        "Decide whether to continue without them (always: `on_data_loss: skip_and_record`):",
        "  josefine pipeline run f.yaml --on-data-loss skip_and_record  # record these ranges in "
        "/lake_lost and continue after them",
        "  josefine topics alter t -b b:1 --config retention.ms=-1  # until you have decided, keep "
        "what is still there",
    ]


def test_a_topic_that_is_shorter_than_the_table_offers_no_way_to_lose_the_rest():
    text = at_start(Verdict.TOPIC_SHORTER, Tip(reached=TopicOffsets(ends={A: 12}), txn_version=4))

    assert text.endswith("Run again when the brokers are well.")
    assert "--trust" not in text


def test_the_reason_is_the_innermost_python_error_not_sparks_pages():
    pages = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: boom\n"
        "Traceback (most recent call last):\n"
        "  File x\n"
        "josefine_spark.base.errors.DataLossError: records are lost: t-0 offsets [0, 5)\n\n"
        "At org.apache.spark...\n"
    )

    assert clear_reason(Exception(pages)) == "records are lost: t-0 offsets [0, 5)"
    advice = pages.replace(
        "[0, 5)", "[0, 5). Set failOnDataLoss=false to continue with the records that are left"
    )
    assert clear_reason(Exception(advice)) == (
        "records are lost: t-0 offsets [0, 5); the next run lists the ways to continue"
    )
    assert clear_reason(Exception("\nfirst\nsecond")) == "first"
    assert clear_reason(Exception("")) == "Exception"


class Java:
    """A Java exception as Py4J hands it over."""

    def __init__(self, text, cause=None):
        self.text, self.cause = text, cause

    def getCause(self):  # noqa: N802
        return self.cause

    def toString(self):  # noqa: N802
        return self.text


def test_the_reason_of_a_java_failure_is_its_innermost_cause():
    said = "An error occurred while calling o162.execute.\n: org.x.Outer: no\n\tat a.b(C.java:1)\n"
    error = Exception(said)
    error.java_exception = Java("org.x.Outer: no", Java("java.io.IOException: Mkdirs failed"))

    assert clear_reason(error) == "IOException: Mkdirs failed"
    assert clear_reason(Exception(said)) == "Outer: no"
    deeper = said + "Caused by: java.nio.file.NotDirectoryException: /afile\n\tat d.e(F.java:2)\n"
    assert clear_reason(Exception(deeper)) == "NotDirectoryException: /afile"


def test_a_java_that_is_gone_leaves_the_text():
    error = Exception("An error occurred while calling o1.x.\n: org.x.Gone\n\tat a.b(C.java:1)")
    error.java_exception = object()

    assert clear_reason(error) == "Gone"
