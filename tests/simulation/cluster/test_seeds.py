"""Random lives of whole clusters: every seed has its own mixture of faults.

More of them: ./build.sh test sim --of cluster --seeds N --seed S. One again: see run.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from tests.simulation.cluster.faults import (
    CALM,
    COUNTED,
    COUNTED_OF_CONSUMERS,
    COUNTED_OF_TRANSACTIONS,
    NEW_SINCE,
    NEWEST,
    draw_faults,
)
from tests.simulation.cluster.run import WORDS, live, simulate
from tests.simulation.cluster.world import World
from tests.simulation.lives import Share, live_share, traces_of_two_processes

pytestmark = pytest.mark.timeout(900)
"""Whichever test comes first lives all the lives."""

SEEDS = (
    *range(100),
    *(
        106,
        109,
        110,
        113,
        124,
        130,
        135,
        141,
        143,
        144,
        146,
        147,
        163,
        169,
        172,
        176,
        177,
        181,
        182,
    ),
    *(
        151,
        161,
        187,
        196,
        205,
        212,
        216,
        226,
        232,
        237,
        241,
        256,
        263,
        285,
        291,
        300,
        342,
        344,
        357,
    ),
    *(389, 395, 579, 672, 689, 790),
)
"""Without transactions, so that each goes on meaning what it meant; the later ones for faults that
few lives have. More of them by hand: see above."""

TRANSACTION_SEEDS = range(1_000, 1_028)
"""With transactions, all of them, and a participant of a two-phase commit in each."""

CONSUMER_SEEDS = range(2_000, 2_020)
"""With a group of the consumer protocol, all of them. 2013 once found a follower that was not told
a high watermark again whose answer it had passed over."""

MIGRATING_SEEDS = range(2_100, 2_104)
"""With classic members in that group, all of them."""

REGRESSIONS: tuple[int, ...] = (
    40, 97, 159, 1111, 1398, 5062, 5081, 30178, 30609, 9900005, 9900070,
)  # fmt: skip
"""Seeds that once found a fault, in the broker or in the simulator, when they still meant that."""

REGRESSIONS_SINCE = (1002, 1188, 1294, 4005)
"""With damaged files and chains: a producer told of a gap behind a batch that was cut away again; a
follower that could not cut its log, for an index was damaged; a leader epoch that there was not
yet; a producer told of a gap behind records that were deleted, by brokers that had started anew."""

REGRESSIONS_AS_DRAWN = (214326,)
"""With all their faults but those that came later: a join of a connection that was given up, heard
when its member had been let in again by a later one, gave away what that member had."""

REGRESSIONS_OF_BOTH = (217750,)
"""A classic group whose record was left by one of the consumer protocol, with partitions that
nobody had, became one again by a member that the record named: nobody was given them."""

REGRESSIONS_WITH_BOTH_STATES = 4646289, 4646315, 4646141
"""With groups and transactions: a coordinator that stood still refused the commit of a transaction
that its successor had begun; a damaged replica whose log ended within a batch of its leader; one
whose epochs were lost, repaired again and again with the end of an earlier leader."""

REGRESSIONS_WITH_GROUPS = (400078, 400324, 400304, 20106)
"""A member whose group went with its records told so of a commit; a producer that went on under an
epoch that its next process had been given meanwhile; a broker that stood still while it was removed
and refused its old controller, the only one it asked, which had lost its data, at each start; a
member that joined and synced again in a stable group, and lost its partitions before its first
heartbeat, because neither had renewed its session."""

HAPPENS_MIN = 10
"""How often each fault must have hit in all these lives together."""


DAILY = 4
"""One of so many lives belongs to the tests of every day."""
SHARE_SEEDS = range(2_200, 2_208)
"""With a share group that has dead letters, and a mirror."""
LIVES = [
    pytest.param(DAILY, id="daily"),
    pytest.param(1, id="all", marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
]
HAPPENS_DAILY = 0.8
"""This share of what is counted happens in the lives of a day."""

Request = pytest.FixtureRequest


def lived(request: Request, seeds: Sequence[int], **how: Sequence[str]) -> Share:
    """The lives that tests look at together: of a day, or all."""
    step: int = request.param
    return live_share(partial(live, **how), seeds[::step], WORDS, is_whole=step == 1)


@pytest.fixture(scope="module", params=LIVES)
def share(request: Request) -> Share:
    return lived(request, SEEDS, without=("transactions",))


@pytest.fixture(scope="module", params=LIVES)
def with_transactions(request: Request) -> Share:
    return lived(request, TRANSACTION_SEEDS, forced=("transactions", "two_phase"))


@pytest.fixture(scope="module", params=LIVES)
def with_consumers(request: Request) -> Share:
    forced = ("groups", "consumer_groups")
    return lived(request, CONSUMER_SEEDS, forced=forced, without=("transactions", "migrating"))


@pytest.fixture(scope="module", params=LIVES)
def with_both(request: Request) -> Share:
    forced = ("groups", "consumer_groups", "migrating")
    return lived(request, MIGRATING_SEEDS, forced=forced, without=("transactions",))


@pytest.fixture(scope="module", params=LIVES)
def with_shares(request: Request) -> Share:
    forced = ("shares", "dead_letters", "mirror")
    return lived(
        request, SHARE_SEEDS, forced=forced, without=("groups", "transactions", "upgraded")
    )


def check_what_happens(share: Share, counted: Sequence[str], at_least: int) -> None:
    """Everything that is counted, in all lives; nearly everything, once, in those of a day."""
    met = share.total.met
    if share.is_whole:
        assert [what for what in counted if met[what] < at_least] == []
    else:
        missing = [what for what in counted if not met[what]]
        assert len(missing) <= (1 - HAPPENS_DAILY) * len(counted), missing


def test_no_mixture_of_faults_breaks_a_promise(
    share: Share, record_property: Callable[[str, object], None]
) -> None:
    """Checklist rows 10, 14, 15, 35, 36 and 94. Row 94's clocks jump only here."""
    record_property("told", share.total.line())

    assert share.total.broken == []


