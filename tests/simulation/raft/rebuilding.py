"""A world whose members rebuild a damaged chain from what they had promised, as a broker does.

    python -m tests.simulation.raft.rebuilding 0 --seeds 100

Where the promises are proved (`raft/promises.py`), the damaged files are put aside and the member
starts with its term, its vote and the head that it had acknowledged; nobody restores anything.
Where they are not, or while another member is being rebuilt, somebody restores the files, as in
every other world: a block that a majority has lost may be nowhere.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from random import Random

from raft import PROMISED_FILE, MemoryFiles, find_promises, write_promised
from tests.simulation.raft.faults import draw_faults
from tests.simulation.raft.machine import Machine
from tests.simulation.raft.run import FOR_MS, NODES
from tests.simulation.raft.world import World

__all__ = ["RebuildingWorld", "rebuild_lives"]

OFTEN = {
    "disk_damaged_per_second": 4.0,
    "crash_per_second": 0.6,
    "lost_writes": 0.1,
    "torn_write": 0.1,
}
"""Most crashes spare the page cache, as a kill does: then the last promise is proved more often."""

SAME_MEMBERS = {
    "member_change_per_second": 0.0,
    "more_changes_per_second": 0.0,
    "change_broken": 0.0,
    "change_hasty": 0.0,
}


class RebuildingWorld(World):
    """Mutable; `met["chain rebuilt"]` counts the members that needed nobody."""

    def refused(self, machine: Machine) -> None:
        """Put the damaged files aside, if what they promised is proved."""
        found = find_promises(machine.disk, machine.id)
        is_alone = found.voters <= {machine.id}
        if found.state is None or is_alone or self._others_rebuild(machine):
            super().refused(machine)
            return
        self.met["chain rebuilt"] += 1
        machine.chain.was_replaced()
        machine.disk = MemoryFiles()
        write_promised(machine.disk, found.state)
        machine.config = replace(machine.config, initial_voters=())
        self.view.rebuilt[machine.id] = found.state
        self.start(machine.id)

    def _others_rebuild(self, machine: Machine) -> bool:
        """One at a time: where a majority has lost a block, nobody has to have it."""
        others = (each for each in self.machines.values() if each is not machine)
        return any(PROMISED_FILE in each.disk.names() for each in others)


def rebuild_lives(
    first: int, seeds: int, nodes: int = NODES, *, changes: bool = False
) -> Counter[str]:
    """What these seeds met. An error names its seed.

    With `changes` of members only the rules of every step are checked, not that all agree in the
    end: of two voters one may have joined the other just now, and lack what that one decided.
    """
    met: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        faults = replace(draw_faults(Random(seed)), **OFTEN, **({} if changes else SAME_MEMBERS))
        world = RebuildingWorld(seed, nodes=nodes, faults=faults)
        try:
            world.run(FOR_MS)
            if not changes:
                world.settle()
        except BaseException as error:
            error.add_note(f"seed {seed}, {nodes} nodes")
            raise
        met += world.met
        met["block committed"] += len(world.view.committed)
    return met


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run seeds of the rebuilding world.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--changes", action="store_true", help="change members, too")
    asked = parser.parse_args(arguments)
    met = rebuild_lives(asked.seed, asked.seeds, asked.nodes, changes=asked.changes)
    print(
        f"{asked.seeds} seeds, {met['block committed']} blocks committed, {met['crash']} crashes,"
        f" {met['damaged disk refused']} damaged chains, of which {met['chain rebuilt']} rebuilt,"
        " 0 violations"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
