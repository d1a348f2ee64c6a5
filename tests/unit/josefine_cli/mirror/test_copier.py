"""The copy of one partition between two sides in memory, each with faults of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import ConfigEntry
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.operations import Outcome
from josefine_broker.client.produce import Written
from josefine_broker.records.batch import iter_batches
from josefine_cli.base.signals import StopSignals
from josefine_cli.mirror import command
from josefine_cli.mirror import copier as module
from josefine_cli.mirror.copier import Copier
from josefine_cli.mirror.epochs import Answers
from josefine_cli.mirror.plan import Note, Why
from josefine_cli.mirror.sides import Source, leaders_of
from tests.unit.josefine_cli.mirror.test_plan import at

TP = TopicPartition("t", 0)
TOPIC_ID = UUID(int=1000)
SOURCE = Source("cluster/t", TOPIC_ID, 1, {})
POLICY = ConfigEntry(
    name="cleanup.policy", value="compact", is_default=False, read_only=False, sensitive=False,
    documentation=None,
)  # fmt: skip
COMPACTED = SOURCE._replace(configs={"cleanup.policy": POLICY})


@dataclass
class Listed:
    """The answer to a question for an offset."""

    offset: int


@dataclass
class Side:
    """A client of one partition."""

    log: list[bytes] = field(default_factory=list)
    start: int = 0
    high: int | None = None
    """The high watermark, if it is not the log's end."""
    at_offset: dict[int, ErrorCode | None] = field(default_factory=dict)
    """What a read of that offset gets: an error, or (None) nothing."""
    on_ends: Callable[[], None] = lambda: None
    errors: list[KafkaError] = field(default_factory=list)
    """Of the next appends."""

    def end(self) -> int:
        ends = [h.end_offset for batch in self.log for _, h in iter_batches(memoryview(batch))]
        return max(ends, default=self.start)

    def list_offsets(self, wanted: Mapping[TopicPartition, int], **_: Any) -> Any:
        self.on_ends()
        end = self.end() if self.high is None else self.high
        return {tp: Listed(self.start if at == -2 else end) for tp, at in wanted.items()}

    def fetch(self, positions: Mapping[TopicPartition, int], **_: Any) -> Any:
        offset = positions[TP]
        is_inside = self.start <= offset <= self.end()
        code = ErrorCode.none if is_inside else ErrorCode.offset_out_of_range
        found = b"".join(
            batch
            for batch in self.log
            for _, h in iter_batches(memoryview(batch))
            if h.end_offset > offset
        )
        if offset in self.at_offset:
            code, found = self.at_offset[offset] or ErrorCode.none, b""
        return {
            TP: FetchedPartition(
                records=memoryview(bytearray(found)), high_watermark=self.end(),
                last_stable_offset=self.end(), log_start_offset=self.start, error_code=code,
                aborted=(), preferred_read_replica=-1,
            )
        }  # fmt: skip

    def produce_outcomes(self, batches: Mapping[TopicPartition, Any], **_: Any) -> Any:
        if self.errors:
            return {TP: Outcome(error=self.errors.pop(0))}
        data = memoryview(bytes(batches[TP]))
        for pos, header in iter_batches(data):
            if header.base_offset != self.end():
                error = KafkaError(ErrorCode.invalid_record, "it does not continue the log")
                return {TP: Outcome(error=error)}
            self.log.append(bytes(data[pos : pos + header.size_bytes]))
        return {TP: Outcome(result=Written(0))}

    def known_topic_id(self, _: str) -> UUID:
        return TOPIC_ID


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The target's notes of the source's epochs; the source knows none."""
    kept: dict[str, Any] = {}
    monkeypatch.setattr(module, "notes_of", lambda _, topic: kept.get(topic, {}))
    monkeypatch.setattr(module, "keep_notes", lambda _, topic, __, new: kept.update({topic: new}))
    monkeypatch.setattr(module, "leaders_of", lambda _, tps, *__: dict.fromkeys(tps, -1))
    return kept


def copier(source: Side, target: Side, topic: Source = SOURCE) -> Copier:
    theirs: Any = source
    ours: Any = target
    found = Copier(theirs, ours, "one")
    found.attach({"t": topic})
    return found


def test_note_of_a_batch_that_was_refused_does_not_count(
    notes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch of epoch 1 at offset 1 came too late: one of epoch 0 is there."""
    log = [at(0, b"a"), at(1, b"b")]
    crc = [header.crc for batch in log for _, header in iter_batches(memoryview(batch))]
    ends = {0: (0, 1), 1: (1, 2)}
    answers = Answers(2, 1, ends)
    monkeypatch.setattr(module, "answers_of", lambda *_: answers)
    source = Side([at(2, b"c", epoch=1)], start=2)
    notes["t"] = {0: (Note(0, 0, crc[0]), Note(1, 1, crc[0]))}

    assert copier(source, Side(list(log))).verdicts[TP].why is Why.DIFFERENT

    notes["t"] = {0: (Note(0, 0, crc[0]), Note(1, 1, crc[1]))}
    assert not copier(source, Side(list(log))).verdicts


