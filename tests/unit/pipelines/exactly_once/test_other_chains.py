"""A sink whose name its table does not know: what the chains of others in it mean."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Stop, Verdict
from pipelines.exactly_once.other_chains import (
    ChainName,
    OtherChain,
    TakeOver,
    begins,
    name_of,
    rename_options,
)

OWN = ChainName(pipeline="p", sink="new")
DEAD = ChainName(pipeline="p", sink="dead_letter.new")
TOPICS = {"t": "id-t", "u": "id-u"}


def chain(pipeline="p", sink="old", ids=None, **more):
    reached = TopicOffsets(ends={("t", 0): 9}, topic_ids={"t": "id-t"} if ids is None else ids)
    return OtherChain(name=ChainName(pipeline=pipeline, sink=sink), **{"reached": reached} | more)


def outcome(*others, own=OWN, beside=(), new_chains=(), **renames):
    return begins(own, others, TOPICS, siblings=beside, renames=renames, new_chains=new_chains)


@pytest.mark.parametrize(
    "other",
    [
        chain(),
        chain(pipeline="q"),
        chain(pipeline="q", sink="new"),
        chain(reached=None),
        chain(ids={"t": ""}),
        chain(ids={"x": "id-x", "u": "id-u"}),
    ],
)
def test_a_chain_of_another_name_that_read_these_topics_stops(other):
    stop = outcome(other)

    assert isinstance(stop, Stop)
    assert stop.verdict is Verdict.OTHER_CHAIN
    assert stop.detail == f"`{other.name.sink}` of pipeline `{other.name.pipeline}`"


@pytest.mark.parametrize("others", [[], [chain(ids={"x": "id-x"})], [chain(ids={"t": "another"})]])
def test_chains_of_other_topics_are_no_reason_to_stop(others):
    assert outcome(*others) is None


@pytest.mark.parametrize(
    ("other", "renames"),
    [
        (chain(), {"old": "new"}),
        (chain(pipeline="q", sink="new"), {"q": "p"}),
        (chain(pipeline="q"), {"q": "p", "old": "new"}),
        (chain(ids={"t": "another"}), {"old": "new"}),
    ],
)
def test_a_renamed_chain_is_taken_over(other, renames):
    assert outcome(other, **renames) == TakeOver(other=other)
    if chain(ids={"t": "another"}) != other:
        assert isinstance(outcome(other, wrong="new"), Stop)


def test_of_two_chains_of_which_one_was_renamed_that_one_is_taken_over():
    assert outcome(chain(), chain(pipeline="q"), old="new") == TakeOver(other=chain())


def test_two_chains_that_became_one_stop():
    stop = outcome(chain(), chain(sink="older"), old="new", older="new")

    assert isinstance(stop, Stop)
    assert stop.verdict is Verdict.OTHER_CHAIN


def test_a_renamed_chain_that_nobody_can_read_stops():
    stop = outcome(chain(reached=None), old="new")

    assert isinstance(stop, Stop)
    assert stop.verdict is Verdict.TABLE_UNREADABLE


def test_who_says_that_the_rows_are_others_begins_a_chain():
    assert outcome(chain(), chain(reached=None), new_chains=["new"]) is None
    assert isinstance(outcome(chain(), new_chains=["old"]), Stop)


def test_dead_letters_of_several_sources_of_one_pipeline_share_their_table():
    beside = {"dead_letter.new", "dead_letter.other"}

    assert outcome(chain(sink="dead_letter.other"), own=DEAD, beside=beside) is None
    assert isinstance(outcome(chain(sink="dead_letter.old"), own=DEAD, beside=beside), Stop)
    assert isinstance(
        outcome(chain(pipeline="q", sink="dead_letter.other"), own=DEAD, beside=beside), Stop
    )


def test_dead_letters_follow_the_name_of_their_source():
    other = chain(sink="dead_letter.old")

    assert outcome(other, own=DEAD, old="new") == TakeOver(other=other)


def test_the_options_that_settle_it_are_told():
    assert rename_options(OWN, chain().name) == "--rename old=new"
    assert rename_options(OWN, chain(pipeline="q").name) == "--rename q=p --rename old=new"
    assert rename_options(DEAD, chain(sink="dead_letter.old").name) == "--rename old=new"


def test_a_transactions_id_names_its_chain():
    assert name_of(OWN.app_id) == OWN
    assert name_of("7b0c-query") is None
    assert name_of("josefine:p") is None
