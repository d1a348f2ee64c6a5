"""Random histories of a mirror: the copier itself, between a source that is a model and a broker in
memory. The source grows, changes its leader, truncates, compacts and deletes; answers are lost,
requests come late or again, the target dies in an append, and a second mirror takes over.

Invariants, after each step: the target has the same bytes at the same offsets as one history of the
source, without gaps; records of a history that the source has left never stand next to those of the
one that it went on with; and what is there stays.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.operations import Outcome
from josefine_broker.records.batch import iter_batches, stamp
from josefine_cli.mirror import copier
from josefine_cli.mirror.copier import Copier
from josefine_cli.mirror.epochs import Answers, parse, render
from josefine_cli.mirror.plan import Ends, Why
from josefine_cli.mirror.sides import Source
from tests.unit.josefine_broker.api.test_mirrored import append, claim, mirror
from tests.unit.josefine_broker.api.world import batch_of

TP = TopicPartition("mirrored", 0)
FETCH_BYTES = 400
"""So small that a history has many fetches."""
Bytes = dict[int, bytes]
"""Batches by base offset, without their leader epochs."""


def without_epoch(batch: bytes) -> bytes:
    return batch[:12] + batch[16:]


class Model:
    """The source: one partition, with every history that it ever had."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.epoch, self.start, self.end = 0, 0, 0
        self.batches: dict[int, tuple[int, bytes]] = {}
        """Base offset → end offset and bytes."""
        self.histories: list[Bytes] = [{}]
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        """Leader epochs and where each started, as a leader keeps them."""

    def grow(self) -> None:
        values = [b"%d" % self._rng.getrandbits(64)] * self._rng.randint(1, 4)
        batch = bytearray(batch_of(*values))
        stamp(batch, 0, self.end, LeaderEpoch(self.epoch))
        self.histories[-1][self.end] = without_epoch(bytes(batch))
        self.batches[self.end] = (self.end + len(values), bytes(batch))
        self.end += len(values)

    def elect(self) -> None:
        """A new leader, whose epoch starts at its log's end."""
        self.epoch += 1
        self.epochs = [each for each in self.epochs if each[1] < self.end or not each[1]]
        # Another replica may lack an epoch in which nothing was written.
        if self.epochs and self.epochs[-1][1] == self.end:
            self.epochs.pop()
        self.epochs.append((self.epoch, self.end))

    def truncate(self) -> None:
        """An unclean election: the new leader lacks the last batches."""
        for base in sorted(self.batches)[-self._rng.randint(1, 3) :]:
            self.end = min(self.end, base)
            del self.batches[base]
        old = self.histories[-1]
        self.histories.append({base: each for base, each in old.items() if base < self.end})
        self.elect()

    def epoch_end(self, asked: int) -> tuple[int, int]:
        """Kafka's answer."""
        if asked > self.epochs[-1][0]:
            return -1, -1
        if asked == self.epochs[-1][0]:
            return asked, self.end
        later = min(start for epoch, start in self.epochs if epoch > asked)
        return max((epoch for epoch, _ in self.epochs if epoch <= asked), default=asked), later

    def delete(self, until: int) -> None:
        """Retention; no further than the mirror, which would stop."""
        for base in [base for base, (end, _) in self.batches.items() if end <= until]:
            self.start = max(self.start, self.batches.pop(base)[0])
        before = [epoch for epoch, start in self.epochs if start <= self.start]
        after = [each for each in self.epochs if each[1] > self.start]
        self.epochs = [(before[-1], self.start), *after] if before else after

    def compact(self) -> None:
        bases = sorted(self.batches)[:-1]
        if bases:
            del self.batches[self._rng.choice(bases)]

    def read(self, offset: int, bytes_max: int) -> bytes:
        found = b""
        for base in sorted(self.batches):
            end, batch = self.batches[base]
            if end > offset:
                if found and len(found) + len(batch) > bytes_max:
                    break
                found += batch
        return found

    # As the copier uses it.

    def known_topic_id(self, topic: str) -> None:
        return None

    def fetch(self, wanted: Mapping[TopicPartition, int], **_: int) -> Any:
        (offset,) = wanted.values()
        is_inside = self.start <= offset <= self.end
        code = ErrorCode.none if is_inside else ErrorCode.offset_out_of_range
        data = self.read(offset, FETCH_BYTES) if is_inside else b""
        found = FetchedPartition(
            records=memoryview(data),
            high_watermark=self.end,
            last_stable_offset=self.end,
            log_start_offset=self.start,
            error_code=code,
        )
        return {TP: found}


