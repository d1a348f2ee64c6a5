"""The copy of partitions: a thread that reads the source ahead, and the appends to the target.

Rules: each append starts where the target ends (`plan.py`), so a copy can end anywhere. What was
read and not appended is dropped after an error, and read again from the target's end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.retry import Action, action_for
from josefine_cli.mirror import epochs, plan
from josefine_cli.mirror.epochs import NO_EPOCH, Notes
from josefine_cli.mirror.plan import Append, Ends, Note, Tail, Verdict, Why
from josefine_cli.mirror.sides import (
    Source,
    answers_of,
    delete_before,
    ends_of,
    is_current,
    keep_notes,
    leaders_of,
    notes_of,
    read_at,
    read_whole,
    sessions_of,
)

SESSION_PREFIX = "josefine-mirror:"
BYTES_MAX = 32 << 20
PARTITION_BYTES_MAX = 8 << 20
AHEAD = 2
"""Fetches that wait for their append."""
APPEND_TIMEOUT_MS = 60_000
FENCE_WAIT_S = 30.0
"""How long a leader may need to learn of a new session."""
STARTS_EVERY_S = 10.0
LEADERS_MS = 2_000
"""How long the source may take to name its leaders: nothing is copied meanwhile."""
REPLACED_S = 5.0
"""How long brokers must name another session: one that lags may still name the one before."""
REPLACED = "this session no longer mirrors the topic: another one does, or it was cut over"


@dataclass(slots=True)
class Part:
    """One partition: where its mirror is."""

    position: int
    epoch: int
    """The source's leader epoch of the last batch that was read; -1: of none."""
    tail: Tail | None
    compacts: bool
    topic_id: object
    start: int
    """The source's log start, from which a blank mirror reads."""
    deleted: int
    """The log start of the mirror, as far as it follows the source's."""
    notes: Notes = ()
    leader: int = NO_EPOCH
    """The source's leader epoch in which it was compared last, while it had nothing new."""


class _KeptNotes:
    """The notes of the source's epochs, as the target has them with each topic."""

    def __init__(self, target: BlockingClient, session: str) -> None:
        self._target = target
        self._session = session
        self._topics: dict[str, dict[int, Notes]] = {}

    def read(self, topics: Iterable[str]) -> None:
        """Raises KafkaError."""
        self._topics |= {topic: notes_of(self._target, topic) for topic in topics}

    def of(self, tp: TopicPartition) -> Notes:
        """The last ones that were written."""
        return self._topics[tp.topic].get(tp.partition, ())

    def write(self, new: Mapping[TopicPartition, Notes]) -> None:
        """One change of its config for each topic. Raises KafkaError."""
        for topic in sorted({tp.topic for tp in new}):
            found = {tp.partition: each for tp, each in new.items() if tp.topic == topic}
            kept = {**self._topics[topic], **found}
            keep_notes(self._target, topic, self._session, kept)
            self._topics[topic] = kept


Round = dict[TopicPartition, Append | Verdict]


