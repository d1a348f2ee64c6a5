"""Who waits for a place of the log is told when the store has it, and not before."""

import asyncio
from pathlib import Path

import pytest

from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import JournalError
from josefine_journal.events import Event, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.notifying import Notifier
from josefine_journal.records import PartitionOffset
from josefine_journal.replicating import Replicating
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog

FIRST, SECOND = (PartitionOffset(partition=0, offset=n) for n in range(2))


class World:
    """A topic, and a replicator of it that stores an append at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = MemoryLog(1, per_fetch=1)
        self.store = DeltaStore(root, "t", None)
        self.notifier = Notifier()

    async def append(self, number: int) -> PartitionOffset:
        journal = Journals(None, "t", log=self.log).journal("id")
        return await journal.append([Event(seq_nr=SeqNr(number))])

    def replicating(self) -> Replicating:
        return Replicating(
            Replicator(self.log, self.store, (0,), batch_bytes_max=1),
            self.store,
            tell_round=lambda found: None,
            tell_trouble=lambda error, wait_ms: None,
            notifier=self.notifier,
        )

    def visible(self) -> int:
        """As another process finds it."""
        return DeltaStore(self.root, "t", None).snapshot((0,)).replicated(0) or 0


def test_a_waiter_is_told_behind_the_commit_and_never_before_it(tmp_path: Path) -> None:
    """Checklist row 79. The commit is held at each of its steps, and finds nobody told."""

    async def run() -> None:
        world, loop = World(tmp_path), asyncio.get_running_loop()
        assert (await world.append(1), await world.append(2)) == (FIRST, SECOND)
        waiting = [
            asyncio.ensure_future(world.notifier.reached("t", place)) for place in (FIRST, SECOND)
        ]
        found: list[tuple[str, int, int]] = []

        async def look(step: str) -> None:
            found.append((step, world.visible(), sum(each.done() for each in waiting)))

        def held(step: str) -> None:
            asyncio.run_coroutine_threadsafe(look(step), loop).result()

        world.store.at = held
        await world.replicating().run(until_caught_up=True)
        await asyncio.gather(*waiting)

        commits = [each for each in found if each[0] in ("before_commit", "after_commit")]
        assert commits == [
            ("before_commit", 0, 0),
            ("after_commit", 1, 0),
            ("before_commit", 1, 1),
            ("after_commit", 2, 1),
        ]
        await world.notifier.reached("t", SECOND)  # who asks later is told at once

    asyncio.run(run())


def test_a_commit_of_which_its_replicator_did_not_learn_is_told_by_the_next_one(
    tmp_path: Path,
) -> None:
    """Checklist row 79."""

    async def run() -> None:
        world = World(tmp_path)
        await world.append(1)
        waiting = asyncio.ensure_future(world.notifier.reached("t", FIRST))

        def lose(step: str) -> None:
            if step == "after_commit":
                raise OSError("it dies here")

        world.store.at = lose
        replicating = world.replicating()
        replicating.stop()
        await replicating.run()  # a last round, which fails
        assert (world.visible(), waiting.done()) == (1, False)

        world.store.at = lambda step: None
        await world.replicating().run(until_caught_up=True)
        await waiting

    asyncio.run(run())


def test_a_process_that_does_not_replicate_waits_for_the_store(tmp_path: Path) -> None:
    """Checklist row 79. And is told what is missing when it does not come."""

    async def run() -> None:
        world = World(tmp_path)
        await world.append(1)
        journals = Journals(None, "t", log=world.log, store=tmp_path)
        waiting = asyncio.ensure_future(journals.replicated(FIRST))
        await world.replicating().run(until_caught_up=True)
        await waiting
        late = "t-0 offset 1 was not replicated within 0.01 s: the store has the partition up to 1"
        with pytest.raises(JournalError, match=late):
            await world.notifier.reached("t", SECOND, timeout_s=0.01)
        with pytest.raises(JournalError, match="t-0 offset 1 was not replicated"):
            await journals.replicated(SECOND, timeout_s=0.3)
        with pytest.raises(JournalError, match="no store is given for topic 't'"):
            await Journals(None, "t", log=world.log).replicated(FIRST)

    asyncio.run(run())
