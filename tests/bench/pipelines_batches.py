"""What lies between two commits of a sink that is warm: of small batches nearly all is overhead, of
large ones the work; and a backfill, with the memory that it takes. Large ones and the backfill run
with the JVM's own options, as a job of hours does.

The times are those of the log's files, so that both jobs are measured alike.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from josefine_cli.dev.demo_flights import FLIGHTS
from tests.bench.pipelines_lab import BATCH, BY_HAND, OURS, Lab, check, commit_times, say, told
from tests.bench.whole_runs import Ran
from tests.support.maven import NoJarsError

SMALL = 8_000
"""Records of a batch that is nearly all overhead: 42 of them in a year."""
LARGE_YEARS = 7
LARGE_BATCH = 4 * BATCH
LARGE: dict[str, tuple[str, int, int]] = {
    "warm_append": ("flights", LARGE_BATCH, 2),
    "merge_of_120000": ("delays", BATCH, 8),
}
"""Sink, records of a batch, how many gaps between commits warm it up."""
BACKFILL_YEARS = 30
"""10,103,280 events."""
LETTERS = "with_dead_letters"

Job = Callable[[Path], Ran]


def small(lab: Lab, rounds: int) -> None:
    """ms between two commits of 8,000 events each, appended."""
    topic, sinks = lab.topic(), ("flights",)
    jobs: dict[str, Job] = {
        OURS: lambda folder: lab.ours(folder, topic, sinks, SMALL, on_error="null"),
        LETTERS: lambda folder: lab.ours(folder, topic, sinks, SMALL),
        BY_HAND: lambda folder: lab.by_hand(folder, topic, sinks, SMALL),
    }
    found = _gaps(lab, rounds, jobs, FLIGHTS, "flights", warm_from=12)
    line = _line("batch_overhead", "ms", {who: [1e3 * s for s in f] for who, f in found.items()})
    if found[BY_HAND]:
        line["overhead"] = round(
            1e3 * median(a - b for a, b in zip(found[OURS], found[BY_HAND], strict=True))
        )
    told(line)


def large(lab: Lab, rounds: int) -> None:
    """Seconds between two commits: of 480,000 events appended with dead letters, of 120,000
    merged."""
    topic = lab.topic(LARGE_YEARS)
    for name, (sink, rows, warm_from) in LARGE.items():
        ours = partial(lab.ours, topic=topic, sinks=(sink,), rows=rows, warm=True)
        by_hand = partial(lab.by_hand, topic=topic, sinks=(sink,), rows=rows, warm=True)
        jobs: dict[str, Job] = {OURS: ours, BY_HAND: by_hand}
        found = _gaps(lab, rounds, jobs, LARGE_YEARS * FLIGHTS, sink, warm_from)
        line = _line(name, "s", found)
        line["events_per_s"] = round(rows / median(found[OURS]))
        told(line)


def backfill(lab: Lab, scale: float) -> None:
    """One large topic into the appended table; memory beside that of a run of one year."""
    years = max(2, round(BACKFILL_YEARS * scale))
    peaks = []
    for count in (1, years):
        topic = lab.topic(count)
        with lab.folder() as folder:
            ran = lab.ours(folder, topic, ("flights",), LARGE_BATCH, warm=True)
            check(folder, count * FLIGHTS, ("flights",))
        peaks.append(round(ran.peak_mb))
        say(f"backfill of {count * FLIGHTS:,}: {ran.wall_s:.1f} s, {ran.peak_mb:,.0f} MB")
    told(
        {
            "measure": "pipelines.backfill",
            "unit": "events_per_s",
            OURS: round(years * FLIGHTS / ran.wall_s),
            "events": years * FLIGHTS,
            "cpu_s": round(ran.cpu_s, 1),
            "peak_mb": peaks[1],
            "peak_mb_of_one_year": peaks[0],
        }
    )


def _gaps(
    lab: Lab, rounds: int, jobs: dict[str, Job], events: int, sink: str, warm_from: int
) -> dict[str, list[float]]:
    """Of each round the median seconds from one commit to the next, but the last, which is short,
    and the first ones."""
    found: dict[str, list[float]] = {who: [] for who in jobs}
    for number in range(rounds):
        for who in [*jobs] if number % 2 == 0 else [*jobs][::-1]:
            with lab.folder() as folder:
                try:
                    jobs[who](folder)
                except NoJarsError as error:
                    say(f"bench: nothing to compare with: {error}")
                    continue
                check(folder, events, (sink,))
                gaps = [b - a for a, b in pairwise(commit_times(folder, sink))][warm_from:-1]
            found[who].append(median(gaps))
            say(f"round {number} {who:17} {sink}: {found[who][-1]:.3f} s from commit to commit")
    return found


def _line(name: str, unit: str, found: dict[str, list[float]]) -> dict[str, object]:
    line: dict[str, object] = {"measure": f"pipelines.{name}", "unit": unit}
    line |= {who: round(median(each), 2) for who, each in found.items() if each}
    if found[BY_HAND]:
        pairs = zip(found[OURS], found[BY_HAND], strict=True)
        line["ratio"] = round(median(ours / theirs for ours, theirs in pairs), 3)
    return line | {"rounds": len(found[OURS])}
