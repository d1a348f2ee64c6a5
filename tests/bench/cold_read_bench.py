"""Cold reads: MB/s at which a Kafka client reads an archived topic from offset 0.

`python -m tests.bench.cold_read_bench [MB] [SIZE ...]` fills a topic of one partition with values
of SIZE bytes (1000 and 100), half of them random, and reads it with librdkafka (`librdkafka.py`):
from the local log, then, once nine tenths are past local retention, through the archive reader.
The processor time of broker, reader and client is that of each read.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.proofs.archived_readback import EARLIEST_LOCAL, children_s, command
from tests.proofs.many_table_topics import cpu_s
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

TOPIC = "cold"
DISTINCT_BYTES = 4 << 20
"""More than the window in which Parquet's compression finds repetitions."""
BATCH_BYTES = 512 << 10
PAST = 0.9
WAIT_S = 300.0


def main() -> None:
    """Print a line for each read."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for size in map(int, sys.argv[2:] or ("1000", "100")):
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), megabytes, size)


def measure(folder: Path, megabytes: int, size: int) -> None:
    """One topic, read from the log and from the archive."""
    (port,) = free_ports(1)
    with BrokerProcess(
        folder / "broker", log__archive_reader_port=port, log__retention_check_interval_ms=1_000
    ) as broker:
        configs = {
            "remote.storage.enable": "true",
            "josefine.archive.location": str(folder / "lake"),
            "segment.bytes": str(16 << 20),
        }
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic(name=TOPIC, partitions=1, configs=configs)])
            count = fill(client, megabytes << 20, size)
        read(broker, "log", count, size, {})
        archive(broker, count, megabytes << 20)
        with command(broker.bootstrap, "archive", "serve", "--port", str(port)) as reader:
            for _ in range(2):
                read(broker, "archive", count, size, {"reader": reader.pid})


def fill(client: BlockingClient, wanted: int, size: int) -> int:
    """The number of records."""
    drawn = random.Random(size)
    half, in_batch = size // 2, max(1, BATCH_BYTES // size)
    batches = [
        bytes(
            build_batch(
                [Record(None, drawn.randbytes(half).ljust(size, b".")) for _ in range(in_batch)]
            )
        )
        for _ in range(DISTINCT_BYTES // BATCH_BYTES)
    ]
    turns = max(1, wanted // (in_batch * size))
    for at in range(turns):
        client.produce({TopicPartition(TOPIC, 0): batches[at % len(batches)]}, acks=1)
    return turns * in_batch


def archive(broker: BrokerProcess, count: int, size: int) -> None:
    """Archive everything, and let local retention delete nine tenths."""
    with command(broker.bootstrap, "archive", "run", "--target-lag", "1s"):
        kept = ("--config", f"local.retention.bytes={size // 20}")
        done = josefine(broker.bootstrap, "topics", "alter", TOPIC, *kept)
        assert done.code == 0, done.err

        def is_past() -> bool:
            time.sleep(0.5)  # the question must not be most of the load
            tp = TopicPartition(TOPIC, 0)
            with BlockingClient(broker.bootstrap) as client:
                return client.list_offsets({tp: EARLIEST_LOCAL})[tp].offset >= PAST * count

        wait_until(is_past, WAIT_S, "nine tenths past local retention")


def read(broker: BrokerProcess, name: str, count: int, size: int, pids: dict[str, int]) -> None:
    """Read all records, and print what it took."""
    assert broker.process is not None
    pids = {"broker": broker.process.pid, **pids}
    before, client_s = {name: cpu_s(pid) for name, pid in pids.items()}, children_s()
    words = ["consume", broker.bootstrap, TOPIC, str(count), str(size)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.librdkafka", *words], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    seconds = json.loads(done.stdout)["seconds"]
    spent = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
    spent["client"] = children_s() - client_s
    times = ", ".join(f"{name} {value:.2f}" for name, value in spent.items())
    print(
        f"{name}, {size} B: {count * size / 1e6 / seconds:.0f} MB/s; seconds of CPU: {times}"
        f" for {count * size / 1e6:.0f} MB (load {os.getloadavg()[0]:.0f})",
        flush=True,
    )


if __name__ == "__main__":
    main()
