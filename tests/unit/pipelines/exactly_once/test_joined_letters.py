"""The dead letters of two sources that are joined, and have sinks of their own: none is missing,
none is there twice, and a table of them that was restored is found out, whatever dies."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.exactly_once.checkpoint_start import dead_letters_gone
from pipelines.exactly_once.dead_letter_chain import NOTHING_DUE, Lettering, said_by
from pipelines.exactly_once.offset_chain import Batch, Stop, Tip

ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 0)
OF = {"orders": ORDERS, "paid": PAID}
READS = (("orders", "paid"), ("orders",), ("paid",))
"""What each sink reads: the first one joins."""
WHERE = "/dead"


class Chain:
    def __init__(self, tip: Tip | None) -> None:
        self.tip = tip

    def follow(self, tip: Tip | None) -> None:
        self.tip = tip


class World:
    """What outlives a run. `history`: of each source's letters' table the commits' tips; `said`:
    each sink's last commit."""

    def __init__(self, order: list[int], bad: dict[str, set[int]]) -> None:
        self.order, self.bad = order, bad
        self.history: dict[str, list[Tip]] = {name: [] for name in OF}
        self.letters: dict[str, Counter[int]] = {name: Counter() for name in OF}
        self.said: list[Tip | None] = [None] * len(READS)
        self.at = [{OF[name]: 0 for name in reads} for reads in READS]
        self.vouched = dict.fromkeys(OF, 0)
        """Up to where the table had commits when the sink that leads last committed."""
        self.planned: list[ByPartition | None] = [None] * len(READS)
        """A batch that died: Spark plans it again."""

    def newest(self, name: str) -> Tip | None:
        return self.history[name][-1] if self.history[name] else None

    def leads(self, sink: int, name: str) -> bool:
        return next(one for one in self.order if name in READS[one]) == sink

    def restore(self, name: str, back: int) -> None:
        """The letters' table of a source to so many commits before."""
        self.history[name] = self.history[name][: max(0, len(self.history[name]) - back)]


class Run:
    """All sinks settled in the file's order, as `Settling` does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.letterings: dict[str, Lettering[Chain]] = {}
        self.gone: set[str] = set()
        for sink in world.order:
            for name in READS[sink]:
                others = {other for other in READS[sink] if other != name}
                if world.leads(sink, name):
                    found = world.newest(name)
                    if dead_letters_gone(world.said[sink], found, WHERE, others):
                        self.gone.add(name)
                    self.letterings[name] = Lettering(Chain(found), WHERE)
                    self.letterings[name].begins(found, found)
                self.letterings[name].stands_behind(world.said[sink], others)

    def batch(self, sink: int, more: tuple[int, int], dies: int) -> bool:
        """One of a sink; `dies` after so many commits, -1 never. Whether the run lives on."""
        world = self.world
        steps = dict(zip(("orders", "paid"), more, strict=True))
        end = world.planned[sink] or {
            OF[name]: world.at[sink][OF[name]] + steps[name] for name in READS[sink]
        }
        world.planned[sink] = end
        ids = {name: f"id-{name}" for name in READS[sink]}
        whole = Batch(start=world.at[sink], end=TopicOffsets(ends=end, topic_ids=ids))
        for number, name in enumerate(READS[sink]):
            if dies == number:
                return False
            self._write_letters(sink, name, whole.of_topics({name}))
        if dies >= len(READS[sink]):
            return False
        letterings = [self.letterings[name] for name in READS[sink]]
        said = {"dead_letters": WHERE, **said_by(letterings)}
        world.said[sink] = Tip(reached=whole.end, txn_version=1, said=said)
        for name in READS[sink]:
            if world.leads(sink, name) and (newest := world.newest(name)):
                world.vouched[name] = newest.reached.ends[OF[name]]
        world.at[sink], world.planned[sink] = dict(end), None
        return True

    def _write_letters(self, sink: int, name: str, part: Batch) -> None:
        world, lettering = self.world, self.letterings[name]
        assert {p[0] for p in (*part.end.ends, *part.start)} == {name}
        said = world.said[sink]
        known = said.reached.ends if said else {}
        due = lettering.due(part, known, writes_rows=True, leads=world.leads(sink, name))
        assert not isinstance(due, Stop)
        if due == NOTHING_DUE or due.commit is None:
            return  # one file all the time: nothing is to be looked for below
        skip = due.commit.skip_below.get(OF[name], 0)
        start = max(part.starts.get(OF[name], 0), skip)
        bad = {o for o in range(start, part.end.ends[OF[name]]) if o in world.bad[name]}
        if not bad:
            lettering.passes(due.commit)
            return
        world.letters[name].update(bad)
        tip = Tip(reached=due.commit.end, txn_version=due.commit.txn_version)
        assert [*tip.reached.ends] == [OF[name]]
        world.history[name].append(tip)
        lettering.chain.follow(tip)
        lettering.wrote(due.commit)


STEP = st.tuples(
    st.integers(0, len(READS) - 1),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.integers(-1, 3),
)
BAD = st.sets(st.integers(0, 25), max_size=8)


@given(
    st.permutations(range(len(READS))),
    st.fixed_dictionaries({"orders": BAD, "paid": BAD}),
    st.lists(STEP, max_size=25),
    st.sampled_from(["orders", "paid"]),
    st.integers(0, 3),
)
def test_each_bad_record_of_either_side_has_one_letter_and_a_restored_table_is_found_out(
    order: list[int],
    bad: dict[str, set[int]],
    steps: list[tuple[int, tuple[int, int], int]],
    restored: str,
    back: int,
) -> None:
    world = World(order, bad)
    run = Run(world)
    for sink, more, dies in steps:
        lives = run.batch(sink, more, dies)
        for name, partition in OF.items():
            read = max(world.at[one][partition] for one in range(3) if name in READS[one])
            assert {o for o in bad[name] if o < read} <= {*world.letters[name]}
            assert max(world.letters[name].values(), default=0) <= 1
        if not lives:
            run = Run(world)
            assert run.gone == set()
    world.restore(restored, back)
    now = world.newest(restored)
    lacks = (now.reached.ends.get(OF[restored], 0) if now else 0) < world.vouched[restored]
    assert Run(world).gone == ({restored} if lacks else set())
