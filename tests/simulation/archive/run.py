"""Run seeds: one history of an archived topic each.

python -m tests.simulation.archive.run SEED            replay one, with what it met
python -m tests.simulation.archive.run 0 --seeds 1000  a thousand histories, on all cores
"""

import sys
import tempfile
from pathlib import Path

from tests.simulation import lives
from tests.simulation.archive.world import World
from tests.simulation.lives import Life

__all__ = ["live", "simulate"]

EVENTS = 600
MEMORY = Path("/dev/shm")
"""Delta logs are written there if it exists: nothing in here is about disks."""
WORDS = {
    "record deleted locally": "records deleted locally",
    "record read from the archive": "records read from archives",
    "commit": "commits",
    "kill": "kills",
}


def simulate(seed: int, events: int = EVENTS) -> World:
    """One history; an error names the line that replays it."""
    where = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="josefine-archive-", dir=where) as folder:
        world = World(seed, Path(folder))
        with lives.naming_replay(f"archive.run {seed}", world), world.running():
            world.run(events)
    return world


def live(seed: int, *, show: bool = False) -> Life:
    """`simulate`, and what was met."""
    world = simulate(seed)
    return Life(seed=seed, events=world.events, trace=world.trace, met=world.met)


def main(arguments: list[str]) -> int:
    asked = lives.arguments_for("Run seeds of the archive's simulator.").parse_args(arguments)
    return lives.run(asked, live, WORDS, {})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