class Copier:
    """The mirror of some partitions by one session."""

    def __init__(
        self,
        source: BlockingClient,
        target: BlockingClient,
        session: str,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`note` gets each verdict when it is found."""
        self._note = note
        self._source = source
        self._target = target
        self._session = session
        self._kept = _KeptNotes(target, session)
        self.parts: dict[TopicPartition, Part] = {}
        self.verdicts: dict[TopicPartition, Verdict] = {}
        self.copied_bytes = 0
        self._topics: dict[str, Source] = {}
        self._starts_due_s = 0.0
        self._replaced_s: dict[str, float] = {}
        """Topic → when brokers first named another session."""
        self._reader: _Reader | None = None

    def attach(self, topics: Mapping[str, Source]) -> None:
        """Find where each partition continues. Raises KafkaError."""
        tps = [
            TopicPartition(topic, index)
            for topic, found in topics.items()
            for index in range(found.partitions)
        ]
        # Before the comparison: a later leader is compared again.
        leaders = leaders_of(self._source, tps)
        # The source's ends come last: the mirror before this one may still append what was written
        # meanwhile, and a mirror that ends after its source looks like another history.
        ours = ends_of(self._target, tps)
        theirs = ends_of(self._source, tps)
        self._topics.update(topics)
        self._kept.read(topics)
        for tp in tps:
            self._attach(tp, topics[tp.topic], theirs[tp], ours[tp])
        self._note_leaders({tp: leaders[tp] for tp in tps if tp in self.parts})

    def _attach(self, tp: TopicPartition, found: Source, theirs: Ends, ours: Ends) -> None:
        """Note the partition, or its verdict."""
        is_blank, tail = ours.end == 0, None
        if not is_blank and ours.end > ours.start:
            read = read_at if found.compacts else read_whole
            first, last = (read(self._target, tp, at) for at in (ours.start, ours.end - 1))
            is_blank = first is not None and plan.is_without_records(first, ours.end)
            tail = None if last is None else plan.tail_of(last, ours.end)
        verdict = plan.attach(theirs, ours, is_blank=is_blank)
        notes = () if is_blank else self._valid_notes(tp, ours, compacts=found.compacts)
        start = theirs.start
        part = Part(
            ours.end, NO_EPOCH, tail, found.compacts, found.topic_id, start, ours.start, notes
        )
        if verdict is None:
            verdict = _compare(self._source, tp, part)
        if verdict is not None:
            self._stop(tp, verdict)
            return
        self.parts[tp] = part
        if ours.end < start == theirs.end:  # the source has no records, so no batch leads there
            fillers = plan.fill(ours.end, start)
            self._append({tp: Append(fillers, start, (), Tail(0, 0, 0, 0))})

    def _valid_notes(self, tp: TopicPartition, ours: Ends, *, compacts: bool) -> Notes:
        """The notes of batches that are here. One was made and its batch refused if an append
        before it was under way, of which nobody knew. Raises KafkaError."""
        found = []
        for note in self._kept.of(tp):
            # What compaction has rewritten or retention has deleted cannot be compared.
            if ours.start <= note.offset < ours.end and not compacts:
                at = read_whole(self._target, tp, note.offset)
                if at is not None and not epochs.is_of(note, at):
                    continue
            found.append(note)
        return tuple(found)

    def step(self) -> bool:
        """Append what was read next; False: the source had nothing new. Raises KafkaError, after
        which the next step reads again from the target's end."""
        if self._reader is None:
            parts = {tp: part for tp, part in self.parts.items() if tp not in self.verdicts}
            self._reader = _Reader(self._source, parts)
        found = self._reader.take()
        if isinstance(found, KafkaError):
            self.pause()
            raise found
        for tp, each in found.items():
            if isinstance(each, Verdict):
                self._stop(tp, each)
        appends = {tp: each for tp, each in found.items() if isinstance(each, Append)}
        if appends:
            try:
                self._append(appends)
            except KafkaError:
                self.pause()  # what was read after it would leave a gap
                raise
        self._follow_starts()
        return bool(appends)

    def pause(self) -> None:
        """End the reader: what it has read ahead is dropped."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def lags(self, look_ms: int | None = None) -> dict[TopicPartition, int]:
        """How many offsets each running partition is from the source's end; `look_ms`: how soon
        each question must be answered. Raises KafkaError."""
        tps = [tp for tp in self.parts if tp not in self.verdicts]
        ends = ends_of(self._source, tps, look_ms=look_ms)
        return {tp: max(0, ends[tp].end - self.parts[tp].position) for tp in tps}

    def own_topics(self, now_s: float) -> set[str]:
        """The topics that brokers name this session for. The partitions of others stop after a
        while: a mirror without news appends nothing, so no broker refuses it. Raises KafkaError."""
        running = [tp for tp in self.parts if tp not in self.verdicts]
        sessions = sessions_of(self._target, sorted({tp.topic for tp in running}))
        own = {topic for topic, session in sessions.items() if session == self._session}
        since_s = self._replaced_s
        self._replaced_s = {t: since_s.get(t, now_s) for t in sessions.keys() - own}
        for tp in running:
            if now_s - self._replaced_s.get(tp.topic, now_s) >= REPLACED_S:
                self._stop(tp, Verdict(Why.FENCED, REPLACED))
        return own

    def _stop(self, tp: TopicPartition, verdict: Verdict) -> None:
        self.verdicts[tp] = verdict
        self._note(f"{tp}: {verdict}")
        self.pause()

    def _append(self, appends: Mapping[TopicPartition, Append]) -> None:
        """Write one round, which the broker accepts only at the target's end. Raises KafkaError."""
        left = {tp: each for tp, each in appends.items() if tp not in self.verdicts}
        self._keep({
            tp: epochs.noted(self.parts[tp].notes, append.epochs)
            for tp, append in left.items()
        })  # fmt: skip
        until_s = time.monotonic() + FENCE_WAIT_S
        while left:
            batches = {
                tp: each.parts[0] if len(each.parts) == 1 else b"".join(each.parts)
                for tp, each in left.items()
            }
            outcomes = self._target.produce_outcomes(
                batches,
                timeout_ms=APPEND_TIMEOUT_MS,
                transactional_id=SESSION_PREFIX + self._session,
            )
            failed: KafkaError | None = None
            for tp, outcome in outcomes.items():
                error = outcome.error
                if error is None:
                    self._appended(tp, left.pop(tp), len(batches[tp]))
                elif self._may_pass(tp, error, until_s) or self._is_further(tp, error):
                    failed = error
                else:
                    del left[tp]
                    self._stop(tp, plan.append_failed(error.code, error.message))
            if failed is not None:
                if failed.code is not ErrorCode.policy_violation:
                    raise failed
                time.sleep(0.05)  # the leader has not heard of this session yet

    def _keep(self, notes: Mapping[TopicPartition, Notes]) -> bool:
        """Keep the source's epochs, before a batch of a new one is appended; whether any is new.
        Raises KafkaError."""
        new = {tp: each for tp, each in notes.items() if each != self.parts[tp].notes}
        self._kept.write(new)
        for tp, each in new.items():
            self.parts[tp].notes = each
        return bool(new)

    def _may_pass(self, tp: TopicPartition, error: KafkaError, until_s: float) -> bool:
        """Whether the same append may succeed later."""
        if error.code is not ErrorCode.policy_violation:
            return action_for(error.code) is not Action.FAIL
        return time.monotonic() < until_s and is_current(self._target, tp.topic, self._session)

    def _is_further(self, tp: TopicPartition, error: KafkaError) -> bool:
        """Whether the target ends after our position: an answer was lost, and the source's
        compaction has removed some of what was appended, so the same append is another one now. The
        next one starts there. Raises KafkaError."""
        if error.code is not ErrorCode.invalid_record:
            return False
        ours = ends_of(self._target, [tp])[tp]
        if ours.end <= self.parts[tp].position:
            return False
        self._attach(tp, self._topics[tp.topic], ends_of(self._source, [tp])[tp], ours)
        return True

    def _appended(self, tp: TopicPartition, each: Append, size: int) -> None:
        part = self.parts[tp]
        part.position = each.position
        part.epoch = each.epochs[-1].epoch if each.epochs else part.epoch
        if each.tail.size_bytes:
            part.tail = each.tail
        self.copied_bytes += size

    def _follow_starts(self) -> None:
        """Now and then: delete what the source has deleted, and look at its leaders. Raises
        KafkaError."""
        now_s = time.monotonic()
        if self._reader is not None and now_s >= self._starts_due_s:
            self._starts_due_s = now_s + STARTS_EVERY_S
            self.follow_starts(self._reader.starts)
            self.follow_leaders()

    def follow_leaders(self) -> None:
        """Compare partitions whose source has another leader, also if it writes nothing: later it
        may have nothing left to compare. Raises KafkaError."""
        tps = [tp for tp in self.parts if tp not in self.verdicts]
        compared: dict[TopicPartition, int] = {}
        try:
            leaders = leaders_of(self._source, tps, LEADERS_MS)
        except KafkaError as error:
            if action_for(error.code) is Action.FAIL:
                raise
            return  # an election: looked at again later, and the copy continues
        for tp, leader in leaders.items():
            part = self.parts[tp]
            if leader == part.leader:
                continue
            verdict = _compare(self._source, tp, part)
            if verdict is not None:
                self._stop(tp, verdict)
                continue
            compared[tp] = leader
        if self._note_leaders(compared):
            self.pause()  # the reader has the older ones

    def _note_leaders(self, leaders: Mapping[TopicPartition, int]) -> bool:
        """Keep the source's leader epochs, in which these partitions were compared; whether one is
        new. Raises KafkaError."""
        is_new = self._keep({
            tp: epochs.noted(self.parts[tp].notes, [Note(self.parts[tp].position, leader)])
            for tp, leader in leaders.items()
            if self.parts[tp].position
        })  # fmt: skip
        for tp, leader in leaders.items():
            self.parts[tp].leader = leader
        return is_new

    def follow_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Delete what is below these log starts of the source. Raises KafkaError."""
        due = {}
        for tp, start in starts.items():
            part = self.parts.get(tp)
            if part is not None and not part.compacts and part.deleted < start <= part.position:
                due[tp] = start
        if due:
            delete_before(self._target, due)
            for tp, start in due.items():
                self.parts[tp].deleted = start


def _compare(source: BlockingClient, tp: TopicPartition, part: Part) -> Verdict | None:
    """Whether the source still has what was mirrored: by the last batch, or, if that is deleted at
    the source, by the source's epochs. Raises KafkaError if it cannot be read."""
    tail = part.tail
    if tail is not None:
        at = (read_at if part.compacts else read_whole)(source, tp, tail.base_offset)
        if at is not None:
            if plan.has_tail(at, tail):
                return None
            verdict = plan.check_tail(at, tail, compacts=part.compacts)
            if verdict is not None:
                return verdict
    asked = epochs.to_ask(part.notes, part.position)
    if not asked:
        return None
    return epochs.check(part.notes, part.position, answers_of(source, tp, asked))


class _Reader:
    """A thread that reads the source ahead, from copies of the partitions' positions on."""

    def __init__(self, source: BlockingClient, parts: Mapping[TopicPartition, Part]) -> None:
        self._source = source
        self._parts = {tp: replace(p) for tp, p in parts.items()}
        self.starts: dict[TopicPartition, int] = {tp: p.start for tp, p in parts.items()}
        self._found: queue.Queue[Round | KafkaError] = queue.Queue(AHEAD)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-reader", daemon=True)
        self._thread.start()

    def take(self) -> Round | KafkaError:
        """What was read next: empty if the source had nothing new for a while."""
        return self._found.get()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        while self._thread.is_alive():
            with suppress(queue.Empty):
                self._found.get_nowait()
            self._thread.join(0.01)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                found: Round | KafkaError = self._read()
            except KafkaError as error:
                found = error
            self._found.put(found)
            if isinstance(found, KafkaError):
                return

    def _read(self) -> Round:
        """One fetch of all partitions. Raises KafkaError."""
        found: Round = {}
        if not self._parts:
            self._ended.wait(0.5)
            return found
        wanted = {tp: max(part.position, part.start) for tp, part in self._parts.items()}
        fetched = self._source.fetch(
            wanted, bytes_max=BYTES_MAX, partition_bytes_max=PARTITION_BYTES_MAX
        )
        for tp, each in fetched.items():
            part = self._parts[tp]
            # Its response is of the id in the client's metadata, which never becomes an older one.
            if part.topic_id and self._source.known_topic_id(tp.topic) != part.topic_id:
                text = f"topic '{tp.topic}' of the source was deleted and created again"
                found[tp] = Verdict(Why.RECREATED, text)
            elif each.error_code is not ErrorCode.none:
                ends = ends_of(self._source, [tp])[tp]
                verdict = plan.fetch_failed(each.error_code, wanted[tp], ends)
                if verdict is not None:
                    found[tp] = verdict
            else:
                self.starts[tp] = each.log_start_offset
                after = self._after(tp, part, memoryview(each.records))
                if after is not None:
                    found[tp] = after
        for tp, each_found in found.items():
            if isinstance(each_found, Verdict):
                del self._parts[tp]
        # Least recently read first: one busy partition must not starve the others.
        for tp in [tp for tp in found if tp in self._parts]:
            self._parts[tp] = self._parts.pop(tp)
        return found

    def _after(
        self, tp: TopicPartition, part: Part, records: memoryview
    ) -> Append | Verdict | None:
        """What follows the partition's last batch, which must still be there after a change of the
        source's leader."""
        after = plan.continue_with(part.position, records)
        if not isinstance(after, Append):
            return after
        if after.epochs[0].epoch != part.epoch:
            verdict = _compare(self._source, tp, part)
            if verdict is not None:
                return verdict
        part.position, part.epoch, part.tail = after.position, after.epochs[-1].epoch, after.tail
        part.notes = epochs.noted(part.notes, after.epochs)
        return after
