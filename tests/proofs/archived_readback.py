"""A proof: an archived topic is read back from offset 0 by four clients, with the hash as before.

`python -m tests.proofs.archived_readback [--count 200000] [--folder FOLDER] [--only NAME ...]`

Five transactional producers, one for each codec, write records with null and empty keys and values,
repeated, null and nameless headers and times of their own; each seventh transaction is aborted. The
hash of all committed records (`hashing/record_hash.py`) is taken while brokers have them. Then the
archive gets them, and local retention deletes nine tenths. librdkafka, the Java client and
franz-go read from offset 0 through the archive reader, Spark from `earliest` by the archive's
files: each has to have the same hash, count and order. Clients that cannot be had here are named.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import LATEST, BlockingClient, NewTopic
from tests.foreign.franz_go import PACKAGE, FranzGo
from tests.foreign.suite import UnavailableError, build_step, built, why_no
from tests.proofs.hashing.librdkafka import read as read_by_librdkafka
from tests.proofs.runs import ROOT, folder_of
from tests.support.apache_kafka import NAME, POM
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment, josefine
from tests.support.maven import NoJarsError, jars_of
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

TOPIC, PARTITIONS = "endless", 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EARLIEST_LOCAL = -4
FIRST_MS = 1_700_000_000_000
KEPT = 0.07
"""Of the local bytes: the newest segment stays, so that a little more is kept."""
PAST = 0.9
WAIT_S = 3_600.0
HASHING = Path(__file__).parent / "hashing"


def produce(bootstrap: str, count: int) -> None:
    """So many records of every shape, some of them aborted."""
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "transactional.id": f"hash-{codec}",
                "queue.buffering.max.messages": 1_000_000,
                "linger.ms": 20,
            }
        )
        for codec in CODECS
    ]
    for producer in producers:
        producer.init_transactions(60)
    each, at, turn = max(100, min(5_000, count // 200)), 0, 0
    while at < count:
        producer, turn = producers[turn % len(CODECS)], turn + 1
        producer.begin_transaction()
        for n in range(at, min(count, at + each)):
            producer.produce(
                TOPIC, value_of(n), key_of(n), n % PARTITIONS, headers=headers_of(n),
                timestamp=FIRST_MS + n,
            )  # fmt: skip
        at += each
        if turn % 7 == 6:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def key_of(n: int) -> bytes | None:
    return None if n % 11 == 3 else b"" if n % 11 == 5 else b"key-%d" % n


def value_of(n: int) -> bytes | None:
    return None if n % 13 == 3 else b"" if n % 13 == 5 else b"%d:" % n * (4 + n % 17)


def headers_of(n: int) -> Any:
    return [("h", b"%d" % n), ("h", None), ("", b"")] if n % 3 == 0 else None


@contextmanager
def command(bootstrap: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of `josefine` until the end of the block."""
    process = subprocess.Popen(
        [*COMMAND, *words], env=environment(bootstrap), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def java(bootstrap: str, last: list[str]) -> list[str]:
    """Raises UnavailableError."""
    if why := why_no("java"):
        raise UnavailableError(why)
    try:
        jars = os.pathsep.join(jars_of(POM, NAME))
    except NoJarsError as error:
        raise UnavailableError(str(error)) from error
    source = str(HASHING / "ReadHash.java")
    return ["java", "-Xmx512m", "-cp", jars, source, bootstrap, TOPIC, *last]


def franz_go(bootstrap: str, last: list[str]) -> list[str]:
    """Raises UnavailableError."""
    if why := why_no("go"):
        raise UnavailableError(why)
    source = (HASHING / "read_hash.go").read_text()

    def make(folder: Path) -> None:
        (folder / "main.go").write_text(source)
        (folder / "go.mod").write_text("module josefine-hash\n\ngo 1.26.0\n")
        build_step(["go", "get", f"{PACKAGE}@v{FranzGo.version}"], folder)
        build_step(["go", "build", "-o", "read-hash", "."], folder)

    folder = built(f"hash-franz-go-{FranzGo.version}", make)
    return [str(folder / "read-hash"), bootstrap, TOPIC, *last]


def librdkafka(bootstrap: str, last: list[str]) -> list[str]:
    module = "tests.proofs.hashing.librdkafka"
    return [sys.executable, "-m", module, bootstrap, TOPIC, str(PARTITIONS)]


def spark(bootstrap: str, last: list[str]) -> list[str]:
    """Raises UnavailableError."""
    if why := why_no("java"):
        raise UnavailableError(why)
    return [sys.executable, "-m", "tests.proofs.hashing.spark", bootstrap, TOPIC]


CLIENTS: Mapping[str, Callable[[str, list[str]], list[str]]] = {
    "librdkafka": librdkafka,
    "java": java,
    "franz-go": franz_go,
    "spark": spark,
}


def read_by(name: str, bootstrap: str, last: list[str], folder: Path) -> dict[str, Any]:
    """What a client has found. Raises UnavailableError, AssertionError."""
    words = CLIENTS[name](bootstrap, last)
    with (folder / f"{name}.log").open("w") as log:
        done = subprocess.run(
            words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
            stderr=log, text=True, timeout=WAIT_S,
        )  # fmt: skip
    assert done.returncode == 0, f"{name} ended with {done.returncode}: see {log.name}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def local_starts(bootstrap: str) -> dict[int, int]:
    """Of the logs of brokers."""
    tps = [TopicPartition(TOPIC, at) for at in range(PARTITIONS)]
    with BlockingClient(bootstrap) as client:
        found = client.list_offsets(dict.fromkeys(tps, EARLIEST_LOCAL))
    return {tp.partition: each.offset for tp, each in found.items()}


def ends(bootstrap: str) -> dict[int, int]:
    tps = [TopicPartition(TOPIC, at) for at in range(PARTITIONS)]
    with BlockingClient(bootstrap) as client:
        return {
            tp.partition: e.offset
            for tp, e in client.list_offsets(dict.fromkeys(tps, LATEST)).items()
        }


def spent(since_s: float, cpu_s: float) -> str:
    return f"{time.monotonic() - since_s:.0f} s by the clock, {children_s() - cpu_s:.0f} s of CPU"


def children_s() -> float:
    """The CPU of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def say(text: str) -> None:
    load = os.getloadavg()[0]
    print(f"{text} (load {load:.0f})", flush=True)


def moved_to_the_archive(broker: BrokerProcess, location: Path) -> None:
    """Archive everything, and let local retention delete most of it."""
    since_s, end = time.monotonic(), ends(broker.bootstrap)
    folder = broker.data_dir
    size = min(
        sum(each.stat().st_size for each in folder.rglob(f"{TOPIC}-{at}/*.log"))
        for at in range(PARTITIONS)
    )
    with command(broker.bootstrap, "archive", "run", "--target-lag", "2s") as writer:
        kept = ("--config", f"local.retention.bytes={int(size * KEPT)}")
        done = josefine(broker.bootstrap, "topics", "alter", TOPIC, *kept)
        assert done.code == 0, done.err

        def is_past() -> bool:
            starts = local_starts(broker.bootstrap)
            with suppress(subprocess.TimeoutExpired):
                writer.wait(timeout=0.2)  # the question must not be most of the load
            return all(starts[at] >= PAST * end[at] for at in end)

        wait_until(is_past, WAIT_S, "nine tenths past local retention")
    starts = local_starts(broker.bootstrap)
    past = ", ".join(f"{starts[at]} of {end[at]}" for at in end)
    bytes_ = sum(each.stat().st_size for each in location.rglob("*.parquet"))
    took_s = time.monotonic() - since_s
    say(f"archived: {bytes_ >> 20} MB, {size * PARTITIONS >> 20} MB in logs before; past local "
        f"retention: {past} offsets; {took_s:.0f} s")  # fmt: skip


def prove(folder: Path, count: int, names: list[str]) -> int:
    # Nothing is stopped between the phases: the hash before is of the same topic.
    (port,) = free_ports(1)
    location = folder / "lake"
    with BrokerProcess(
        folder / "broker", log__archive_reader_port=port, log__retention_check_interval_ms=1_000
    ) as broker:
        configs = {
            "remote.storage.enable": "true",
            "josefine.archive.location": str(location),
            "retention.ms": "-1",
            "segment.bytes": str(max(1 << 15, count // 3)),
        }
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic(name=TOPIC, partitions=PARTITIONS, configs=configs)])
            client.partition_count(TOPIC)
        since_s = time.monotonic()
        produce(broker.bootstrap, count)
        say(f"produced {count} records in {time.monotonic() - since_s:.0f} s")
        before = read_by_librdkafka(broker.bootstrap, TOPIC, PARTITIONS)
        say(f"before: {before['count']} committed records, hash {before['hash']}")
        moved_to_the_archive(broker, location)
        last = [f"{partition}:{offset}" for partition, offset in before["last"].items()]
        wrong = 0
        with command(broker.bootstrap, "archive", "serve", "--port", str(port)):
            for name in names:
                since_s, cpu_s = time.monotonic(), children_s()
                try:
                    found = read_by(name, broker.bootstrap, last, folder)
                except UnavailableError as error:
                    say(f"{name}: not run, {error}")
                    continue
                keys = ("count", "hash", "disorder")
                is_same = all(found[key] == before[key] for key in keys)
                wrong += not is_same
                verdict = "the same" if is_same else f"NOT the same: {found}"
                say(f"{name}: {verdict}, {found['count']} records; {spent(since_s, cpu_s)}")
    print("NOT held" if wrong else "held", flush=True)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    parser.add_argument("--only", nargs="+", choices=[*CLIENTS], help="clients (all)")
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "readback")
    return prove(folder, asked.count, asked.only or [*CLIENTS])


if __name__ == "__main__":
    sys.exit(main())
