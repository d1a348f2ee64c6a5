"""A proof: logs heal themselves under load. Prints one line of verdict.

`python -m tests.proofs.damage_under_load [--seconds 5] [--seed N] [--folder FOLDER]`

Three brokers, one topic with three replicas, a producer with acks=all and a reader that starts
again and again. Then every replica is damaged at other places, leader and followers: flipped bits
in sealed and active segments, of logs and of an index, a shortened, an emptied and a missing
segment, a sector written to the wrong place. Every record is intact on two replicas. The brokers
verify their logs, as `josefine log verify` has them do. Within 60 s all replicas must be equal
again, byte for byte; every acknowledged record is read in order, no reader may ever have been given
a wrong value, and none may have waited for more than 2 s.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import LATEST, BlockingClient, BlockingProducer
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records
from josefine_cli.base.admin import ask
from josefine_cli.cluster.verify import compare_all
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)
HEALED_S, WAIT_MAX_S = 60, 2.0
SECTOR_BYTES = 512


@dataclass
class Load:
    """The producer and the reader, each on a thread of its own."""

    bootstrap: str
    acknowledged: int = 0
    """Records with the values 0 to this are acknowledged, each at the offset of its value."""
    read: int = 0
    wrong: list[str] = field(default_factory=list)
    longest_wait_s: float = 0.0
    ends: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        with BlockingClient(self.bootstrap) as client:
            producer = BlockingProducer(client, acks=-1, batch_bytes_max=2_000)
            while not self.ends.is_set():
                for number in range(self.acknowledged, self.acknowledged + 200):
                    producer.send(TOPIC, value=b"%012d" % number)
                producer.flush()
                self.acknowledged += 200

    def consume(self) -> None:
        """Read from the start to the end, and again. It compares values, not checksums."""
        with BlockingClient(self.bootstrap) as client:
            while not self.ends.is_set():
                offset, moved_s = 0, time.monotonic()
                end = self.acknowledged
                while offset < end and not self.ends.is_set():
                    found = self._read(client, offset)
                    now_s = time.monotonic()
                    if found > offset:
                        self.longest_wait_s = max(self.longest_wait_s, now_s - moved_s)
                        moved_s = now_s
                    offset = found

    def _read(self, client: BlockingClient, offset: int) -> int:
        try:
            part = client.fetch({TP: offset}, partition_bytes_max=64 * 1024, max_wait_ms=100)[TP]
        except (KafkaError, KeyError) as error:
            self.wrong.append(f"offset {offset}: {error!r}")
            return offset
        for pos, header in iter_batches(part.records):
            for record in read_records(part.records[pos : pos + header.size_bytes]):
                if record.offset >= offset and record.value != b"%012d" % record.offset:
                    self.wrong.append(f"offset {record.offset}: {record.value!r}")
                self.read += record.offset >= offset
            offset = max(offset, header.end_offset)
        return offset


class Harm:
    """Damage to the files of running brokers."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.done: list[str] = []

    def folder(self, broker: int) -> Path:
        return self._cluster.broker(broker).data_dir / f"{TOPIC}-0"

    def segments(self, broker: int) -> list[Path]:
        """Oldest first; the last one is active."""
        return sorted(self.folder(broker).glob("*.log"))

    def flip(self, broker: int, path: Path, batch: int | None = None) -> None:
        """One bit anywhere, or in the batch with this number."""
        data = bytearray(path.read_bytes())
        start, size = 0, len(data)
        if batch is not None:
            spans = [(pos, header.size_bytes) for pos, header in iter_batches(bytes(data))]
            start, size = spans[batch]
        at = start + self._rng.randrange(size)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes((data[at] ^ 1 << self._rng.randrange(8),)))
        self._note(broker, path, f"bit flipped in byte {at}")

    def shorten(self, broker: int, path: Path, share: float) -> None:
        size = int(path.stat().st_size * share)
        with path.open("r+b") as file:
            file.truncate(size)
        self._note(broker, path, f"shortened to {size} bytes")

    def remove(self, broker: int, path: Path) -> None:
        path.unlink()
        self._note(broker, path, "removed")

    def misdirect(self, broker: int, path: Path) -> None:
        """A sector of the file is written over another one."""
        data = path.read_bytes()
        sectors = len(data) // SECTOR_BYTES
        source, target = self._rng.sample(range(sectors), 2)
        with path.open("r+b") as file:
            file.seek(target * SECTOR_BYTES)
            file.write(data[source * SECTOR_BYTES : (source + 1) * SECTOR_BYTES])
        self._note(broker, path, f"sector {source} written over sector {target}")

    def _note(self, broker: int, path: Path, what: str) -> None:
        self.done.append(f"broker {broker} {path.name}: {what}")

    def everywhere(self, leader: int, followers: list[int]) -> None:
        """Every place is damaged on one replica only."""
        first, second = followers
        at = {each: self.segments(each) for each in (leader, first, second)}
        self.flip(leader, at[leader][0])
        self.shorten(first, at[first][1], 0.4)
        self.remove(second, at[second][2])
        self.misdirect(leader, at[leader][3])
        self.flip(first, at[first][4].with_suffix(".index"))
        self.shorten(second, at[second][5], 0.0)
        for batch, broker in enumerate((leader, first, second)):
            self.flip(broker, at[broker][6], batch=2 * batch + 1)
        self.flip(leader, at[leader][-1], batch=0)


