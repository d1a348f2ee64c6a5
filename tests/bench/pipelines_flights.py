"""`josefine pipeline run` of the shipped flights with both sinks beside the job written by hand,
turn about: the whole process from its start to its end, and how long it takes to its first commit.
"""

from statistics import median

from josefine_cli.dev.demo_flights import FLIGHTS
from tests.bench.pipelines_lab import BY_HAND, OURS, SINKS, Lab, check, commit_times, say, told
from tests.bench.whole_runs import Ran
from tests.support.maven import NoJarsError


def measure(lab: Lab, rounds: int) -> None:
    """Two lines: the whole run, the first commit."""
    who, topic = {OURS: lab.ours, BY_HAND: lab.by_hand}, lab.topic()
    runs: dict[str, list[Ran]] = {name: [] for name in who}
    firsts: dict[str, list[float]] = {name: [] for name in who}
    for number in range(rounds):
        for name in [*who] if number % 2 == 0 else [*who][::-1]:
            with lab.folder() as folder:
                try:
                    ran = who[name](folder, topic)
                except NoJarsError as error:
                    say(f"bench: only josefine is measured, nothing to compare with: {error}")
                    continue
                check(folder, FLIGHTS)
                times = [time for sink in SINKS for time in commit_times(folder, sink)]
                first = min(times) - ran.begun_s
            say(f"round {number} {name:9} {ran.wall_s:6.1f} s, {ran.cpu_s:6.1f} of CPU, "
                f"{ran.peak_mb:6,.0f} MB, first commit after {first:5.1f} s")  # fmt: skip
            runs[name].append(ran)
            firsts[name].append(first)
    walls = {name: [ran.wall_s for ran in found] for name, found in runs.items()}
    cpus = {name: [ran.cpu_s for ran in found] for name, found in runs.items()}
    told(_line("flights", "s", walls) | {f"cpu_{k}": v for k, v in _line("", "s", cpus).items()})
    told(_line("first_commit", "s", firsts))


def _line(name: str, unit: str, found: dict[str, list[float]]) -> dict[str, object]:
    line: dict[str, object] = {"measure": f"pipelines.{name}", "unit": unit} if name else {}
    line |= {who: round(median(seconds), 2) for who, seconds in found.items() if seconds}
    if found[BY_HAND]:
        pairs = zip(found[OURS], found[BY_HAND], strict=True)
        line["ratio"] = round(median(ours / theirs for ours, theirs in pairs), 3)
    return line | ({"rounds": len(found[OURS])} if name else {})
