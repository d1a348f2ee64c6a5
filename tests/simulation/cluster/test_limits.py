"""Whole clusters whose machines run out of file handles and quota, and list directories wrongly.

More of them: `python -m tests.simulation.cluster.campaign FILE --first 70000 --seeds 500`.
"""

from collections import Counter

from tests.simulation.cluster.campaign import (
    FIRST,
    KINDS,
    LETTERED,
    SHARED,
    SHARES,
    kind_of_seed,
    simulate_kind,
    sums,
)

SEEDS = range(70_000, 70_006)


def test_brokers_without_file_handles_or_quota_lose_nothing_and_go_on() -> None:
    met: Counter[str] = Counter()

    for seed in SEEDS:
        met += simulate_kind(seed).met

    assert met["no file handles"]
    assert met["quota exhausted"]
    assert met["listing misses a segment"] + met["listing shows a segment that is gone"]


def test_campaign_has_histories_of_every_kind_and_sums_them_up() -> None:
    seeds = *range(FIRST, FIRST + len(SHARES)), SEEDS[0], SHARED[0], LETTERED[0]
    kinds = {kind_of_seed(seed) for seed in seeds}
    line = {"seed": 1, "kind": "groups", "events": 7, "met": {"restart": 2}}
    broken = {"seed": 2, "kind": "groups", "broken": "AssertionError: a rule"}

    told = sums([line, broken])

    assert kinds == set(KINDS)
    (groups,) = (each for each in told if each.startswith("groups: "))
    assert groups.startswith("groups: 2 histories, 7 events, 0 records acknowledged, 2 restarts")
    assert groups.endswith("1 violations")
    assert told[-1] == "seed 2: AssertionError: a rule"
