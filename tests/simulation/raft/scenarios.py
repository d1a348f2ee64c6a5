"""Text scenarios: commands, then the trace they lead to, in scenarios/*.txt.

    python -m tests.simulation.raft.scenarios             compare all with what happens now
    python -m tests.simulation.raft.scenarios --rewrite   write the traces anew; then read the diff

A file is a heading of # lines, then steps: command lines, ----, the trace, an empty line. The
commands are in lab.py. Every scenario says which section of the paper or thesis it plays.
"""

import sys
from pathlib import Path

from tests.simulation.raft.lab import Lab

__all__ = ["SCENARIOS", "play"]

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


def play(text: str) -> str:
    """The same file, with the traces of now."""
    lab, written = Lab(), []
    for step in text.split("\n\n"):
        kept = [line for line in step.partition("\n----")[0].split("\n") if line]
        commands = [line for line in kept if not line.startswith("#")]
        if not commands:
            written.append("\n".join(kept))
            continue
        traced = [line for command in commands for line in lab.run(command)]
        written.append("\n".join([*kept, "----", *traced]))
    return "\n\n".join(step for step in written if step) + "\n"


def main(arguments: list[str]) -> int:
    rewrite = "--rewrite" in arguments
    changed = 0
    for path in SCENARIOS:
        before = path.read_text()
        after = play(before)
        if before != after:
            changed += 1
            print(f"{path.name}: {'written' if rewrite else 'differs'}")
            if rewrite:
                path.write_text(after)
    return 0 if rewrite else int(changed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
