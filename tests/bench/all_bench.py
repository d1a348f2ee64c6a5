"""`./build.sh bench all`: every area with its peer, the results as JSON lines, BENCHMARKS.md.

Each case is written when all of its rounds are done. A run that broke is continued by the same
command: what the results folder has is not measured again. At the end the areas that were measured
are published: their results and plots go to docs/benchmarks/, from which BENCHMARKS.md is
generated. A quick run publishes nothing unless it is asked to; its page is in its folder.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Options, measure_area, say
from tests.bench.areas.table import AREAS
from tests.bench.report import plots, results
from tests.bench.report.conditions import commit, conditions
from tests.bench.report.page import page
from tests.bench.report.results import CaseResult

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = Path("BENCHMARKS.md")
PUBLISHED = Path("docs/benchmarks")
NOTES = PUBLISHED / "notes.md"
ROUNDS, QUICK_ROUNDS = 5, 3


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./build.sh bench all", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", default=[], metavar="AREA", choices=sorted(AREAS),
        help=f"an area, again for more: {', '.join(AREAS)}",
    )  # fmt: skip
    parser.add_argument(
        "--case", action="append", default=[], metavar="NAME",
        help="a case of the area, as the page's last column names it; again for more",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a share of a few minutes an area")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}, quick {QUICK_ROUNDS}")
    parser.add_argument("--log-gb", type=float, help="recovery and catch_up: up to which size")
    parser.add_argument(
        "--results", type=Path, metavar="FOLDER", help="default .bench/COMMIT[-quick]"
    )
    parser.add_argument(
        "--publish", action="store_true", help="a quick run too: write BENCHMARKS.md"
    )
    parser.add_argument(
        "--page-only", action="store_true",
        help="measure nothing: generate plots and BENCHMARKS.md from the published results",
    )  # fmt: skip
    asked = parser.parse_args(arguments)
    if asked.case and len(asked.only) != 1:
        parser.error("--case needs the one area that it is of: --only AREA --case NAME")
    if asked.case:
        known = [each.name for each in AREAS[asked.only[0]].cases(options_of(asked))]
        unknown = [name for name in asked.case if name not in known]
        if unknown:
            parser.error(f"{asked.only[0]} has no case {unknown[0]!r}; it has {', '.join(known)}")
    return asked


def options_of(asked: argparse.Namespace) -> Options:
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS)
    return Options(quick=asked.quick, rounds=rounds, log_gb=asked.log_gb)


def run(asked: argparse.Namespace, folder: Path) -> None:
    """Measure the areas; one that fails is reported, and the next one starts."""
    failed = []
    for name in asked.only or AREAS:
        there = {each.case for each in results.load(folder) if each.area == name}
        try:
            with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
                measure_area(
                    AREAS[name], options_of(asked), Path(directory), only=asked.case, done=there,
                    conditions=conditions, write=partial(results.append, folder),
                )  # fmt: skip
        except (RuntimeError, OSError, AssertionError, ImportError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            say(f"bench all: {name} is not complete: {reason}")
            failed.append(name)
    if failed:
        say(f"bench all: run it again to measure what is missing of {', '.join(failed)}")


def main(arguments: Sequence[str]) -> None:
    asked = options(arguments)
    # Killed politely, it stops its brokers and removes its folders, as after an error.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench all: stopped"))
    folder = asked.results or REPOSITORY / ".bench" / (commit() + ("-quick" if asked.quick else ""))
    if not asked.page_only:
        say(f"bench all: results go to {folder}")
        run(asked, folder)
        if asked.quick and not asked.publish:
            write(results.load(folder), folder)
            say("bench all: --publish writes BENCHMARKS.md too")
            return
        results.publish(results.load(folder), REPOSITORY / PUBLISHED / "results")
    write(results.load(REPOSITORY / PUBLISHED / "results"), REPOSITORY)


def write(found: Sequence[CaseResult], root: Path) -> None:
    """The page and its plots, of these results alone; the page names the plots relative to it."""
    root.mkdir(parents=True, exist_ok=True)  # nothing may have been measured yet
    try:
        plots.draw_all(found, root / PUBLISHED)
    except ImportError:
        say("bench all: plots are not drawn: matplotlib is missing; pip install 'josefine[bench]'")
    (root / PAGE).write_text(page(found, AREAS, (REPOSITORY / NOTES).read_text()))
    say(f"bench all: {root / PAGE} is written")


if __name__ == "__main__":
    main(sys.argv[1:])