class Target:
    """The client of the broker in memory. Requests may be lost, late, cut and repeated."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.world = mirror()
        self.is_calm = False
        self.late: list[tuple[str, bytes]] = []
        """Requests that are still on their way, whose sender has given up."""

    def read(self, offset: int) -> bytes:
        log = self.world.ctx.hosted.partitions[TP].log
        if offset >= log.log_end_offset:
            return b""
        return b"".join(log.read(offset, 1 << 20, end_offset=log.log_end_offset))

    @property
    def ends(self) -> Ends:
        log = self.world.ctx.hosted.partitions[TP].log
        return Ends(log.log_start_offset, log.log_end_offset)

    def produce_outcomes(
        self, batches: Mapping[TopicPartition, Any], *, timeout_ms: int, transactional_id: str
    ) -> dict[TopicPartition, Outcome]:
        data = bytes(batches[TP])
        lost = {TP: Outcome(error=KafkaError(ErrorCode.request_timed_out))}
        what = 9 if self.is_calm else self._rng.randrange(10)
        if what == 0:  # the broker gets it later, or never
            self.late.append((transactional_id, data))
            return lost
        if what == 1:  # it dies when it has written the first batches
            cuts = [pos for pos, _ in iter_batches(data)]
            append(self.world, data[: self._rng.choice(cuts)], session=transactional_id)
            self.world = self.world.restart()
            return lost
        answer = append(self.world, data, session=transactional_id)
        if what == 2:
            return lost
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.none:
            return {TP: Outcome()}
        return {TP: Outcome(error=KafkaError(code, answer.error_message or ""))}

    def deliver_late(self) -> None:
        while self.late:
            session, data = self.late.pop(self._rng.randrange(len(self.late)))
            append(self.world, data, session=session)

    def session(self) -> str:
        topic = self.world.ctx.image.topics[TP.topic]
        return dict(topic.config)["josefine.mirror.session"]


class Ahead(copier._Reader):
    """The reader without its thread: it has read some rounds before they are taken."""

    depth = 2

    def __init__(self, source: Any, parts: Any) -> None:
        with patch.object(threading.Thread, "start"):
            super().__init__(source, parts)
        self._rounds: list[Any] = []

    def take(self) -> Any:
        while len(self._rounds) < self.depth:
            self._rounds.append(self._read())
        return self._rounds.pop(0)

    def close(self) -> None:
        """There is no thread to end."""


class History:
    """One history, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.source, self.target = Model(self.rng), Target(self.rng)
        self.compacts = self.rng.random() < 0.3
        self.truncates = self.rng.random() < 0.8
        self.notes: dict[int, Any] = {}
        self.seen: Bytes = {}
        self.mirrors: dict[str, Copier] = {}
        self.runs = 0

    def ends_of(self, client: Any, _tps: Iterable[Any]) -> dict[TopicPartition, Ends]:
        is_source = client is self.source
        return {TP: Ends(self.source.start, self.source.end) if is_source else self.target.ends}

    def read_at(self, client: Any, _tp: Any, offset: int) -> memoryview | None:
        if client is self.source:
            is_inside = self.source.start <= offset <= self.source.end
            return memoryview(self.source.read(offset, 1 << 20)) if is_inside else None
        return memoryview(self.target.read(offset))

    def keep_notes(self, _client: Any, _topic: str, session: str, notes: Any) -> None:
        if not self.target.is_calm and self.rng.random() < 0.1:
            raise KafkaError(ErrorCode.request_timed_out)
        if session != self.target.session():
            raise KafkaError(ErrorCode.policy_violation)
        self.notes = parse(render(notes))

    def answers_of(self, _client: Any, _tp: Any, epochs: Iterable[int]) -> Answers:
        source = self.source
        ends = {epoch: source.epoch_end(epoch) for epoch in epochs}
        return Answers(source.start, source.epochs[0][0], ends)

    def mirror(self, name: str) -> Copier:
        """This process, started with a session of its own if it does not run."""
        if name not in self.mirrors:
            self.runs += 1
            session = f"{name}{self.runs}"
            claim(self.target.world, session)
            found = Copier(self.source, self.target, session)  # type: ignore[arg-type]
            policy = "compact" if self.compacts else "delete"
            configs: Any = {"cleanup.policy": SimpleNamespace(value=policy)}
            found.attach({TP.topic: Source("other/id", None, 1, configs)})
            self.mirrors[name] = found
        return self.mirrors[name]

    def step(self, name: str) -> None:
        """After an error a mirror repeats, or is started again."""
        try:
            found = self.mirror(name)
        except KafkaError:
            return
        if found.verdicts:
            reasons = {each.why for each in found.verdicts.values()}
            assert self.truncates or not reasons & {Why.SHORTER, Why.DIFFERENT}, reasons
            # It ends; whoever runs it may start it again, which claims the topic.
            if self.rng.random() < 0.3:
                del self.mirrors[name]
            return
        try:
            found.step()
            if self.rng.random() < 0.2:
                found.follow_leaders()
        except KafkaError:
            if self.rng.random() < 0.5:
                del self.mirrors[name]

    def turn(self) -> None:
        what = self.rng.randrange(20)
        if what < 7:
            self.source.grow()
        elif what == 7:
            self.source.elect()
        elif what == 8 and self.truncates and self.source.batches:
            self.source.truncate()
            for _ in range(self.rng.randint(0, 5)):
                self.source.grow()
        elif what == 9 and self.compacts:
            self.source.compact()
        elif what == 10 and not self.compacts:
            end = min(self.source.end, self.target.ends.end)
            # Often all that could be compared.
            self.source.delete(end if self.rng.random() < 0.5 else self.rng.randint(0, end))
        elif what == 11:
            self.target.deliver_late()
        elif what == 12:
            self.target.world = self.target.world.restart()
        elif what == 13:
            self.mirrors.pop(self.rng.choice("ab"), None)
        else:
            self.step("a" if self.rng.random() < 0.8 else "b")
        self.check()

    def check(self) -> None:
        """The invariants; `seen` grows with the target."""
        start, end = self.target.ends
        found: Bytes = {}
        next_offset = start
        while next_offset < end:
            data = self.target.read(next_offset)
            for pos, header in iter_batches(data):
                assert header.base_offset <= next_offset, "a gap"
                next_offset = header.end_offset
                if header.record_count:
                    batch = data[pos : pos + header.size_bytes]
                    found[header.base_offset] = without_epoch(batch)
        for base, batch in self.seen.items():
            assert base < start or found.get(base) == batch, f"offset {base} has changed"
        self.seen |= found
        fits = [
            history
            for history in self.source.histories
            if all(history.get(base) == batch for base, batch in found.items())
            and (self.compacts or all(base in found for base in history if start <= base < end))
        ]
        assert fits or not found, "bytes of no history, or of two"


