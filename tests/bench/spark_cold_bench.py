"""The first rows of a session that has just started: ours and Spark's own Kafka source, turn about.

Each round is a process of its own: Python and its JVM start, a batch read hands over its first ten
rows. Told are the seconds from the session's being there to those rows (`rows`) and from the start
of the process (`whole`): medians of the rounds, and of their ratios. Numba's cache is warm after
the round that is not counted, as after `./build.sh setup`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.bench.peer_jars import peer_jars
from tests.bench.spark_bench import OURS, THEIRS, fill, read, say
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ROWS = 100_000
TAKEN = 10
DEADLINE_S = 300


def first_rows(source: str, bootstrap: str, topic: str) -> None:
    """In a process of its own: a session, ten rows, one JSON line."""
    from josefine_spark.sessions.session import session

    conf = {"spark.jars": ",".join(peer_jars())} if source == THEIRS else {}
    spark = session("josefine-bench", conf=conf, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    started = time.perf_counter()
    rows = read(spark, source, bootstrap, topic).limit(TAKEN).collect()
    seconds = time.perf_counter() - started
    spark.stop()
    if len(rows) != TAKEN:
        raise RuntimeError(f"{source} brought {len(rows)} of {TAKEN} rows")
    print(json.dumps({"rows": seconds}), flush=True)


def cold(source: str, bootstrap: str, topic: str) -> dict[str, float]:
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.spark_cold_bench", source, bootstrap, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            told, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    if process.returncode:
        raise RuntimeError(f"{source}: the process ended with {process.returncode}")
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    return found | {"whole": time.perf_counter() - started}


def compare(bootstrap: str, sources: list[str]) -> dict[str, object]:
    topic = fill(bootstrap, 100, ROWS)
    found: dict[str, list[dict[str, float]]] = {source: [] for source in sources}
    for number in range(ROUNDS + 1):
        for source in sources if number % 2 else sources[::-1]:
            seconds = cold(source, bootstrap, topic)
            say(f"round {number} {source:9} {seconds['rows']:.2f} s, whole {seconds['whole']:.2f}")
            if number:
                found[source].append(seconds)
    line: dict[str, object] = {"measure": "first_rows_of_a_cold_session", "unit": "s"}
    for source, all_rounds in found.items():
        line[source] = {
            name: round(median(each[name] for each in all_rounds), 2) for name in ("rows", "whole")
        }
    if THEIRS in found:
        pairs = list(zip(found[THEIRS], found[OURS], strict=True))
        for name in ("rows", "whole"):
            ratio = median(theirs[name] / ours[name] for theirs, ours in pairs)
            line[f"kafka_over_josefine_{name}"] = round(ratio, 2)
    return line


def main() -> None:
    sources = [OURS]
    try:
        peer_jars()
        sources.append(THEIRS)
    except NoJarsError as error:
        say(f"bench: only josefine is measured, nothing to compare with: {error}")
    with (
        tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory,
        BrokerProcess(Path(directory)) as broker,
    ):
        print(json.dumps(compare(broker.bootstrap, sources)), flush=True)


if __name__ == "__main__":
    first_rows(*sys.argv[1:4])
