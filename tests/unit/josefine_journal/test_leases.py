"""Who has which topic: shares, locks, and what happens when one is gone."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from josefine_journal.dead_letters import SUFFIX
from josefine_journal.errors import JournalError
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.leases import Leases, Share, share
from josefine_journal.records import event_records
from josefine_journal.replicating import Replicating
from josefine_journal.replicator import Replicator
from josefine_journal.sharing import DISCOVERY_MS, Sharing
from tests.support.journal_world import MemoryLog, MemoryStore
from tests.support.waiting import wait_until_async

WAIT_S = 60.0


@pytest.mark.parametrize(
    ("topics", "held", "members", "found"),
    [
        ("abc", "", 1, Share(drop=[], take=["a", "b", "c"], room=3)),
        ("abc", "abc", 2, Share(drop=["c"], take=[], room=0)),
        ("abc", "c", 2, Share(drop=[], take=["a", "b"], room=1)),
        ("ab", "ax", 2, Share(drop=["x"], take=["b"], room=0)),
        ("", "a", 1, Share(drop=["a"], take=[], room=0)),
    ],
)
def test_a_share_is_the_topics_by_the_members_rounded_up(
    topics: str, held: str, members: int, found: Share
) -> None:
    assert share(list(topics), list(held), members) == found


def test_a_topic_has_one_holder_and_the_next_when_it_is_dropped(tmp_path: Path) -> None:
    one, other = Leases(tmp_path), Leases(tmp_path)

    assert (one.members(), other.members(), one.members()) == (1, 2, 2)
    assert (one.take("t"), other.take("t"), one.take("t")) == (True, False, True)
    one.drop("t")
    assert other.take("t")
    other.close()
    assert (one.take("t"), one.members(), Leases(tmp_path).members()) == (True, 1, 2)


class World:
    """Topics in memory, and replicators that share them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs: dict[str, MemoryLog] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.failed: list[str] = []
        self.broken: set[str] = set()

    def add(self, name: str) -> None:
        self.logs[name], self.stores[name] = MemoryLog(1, name), MemoryStore()

    async def write(self, count: int) -> None:
        """So many events to each topic that is there now."""
        logs = list(self.logs.values())
        for number, log in product(range(1, count + 1), logs):
            journal = Journals(None, log.topic, log=log).journal("id")
            await journal.append([Event(seq_nr=SeqNr(number), payload=Json(number))])
            await until("it is stored, nearly", partial(self.has, log.topic, number - 20))

    def has(self, topic: str, end: int) -> bool:
        """Whether its store reaches that far."""
        return self.stores[topic].newest.ends.get(0, 0) >= end

    async def topics(self) -> Sequence[str]:
        return [*self.logs, "t1" + SUFFIX]

    def sharing(self) -> Sharing:
        async def opened(topic: str) -> Replicating:
            if topic in self.broken:
                raise JournalError("it is broken")
            replicator = Replicator(self.logs[topic], self.stores[topic], (0,))
            return Replicating(
                replicator,
                self.stores[topic],  # type: ignore[arg-type]
                tell_round=lambda found: None,
                tell_trouble=lambda error, wait_ms: None,
                interval_ms=5,
            )

        return Sharing(
            Leases(self.root),
            topics=self.topics,
            opened=opened,
            tell_failed=lambda topic, error: self.failed.append(topic),
            discovery_ms=5,
            failed_ms=20,
        )


async def until(what: str, is_so: Callable[[], bool]) -> None:
    await wait_until_async(is_so, WAIT_S, what)


def test_replicators_share_topics_take_new_ones_and_those_of_one_that_ended(
    tmp_path: Path,
) -> None:
    """Checklist rows 74 and 75. Topics are looked for every 3 s, here sooner."""
    assert DISCOVERY_MS == 3_000
    world = World(tmp_path)
    for name in ("t1", "t2", "t3"):
        world.add(name)

    async def run() -> None:
        one, other = world.sharing(), world.sharing()
        first = asyncio.create_task(one.run())
        await until("one has all", lambda: one.topics == ["t1", "t2", "t3"])
        second = asyncio.create_task(other.run())
        writing = asyncio.create_task(world.write(400))
        await until("they share", lambda: len(other.topics) == 1 and len(one.topics) == 2)
        assert sorted([*one.topics, *other.topics]) == ["t1", "t2", "t3"]
        world.add("t4")
        await until("a new one is taken", lambda: len(other.topics) == 2)
        one.stop()
        await first
        await until("the other has all", lambda: len(other.topics) == 4)
        await writing
        for name in ("t1", "t2", "t3"):
            await until("all is stored", partial(world.has, name, 400))
        other.stop()
        await second
        for name in ("t1", "t2", "t3"):
            rows = world.stores[name].newest.rows[0, "id"]
            assert [event_records(each)[0].event.seq_nr for each in rows] == list(range(1, 401))

    asyncio.run(run())


def test_a_topic_that_fails_is_told_and_stops_no_other(tmp_path: Path) -> None:
    """Checklist row 74."""
    world = World(tmp_path)
    world.add("t1")
    world.add("t2")
    world.broken.add("t1")

    async def run() -> None:
        sharing = world.sharing()
        running = asyncio.create_task(sharing.run())
        await until("it fails again and again", lambda: world.failed == ["t1", "t1"])
        assert sharing.topics == ["t2"]
        world.broken.clear()
        await until("it goes on", lambda: sharing.topics == ["t1", "t2"])
        sharing.stop()
        await running

    asyncio.run(run())
