"""A topic with an archive in virtual time: brokers, two runners, a person, an archive reader, a
consumer, and faults drawn from a seed.

The cluster is modelled (`brokers.py`); what decides is the product's: leases, chain and verdicts of
the writer, its real Delta table, the archive's retention, `archived_end`, the archive reader and
`archive_reads`. After each event the rules are checked:

- a record is deleted locally only if the archive has it, or had it until a little while ago: as
  long as a look counts, so a dropped or restored archive is noticed before more is deleted;
- the archive has each offset once, whoever committed;
- the archive's retention deletes only old records, from each partition's start;
- a consumer gets each committed record once, in order, from archive and log.

What a person gives up (`--trust archive`) is excused.
"""

from __future__ import annotations

import json
import shutil
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from deltalake import DeltaTable

from josefine_arrow.batches.decoder import decoder_class
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.partition.archived_end import FRESH_MS
from josefine_broker.engine.replicas.archive_reads import ArchiveAnswer, ArchiveReads
from josefine_lake.archive import notes, reader, serve
from josefine_lake.archive.config import archive_topic
from josefine_lake.archive.serve import Archives, answered
from josefine_lake.config.leases import leased
from josefine_lake.config.table_topic import ARCHIVE_ENABLE, ARCHIVE_LOCATION
from josefine_lake.writer import delta_table
from josefine_lake.writer.discovery import Discovered
from tests.simulation.archive.brokers import REPLICAS, TOPIC, Cluster, Partition, Record
from tests.simulation.archive.runners import Client, Runner

PARTITIONS = 2
STEP_MS = 1_500
"""The longest time from one event to the next."""
HEARD_MS = 12_000
"""From a look's report to the broker that hears of it, at most."""
FIRST_ROUNDS = 200
"""Of the end of a history: what has to be archived by then is, or the log is too short."""
NO_END = 2**63 - 1
Key = tuple[TopicPartition, int]
Content = tuple[bytes | None, int]


