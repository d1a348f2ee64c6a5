"""Random worlds: every seed is a life of a cluster with its own mixture of faults.

More of them: ./build.sh test sim --seeds N --seed S. One again: see run.py.
"""

from collections.abc import Callable
from functools import partial

import pytest

from raft import Result
from tests.simulation.lives import Share, live_share, traces_of_two_processes
from tests.simulation.raft.faults import CALM, COUNTED, NEWEST
from tests.simulation.raft.liveness import LASTING
from tests.simulation.raft.run import WORDS, live, simulate
from tests.simulation.raft.world import World

pytestmark = pytest.mark.timeout(600)
"""Whichever test comes first lives all the lives."""

SEEDS = range(300)
SMALL = {1: range(10), 2: range(30), 3: range(30), 4: range(20)}
"""Nodes → seeds: in small clusters other things are rare."""

REGRESSIONS = tuple(
    (seed, 5) for seed in (100947, 102679, 103240, 103816, 104300, 104830, 105905, 406153)
)
"""(seed, nodes) that once found a fault in the simulator as it was before the faults NEW_SINCE."""
NEW_SINCE = {
    "gone_told": 0.0,
    "gone_wrongly_told_per_second": 0.0,
    "birth_broken": 0.0,
    "snapshot_of_all": 0.0,
    "sender_breaks_per_second": 0.0,
    "more_changes_per_second": 0.0,
    "change_broken": 0.0,
    "change_hasty": 0.0,
} | NEWEST

REGRESSIONS_SINCE = (910005, 910007, 910016)
"""With all faults: a birth that locked its node out; two leaders' snapshots put together; two
changes of members in flight (a mutant: the library never did)."""

HAPPENS_MIN = 18
"""How often each fault must have hit in all these lives together."""


DAILY = 4
"""One of so many lives belongs to the tests of every day."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(DAILY, id="daily"), pytest.param(1, id="all", marks=pytest.mark.slow)],
)
def share(request: pytest.FixtureRequest) -> Share:
    step: int = request.param
    return live_share(live, SEEDS[::step], WORDS, is_whole=step == 1)


def test_no_mixture_of_faults_breaks_a_rule(
    share: Share, record_property: Callable[[str, object], None]
) -> None:
    """Checklist rows 2-4, 6-11, 15 and 16, as far as the library goes: after every step of every
    life all of invariants/ holds."""
    record_property("told", share.total.line())

    assert share.total.broken == []


def test_every_named_fault_really_happens(share: Share) -> None:
    at_least = HAPPENS_MIN if share.is_whole else 1

    assert [what for what in COUNTED if share.total.met[what] < at_least] == []


def test_every_life_is_worth_its_time(share: Share) -> None:
    """None is so broken that nothing happens in it."""
    assert min(life.events for life in share.lives) > 500
    assert min(life.met["block committed"] for life in share.lives) > 10
    assert share.total.met["block committed"] > 100 * share.total.seeds
    assert share.total.met["election won"] > 2 * share.total.seeds


@pytest.mark.parametrize("nodes", SMALL)
def test_small_clusters_keep_the_rules_too(nodes: int) -> None:
    share = live_share(partial(live, nodes=nodes), SMALL[nodes], WORDS)

    assert share.total.broken == []


@pytest.mark.parametrize(("seed", "nodes"), REGRESSIONS)
def test_what_was_found_once_stays_mended(seed: int, nodes: int) -> None:
    simulate(seed, nodes, without=NEW_SINCE)


@pytest.mark.parametrize("seed", REGRESSIONS_SINCE)
def test_what_was_found_since_stays_mended(seed: int) -> None:
    simulate(seed, without=NEWEST)


LIVENESS_SEEDS = range(2_000, 2_040)


def test_a_healthy_majority_works_while_the_others_stay_broken_for_ever() -> None:
    share = live_share(partial(live, liveness=True), LIVENESS_SEEDS, WORDS)

    assert share.total.broken == []
    assert share.total.met["core worked"] == len(LIVENESS_SEEDS)
    assert [what for what in LASTING if not share.total.met[what]] == []


def test_a_seed_replays_event_for_event() -> None:
    first, second = simulate(11), simulate(11)

    assert (first.trace, first.events) == (second.trace, second.events)


def test_a_seed_replays_byte_for_byte_in_another_process() -> None:
    """Nothing may hang on the order of a set of strings, or on an address."""
    first, second = traces_of_two_processes("tests.simulation.raft.run", seed=11)

    assert first == second
    assert first.count(b"\n") > 1000


def test_without_faults_every_proposal_is_committed() -> None:
    world = World(1, nodes=5, faults=CALM)
    world.run(2_000)  # some did not wait for the first leader
    before = world.results()
    world.run(5_000)
    world.settle()

    results = world.results()
    assert results[Result.COMMITTED] > before[Result.COMMITTED] + 100
    assert {**results, Result.COMMITTED: 0} == {**before, Result.COMMITTED: 0}