def test_partition_without_a_leader_holds_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    away = ErrorCode.leader_not_available

    class Led(Side):
        def metadata(self, topics: list[str], timeout_ms: int) -> Any:
            code = {0: ErrorCode.none, 1: away}
            return SimpleNamespace(routing_error=lambda tp: code[tp.partition])

        def list_offsets(self, wanted: Mapping[TopicPartition, int], **more: Any) -> Any:
            asked.append((list(wanted), more))
            return {tp: SimpleNamespace(leader_epoch=7) for tp in wanted}

    source: Any = Led()
    assert leaders_of(source, [TP, TopicPartition("t", 1)], 2_000) == {TP: 7}
    assert asked == [([TP], {"timeout_ms": 2_000})]

    # It had one, and an election is under way.
    found = copier(Side([at(0, b"a")]), Side())
    monkeypatch.setattr(module, "leaders_of", Mock(side_effect=KafkaError(away)))
    found.follow_leaders()
    monkeypatch.setattr(module, "leaders_of", Mock(side_effect=KafkaError(DENIED)))
    with pytest.raises(KafkaError):
        found.follow_leaders()


DENIED = ErrorCode.topic_authorization_failed


@pytest.mark.parametrize(("code", "topic"), [(DENIED, SOURCE), (DENIED, COMPACTED), (None, SOURCE)])
def test_last_batch_that_cannot_be_read_is_not_another_history(
    code: ErrorCode | None, topic: Source
) -> None:
    """READ is denied, or the batch is being repaired."""
    log = [at(0, b"a"), at(1, b"b")]
    source = Side([*log, at(2, b"c")], at_offset={1: code})

    with pytest.raises(KafkaError, match="at offset 1"):
        copier(source, Side(list(log)), topic)

    source.at_offset = {}
    assert not copier(source, Side(log), topic).verdicts


def test_own_last_batch_that_cannot_be_read_is_no_blank_check() -> None:
    log = [at(0, b"a"), at(1, b"b")]
    with pytest.raises(KafkaError, match="no readable batch at offset 1"):
        copier(Side([*log, at(2, b"c")]), Side(log, at_offset={1: None}))


def test_leader_change_with_an_unreadable_last_batch_is_compared_later() -> None:
    source, target = Side([at(0, b"a"), at(1, b"b", epoch=1)]), Side([at(0, b"a")])
    mirror = copier(source, target)
    source.at_offset = {0: ErrorCode.corrupt_message}
    with pytest.raises(KafkaError, match="at offset 0"):
        mirror.step()
    source.at_offset, source.log[0] = {}, at(0, b"x")

    mirror.step()

    assert mirror.verdicts[TP].why is Why.DIFFERENT
    assert target.end() == 1


