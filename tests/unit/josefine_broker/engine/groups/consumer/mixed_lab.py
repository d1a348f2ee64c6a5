"""The bench with classic members in its group, and requests of theirs."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.consumer import classic
from josefine_broker.engine.groups.consumer.embedded import read_assignment
from josefine_broker.engine.groups.consumer.values import (
    NO_PARTS,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Parts,
)
from tests.unit.josefine_broker.engine.groups.consumer.lab import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Lab,
)

CALLED = ErrorCode.rebalance_in_progress
NO_USER_DATA = pack(">i", -1)


class Mixed(Lab):
    """With requests of classic members."""

    def classic_join(
        self,
        member_id: str,
        owned: Parts = NO_PARTS,
        *,
        is_newcomer: bool = False,
        instance_id: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        topics: tuple[str, ...] = ("t",),
    ) -> ConsumerMember:
        names = {each.topic_id: each.name for each in self.topics.values()}
        has = [(names[topic_id], index) for topic_id, index in owned if topic_id in names]
        said = subscription(topics, has)
        self.joined = classic.ClassicJoin(
            member_id=member_id,
            instance_id=instance_id,
            is_newcomer=is_newcomer,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=REBALANCE_MS,
            side=ClassicSide(SESSION_MS, tuple((name, said) for name in protocols)),
        )
        return self.take_join(self.joined)

    def take_join(self, asked: classic.ClassicJoin) -> ConsumerMember:
        """Raises KafkaError, also where the log refuses."""
        is_news = self.groups.is_news(GROUP, self.topics)
        settings = self.groups.settings
        group = self.groups.get(GROUP) or ConsumerGroup(group_id=GROUP)
        after, member = classic.join(group, asked, self.topics, settings, is_news=is_news)
        self._take(after, asked.member_id)
        self.groups.joined(GROUP, asked.member_id)
        return member

    def classic_sync(self, member_id: str, generation: int) -> Parts:
        names = {each.topic_id: each.name for each in self.topics.values()}
        member = classic.member_of(self.group, member_id, None)
        after, data = classic.sync(self.group, member, generation, names)
        self._take(after, member_id)
        found = read_assignment(data, self.topics)
        assert found is not None
        return found

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        is_news = self.groups.is_news(GROUP, self.topics)
        member = classic.member_of(self.group, member_id, None)
        after, code = classic.heartbeat(
            self.group, member, generation, self.topics, is_news=is_news
        )
        self._take(after, member_id)
        if code is CALLED:
            self.groups.called(GROUP, member_id, self.now_ms)
        return code

    def _take(self, after: ConsumerGroup, member_id: str) -> None:
        self._write(self.groups.get(GROUP), after)
        self.groups.beaten(GROUP, member_id, self.topics, self.now_ms)

    def eager(self, member_id: str) -> tuple[int, Parts]:
        """It gave everything up, joins, and asks for what it has."""
        epoch = self.classic_join(member_id).epoch
        return epoch, self.classic_sync(member_id, epoch)


def subscription(topics: Iterable[str], owned: Iterable[tuple[str, int]] = ()) -> bytes:
    """ConsumerProtocolSubscription v1, as clients write it: topics by name, and what it has."""
    names = sorted(topics)
    by_name: dict[str, list[int]] = {}
    for name, index in sorted(owned):
        by_name.setdefault(name, []).append(index)
    out = pack(">hi", 1, len(names)) + b"".join(map(_text, names)) + NO_USER_DATA
    out += pack(">i", len(by_name))
    for name, indexes in by_name.items():
        out += _text(name) + pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return out


def _text(text: str) -> bytes:
    data = text.encode()
    return pack(">h", len(data)) + data
