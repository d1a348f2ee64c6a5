"""The dead letters of several sinks of one source: none is missing, none is there twice."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.exactly_once.checkpoint_start import dead_letters_gone
from pipelines.exactly_once.dead_letter_chain import (
    NOTHING_DUE,
    Lettering,
    LettersDue,
    letters_due,
    note_passed,
    raised,
    said_by,
)
from pipelines.exactly_once.offset_chain import Batch, Commit, Stop, Tip, Verdict

P, Q, R = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
SINKS = 3
FILES = 3
BAD = st.sets(st.integers(0, 20), min_size=6)


def batch(start: ByPartition, end: ByPartition) -> Batch:
    return Batch(start=start, end=TopicOffsets(ends=dict(end)))


def tip(ends: ByPartition, version: int = 1) -> Tip:
    return Tip(reached=TopicOffsets(ends=dict(ends)), txn_version=version)


class Chain:
    """The letters' chain of one run, over a table that outlives it."""

    def __init__(self, tip: Tip | None) -> None:
        self.tip = tip

    def follow(self, tip: Tip | None) -> None:
        self.tip = tip


class Topic:
    """One source with its sinks and their dead letters. Mutable."""

    def __init__(self, bad: list[set[int]], ahead: int) -> None:
        self.bad = bad
        """By file: the offsets that it leaves out, in either partition."""
        self.file = 0
        self.table: Tip | None = None
        self.said: list[Tip | None] = [None] * SINKS
        """Each sink's last commit."""
        self.letters: Counter[tuple[TopicPartition, int]] = Counter()
        self.ends: list[dict[TopicPartition, int]] = [{P: 0, Q: 0} for _ in range(SINKS)]
        if ahead:  # as a run of before left them, whose first sink alone moved the chain
            self.table = tip({P: 0, Q: 0})
            self.ends[1] = {P: ahead, Q: 0}
        self.start(0)
        self.left_out: set[tuple[TopicPartition, int]] = set()
        """What a table lacks by the file that it was read with."""

    def start(self, file: int) -> None:
        """A run, perhaps of another file."""
        self.file = file
        self.lettering = Lettering(Chain(self.table), "/dead")
        self.lettering.begins(self.table, self.table)
        for sink in self.said:
            assert not dead_letters_gone(sink, self.table, "/dead")
            self.lettering.stands_behind(sink)

    def read(self, sink: int, end: ByPartition, dies: str) -> bool:
        """One batch of a sink; whether the run lives on."""
        planned = batch(self.ends[sink], end)
        if dies == "before":
            return False
        is_left = self._is_left_to_the_first(planned)
        self._write_letters(planned, sink, writes_rows=True)
        if dies == "between":
            return False
        if not is_left:
            self.left_out |= self._left_out(planned)
        self.ends[sink] = dict(end)
        said = {"dead_letters": "/dead", **said_by([self.lettering])}
        reached = TopicOffsets(ends=dict(end))
        self.said[sink] = Tip(reached=reached, txn_version=1, said=said)
        if dies == "behind":  # Spark plans it again, and its rows are there
            self._write_letters(planned, sink, writes_rows=False)
        return True

    def _is_left_to_the_first(self, planned: Batch) -> bool:
        chain = self.lettering.chain.tip
        ends = chain.reached.ends if chain else {}
        return any(start > ends.get(p, start) for p, start in planned.start.items())

    def _left_out(self, planned: Batch) -> set[tuple[TopicPartition, int]]:
        return {
            (partition, offset)
            for partition, end in planned.end.ends.items()
            for offset in range(planned.starts.get(partition, 0), end)
            if offset in self.bad[self.file]
        }

    def _write_letters(self, planned: Batch, sink: int, *, writes_rows: bool) -> None:
        mine = self.said[sink]
        known = mine.reached.ends if mine else {}
        due = self.lettering.due(planned, known, writes_rows=writes_rows, leads=sink == 0)
        assert not isinstance(due, Stop)
        if due == NOTHING_DUE:
            return
        count = 0
        for place in self._left_out(planned):
            partition, offset = place
            if due.look_below is not None:
                known = offset < due.look_below.get(partition, 0) and self.letters[place]
            else:
                assert due.commit is not None
                known = offset < due.commit.skip_below.get(partition, 0)
            self.letters[place] += not known
            count += not known
        commit = due.commit
        if commit is None:
            return
        if not count:
            self.lettering.passes(commit)
            return
        self.table = Tip(reached=commit.end, txn_version=commit.txn_version)
        self.lettering.chain.follow(self.table)
        self.lettering.wrote(commit)


STEPS = st.tuples(
    st.integers(0, SINKS - 1),
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from(["", "", "", "before", "between", "behind"]),
    st.integers(0, FILES - 1),
)