def sealed_everywhere(harm: Harm, brokers: tuple[int, ...]) -> bool:
    """Whether every replica has eight segments whose index is stored, and a batch after them."""
    for broker in brokers:
        found = harm.segments(broker)
        if len(found) < 9 or not found[-1].stat().st_size:
            return False
        if not all(each.with_suffix(".index").exists() for each in found[:8]):
            return False
    return True


def prove(folder: Path, seconds: float, seed: int) -> tuple[list[str], str]:
    """(what is wrong, the figures)."""
    with Cluster(folder / "cluster", 3, log__segment_bytes=32 * 1024) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic(TOPIC, 1, 3, configs={"min.insync.replicas": "2"})])
        cluster.wait_settled()
        load, harm = Load(cluster.bootstrap), Harm(cluster, Random(seed))
        threads = [threading.Thread(target=each) for each in (load.produce, load.consume)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: sealed_everywhere(harm, cluster.voters), 60, "eight segments")
            leader = cluster.leader_of(TOPIC)
            harm.everywhere(leader, [each for each in cluster.voters if each != leader])
            began_s = time.monotonic()
            healed_s = _healed(cluster, began_s)
            ends_s = began_s + max(seconds, healed_s)
            wait_until(lambda: time.monotonic() > ends_s, seconds + HEALED_S, "the end of the load")
        finally:
            load.ends.set()
            for thread in threads:
                thread.join()
        return _judged(cluster, load, harm, healed_s)


def _healed(cluster: Cluster, began_s: float) -> float:
    """Have all brokers verify their logs; seconds until no damage is left."""
    urls = [cluster.broker(each).admin_url for each in cluster.voters]
    for url in urls:
        ask(url, "/logs/verify", acts=True)

    def is_whole() -> bool:
        views = [ask(url, "/logs") for url in urls]
        return not any(view["verify_left"] or view["damaged"] for view in views)

    wait_until(is_whole, HEALED_S, f"whole replicas: {[ask(url, '/logs') for url in urls]}")
    return time.monotonic() - began_s


def _judged(cluster: Cluster, load: Load, harm: Harm, healed_s: float) -> tuple[list[str], str]:
    urls = [cluster.broker(each).admin_url for each in cluster.voters]
    wrong = list(load.wrong)
    if load.longest_wait_s > WAIT_MAX_S:
        wrong.append(f"a reader waited for {load.longest_wait_s:.1f} s, {WAIT_MAX_S} s at most")
    repaired = sum(ask(url, "/logs")["repaired"] for url in urls)
    if repaired < len(harm.done) - 1:  # a damaged index may have been rebuilt by a read
        wrong.append(f"{repaired} segments repaired, {len(harm.done)} places damaged")
    _healed(cluster, time.monotonic())
    compared = compare_all(urls, TOPIC)
    wrong += [str(each) for result in compared for each in result.differences]
    last = Load(cluster.bootstrap, acknowledged=load.acknowledged)
    with BlockingClient(cluster.bootstrap) as client:
        end, offset = client.list_offsets({TP: LATEST})[TP].offset, 0
        while offset < end:
            offset = last._read(client, offset)
    wrong += last.wrong
    if last.read < load.acknowledged:
        wrong.append(f"{last.read} records of {load.acknowledged} acknowledged ones")
    figures = (
        f"{load.acknowledged} records acknowledged, {load.read} read meanwhile, "
        f"{len(harm.done)} places of 3 replicas damaged, {repaired} segments repaired, "
        f"whole after {healed_s:.1f} s, longest wait of the reader {load.longest_wait_s:.1f} s, "
        f"{sum(each.offsets for each in compared)} offsets equal on all replicas"
    )
    return wrong, figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of load after the damage")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="josefine-proof-"))
    wrong, figures = prove(folder, asked.seconds, asked.seed)
    verdict = "0 lost, 0 wrong values" if not wrong else f"FAILED: {wrong[:5]}, see {folder}"
    print(f"damage under load, seed {asked.seed}: {verdict}; {figures}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