class World:
    """Mutable. `events` and `now_ms` show how far it came."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = Random(seed)
        self.folder = folder
        self.met: Counter[str] = Counter()
        self.now_ms, self.events, self.trace = 1_000_000, 0, 0
        self.slowest_ms = 0
        """The longest time that a runner waited for a turn."""
        self.is_calm = False
        self.keeps = 0
        self.away_until_ms = self.off_until_ms = 0
        self.cluster = Cluster(PARTITIONS)
        self.cluster.retention_ms = self.rng.choice([None, 60_000, 200_000])
        self.locations = 0
        self.relocate()
        self.runners = [Runner(self, "a"), Runner(self, "b")]
        self.believes = [True, False]
        """Who takes the lease for its own."""
        self.owner = 0
        self.sent = 0
        self.copies: list[Path] = []
        self.backup: Path | None = None
        """What a person saved when the archive was damaged."""
        self.content: dict[Key, Content] = {}
        self.seen = ""
        self.lost_since: dict[tuple[Key, Content], int] = {}
        self.expired: set[Key] = set()
        self.excused: set[Key] = set()
        self.positions = dict.fromkeys(self.cluster.partitions, 0)
        self.new_reader()
        self.reads = [self.new_reads(at) for at in range(REPLICAS)]

    @property
    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms

    @property
    def path(self) -> Path:
        return Path(self.table.location)

    def fails(self, what: str) -> bool:
        """Whether a call of the world fails now."""
        if self.is_calm or self.rng.random() > 0.03:
            return False
        self.met[what] += 1
        return True

    # --- the parts of the world

    def relocate(self) -> None:
        """A new archive for the topic."""
        self.locations += 1
        where = str(self.folder / f"archive-{self.locations}")
        found = archive_topic(TOPIC, {ARCHIVE_ENABLE: "true", ARCHIVE_LOCATION: where})
        assert found is not None
        self.table = found

    def new_reader(self) -> None:
        """The archive reader's process starts again; questions on their way are lost."""

        @contextmanager
        def client() -> Iterator[Any]:
            calm = SimpleNamespace(world=self, called=lambda place: self.cluster)
            yield Client(calm)  # type: ignore[arg-type]

        self.archives = Archives(client, {})  # type: ignore[arg-type]
        self.archives._found = Discovered(tables={TOPIC: self.table})
        self.asked: list[tuple[Any, Any]] = []

    def new_reads(self, at: int) -> ArchiveReads:
        """A broker's reads below its local start."""
        replica = next(iter(self.cluster.partitions.values())).replicas[at]
        clock = SimpleNamespace(monotonic_ms=lambda: self.now_ms + replica.skew_ms)
        ctx = SimpleNamespace(
            clock=clock,
            ports=SimpleNamespace(tell=lambda *of, **more: None),
            parked=SimpleNamespace(wake=lambda *of: None),
        )

        def ask(question: Any, deadline_ms: int, on_answer: Any) -> None:
            self.asked.append((question, on_answer))

        return ArchiveReads(ctx, ask, lambda question: None)  # type: ignore[arg-type]

    @contextmanager
    def running(self) -> Iterator[None]:
        """The product with this world's clock and commits; at the end every thread has ended."""
        clock = SimpleNamespace(
            time_ns=lambda: self.wall_ms * 1_000_000, monotonic=lambda: self.now_ms / 1_000
        )
        with ExitStack() as stack:
            for module in (notes, reader, serve):
                stack.enter_context(mock.patch.object(module, "time", clock))
            stack.enter_context(mock.patch.object(delta_table, "write", self._write))
            try:
                yield
            finally:
                for each in self.runners:
                    each.kill()

    def _write(self, *of: Any) -> None:
        me = threading.get_ident()
        next(each for each in self.everybody() if each.thread == me).write(*of)

    def everybody(self) -> list[Runner]:
        return [*self.runners, *([self.person] if hasattr(self, "person") else [])]

    # --- events

    def run(self, events: int) -> None:
        """So many events, then everything is repaired, and nothing may be missing."""
        weights = {name: weight for name, (weight, _) in EVENTS.items()}
        for _ in range(events):
            self.now_ms += self.rng.randrange(STEP_MS)
            (name,) = self.rng.choices([*weights], [*weights.values()])
            self.event(name)
        self.settle()

    def event(self, name: str) -> None:
        self.events += 1
        self.trace = zlib.crc32(f"{name} {self.now_ms}".encode(), self.trace)
        EVENTS[name][1](self)
        self.observe()

    def any_partition(self) -> Partition:
        return self.rng.choice([*self.cluster.partitions.values()])

    def produce(self) -> None:
        each = self.any_partition()
        for _ in range(self.rng.randrange(1, 5)):
            self.sent += 1
            is_marker = self.rng.random() < 0.1
            each.append(None if is_marker else b"v%d" % self.sent, self.wall_ms)

    def replicate(self) -> None:
        self.any_partition().replicate(self.rng.randrange(REPLICAS))

    def fall_behind(self) -> None:
        self.any_partition().fall_behind(self.rng.randrange(REPLICAS))

    def elect(self) -> None:
        """A clean election, as a rule."""
        each = self.any_partition()
        others = [at for at in each.in_sync if at != each.leader_id]
        if others:
            each.elect(self.rng.choice(others))
            self.met["clean election"] += 1

    def elect_uncleanly(self) -> None:
        each = self.any_partition()
        others = [at for at in range(REPLICAS) if at not in each.in_sync]
        if others:
            before = each.high_watermark
            each.elect(self.rng.choice(others))
            self.met["unclean election"] += 1
            self.met["committed record lost by an election"] += before - each.high_watermark

    def restart_broker(self) -> None:
        at = self.rng.randrange(REPLICAS)
        for each in self.cluster.partitions.values():
            each.restart(at, self.rng)
        self.reads[at] = self.new_reads(at)

    def ask_coordinator(self) -> None:
        if self.now_ms < self.away_until_ms and not self.is_calm:
            return
        for tp, each in self.cluster.partitions.items():
            if self.is_calm or self.rng.random() < 0.9:
                found = self.cluster.offsets.get(tp)
                each.heard(found, self.now_ms)

    def lose_coordinator(self) -> None:
        """Leaders get no answer for a while; the archive's writer does."""
        self.away_until_ms = self.now_ms + self.rng.randrange(300_000)
        self.met["coordinator away"] += 1

    def retain(self) -> None:
        """Local retention: every segment that may go, goes."""
        for tp, each in self.cluster.partitions.items():
            offsets = each.deletable(str(self.cluster.topic_id), self.now_ms, self.keeps)
            note = each.leader.witness.note
            is_stopped = note is not None and bool(note.stopped)
            assert not (offsets and is_stopped), f"{tp}: {offsets} were deleted after a stop"
            for offset in offsets:
                self.may_delete(tp, offset, each.leader.records[offset])
            each.delete(offsets)
            self.met["record deleted locally"] += len(offsets)

    def alter_retention(self) -> None:
        """A person changes how much stays on brokers."""
        self.keeps = self.rng.choice([0, 0, 10, 30])

    def turn(self) -> None:
        """A runner goes on, or starts."""
        at = self.rng.randrange(2)
        runner = self.runners[at]
        if runner.runs:
            runner.turn()
        elif self.believes[at] and self.now_ms >= max(runner.from_ms, self.off_until_ms):
            runner.start()

    def kill_runner(self) -> None:
        self.rng.choice(self.runners).kill()

    def switch_runners_off(self) -> None:
        """Nobody runs the archive's writer for a while."""
        for each in self.runners:
            each.kill()
        self.off_until_ms = self.now_ms + self.rng.randrange(300_000)
        self.met["writers off"] += 1

    def move_leases(self) -> None:
        """A new generation; who has lost its lease hears of it later."""
        tps = [*self.cluster.partitions]
        first = {tp for tp in tps if self.rng.random() < 0.5}
        counts = {TOPIC: PARTITIONS}
        self.owner = 0 if TOPIC in leased(first, counts) else 1
        assert (TOPIC in leased(set(tps) - first, counts)) == (self.owner == 1)
        self.believes[self.owner] = True
        self.met["lease moved"] += 1

    def hear_lease(self) -> None:
        other = 1 - self.owner
        self.believes[other] = False
        self.runners[other].is_leaving = True

    # --- what happens to the archive

    def copy_archive(self) -> None:
        if self.path.is_dir():
            where = self.folder / f"copy-{self.events}"
            shutil.copytree(self.path, where)
            self.copies.append(where)

    def damage_archive(self) -> None:
        """A person, or another program, harms the archive; somebody has a copy from just before."""
        if self.backup is not None or not (self.path / "_delta_log").is_dir():
            return
        if any(each.place == "write" for each in self.runners):
            return  # delta-rs is between its look and its commit: a moment in which nobody can look
        table = DeltaTable(str(self.path))
        if self.rng.random() < 0.7:
            self.backup = self.folder / f"backup-{self.events}"
            shutil.copytree(self.path, self.backup)
        how = self.rng.choice(["dropped", "emptied", "older copy", "restored"])
        if how == "restored" and table.version() > 0:
            table.restore(self.rng.randrange(table.version()))
        else:
            schema = table.schema()
            shutil.rmtree(self.path)
            if how == "emptied":
                DeltaTable.create(str(self.path), schema)
            elif how == "older copy" and self.copies:
                shutil.copytree(self.rng.choice(self.copies), self.path)
        self.met[f"archive {how}"] += 1

    def recreate_topic(self) -> None:
        self.cluster.recreate()
        self.positions = dict.fromkeys(self.cluster.partitions, 0)
        self.reads = [self.new_reads(at) for at in range(REPLICAS)]
        self.expired, self.excused, self.lost_since = set(), set(), {}
        self.met["topic recreated"] += 1

    def repair(self) -> None:
        """A person looks at the verdict of a runner that stopped."""
        verdicts = {each.verdict for each in self.runners if each.verdict}
        if not verdicts:
            return
        for each in self.runners:
            each.kill()
            each.verdict, each.from_ms = "", 0
        self.met["repair"] += 1
        if "TOPIC_RECREATED" in verdicts:
            self.relocate()
            self.copies, self.backup = [], None
            self.new_reader()
            return
        if self.backup is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            shutil.copytree(self.backup, self.path)
            self.backup = None
            self.met["archive brought back"] += 1
            return
        self.trust()

    def trust(self) -> None:
        """`josefine archive run --trust archive --once`: what the archive lacks is given up."""
        self.observe()
        was, self.is_calm = self.is_calm, True
        ends = self.archive_ends()
        for tp, each in self.cluster.partitions.items():
            for at, record in each.truth().items():
                has = self.content.get((tp, at)) == (record.value, record.epoch)
                if not has and (at in each.gone or at < ends.get(tp, 0)):
                    self.excused.add((tp, at))
            # An unclean election may bring an older log back, of which the archive has no record.
            for replica in each.replicas:
                for at, record in enumerate(replica.records[: ends.get(tp, 0)]):
                    if self.content.get((tp, at)) != (record.value, record.epoch):
                        self.excused.add((tp, at))
        self.person = Runner(self, "person")
        self.person.start(trust=True, once=True)
        while self.person.runs:
            self.person.turn()
        self.is_calm = was
        self.met["trusted"] += 1

    def archive_ends(self) -> dict[TopicPartition, int]:
        """What its newest commit has."""
        if not (self.path / "_delta_log").is_dir():
            return {}
        table = reader.ArchiveTable(self.table, {})
        table.look()
        return {tp: table.end(tp.partition) for tp in self.cluster.partitions}

    # --- readers

    def answer_reader(self) -> None:
        """The archive reader answers its oldest question, or does not."""
        if not self.asked:
            return
        question, on_answer = self.asked.pop(0)
        if self.fails("reader away"):
            on_answer(ArchiveAnswer(b"", -1, -1, "away"))
            return
        line = json.dumps({**question._asdict(), "topic_id": str(question.topic_id)})
        said, data = answered(self.archives, line.encode())
        on_answer(ArchiveAnswer(data, said["next"], said["start"], said["error"]))

    def restart_reader(self) -> None:
        asked, self.asked = self.asked, []
        for _, on_answer in asked:
            on_answer(ArchiveAnswer(b"", -1, -1, "ended"))
        self.new_reader()

    def consume(self) -> None:
        """The consumer reads on in a partition."""
        tp = self.rng.choice([*self.positions])
        each, at = self.cluster.partitions[tp], self.positions[tp]
        start = each.leader.start
        if at > each.high_watermark:  # an unclean election
            self.positions[tp] = each.high_watermark
        elif at < start:
            hosted = SimpleNamespace(
                topic_id=self.cluster.topic_id, log=SimpleNamespace(log_start_offset=start)
            )
            try:
                found = self.reads[each.leader_id].read(tp, hosted, at, 1 << 20)  # type: ignore[arg-type]
            except KafkaError as error:
                self.met[f"consumer: {error.code.name}"] += 1
                if error.code is ErrorCode.offset_out_of_range:
                    # It starts at the earliest offset again, once that is known.
                    first = self.reads[each.leader_id].start(tp, hosted)  # type: ignore[arg-type]
                    if first is not None:
                        self.taken(tp, {}, first)
                return
            if found is None:
                return
            rows: dict[int, bytes | None] = {}
            end = start
            for data in found:
                decoder: Any = decoder_class()(TOPIC, tp.partition, include_headers=False)
                decoded = decoder.decode(memoryview(bytes(data)), at, NO_END, [])
                end = decoded.next_offset
                for batch in decoded.batches:
                    values = batch.column("value").to_pylist()
                    offsets = batch.column("offset").to_pylist()
                    assert offsets == sorted(set(offsets) - set(rows)), f"{tp}: disorder {offsets}"
                    rows.update(zip(offsets, values, strict=True))
            self.met["record read from the archive"] += len(rows)
            self.taken(tp, rows, end)
        else:
            end = min(at + 4, each.high_watermark)
            records = enumerate(each.leader.records[at:end], at)
            self.taken(tp, {o: r.value for o, r in records if r.value is not None}, end)

    def rewind(self) -> None:
        """The consumer reads from the earliest again."""
        tp = self.rng.choice([*self.positions])
        self.positions[tp] = min((o for p, o in self.content if p == tp), default=0)

    # --- rules

    def may_vanish(self, tp: TopicPartition, offset: int) -> bool:
        return (tp, offset) in self.expired or (tp, offset) in self.excused

    def taken(self, tp: TopicPartition, rows: dict[int, bytes | None], end: int) -> None:
        """The consumer got these, and goes on at `end`."""
        at, truth = self.positions[tp], self.cluster.partitions[tp].truth()
        for offset in range(at, end):
            record = truth.get(offset)
            if record is None or record.value is None or self.may_vanish(tp, offset):
                continue
            assert offset in rows, f"a consumer of {tp} did not get offset {offset}"
            assert rows[offset] == record.value, f"a consumer of {tp} got another {offset}"
        self.positions[tp] = max(at, end)

    def may_delete(self, tp: TopicPartition, offset: int, record: Record) -> None:
        """A leader deletes a record."""
        key, content = (tp, offset), (record.value, record.epoch)
        if record.value is None or self.content.get(key) == content or self.may_vanish(*key):
            return
        since_ms = self.lost_since.get((key, content))
        assert since_ms is not None, f"{tp}: {offset} was deleted, and the archive never had it"
        longest_ms = FRESH_MS + HEARD_MS + 2 * self.slowest_ms
        late_ms = self.now_ms - since_ms
        assert late_ms <= longest_ms, f"{tp}: {offset} was deleted {late_ms} ms after its loss"
        self.met["record deleted before the loss was noticed"] += 1
        self.excused.add(key)

    def observe(self) -> None:
        """Look at the archive, if it has changed."""
        log = self.path / "_delta_log"
        names = sorted(each.name for each in log.glob("*.json")) if log.is_dir() else []
        seen = f"{self.locations} {names and (log / names[-1]).read_text()}"
        if seen == self.seen:
            return
        self.seen = seen
        rows = DeltaTable(str(self.path)).to_pyarrow_table() if names else None
        found: dict[Key, Content] = {}
        if rows is not None:
            for p, offset, value, epoch in zip(
                *(rows.column(n).to_pylist() for n in ("partition", "offset", "value")),
                rows.column("leader_epoch").to_pylist(),
                strict=True,
            ):
                found[TopicPartition(TOPIC, p), offset] = (value, epoch)
            assert len(found) == rows.num_rows, "the archive has an offset twice"
        is_deletion = bool(names) and '"operation":"DELETE"' in (log / names[-1]).read_text()
        vanished = {key: each for key, each in self.content.items() if found.get(key) != each}
        if is_deletion:
            self.check_retention(vanished, found)
        else:
            self.lost_since |= dict.fromkeys(vanished.items(), self.now_ms)
        for key in found.items():
            self.lost_since.pop(key, None)
        self.content = found

    def check_retention(self, vanished: dict[Key, Content], found: dict[Key, Content]) -> None:
        """Only old records, from the start of each partition."""
        retention_ms = self.cluster.retention_ms
        assert retention_ms is not None, "the topic keeps its records for ever"
        for tp, offset in vanished:
            first = min((o for p, o in found if p == tp), default=offset + 1)
            assert offset < first, f"{tp}: {offset} was deleted, and {first} was not"
            record = self.cluster.partitions[tp].truth().get(offset)
            if record is not None and vanished[tp, offset] == (record.value, record.epoch):
                age_ms = self.wall_ms - record.time_ms
                assert age_ms > retention_ms, f"{tp}: {offset} was deleted at {age_ms} ms"
        self.expired |= vanished.keys()
        self.met["record expired"] += len(vanished)

    def settle(self) -> None:
        """No more faults: the archive gets everything, and a consumer reads it from the start."""
        self.is_calm, self.off_until_ms = True, 0
        for each in self.cluster.partitions.values():
            for at in range(REPLICAS):
                each.replicate(at)
        self.hear_lease()

        def is_archived() -> bool:
            ends = self.archive_ends()
            parts = self.cluster.partitions.items()
            return all(ends.get(tp, 0) == each.high_watermark for tp, each in parts)

        for at in range(2_000):
            self.now_ms += 500
            if at == FIRST_ROUNDS:
                # An unclean election left the log shorter than the archive: it grows again.
                ends = self.archive_ends()
                for tp, each in self.cluster.partitions.items():
                    for _ in range(ends.get(tp, 0) - each.high_watermark + 1):
                        each.append(b"later", self.wall_ms)
                        for other in range(REPLICAS):
                            each.replicate(other)
            for name in ("turn", "ask_coordinator", "repair", "retain"):
                self.event(name)
            if self.events % 40 == 0 and is_archived():
                break
        else:
            why = [(each.place, each.failure) for each in self.everybody()]
            raise AssertionError(f"the archive does not get what is left: {why}")
        self.restart_reader()
        for tp in self.positions:
            self.positions[tp] = min((o for p, o in self.content if p == tp), default=0)
        for _ in range(4_000):
            self.now_ms += 200
            self.event("consume")
            self.event("answer_reader")
            parts = self.cluster.partitions.items()
            if all(self.positions[tp] >= each.high_watermark for tp, each in parts):
                return
        raise AssertionError(f"the consumer does not reach the end: {self.positions}")


EVENTS: dict[str, tuple[float, Any]] = {
    "produce": (10, World.produce),
    "replicate": (10, World.replicate),
    "fall_behind": (1, World.fall_behind),
    "elect": (1, World.elect),
    "elect_uncleanly": (0.3, World.elect_uncleanly),
    "restart_broker": (0.5, World.restart_broker),
    "ask_coordinator": (15, World.ask_coordinator),
    "lose_coordinator": (0.3, World.lose_coordinator),
    "retain": (8, World.retain),
    "alter_retention": (1, World.alter_retention),
    "turn": (60, World.turn),
    "kill_runner": (0.7, World.kill_runner),
    "switch_runners_off": (0.25, World.switch_runners_off),
    "move_leases": (0.7, World.move_leases),
    "hear_lease": (2, World.hear_lease),
    "copy_archive": (0.5, World.copy_archive),
    "damage_archive": (0.6, World.damage_archive),
    "recreate_topic": (0.1, World.recreate_topic),
    "repair": (1, World.repair),
    "answer_reader": (10, World.answer_reader),
    "restart_reader": (0.3, World.restart_reader),
    "consume": (12, World.consume),
    "rewind": (0.5, World.rewind),
}
"""Event → how often it happens, and what it does."""
