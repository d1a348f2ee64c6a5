"""Rows that sinks share: each has those of its own batch, and none is let go while it is used."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Batch
from pipelines.transforms.shared_batches import KEPT_MAX, SharedRows, place_of
from tests.support.waiting import wait_until

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Rows:
    """A frame that is kept in memory until it is unpersisted. Mutable."""

    def __init__(self, what: object) -> None:
        self.what = what
        self.is_kept = True

    def unpersist(self) -> None:
        assert self.is_kept, "let go twice"
        self.is_kept = False


class Source:
    """Shared rows, and all that were ever made. Mutable."""

    def __init__(self, *sinks: str, at: int | None = 0) -> None:
        self.shared = SharedRows()
        self.made: list[Rows] = []
        for sink in sinks:
            self.stands(sink, at)

    def stands(self, sink: str, at: int | None) -> None:
        self.shared.stands(sink, None if at is None else {P: at, Q: at})

    def take(self, sink: str, batch: Batch) -> Rows | None:
        return cast("Rows | None", self.shared.take(sink, batch, lambda: self.make(batch)))

    def make(self, batch: Batch) -> Any:
        self.made.append(Rows(place_of(batch)))
        return self.made[-1]

    @property
    def kept(self) -> list[Rows]:
        return [rows for rows in self.made if rows.is_kept]


def batch(start: int, end: int, topic_id: str = "id") -> Batch:
    ends = TopicOffsets(ends={P: end, Q: end}, topic_ids={"t": topic_id})
    return Batch(start={P: start, Q: start}, end=ends)


def test_rows_are_made_once_for_sinks_at_the_same_offsets_and_let_go_behind_the_last() -> None:
    source = Source("a", "b")

    first = source.take("a", batch(0, 10))
    source.shared.give_back("a")
    second = source.take("b", batch(0, 10))

    assert first is not None
    assert first is second
    assert first.is_kept
    source.shared.give_back("b")
    assert not first.is_kept


def test_nothing_is_made_for_others_where_nobody_else_stands() -> None:
    source = Source("a")
    source.stands("b", 5)

    assert source.take("a", batch(0, 10)) is None
    assert source.made == []


def test_sinks_that_begin_where_the_source_says_share_their_first_batch() -> None:
    source = Source("a", "b", at=None)

    assert source.take("a", batch(3, 10)) is source.take("b", batch(3, 10)) is not None


@pytest.mark.parametrize("other", [batch(0, 9), batch(0, 10, "new"), batch(1, 10)])
def test_a_batch_of_other_offsets_or_of_a_namesake_is_not_shared(other: Batch) -> None:
    source = Source("a", "b")
    assert source.take("a", batch(0, 10)) is not None

    assert source.take("b", other) is None


def test_a_batch_that_begins_nobody_knows_where_is_not_shared() -> None:
    source = Source("a", "b", at=None)
    unknown = Batch(start={P: 0}, end=TopicOffsets(ends={P: 10, Q: 10}))

    assert source.take("a", unknown) is None
    assert source.made == []


def test_a_sink_that_lags_a_little_finds_what_is_kept_for_it() -> None:
    source = Source("a", "b")
    batches = [batch(n, n + 1) for n in range(KEPT_MAX)]
    for each in batches:
        assert source.take("a", each) is not None
        source.shared.give_back("a")

    assert [source.take("b", each) for each in batches] == source.made
    source.shared.give_back("b")
    assert source.kept == []


def test_a_sink_that_is_behind_is_awaited_at_all_that_follows() -> None:
    source = Source("a", "b")
    batches = [batch(0, 1), batch(1, 2), batch(2, 3)]
    for each in batches:
        source.take("a", each)
        if each is not batches[-1]:
            source.shared.give_back("a")

    assert source.take("b", batches[0]) is source.made[0]
    source.shared.give_back("a")

    assert [source.take("b", each) for each in batches[1:]] == source.made[1:]


def test_for_a_sink_that_lags_further_nothing_is_kept_until_it_has_come_up() -> None:
    source = Source("a", "b")
    batches = [batch(n, n + 1) for n in range(KEPT_MAX + 3)]
    for each in batches[:-1]:
        source.take("a", each)
        source.shared.give_back("a")
    assert source.kept == []

    assert [source.take("b", each) for each in batches[:-1]] == [None] * (len(batches) - 1)
    assert source.take("b", batches[-1]) is source.take("a", batches[-1]) is not None


def test_what_is_awaited_by_a_sink_whose_query_ended_is_let_go() -> None:
    source = Source("a", "b")
    source.take("a", batch(0, 10))
    source.shared.give_back("a")
    assert len(source.kept) == 1

    source.shared.leaves("b")

    assert source.kept == []
    assert source.take("a", batch(10, 20)) is None
    source.stands("a", 0)
    assert source.take("a", batch(0, 10)) is None


def test_a_sink_that_begins_again_further_on_awaits_nothing_of_before() -> None:
    source = Source("a", "b")
    source.take("a", batch(0, 10))
    source.shared.give_back("a")

    source.stands("b", 10)

    assert source.kept == []
    assert source.take("a", batch(10, 20)) is source.take("b", batch(10, 20)) is not None


def test_who_comes_while_rows_are_made_waits_for_them() -> None:
    source = Source("a", "b")
    begun, goes_on = threading.Event(), threading.Event()
    found: list[Rows | None] = []

    def slowly() -> Any:
        begun.set()
        assert goes_on.wait(30)
        return source.make(batch(0, 10))

    def maker() -> None:
        rows: Any = source.shared.take("a", batch(0, 10), slowly)
        found.append(rows)

    one = threading.Thread(target=maker)
    other = threading.Thread(target=lambda: found.append(source.take("b", batch(0, 10))))
    one.start()
    assert begun.wait(30)
    other.start()
    wait_until(lambda: _waits(source), 30, "the other to wait")
    assert found == []
    goes_on.set()
    one.join(30)
    other.join(30)

    assert len(found) == 2
    assert found[0] is found[1] is source.made[0]


def _waits(source: Source) -> bool:
    share = next(iter(source.shared._shares.there.values()))
    return share.users == {"a", "b"}


def test_who_waited_for_rows_that_fail_reads_for_itself() -> None:
    source = Source("a", "b")
    begun, goes_on = threading.Event(), threading.Event()
    failures: list[str] = []
    found: list[Rows | None] = []

    def failing() -> Any:
        begun.set()
        assert goes_on.wait(30)
        raise OSError("the broker is gone")

    def maker() -> None:
        try:
            source.shared.take("a", batch(0, 10), failing)
        except OSError as error:
            failures.append(str(error))

    one = threading.Thread(target=maker)
    other = threading.Thread(target=lambda: found.append(source.take("b", batch(0, 10))))
    one.start()
    assert begun.wait(30)
    other.start()
    wait_until(lambda: _waits(source), 30, "the other to wait")
    goes_on.set()
    one.join(30)
    other.join(30)

    assert failures == ["the broker is gone"]
    assert found == [None]
    assert not source.shared._shares.there
    source.stands("a", 0)  # it is begun again, and is alone there
    assert source.take("a", batch(0, 10)) is None


ENDS = [0, 3, 5, 9, 12, 20]
STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["begin", "end", "fail", "again"])),
    max_size=60,
)


@given(STEPS, st.sampled_from([0, None]))
def test_whatever_sinks_do_each_has_its_own_rows_and_nothing_is_kept_for_nobody(
    steps: list[tuple[str, str]], at: int | None
) -> None:
    source = Source("a", "b", "c", at=at)
    done = dict.fromkeys("abc", 0)
    has: dict[str, Rows | None] = {}
    for sink, step in steps:
        if step == "begin" and sink not in has and done[sink] + 1 < len(ENDS):
            one = batch(ENDS[done[sink]], ENDS[done[sink] + 1])
            has[sink] = rows = source.take(sink, one)
            assert rows is None or rows.what == place_of(one)
        elif step in ("end", "fail") and sink in has:
            source.shared.give_back(sink)
            del has[sink]
            if step == "end":
                done[sink] += 1
            else:
                source.shared.leaves(sink)
        elif step == "again" and sink not in has:
            source.stands(sink, ENDS[done[sink]])
        used = [rows for rows in has.values() if rows is not None]
        assert all(rows.is_kept for rows in used)
        assert len([rows for rows in source.kept if rows not in used]) <= KEPT_MAX

    for sink in has:
        source.shared.give_back(sink)
    for sink in "abc":
        source.shared.leaves(sink)
    assert source.kept == []