@pytest.mark.parametrize("seed", range(24))
def test_target_has_one_history_of_the_source(seed: int) -> None:
    history = History(seed)

    def is_current(client: Any, topic: str, session: str) -> bool:
        return history.target.session() == session

    with (
        patch.object(copier, "_Reader", Ahead),
        patch.object(copier, "ends_of", history.ends_of),
        patch.object(copier, "read_at", history.read_at),
        patch.object(copier, "read_whole", history.read_at),
        patch.object(copier, "is_current", is_current),
        patch.object(copier, "notes_of", lambda *_: dict(history.notes)),
        patch.object(copier, "keep_notes", history.keep_notes),
        patch.object(copier, "answers_of", history.answers_of),
        patch.object(copier, "leaders_of", lambda *_: {TP: history.source.epoch}),
        patch.object(copier, "delete_before"),
    ):
        for _turn in range(200):
            history.turn()
        # In calm a mirror reaches the end, or it has a reason not to.
        history.target.is_calm = True
        history.target.deliver_late()
        history.check()
        history.mirrors.clear()
        last = history.mirror("z")
        for _turn in range(300):
            if not last.verdicts and history.target.ends.end < history.source.end:
                with suppress(KafkaError):
                    last.step()
        history.check()
        if not last.verdicts:
            assert history.target.ends.end == history.source.end
        else:
            reasons = {each.why for each in last.verdicts.values()}
            assert reasons <= {Why.SHORTER, Why.DIFFERENT, Why.DELETED, Why.UNKNOWN}
            assert history.truncates or reasons <= {Why.DELETED, Why.UNKNOWN}, reasons
