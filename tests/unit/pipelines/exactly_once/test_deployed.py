"""The marks of a deploy in a chain: which start follows the table, and which file is refused."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.deployed import (
    DEPLOY,
    DEPLOYED,
    FENCE,
    PREPARE,
    ROLLBACK,
    SWAP,
    Mark,
    is_deployed,
    mark_of,
    replaced_by_deploy,
)
from pipelines.exactly_once.offset_chain import Tip
from pipelines.sinks.commits import facts_of


def tip(**said):
    return Tip(reached=TopicOffsets(), txn_version=1, said=said)


def mark(step, **more):
    return Mark(ident="d1", step=step, before=4, **more)


@pytest.mark.parametrize("step", [SWAP, ROLLBACK, FENCE])
def test_a_start_after_a_commit_of_a_deploy_follows_the_table(step):
    assert is_deployed(tip(**{DEPLOY: mark(step).to_json()}))


@pytest.mark.parametrize(
    "found", [None, tip(), Unreadable(txn_version=3), tip(**{DEPLOYED: mark(SWAP).to_json()})]
)
def test_any_other_start_compares_table_and_checkpoint(found):
    assert not is_deployed(found)


def test_a_mark_is_read_as_it_was_written_and_damage_is_none():
    written = mark(SWAP, shadow=7, replaced="print")

    assert mark_of({DEPLOY: written.to_json()}) == written
    assert mark_of({DEPLOY: "damaged"}) is None
    assert mark_of(None) is None


def test_the_file_whose_rows_were_replaced_is_refused_with_its_way_back():
    after_swap = {DEPLOYED: mark(SWAP, replaced="old").to_json()}
    after_rollback = {DEPLOYED: mark(ROLLBACK, replaced="new").to_json()}

    assert "--against old.yaml --rollback" in replaced_by_deploy(after_swap, "old", "old.yaml", "s")
    assert "deploy new.yaml --against" in replaced_by_deploy(after_rollback, "new", "new.yaml", "s")
    assert replaced_by_deploy(after_swap, "new", "new.yaml", "s") == ""
    assert replaced_by_deploy({}, "old", "old.yaml", "s") == ""
    half = {DEPLOYED: mark(PREPARE).to_json()}
    for own in ("old", "new"):
        assert "in the middle of its swap" in replaced_by_deploy(half, own, "f.yaml", "s")


def test_later_commits_repeat_which_deploy_was_the_newest_not_that_they_are_one():
    said = {DEPLOY: mark(SWAP).to_json(), DEPLOYED: mark(SWAP).to_json()}

    assert facts_of(tip(**said)) == {DEPLOYED: mark(SWAP).to_json()}