@given(
    st.lists(BAD, min_size=FILES, max_size=FILES),
    st.sampled_from([0, 0, 7]),
    st.lists(STEPS, max_size=30),
)
def test_whatever_dies_and_whoever_is_first_each_record_left_out_has_one_letter(
    bad: list[set[int]], ahead: int, steps: list[tuple[int, int, int, str, int]]
) -> None:
    topic = Topic(bad, ahead)
    for sink, more, more_of_q, dies, next_file in steps:
        ends = topic.ends[sink]
        lives = topic.read(sink, {P: ends[P] + more, Q: ends[Q] + more_of_q}, dies)
        assert topic.left_out <= {place for place, count in topic.letters.items() if count}
        assert max(topic.letters.values(), default=0) <= 1
        if not lives:
            topic.start(next_file)


def test_the_sink_that_comes_second_writes_nothing() -> None:
    first = letters_due(batch({P: 0}, {P: 9}), None, {}, known={P, Q}, writes_rows=True, leads=True)
    assert isinstance(first, LettersDue)
    assert first.commit is not None
    assert (first.commit.end.ends, first.look_below, first.records) == ({P: 9}, None, 9)
    passed: dict[TopicPartition, int] = {}
    note_passed(passed, first.commit)

    second = letters_due(
        batch({P: 0}, {P: 6}), tip({P: 9}), passed, known={P, Q}, writes_rows=True, leads=False
    )

    assert second == NOTHING_DUE


def test_what_was_passed_before_this_run_is_looked_at() -> None:
    """Its file may have been another one."""
    due = letters_due(
        batch({P: 3}, {P: 6}), tip({P: 9}), {P: 6}, known={P, Q}, writes_rows=True, leads=False
    )

    assert due == LettersDue(look_below={P: 6})


def test_what_the_table_of_the_sink_has_is_not_looked_at() -> None:
    """Else a record that was good then would be there and have a letter."""
    due = letters_due(
        batch({P: 3}, {P: 6}), tip({P: 9}), {}, known={P, Q}, writes_rows=False, leads=True
    )

    assert due == NOTHING_DUE


def test_a_run_has_passed_what_lies_behind_its_first_commit() -> None:
    passed: dict[TopicPartition, int] = {}
    for start, end in (({P: 4, Q: 2}, {P: 7, Q: 2}), ({P: 7, Q: 2}, {P: 9, Q: 5})):
        commit = Commit(start=start, end=TopicOffsets(ends=dict(end)), txn_version=1)
        note_passed(passed, commit)

    assert passed == {P: 4, Q: 2}


def test_of_a_batch_that_goes_beyond_the_chain_only_what_was_passed_is_looked_at() -> None:
    due = letters_due(
        batch({P: 3}, {P: 12}), tip({P: 9}), {}, known={P, Q}, writes_rows=True, leads=True
    )

    assert isinstance(due, LettersDue)
    assert isinstance(due.commit, Commit)
    assert (due.commit.skip_below, due.look_below, due.records) == ({P: 9}, {P: 9}, 3)


def test_a_sink_ahead_of_the_chain_of_an_earlier_version_leaves_letters_to_the_first() -> None:
    ahead = batch({P: 20}, {P: 22})

    due = letters_due(ahead, tip({P: 9}), {}, known={P, Q}, writes_rows=True, leads=False)
    stop = letters_due(ahead, tip({P: 9}), {}, known={P, Q}, writes_rows=True, leads=True)

    assert due == NOTHING_DUE
    assert isinstance(stop, Stop)
    assert stop.verdict is Verdict.GAP


def test_a_batch_without_letters_moves_the_chain_and_its_table_stays() -> None:
    lettering = Lettering(Chain(tip({P: 9}, version=3)), "/dead")
    lettering.begins(tip({P: 9}, version=3), tip({P: 9}, version=3))
    due = lettering.due(batch({P: 9}, {P: 12}), {P, Q}, writes_rows=True, leads=True)
    assert isinstance(due, LettersDue)
    assert due.commit is not None

    lettering.passes(due.commit)

    assert lettering.chain.tip == tip({P: 12}, version=3)
    assert said_by([lettering]) == {"letters": {"t": {"0": 9}}}
    second = lettering.due(batch({P: 9}, {P: 12}), {P, Q}, writes_rows=True, leads=False)
    assert second == NOTHING_DUE


def test_a_table_that_never_had_letters_has_no_commit_and_is_not_missed() -> None:
    lettering = Lettering(Chain(None), "/dead")
    lettering.begins(None, None)
    lettering.passes(Commit(start={P: 0}, end=TopicOffsets(ends={P: 4}), txn_version=1))
    said = {"dead_letters": "/dead", **said_by([lettering])}
    sink = Tip(reached=TopicOffsets(ends={P: 4}), txn_version=1, said=said)

    assert not dead_letters_gone(sink, None, "/dead")
    assert raised(None, sink, "/dead") == tip({P: 4}, version=0)
    due = lettering.due(batch({P: 4}, {P: 6}), {P, Q}, writes_rows=True, leads=True)
    assert isinstance(due, LettersDue)
    assert due.commit is not None
    assert due.commit.txn_version == 1


