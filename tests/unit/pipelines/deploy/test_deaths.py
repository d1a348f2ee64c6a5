"""A deploy dies at each of its steps and at each change of the disk: a table has old or new rows,
no run starts between two tables, and the next command finishes the deploy or takes it back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pipelines.base.errors import RunError
from tests.support.kill_cells import DEPLOY
from tests.unit.pipelines.deploy.deploy_world import Killed, Run, World

SWAP_PLACES = (
    *("mid_deploy:1", "mid_deploy:1@2", "mid_deploy:2", "mid_deploy:3", "mid_deploy:3@3"),
    *("mid_deploy:4", "mid_deploy:4@2", "mid_deploy:4@3"),
)
ROLLBACK_PLACES = ("mid_deploy:5", "mid_deploy:6", "mid_deploy:6@2", "mid_deploy:6@3")
NEXT = ("swap", "rollback")
SHARES = 12


def before_swap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(folder, monkeypatch)
    Run(world, "old").step()
    return world


def before_rollback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = before_swap(folder, monkeypatch)
    world.swap()
    Run(world, "new").step()
    return world


def before_abort(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = before_swap(folder, monkeypatch)
    world.fill()
    return world


COMMANDS: dict[str, tuple[Callable[..., World], Callable[[World], object], int]] = {
    "swap": (before_swap, World.swap, 100),
    "rollback": (before_rollback, World.take_back, 15),
    "abort": (before_abort, World.abort, 30),
}
"""Command → (what comes before, what it does, how often it changes the disk at least)."""


def check(world: World) -> None:
    """What holds at any moment, whoever looks or starts then."""
    kinds = {*world.kinds().values()}
    if len(kinds) > 1:
        assert not world.may_start("old"), kinds
        assert not world.may_start("new"), kinds
    if world.may_start("old"):
        assert kinds == {"old"}


def finish(world: World, command: str) -> None:
    """The next command ends it, nothing is left, and the file whose rows are there continues."""
    kind = "new" if command == "swap" else "old"
    if command == "swap":
        world.swap()
    else:
        world.take_back()
        world.abort()
    assert world.kinds() == dict.fromkeys(("dead", "lake", "more"), kind)
    assert world.leftovers() == []
    assert world.may_start(kind)
    run = Run(world, kind)
    run.step()
    assert not run.has_stopped
    assert world.kinds() == dict.fromkeys(("dead", "lake", "more"), kind)


def test_every_step_of_a_deploy_has_its_death():
    died = {place.partition("@")[0] for place in (*SWAP_PLACES, *ROLLBACK_PLACES)}

    assert died == {*DEPLOY}


@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("place", SWAP_PLACES)
def test_a_swap_that_dies_is_finished_or_taken_back(tmp_path, monkeypatch, place, then):
    world = before_swap(tmp_path, monkeypatch)
    assert world.dies(world.swap, place)

    check(world)
    finish(world, then)


@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("place", ROLLBACK_PLACES)
def test_a_rollback_that_dies_is_finished_or_deployed_again(tmp_path, monkeypatch, place, then):
    world = before_rollback(tmp_path, monkeypatch)
    assert world.dies(world.take_back, place)

    check(world)
    finish(world, then)


@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("place", SWAP_PLACES[-3:])
def test_sinks_at_different_offsets_are_swapped_after_a_death_too(
    tmp_path, monkeypatch, place, then
):
    world = before_swap(tmp_path, monkeypatch)
    Run(world, "old").step(tables=2)
    assert world.dies(world.swap, place)

    check(world)
    finish(world, then)


def killed(world: World, command: Callable[[World], object], change: int) -> bool:
    """Run a command that dies before its `change`-th change of the disk; False if it has fewer."""
    left = change

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    world.on_change = count
    try:
        command(world)
    except Killed:
        return True
    finally:
        world.on_change = lambda: None
    return False


@pytest.mark.long_proof(share=12)
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_death_at_any_change_of_the_disk_is_survived(tmp_path, monkeypatch, command, then, share):
    """Each share is every twelfth change of the disk by one command."""
    prepared, does, at_least = COMMANDS[command]
    change = share + 1
    while True:
        folder = tmp_path / str(change)
        folder.mkdir()
        with monkeypatch.context() as patch:
            world = prepared(folder, patch)
            if not killed(world, does, change):
                break
            check(world)
            finish(world, then)
        change += SHARES
    assert change > at_least


@pytest.mark.parametrize("change", [1, 2, 3])
def test_a_death_within_a_commit_leaves_no_draft_for_ever(tmp_path, monkeypatch, change):
    """The first commit of a swap, a fence: folder, link, and the removal of the draft."""
    world = before_abort(tmp_path, monkeypatch)
    assert killed(world, World.swap, change)

    check(world)
    finish(world, "rollback")


def test_a_shadow_is_whole_or_gone_at_each_change_of_its_removal(tmp_path, monkeypatch):
    world = before_abort(tmp_path, monkeypatch)
    shadows = [Path(pair.shadow) for pair in world.pairs]
    whole = {each: sorted(each.rglob("*")) for each in shadows}
    assert all(whole.values())

    def look() -> None:
        for each in shadows:
            assert not each.exists() or sorted(each.rglob("*")) == whole[each]

    world.on_change = look
    world.abort()

    assert world.leftovers() == []


def test_readers_see_old_or_new_rows_at_each_change_of_the_disk(tmp_path, monkeypatch):
    world = before_swap(tmp_path, monkeypatch)
    seen: dict[str, None] = {}
    polls = 0

    def poll() -> None:
        nonlocal polls
        polls += 1
        check(world)
        seen.setdefault(" ".join(world.kinds().values()))

    world.on_change = poll
    world.swap()
    swapped = [*seen]
    seen.clear()
    world.take_back()

    assert swapped == ["old old old", "new old old", "new new old", "new new new"]
    assert [*seen] == ["new new new", "old new new", "old old new", "old old old"]
    assert polls > 100


@pytest.mark.long_proof(share=6)
@pytest.mark.parametrize("seed", range(12))
def test_deploys_that_die_while_a_supervisor_starts_either_file(tmp_path, monkeypatch, seed):
    """Commands die at random; between two changes of the disk a run commits, stops or starts."""
    world = before_swap(tmp_path, monkeypatch)
    random = Random(seed)
    runs = [Run(world, "old")]
    dies_in = 0

    def change() -> None:
        nonlocal dies_in
        dies_in -= 1
        if dies_in == 0:
            raise Killed
        if random.random() < 0.1:
            runs[-1].step()
        if runs[-1].has_stopped and random.random() < 0.05:
            made = next((each for each in ("old", "new") if world.should_start(each)), None)
            if made:
                runs.append(Run(world, made))

    world.on_change = change
    deaths = 0
    for _ in range(16):
        dies_in = random.randint(1, 120)
        try:
            random.choice((world.swap, world.swap, world.take_back, world.abort))()
        except Killed:
            deaths += 1
        except RunError:
            pass  # "the swap has begun", "another run commits": said, and nothing is lost
        check(world)
    world.on_change = lambda: None
    finish(world, "swap")

    assert deaths > 1
