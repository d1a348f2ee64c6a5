"""Time to table: from the produce of a record to the Delta commit that has it, with a verdict.

`python -m tests.bench.time_to_table [SECONDS]` sends 1,000 records a second to a table topic with a
target lag of 1 s. Each record has its time of sending; a commit's time is that of its log entry's
file. The first commit is left out: it has the discovery of the topic, which is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable

from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment

RATE, TICKS = 1_000, 20
"""Records a second, in so many sends."""
P50_S, P95_S = 2.0, 5.0
"""The marks."""
END_S = 60.0


def main() -> None:
    """Print the figures; exit code 1 if a mark is missed."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "b") as broker:
        lake = Path(folder) / "lake"
        writer = subprocess.Popen([*COMMAND, "tables", "run"], env=environment(broker.bootstrap))
        try:
            # The process loads Arrow and joins its group with a table of its own.
            warm = Path(folder) / "warm"
            measured(warm, send(broker.bootstrap, warm, 1))
            sent = send(broker.bootstrap, lake, seconds)
            times = measured(lake, sent)
        finally:
            writer.terminate()
            writer.wait()
    first = times[0][1]
    delays = sorted(late for version, late in times if version > times[0][0])
    if not delays:
        raise SystemExit("one commit has every record: send for more SECONDS")
    p50, p95 = delays[len(delays) // 2], delays[len(delays) * 95 // 100]
    good = p50 <= P50_S and p95 <= P95_S
    print(f"first record {first:.1f} s; then p50 {p50:.2f} s (mark {P50_S:g}), p95 {p95:.2f} s")
    print(f"(mark {P95_S:g}), {len(delays)} records: {'reached' if good else 'MISSED'}")
    raise SystemExit(0 if good else 1)


def send(bootstrap: str, lake: Path, seconds: int) -> int:
    """Create the topic and send at the rate; returns the number of records."""
    configs = {"location": str(lake), "format": "json", "schema": "sent DOUBLE"}
    configs["target.lag.ms"] = "1000"
    named = {f"josefine.table.{name}": value for name, value in configs.items()}
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(name=lake.name, partitions=1, configs=named)])
        client.partition_count(lake.name)
        producer, began = BlockingProducer(client), time.monotonic()
        for tick in range(seconds * TICKS):
            time.sleep(max(0.0, began + tick / TICKS - time.monotonic()))
            value = json.dumps({"sent": time.time()}).encode()
            for _ in range(RATE // TICKS):
                producer.send(lake.name, None, value, partition=0)
            producer.flush()
    return seconds * RATE


def measured(lake: Path, sent: int) -> list[tuple[int, float]]:
    """(version, delay in seconds) of each record, once the table has all."""
    deadline, rows = time.monotonic() + END_S, 0
    while rows < sent:
        if time.monotonic() > deadline:
            raise SystemExit(f"the table has {rows} of {sent} records after {END_S:g} s")
        time.sleep(0.5)
        if (lake / "_delta_log").exists():
            rows = DeltaTable(str(lake)).to_pyarrow_table(columns=["sent"]).num_rows
    found = []
    for entry in sorted((lake / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        added = [each["add"] for each in actions if "add" in each]
        if any(each["dataChange"] for each in added):
            found += _delays(lake, entry, [each["path"] for each in added])
    return found


def _delays(lake: Path, entry: Path, paths: list[str]) -> list[tuple[int, float]]:
    """Those of one commit's records."""
    import pyarrow.parquet as pq

    visible = entry.stat().st_mtime
    return [
        (int(entry.stem), visible - at)
        for path in paths
        for at in pq.read_table(lake / path, columns=["sent"])["sent"].to_pylist()
    ]


if __name__ == "__main__":
    main()