def sink(ends: ByPartition, ids: dict[str, str] | None = None, **said: object) -> Tip:
    said = {"letters": {}, "dead_letters": "/dead"} | said
    return Tip(reached=TopicOffsets(ends=dict(ends), topic_ids=ids or {}), txn_version=1, said=said)


def test_the_chain_stands_where_the_sinks_say_that_letters_were_seen_to() -> None:
    chain = tip({P: 9, Q: 4})

    assert raised(chain, sink({P: 12, Q: 2}), "/dead") == tip({P: 12, Q: 4})


def test_a_commit_of_before_or_with_letters_elsewhere_says_nothing_of_the_chain() -> None:
    of_before = Tip(reached=TopicOffsets(ends={P: 12}), txn_version=1, said={})

    assert raised(tip({P: 9}), of_before, None) == tip({P: 9})
    assert raised(tip({P: 9}), sink({P: 12}, dead_letters="/elsewhere"), "/dead") == tip({P: 9})


def test_a_topic_that_was_created_again_says_nothing_of_the_old_ones_letters() -> None:
    reached = TopicOffsets(ends={P: 9}, topic_ids={"t": "old"})
    chain = Tip(reached=reached, txn_version=1)

    assert raised(chain, sink({P: 12}, {"t": "new"}), "/dead") == chain


def test_a_sink_s_commit_says_up_to_where_the_letters_table_has_commits() -> None:
    """Else a table that is restored to before them would not be missed."""
    lettering = Lettering(Chain(tip({P: 9})), "/dead")
    lettering.begins(tip({P: 9}), tip({P: 12}))
    assert said_by([lettering]) == {"letters": {"t": {"0": 9}}}

    lettering.wrote(Commit(start={P: 12}, end=TopicOffsets(ends={P: 14}), txn_version=2))

    assert said_by([lettering]) == {"letters": {"t": {"0": 14}}}


def test_the_letters_of_what_a_source_is_joined_with_are_another_chains() -> None:
    """One commit says where both were; each is looked for in its own."""
    orders, payments = Lettering(Chain(None), "/dead"), Lettering(Chain(None), "/dead")
    orders.begins(tip({P: 4}), tip({P: 4}))
    payments.begins(tip({R: 2}), tip({R: 2}))
    both = sink({P: 9, R: 7}, **said_by([orders, payments]))
    assert both.said["letters"] == {"t": {"0": 4}, "u": {"0": 2}}

    orders.stands_behind(both, others={"u"})

    assert orders.chain.tip == tip({P: 9})
    assert not dead_letters_gone(both, tip({P: 4}), "/dead", others={"u"})
    assert dead_letters_gone(both, tip({P: 3}), "/dead", others={"u"})
    assert dead_letters_gone(both, None, "/dead", others={"t"})


def test_a_part_of_a_batch_knows_nothing_of_other_topics() -> None:
    ids = {"t": "id-t", "u": "id-u"}
    end = TopicOffsets(ends={P: 9, R: 7}, topic_ids=ids, first={P: 0, R: 1})

    part = Batch(start={P: 4, R: 2}, end=end).of_topics({"u"})

    first = {R: 1}
    assert part.start == {R: 2}
    assert part.end == TopicOffsets(ends={R: 7}, topic_ids={"u": "id-u"}, first=first)


def test_a_sink_may_begin_a_partition_behind_its_letters_and_go_on_nowhere_but_at_them() -> None:
    """A run wrote the letters of a new partition and died before its rows; its checkpoint went, and
    retention took the records, or its file begins at the end. No word could get that run going."""
    chain = tip({P: 9, Q: 3})
    end = TopicOffsets(ends={P: 12, Q: 8}, first={P: 0, Q: 7})
    begins = Batch(start={P: 9}, end=end)

    due = letters_due(begins, chain, {}, known={P}, writes_rows=True, leads=True)
    stuck = letters_due(begins, chain, {}, known={P, Q}, writes_rows=True, leads=True)

    assert isinstance(due, LettersDue)
    assert due.commit is not None
    assert (due.commit.start, due.commit.end.ends) == ({P: 9, Q: 7}, {P: 12, Q: 8})
    assert isinstance(stuck, Stop)
    assert (stuck.verdict, stuck.partitions) == (Verdict.GAP, (Q,))
    behind = Batch(start={}, end=TopicOffsets(ends={P: 12}, first={P: 2}))
    due = letters_due(behind, chain, {}, known=(), writes_rows=True, leads=True)
    assert isinstance(due, LettersDue)
    assert due.commit is not None
    assert due.commit.skip_below == {P: 9}, "letters that are there are not written again"