def test_every_named_fault_really_happens(share: Share) -> None:
    check_what_happens(share, COUNTED, HAPPENS_MIN)


def test_no_mixture_of_faults_breaks_a_transaction(
    with_transactions: Share, record_property: Callable[[str, object], None]
) -> None:
    record_property("told", with_transactions.total.line())

    assert with_transactions.total.broken == []


def test_whatever_befalls_transactions_really_happens(with_transactions: Share) -> None:
    check_what_happens(with_transactions, COUNTED_OF_TRANSACTIONS, 1)


def test_no_mixture_of_faults_breaks_a_group_of_the_consumer_protocol(
    with_consumers: Share, record_property: Callable[[str, object], None]
) -> None:
    record_property("told", with_consumers.total.line())

    assert with_consumers.total.broken == []


def test_whatever_befalls_a_consumers_member_really_happens(with_consumers: Share) -> None:
    check_what_happens(with_consumers, COUNTED_OF_CONSUMERS, 1)


def test_no_mixture_of_faults_breaks_a_group_of_both_protocols(with_both: Share) -> None:
    total = with_both.total

    assert total.broken == []
    assert total.met["classic member let in by a consumer group"] > 0
    if with_both.is_whole:
        assert total.met["classic member let in by a consumer group"] > 5 * total.seeds
        assert total.met["classic member counted itself out"] > 0
        assert total.met["classic member left to its own protocol"] > 0


def test_no_mixture_of_faults_breaks_a_share_group(with_shares: Share) -> None:
    total = with_shares.total

    assert total.broken == []
    for what in (
        "record acquired again", "record finished", "share group settled", "plain share fetch",
        "plain heartbeat of a share group",
        "dead letter committed", "mirror equal to its source",
    ):  # fmt: skip
        assert total.met[what] > 0, what


def test_every_life_is_worth_its_time(share: Share) -> None:
    """None is so broken that nothing happens in it, and hardly anything is excused."""
    assert min(life.events for life in share.lives) > 1_000
    assert min(life.met["record acknowledged"] for life in share.lives) > 3
    assert share.total.met["record acknowledged"] > 100 * share.total.seeds
    assert share.total.met["batch read"] > 100 * share.total.seeds
    assert share.total.met["leader elected"] > 3 * share.total.seeds
    assert share.total.met["partition excused"] < 0.1 * share.total.met["partition"]


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    simulate(seed, faults=replace(draw_faults(Random(seed)), **NEW_SINCE))


@pytest.mark.parametrize("seed", REGRESSIONS_SINCE)
def test_what_was_found_since_stays_mended(seed: int) -> None:
    simulate(seed, faults=replace(draw_faults(Random(seed)), **NEWEST))


@pytest.mark.parametrize("seed", REGRESSIONS_OF_BOTH)
def test_what_was_found_with_both_protocols_stays_mended(seed: int) -> None:
    simulate(seed, forced=("groups", "consumer_groups", "migrating"))


@pytest.mark.parametrize("seed", REGRESSIONS_WITH_GROUPS)
def test_what_was_found_with_groups_stays_mended(seed: int) -> None:
    simulate(seed, forced=("groups",))


@pytest.mark.parametrize("seed", REGRESSIONS_WITH_BOTH_STATES)
def test_what_was_found_with_groups_and_transactions_stays_repaired(seed: int) -> None:
    simulate(seed, forced=("groups", "transactions"))


@pytest.mark.parametrize("seed", REGRESSIONS_AS_DRAWN)
def test_what_was_found_with_every_fault_stays_mended(seed: int) -> None:
    simulate(seed, without=("migrating",))


def test_a_seed_replays_byte_for_byte_in_another_process() -> None:
    """Nothing may hang on the order of a set of strings, or on an address."""
    first, second = traces_of_two_processes("tests.simulation.cluster.run", seed=11)

    assert first == second
    assert first.count(b"\n") > 300


def test_without_faults_nothing_is_refused_or_late() -> None:
    world = World(1, brokers=3, faults=CALM)
    world.scheduler.run(8_000)
    world.settle()

    assert world.met["produce without an answer"] == 0
    assert not [what for what in world.met if what.startswith("producer told")]
    assert world.met["record acknowledged"] > 200
    assert world.met["leader elected"] == 0
