"""`josefine log verify` over the files of a real broker."""

import json
import subprocess
import sys
from pathlib import Path

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine


def run_verify(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "josefine_cli.main", "log", "verify"]
    return subprocess.run(
        [*command, "--data-dir", str(data_dir), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_some(bootstrap: str) -> None:
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic("orders", partitions=1)])
        for number in range(20):
            batch = build_batch([Record(value=b"%d" % number, timestamp_ms=1, offset=0)])
            client.produce({TopicPartition("orders", 0): bytes(batch)})


def test_a_flipped_bit_is_found_on_demand_and_named(tmp_path: Path) -> None:
    """Checklist row 29."""
    with BrokerProcess(tmp_path) as broker:
        write_some(broker.bootstrap)
        running = run_verify(broker.data_dir)
        broker.stop()
    whole = run_verify(broker.data_dir, "--topic", "orders")
    segment = next((broker.data_dir / "orders-0").glob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)

    broken = run_verify(broker.data_dir, "--topic", "orders", "--json")

    assert running.returncode == 1
    assert "in use by another broker" in running.stderr
    assert whole.returncode == 0
    assert "orders-0: 1 segment, 20 record batches, ok" in whole.stdout
    assert broken.returncode == 1
    problems = json.loads(broken.stdout)["orders-0"]["problems"]
    assert problems[0]["file"].endswith(segment.name)


def test_a_directory_without_partitions_is_refused(tmp_path: Path) -> None:
    done = run_verify(tmp_path)

    assert done.returncode == 1
    assert "has no partition" in done.stderr


def test_consume_names_the_partition_that_is_damaged_and_what_finds_the_place(
    tmp_path: Path,
) -> None:
    """Checklist row 29: verified on read."""
    with BrokerProcess(tmp_path) as broker:
        write_some(broker.bootstrap)
        segment = next((broker.data_dir / "orders-0").glob("*.log"))
        with segment.open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 1]))

        done = josefine(broker.bootstrap, "consume", "orders")

    assert done.code == 1
    assert done.out.splitlines() == [str(number) for number in range(19)]
    assert done.err.startswith("error: partition orders-0 is damaged: ")
    assert "'josefine log verify' finds the place" in done.err


def test_a_directory_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    done = run_verify(tmp_path / "nope")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: data directory {tmp_path / 'nope'} does not exist\n"
