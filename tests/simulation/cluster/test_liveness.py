"""A majority of the brokers serves while all others stay broken for ever (liveness.py).

More of them: `python -m tests.simulation.cluster.run 0 --seeds 500 --liveness`, and `--limits`.
"""

from functools import partial

import pytest

from josefine_broker.engine.cluster.enrolment import Enrolment
from josefine_broker.engine.controller.controller import Controller
from josefine_broker.engine.limits.lasting_limit import LastingLimit
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.host.log.log_sync import LogSync
from tests.simulation.cluster.liveness import LASTING, LIMITS
from tests.simulation.cluster.run import WORDS, live, simulate
from tests.simulation.lives import live_share
from tests.simulation.mutating import Mutant, mutated

pytestmark = pytest.mark.timeout(300)

SEEDS = (1, 4, 5, 7, 8, 9, 10, 25)
"""Among them each lasting fault, and clusters of three and of five."""
LIMITED_SEEDS = (1, 4, 107)


MUTANTS = [
    Mutant(
        breaks="a log whose appends go on failing has failed",
        function=LogSync.refused,
        old="count + 1 >= REFUSALS_MAX",
        new="False",
        seed=1,
    ),
    Mutant(
        breaks="a broker that cannot write leads nothing",
        function=Enrolment.step,
        old="bool(ctx.storage.trouble)",
        new="False",
        seed=1,
    ),
    Mutant(
        breaks="a broker that is not heard of is fenced",
        function=Controller._judge,
        old="now_ms < contact.heard_at_ms + self.config.session_timeout_ms",
        new="contact is not None",
        seed=2,
    ),
]


def test_a_majority_serves_while_the_others_stay_broken_for_ever() -> None:
    share = live_share(partial(live, liveness=True), SEEDS, WORDS)

    assert share.total.broken == []
    assert share.total.met["partition served by a core"] > 2 * len(SEEDS)
    assert [what for what in LASTING if not share.total.met[what]] == []
    assert share.total.met["log of a core healed"]


def test_damage_of_a_core_is_noticed_where_no_repair_is_made() -> None:
    mutant = Mutant(
        breaks="the core's logs heal without the others",
        function=Repairs.step,
        old="if not self._damaged.logs and not self._open:",
        new="if True:",
        seed=4,
    )

    with mutated(mutant), pytest.raises(AssertionError, match=r"the core .* does not heal"):
        simulate(mutant.seed, liveness=True)


def test_a_majority_serves_while_the_others_are_at_a_limit_of_their_machines_for_ever() -> None:
    """They can do all but write: their leaderships move, in the metadata, too."""
    share = live_share(partial(live, limits=True), LIMITED_SEEDS, WORDS)

    assert share.total.broken == []
    assert share.total.met["limit that lasts"]
    assert [what for what in LIMITS if not share.total.met[what]] == []


def test_a_leader_that_keeps_its_partitions_at_a_limit_is_noticed() -> None:
    mutant = Mutant(
        breaks="a limit that lasts is a reason to hand over",
        function=LastingLimit.refused,
        old="found.times >= REFUSALS_MIN",
        new="False",
        seed=LIMITED_SEEDS[0],
    )

    with mutated(mutant), pytest.raises(AssertionError, match=r"the core .* does not serve"):
        simulate(mutant.seed, limits=True)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_of_handing_over_is_noticed(mutant: Mutant) -> None:
    with mutated(mutant), pytest.raises(AssertionError, match=r"the core .* does not serve"):
        simulate(mutant.seed, liveness=True)
