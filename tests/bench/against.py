"""`./build.sh bench broker --against REV`: this checkout's broker and that of another commit.

REV is unpacked into a temporary folder and runs with this environment, or with one of its own
where it declares other dependencies. Both brokers take every measure of `broker_bench` in turn,
each started afresh; printed are one JSON line per measure and a table. The exit code is 1 when a
measure is worse: the median of its ratios is below the threshold, and the upper end of their
spread below 1.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.report.statistics import is_rate, is_worse, ratios, spread_of

REPOSITORY = Path(__file__).resolve().parents[2]
OURS, THEIRS = "josefine", "checkout"
ROUNDS, THRESHOLD, SCALE = 5, 0.9, 0.1
UNITS = {"records_per_s": "records/s", "requests_per_s": "requests/s"}
"""Of the bench's units those of which more is better."""

Rounds = Sequence[Mapping[str, Mapping[str, float]]]
"""Per round: side → measure → value."""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./build.sh bench broker", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--against", metavar="REV", required=True, help="a commit, branch or tag")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)s")
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD,
        help="of a measure's median ratio, this commit to REV; default %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--scale", type=float, default=SCALE, help="of the record counts; default %(default)s"
    )
    return parser.parse_args(arguments)


def resolve(rev: str) -> str:
    """The commit's full name. Raises SystemExit for a name that git does not know."""
    command = ["git", "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"bench broker --against {rev}: git knows no such commit; name one that `git log` "
            "prints, or a branch or tag"
        )
    return done.stdout.strip()


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The commit's files in a temporary folder, removed afterwards. An archive instead of a git
    worktree: a run that is killed leaves nothing in the repository."""
    with tempfile.TemporaryDirectory(prefix="josefine-against-") as folder:
        archive = subprocess.Popen(["git", "archive", commit], cwd=REPOSITORY, stdout=-1)
        subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)
        if archive.wait():
            raise SystemExit(f"git archive of {commit} failed; the lines above have the reason")
        yield Path(folder)


def requirements(pyproject: str) -> frozenset[str]:
    """The dependencies that the text of a pyproject.toml declares, those of extras left out."""
    return frozenset(tomllib.loads(pyproject)["project"].get("dependencies", ()))


def missing_here(theirs: frozenset[str], ours: frozenset[str]) -> list[str]:
    """Dependencies that the other commit declares and this one does not: if there are none, this
    environment runs both."""
    return sorted(theirs - ours)


def python_for(folder: Path) -> str:
    """The interpreter for the other commit: ours, or that of an environment in its folder."""
    ours = requirements((REPOSITORY / "pyproject.toml").read_text())
    missing = missing_here(requirements((folder / "pyproject.toml").read_text()), ours)
    if not missing:
        return sys.executable
    say(f"making an environment of its own for it: it needs {', '.join(missing)}")
    subprocess.run([sys.executable, "-m", "venv", str(folder / ".venv")], check=True)
    python = str(folder / ".venv" / "bin" / "python")
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(folder)]
    if subprocess.run(command).returncode:
        raise SystemExit("pip could not install the other commit; the lines above have the reason")
    return python


def measure(folder: Path, python: str, rounds: int, scale: float) -> Rounds:
    """Alternating rounds of every measure."""
    os.environ |= {
        "BENCH_BESIDE": "checkout", "BENCH_CHECKOUT": str(folder), "BENCH_SCALE": str(scale),
        "BENCH_CHECKOUT_PYTHON": python,
    }  # fmt: skip
    # It reads its environment when it is imported.
    from tests.bench import broker_bench

    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
        return [broker_bench.run_round(n, Path(directory)) for n in range(1, rounds + 1)]


def report(found: Rounds, threshold: float) -> list[dict[str, object]]:
    """One line per measure: medians of both, the ratio with its spread, and whether it is worse."""
    lines = []
    for name in found[0][OURS]:
        what, unit = name.split("/")
        unit = UNITS.get(unit, unit)
        ours, theirs = ([each[side][name] for each in found] for side in (OURS, THEIRS))
        pairs = ratios(ours, theirs, unit)
        line: dict[str, object] = {
            "measure": what, "unit": unit, "more_is_better": is_rate(unit),
            "this": round(spread_of(ours).middle, 2), "against": round(spread_of(theirs).middle, 2),
        }  # fmt: skip
        if pairs:
            spread = spread_of(pairs)
            line |= {
                "ratio": round(spread.middle, 3), "low": round(spread.low, 3),
                "high": round(spread.high, 3), "rounds": spread.rounds,
            }  # fmt: skip
        lines.append(line | {"worse": is_worse(pairs, threshold)})
    return lines


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> None:
    asked = options(arguments)
    # Killed politely, it stops its brokers and removes its folders, as after an error.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench broker --against: stopped"))
    commit = resolve(asked.against)
    with checkout(commit) as folder:
        python = python_for(folder)
        found = measure(folder, python, asked.rounds, asked.scale)
    lines = report(found, asked.threshold)
    for line in lines:
        print(json.dumps(line), flush=True)
    say(f"\nthis checkout ÷ {commit[:8]}, above 1 is better; median (spread) of the rounds:")
    for line in lines:
        if "ratio" in line:
            say(
                f"{line['measure']:32} {line['unit']:20} {line['ratio']:6} "
                f"({line['low']}-{line['high']}){'  WORSE' if line['worse'] else ''}"
            )
    worse = [f"{line['measure']} ({line['unit']})" for line in lines if line["worse"]]
    if worse:
        raise SystemExit(
            f"worse than {asked.threshold} of {commit[:8]}: {', '.join(worse)}. Profile it "
            "(CONTRIBUTING.md, Profile), or measure again with more --rounds"
        )
