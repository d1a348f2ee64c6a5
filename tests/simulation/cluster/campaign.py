"""A campaign: thousands of fresh histories of every kind, resumable, with their sums.

    python -m tests.simulation.cluster.campaign FILE                    seeds 42000 to 46999
    python -m tests.simulation.cluster.campaign FILE --seeds 100        ... the first hundred
    python -m tests.simulation.cluster.campaign FILE --sums             what FILE has so far
    python -m tests.simulation.cluster.campaign --replay 42017          one history again

FILE gets a JSON line for each history as it ends. A run with the same FILE leaves out the seeds
that it has, so a campaign can be stopped at any time; those that failed are run again. The kind of
a history follows from its seed.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from josefine_broker.base.errors import Fatal
from raft import InvariantBroken
from tests.simulation.cluster.faults import CALM, draw_faults
from tests.simulation.cluster.limits import LIMITS
from tests.simulation.cluster.run import simulate
from tests.simulation.cluster.world import World

__all__ = ["KINDS", "kind_of_seed", "simulate_kind", "sums"]

FIRST, COUNT = 42_000, 5_000
LIMITED, SHARED, LETTERED = range(70_000, 80_000), range(80_000, 90_000), range(90_000, 100_000)
"""The seeds whose histories are all of limits, of share groups, and of those with dead letters."""
ROT = {"rot_per_second": 4.0}
BAD_NETWORK = {
    "connection_break_per_second": 0.7,
    "connection_slow": 0.05,
    "raft_delay": 0.05,
    "pause_per_second": 0.2,
    "slow_link_per_second": 0.2,
}
SUMMED = {
    "record acknowledged": "records acknowledged",
    "restart": "restarts",
    "leader elected": "elections",
    "log rotten": "disk faults",
    "partition served by a core": "partitions served by a healthy majority",
    "partition of a core starved by an outsider": "starved by an outsider",
}


def decay_alone(seed: int) -> World:
    """Disks decay under brokers that run; every other network is bad, too."""
    network = BAD_NETWORK if seed % 20 < 10 else {}
    return simulate(seed, 5_000, faults=replace(CALM, **ROT, **network))


def decay_between_kills(seed: int, **without: float) -> World:
    """Disks decay while brokers are killed, lose their power, and start again."""
    return simulate(seed, faults=replace(draw_faults(Random(seed)), **ROT, **without))


def limited(seed: int) -> World:
    """Machines run out of quota and file handles, and list directories wrongly."""
    return simulate(seed, faults=replace(draw_faults(Random(seed)), **LIMITS))


KINDS: Mapping[str, Callable[[int], World]] = {
    "all faults": simulate,
    "decay under running brokers": decay_alone,
    "decay between kills": partial(decay_between_kills, transactions=0.0),
    "decay between kills, transactions": partial(decay_between_kills, transactions=1.0),
    "healthy majority": partial(simulate, liveness=True),
    "groups": partial(simulate, forced=("groups", "consumer_groups")),
    "transactions": partial(simulate, forced=("transactions",)),
    "share groups": partial(simulate, forced=("shares",)),
    "share groups with dead letters, a mirror": partial(
        simulate, forced=("shares", "dead_letters", "mirror"), without=("upgraded",)
    ),
    "limits of machines": limited,
}
"""What a history is → how it is made from its seed."""
SHARES = (
    "all faults",
    "decay under running brokers",
    "decay between kills",
    "all faults",
    "healthy majority",
    "groups",
    "decay between kills, transactions",
    "healthy majority",
    "transactions",
    "all faults",
)
"""The kinds of ten seeds that follow each other."""


def kind_of_seed(seed: int) -> str:
    if seed in SHARED:
        return "share groups"
    if seed in LETTERED:
        return "share groups with dead letters, a mirror"
    return "limits of machines" if seed in LIMITED else SHARES[seed % len(SHARES)]


def simulate_kind(seed: int) -> World:
    """The history of this seed in a campaign."""
    return KINDS[kind_of_seed(seed)](seed)


def _line(seed: int) -> dict[str, object]:
    """What a history came to, for the file."""
    found: dict[str, object] = {"seed": seed, "kind": kind_of_seed(seed)}
    try:
        world = simulate_kind(seed)
    except (Exception, Fatal, InvariantBroken) as error:
        notes = "; ".join(getattr(error, "__notes__", []))
        return found | {"broken": f"{type(error).__name__}: {error}; {notes}"}
    met = {what: world.met[what] for what in SUMMED}
    return found | {"events": world.scheduler.events, "trace": world.scheduler.trace, "met": met}


def sums(lines: Sequence[Mapping[str, object]]) -> list[str]:
    """A line for each kind, one for all, and one for each violation."""
    rows = []
    for kind in (*KINDS, ""):
        of_kind = [each for each in lines if kind in ("", each["kind"])]
        met: Counter[str] = Counter()
        for each in of_kind:
            met.update(each.get("met", {}))  # type: ignore[call-overload]
        events = sum(each.get("events", 0) for each in of_kind)  # type: ignore[misc]
        failed = sum("broken" in each for each in of_kind)
        told = [f"{met[what]} {word}" for what, word in SUMMED.items()]
        parts = [f"{len(of_kind)} histories", f"{events} events", *told, f"{failed} violations"]
        rows.append(f"{kind or 'all'}: {', '.join(parts)}")
    broken = [f"seed {each['seed']}: {each['broken']}" for each in lines if "broken" in each]
    return [*rows, *broken]


def _read(path: Path) -> list[dict[str, object]]:
    """The last line of each seed in a campaign's file; one that a kill cut off is left out."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            each = json.loads(line)
            found[each["seed"]] = each
    return [*found.values()]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Thousands of histories, resumable.")
    parser.add_argument("file", type=Path, nargs="?", help="a JSON line for each history")
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--seeds", type=int, default=COUNT, help="how many, from the first on")
    parser.add_argument("--sums", action="store_true", help="print what the file has, and end")
    parser.add_argument("--replay", type=int, help="one history again; its error is raised")
    asked = parser.parse_args(arguments)
    if asked.replay is not None:
        world = simulate_kind(asked.replay)
        print(f"{kind_of_seed(asked.replay)}: {world.scheduler.events} events, 0 violations")
        return 0
    if asked.file is None:
        parser.error("name the file that gets the results")
    lines = _read(asked.file)
    if not asked.sums:  # the defect of a history that failed may be fixed
        lines = [each for each in lines if "broken" not in each]
    seeds = range(asked.first, asked.first + asked.seeds)
    has = {each["seed"] for each in lines}
    with asked.file.open("a") as out:
        for seed in seeds if not asked.sums else ():
            if seed in has:
                continue
            lines.append(_line(seed))
            out.write(f"{json.dumps(lines[-1])}\n")
            out.flush()
            if "broken" in lines[-1]:
                print(f"seed {seed}: {lines[-1]['broken']}", flush=True)
    print("\n".join(sums(lines)))
    return 1 if any("broken" in each for each in lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