def test_mirror_before_this_one_may_append_while_it_is_attached() -> None:
    source, target = Side([at(0, b"a")]), Side([at(0, b"a")])

    calls = [0]

    def between() -> None:
        calls[0] += 1
        if calls[0] == 3:  # after both ends of the first side
            for side in (source, target):
                side.log.append(at(1, b"b"))

    source.on_ends = target.on_ends = between
    assert not copier(source, target).verdicts


def test_topic_of_another_session_stops_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that lags may name the session before this one."""
    named = {"t": "one"}
    monkeypatch.setattr(module, "sessions_of", lambda _, topics: {t: named[t] for t in topics})
    mirror = copier(Side([at(0, b"a")]), Side())
    assert mirror.own_topics(0.0) == {"t"}
    named["t"] = "before"
    assert not mirror.own_topics(1.0), "no group may be moved meanwhile"
    named["t"] = "one"
    assert mirror.own_topics(5.0) == {"t"}
    named["t"] = ""
    assert not mirror.own_topics(6.0) | mirror.own_topics(10.9)
    assert not mirror.verdicts

    mirror.own_topics(11.0)

    assert mirror.verdicts[TP].why is Why.FENCED


def test_log_start_is_followed_again_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[TopicPartition, int]] = []

    def delete_before(_: object, offsets: Mapping[TopicPartition, int]) -> None:
        asked.append(dict(offsets))
        if len(asked) == 1:
            raise KafkaError(ErrorCode.not_leader_or_follower, "not here")

    monkeypatch.setattr(module, "delete_before", delete_before)
    log = [at(0, b"a"), at(1, b"b")]
    mirror = copier(Side(log), Side(list(log)))
    with pytest.raises(KafkaError):
        mirror.follow_starts({TP: 1})

    for _ in range(2):
        mirror.follow_starts({TP: 1})

    assert asked == [{TP: 1}] * 2


def test_append_whose_answer_was_lost_is_continued_after_a_compaction() -> None:
    """The records from 1 to 3 are here, their commit was not known, and the source has none."""
    source = Side([at(0, b"a"), at(3, b"c")])
    target = Side([at(0, b"a"), at(1, b"b", b"b")], high=1)
    mirror = copier(source, target, COMPACTED)
    target.high = None

    with pytest.raises(KafkaError, match="does not continue the log"):
        mirror.step()
    mirror.step()
    mirror.pause()

    assert not mirror.verdicts
    assert target.end() == 4


def test_round_that_failed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader has not heard of the session, and the brokers do not say who has it."""
    source, target = Side([at(0, b"a")]), Side()
    mirror = copier(source, target)
    target.errors = [KafkaError(ErrorCode.policy_violation, "not this session")]

    def unknown(*_: object) -> bool:
        source.log.append(at(1, b"b"))  # the reader is ahead
        raise KafkaError(ErrorCode.request_timed_out, "no answer")

    monkeypatch.setattr(module, "is_current", unknown)
    with pytest.raises(KafkaError, match="no answer"):
        mirror.step()

    while target.end() < 2 and not mirror.verdicts:
        mirror.step()
    mirror.pause()
    assert not mirror.verdicts


def test_a_start_waits_for_a_leader_and_fails_at_what_does_not_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = Side([at(0, b"a")]), Side()
    away = [KafkaError(ErrorCode.leader_not_available, "orders-0 has no leader")] * 2

    def leaders(_: Any, tps: Any, *__: Any) -> dict[TopicPartition, int]:
        if away:
            raise away.pop()
        return dict.fromkeys(tps, -1)

    monkeypatch.setattr(module, "leaders_of", leaders)
    said: list[str] = []
    monkeypatch.setattr(command, "note", said.append)
    theirs: Any = source
    ours: Any = target
    found = Copier(theirs, ours, "one")
    with StopSignals() as signals:
        assert command.attached(found, {"t": SOURCE}, signals, 0) == {TP: source.end()}
        assert said == ["waiting: leader_not_available: orders-0 has no leader"]
        away.append(KafkaError(ErrorCode.topic_authorization_failed, "t"))
        with pytest.raises(KafkaError, match="authorization"):
            command.attached(found, {"t": SOURCE}, signals, 0)
