"""Whose a checkpoint is that names no pipeline: `<checkpoint>/<sink>`, as it was before."""

from __future__ import annotations

import pytest

from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.legacy_checkpoint import Owner, whose
from pipelines.exactly_once.offset_chain import Tip
from tests.unit.pipelines.exactly_once.test_checkpoint_start import EQUAL, FIRST, A, checkpoint, tip

OTHER = checkpoint(None, None, "commits/1 is there, offsets/1 is not")


def said(ends, query):
    found = tip(ends)
    return Tip(reached=found.reached, txn_version=4, said={"query": query})


@pytest.mark.parametrize(
    ("state", "table", "queries", "topics", "owner"),
    [
        # Its query made a commit of ours: the newest one, an older one, one that was restored away.
        (EQUAL, said({A: 9}, "q1"), [], ["t"], Owner.OURS),
        (EQUAL, said({A: 20}, "q2"), ["q2", "q1"], ["t"], Owner.OURS),
        (EQUAL, None, ["q1"], ["t"], Owner.OURS),
        (OTHER, said({A: 20}, "q2"), ["q1"], ["t"], Owner.OURS),
        # It read nothing that we read.
        (EQUAL, said({A: 9}, "q2"), ["q2"], ["u"], Owner.OTHERS),
        (EQUAL, None, [], ["u"], Owner.OTHERS),
        (FIRST, None, [], ["u"], Owner.OTHERS),
        # The table goes by other queries: ours when it fits, as after a kill in the first batch.
        (FIRST, said({A: 2}, "q2"), ["q2"], ["t"], Owner.OURS),
        (EQUAL, said({A: 20}, "q2"), ["q2"], ["t"], Owner.OTHERS),
        (OTHER, said({A: 20}, "q2"), ["q2"], ["t"], Owner.OTHERS),
        # The table says nothing: a plan harms nobody, commits are another's or of a lost table.
        (FIRST, None, [], ["t"], Owner.OURS),
        (EQUAL, None, [], ["t"], Owner.UNKNOWN),
        (OTHER, None, [], ["t"], Owner.UNKNOWN),
        # Needed to go on at all.
        (EQUAL, Unreadable(txn_version=4), [], ["t"], Owner.OURS),
    ],
)
def test_whose_it_is(state, table, queries, topics, owner):
    assert whose(state, "q1", table, lambda: queries, topics) is owner


def test_the_log_is_not_searched_when_its_newest_commit_says_it():
    def queries():
        raise AssertionError

    assert whose(EQUAL, "q1", said({A: 9}, "q1"), queries, ["t"]) is Owner.OURS
