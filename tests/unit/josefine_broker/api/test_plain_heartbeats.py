"""Heartbeats by the plain path in one broker and by the general path in its twin: the same bytes,
the same groups, sessions, timers and logs after each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.api import plain_heartbeats
from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.quotas import QuotaEntity
from josefine_broker.engine.groups.consumer.values import NO_PARTS
from josefine_broker.engine.metadata.changes import AlterGroupConfig, AlterQuotas, QuotaChange
from josefine_broker.engine.metadata.image import GROUP_VERSION
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire.apis import APIS
from josefine_broker.wire.entities import consumer_group_heartbeat as consumer_shapes
from josefine_broker.wire.entities import heartbeat as classic_shapes
from josefine_broker.wire.entities import join_group, leave_group, sync_group
from josefine_broker.wire.entities import share_group_heartbeat as share_shapes
from josefine_broker.wire.known_requests import FRAME_BYTES_MAX
from tests.unit.josefine_broker.api.group_clients import SUBSCRIPTION
from tests.unit.josefine_broker.api.group_twins import Side, Twins

CLASSIC, CONSUMER, SHARE = KINDS = "classic", "consumer", "share"
KEYS = {
    CLASSIC: apis.HEARTBEAT,
    CONSUMER: apis.CONSUMER_GROUP_HEARTBEAT,
    SHARE: apis.SHARE_GROUP_HEARTBEAT,
}
VERSIONS = [
    (kind, version)
    for kind, key in KEYS.items()
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]
SESSION_MS = 10_000
NO_PARTITIONS = bytes.fromhex("0000 00000000 ffffffff")
"""An assignment."""


class Groups(Twins):
    """Twins with a group of each protocol, named like it, whose members are `a` and `b`."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: dict[tuple[str, str], int] = {}
        """Generations and epochs of the members."""
        self.ids: dict[str, str] = {}
        """Member ids of the classic group."""

    def request(self, kind: str, name: str = "a", **changes: Any) -> Any:
        """A heartbeat that reports nothing new; `changes` of it."""
        epoch = self.epochs.get((kind, name), 1)
        if kind == CLASSIC:
            fields: dict[str, Any] = {
                "generation_id": epoch, "member_id": self.ids.get(name, name),
            } | changes  # fmt: skip
            return classic_shapes.HeartbeatRequest(**{"group_id": kind} | fields)
        fields = {"group_id": kind, "member_id": name, "member_epoch": epoch} | changes
        shapes = {
            CONSUMER: consumer_shapes.ConsumerGroupHeartbeatRequest,
            SHARE: share_shapes.ShareGroupHeartbeatRequest,
        }
        return shapes[kind](**fields)

    def beat(self, kind: str, name: str = "a", version: int | None = None, **changes: Any) -> Any:
        """The answer; None: it waits."""
        client_id = changes.pop("client_id", "c")
        version = APIS[KEYS[kind]].max_version if version is None else version
        answer = self.send(KEYS[kind], version, self.request(kind, name, **changes), client_id)
        self.note(kind, name, answer)
        return answer

    def note(self, kind: str, name: str, answer: Any) -> None:
        """The member's epoch, as it has just been reported."""
        if kind != CLASSIC and answer is not None and answer.error_code is ErrorCode.none:
            self.epochs[kind, name] = max(0, answer.member_epoch)

    def settled(self, kind: str, name: str = "a", **changes: Any) -> Any:
        """The answer, after the disk."""
        answer = self.beat(kind, name, **changes)
        if answer is None:
            answer = self.settle()[-1]
            self.note(kind, name, answer)
        return answer

    def join(self, kind: str, name: str = "a", **changes: Any) -> Any:
        """The answer to a join, or to the sync of a classic member."""
        if kind == CLASSIC:
            return self._join_classic(name)
        fields = self.of_join(kind) | changes
        answer = self.settled(kind, name, **fields)
        if answer.error_code is ErrorCode.coordinator_not_available:  # the topic of the states
            self.settle()
            answer = self.settled(kind, name, **fields)
        return answer

    def of_join(self, kind: str) -> dict[str, Any]:
        """What a member that joins reports."""
        fields: dict[str, Any] = {"member_epoch": 0, "subscribed_topic_names": ("orders",)}
        if kind == CONSUMER:
            fields |= {"rebalance_timeout_ms": 60_000, "topic_partitions": ()}
        return fields

    def _join_classic(self, name: str) -> Any:
        """None: it waits for the other member."""
        protocols = (join_group.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),)
        joined = self.sent(apis.JOIN_GROUP, 3, join_group.JoinGroupRequest(
            group_id=CLASSIC, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=SESSION_MS,
            member_id=self.ids.get(name, ""), protocol_type="consumer", protocols=protocols,
        ))  # fmt: skip
        if not isinstance(joined, join_group.JoinGroupResponse):
            return None
        self.ids[name], self.epochs[CLASSIC, name] = joined.member_id, joined.generation_id
        own = sync_group.SyncGroupRequestAssignment(
            member_id=joined.member_id, assignment=NO_PARTITIONS
        )
        return self.sent(apis.SYNC_GROUP, 3, sync_group.SyncGroupRequest(
            group_id=CLASSIC, generation_id=joined.generation_id, member_id=joined.member_id,
            assignments=(own,),
        ))  # fmt: skip

    def leave(self, kind: str, name: str = "a") -> Any:
        if kind != CLASSIC:
            return self.settled(kind, name, member_epoch=-1)
        who = leave_group.MemberIdentity(member_id=self.ids.get(name, name))
        request = leave_group.LeaveGroupRequest(group_id=CLASSIC, members=(who,))
        return self.sent(apis.LEAVE_GROUP, 4, request)

    def quiet(self, kind: str, *names: str) -> None:
        """Members that have all that they are to have."""
        for name in names or ("a",):
            assert self.join(kind, name).error_code is ErrorCode.none
        for _ in range(4 if kind != CLASSIC else 0):
            for name in names or ("a",):
                assert self.settled(kind, name, **self._owned(kind)).error_code is ErrorCode.none

    def _owned(self, kind: str) -> dict[str, Any]:
        """A consumer confirms that it has given up everything else."""
        return {"topic_partitions": ()} if kind == CONSUMER else {}


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
@pytest.mark.parametrize("client_id", ["c", None, ""])
def test_a_member_that_reports_nothing_new_is_served_plainly(
    kind: str, version: int, client_id: str | None
) -> None:
    twins = Groups()
    twins.quiet(kind)
    before = twins.plain.taken
    for _ in range(3):
        answer = twins.beat(kind, version=version, client_id=client_id)
        assert answer.error_code is ErrorCode.none
        twins.advance(3_000)
    assert twins.plain.taken == before + 3


@pytest.mark.parametrize("kind", KINDS)
def test_heartbeats_keep_the_session_and_a_silent_member_is_lost(kind: str) -> None:
    twins = Groups()
    twins.quiet(kind)
    before = twins.plain.taken
    for _ in range(30):
        twins.advance(5_000)
        assert twins.beat(kind).error_code is ErrorCode.none
    assert twins.plain.taken == before + 30

    twins.advance(60_000)
    twins.settle()

    assert twins.settled(kind).error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
def test_what_is_not_committed_is_waited_for(kind: str) -> None:
    twins = Groups()
    twins.quiet(kind)
    twins.leave(kind)
    before = twins.plain.taken
    assert twins.beat(kind, **twins.of_join(kind)) is None
    group = twins.world.ctx.clients.groups.coordinator
    found = group.consumers.get(kind) or group.shares.get(kind)
    assert found is not None
    twins.epochs[kind, "a"] = found.epoch

    assert twins.beat(kind) is None  # nothing changes, but the join may be lost

    assert len(twins.settle()) == 2
    assert twins.plain.taken == before
    assert twins.beat(kind).error_code is ErrorCode.none
    assert twins.plain.taken == before + 1


@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
def test_a_member_gets_what_another_one_had_with_its_next_heartbeat(kind: str) -> None:
    twins = Groups()
    twins.quiet(kind, "a", "b")
    twins.leave(kind, "b")
    answer = twins.settled(kind, "a")
    assert len(answer.assignment.topic_partitions[0].partitions) == 3


@pytest.mark.parametrize("indexes", [None, (), (0,), (0, 1, 2), (7,)])
def test_a_member_may_report_what_it_owns(indexes: tuple[int, ...] | None) -> None:
    twins = Groups()
    twins.quiet(CONSUMER)
    topic_id = twins.world.ctx.image.topics["orders"].topic_id
    topic = consumer_shapes.TopicPartitions(topic_id=topic_id, partitions=indexes or ())
    before = twins.plain.taken
    answer = twins.beat(CONSUMER, topic_partitions=() if indexes is None else (topic,))
    assert answer.error_code is ErrorCode.none
    assert twins.plain.taken == before + 1


def test_a_member_that_waits_for_partitions_takes_the_general_path() -> None:
    twins = Groups()
    twins.quiet(CONSUMER)
    assert twins.join(CONSUMER, "b").error_code is ErrorCode.none
    before = twins.plain.taken
    assert twins.settled(CONSUMER, "b").heartbeat_interval_ms == 2_000
    assert twins.plain.taken == before


@pytest.mark.parametrize("kind", KINDS)
def test_members_of_other_epochs_and_groups_are_refused_alike(kind: str) -> None:
    twins = Groups()
    twins.quiet(kind)
    epoch = "generation_id" if kind == CLASSIC else "member_epoch"
    codes = [
        twins.settled(kind, **each).error_code
        for each in (
            {epoch: 7}, {"member_id": "nobody"}, {"group_id": "none"}, {"group_id": ""},
            {"member_id": ""},
        )
    ]  # fmt: skip
    assert ErrorCode.none not in codes


NEWS: list[tuple[str, dict[str, Any]]] = [
    (CONSUMER, {"rack_id": "r"}),
    (CONSUMER, {"rebalance_timeout_ms": 60_000}),
    (CONSUMER, {"subscribed_topic_names": ("orders",)}),
    (CONSUMER, {"subscribed_topic_regex": "o.*"}),
    (CONSUMER, {"server_assignor": "range"}),
    (CONSUMER, {"instance_id": "other"}),
    (CONSUMER, {"member_epoch": -2, "instance_id": "i"}),
    (SHARE, {"rack_id": "r"}),
    (SHARE, {"subscribed_topic_names": ("orders",)}),
    (SHARE, {"subscribed_topic_names": ("orders", "other")}),
    (SHARE, {"member_epoch": -1}),
    (SHARE, {"member_epoch": 0, "subscribed_topic_names": ("orders",)}),
]


@pytest.mark.parametrize(("kind", "news"), NEWS)
def test_a_heartbeat_with_news_takes_the_general_path(kind: str, news: dict[str, Any]) -> None:
    twins = Groups()
    twins.quiet(kind)
    before = twins.plain.taken
    twins.settled(kind, **news)
    assert twins.plain.taken == before


def has_quota(side: Side) -> None:
    change = QuotaChange(QuotaEntity(None, "other"), "request_percentage", 50.0)
    side.world.propose(AlterQuotas(quotas=(change,)))


def has_access_control(side: Side) -> None:
    side.world.ctx.clients.authorizer = Authorizer(frozenset())


def propose(side: Side, change: Any) -> None:
    side.world.propose(change)


def has_a_topic_more(side: Side) -> None:
    side.world.create("later")


def is_of_another_level(side: Side) -> None:
    ctx = side.world.ctx
    ctx.image = replace(ctx.image, features={**ctx.image.features, GROUP_VERSION: 0})


def is_loading(side: Side) -> None:
    for tp in side.world.ctx.hosted.partitions:
        side.world.ctx.clients.groups.loading[tp] = None  # type: ignore[assignment]


def is_unloaded(side: Side) -> None:
    side.world.ctx.clients.groups.coordinator.unload(lambda _: True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [has_quota, has_access_control, has_a_topic_more, is_of_another_level, is_loading, is_unloaded],
)
def test_what_is_not_plain_any_more_takes_the_general_path(
    kind: str, change: Callable[[Side], None]
) -> None:
    twins = Groups()
    twins.quiet(kind)
    before = twins.plain.taken
    twins.both(change)
    twins.settled(kind)
    # A classic group knows no topics, and a broker without the group answers at once. A level
    # concerns its own protocol.
    is_same = kind == CLASSIC and change in (has_a_topic_more, is_unloaded)
    is_same = is_same or (kind != CONSUMER and change is is_of_another_level)
    assert twins.plain.taken == before + is_same


def test_a_classic_member_of_a_consumer_group_takes_the_general_path() -> None:
    twins = Groups()
    twins.quiet(CLASSIC)
    assert twins.join(CONSUMER, group_id=CLASSIC).error_code is ErrorCode.none
    before = twins.plain.taken
    twins.beat(CLASSIC)
    assert twins.plain.taken == before


@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
def test_a_shorter_session_is_watched_from_the_next_heartbeat_on(kind: str) -> None:
    twins = Groups()
    for ms in ("60000", "45000"):
        change = AlterGroupConfig(group_id=kind, assign=((f"{kind}.session.timeout.ms", ms),))
        twins.both(partial(propose, change=change))
        twins.quiet(kind) if ms == "60000" else twins.beat(kind)
    twins.advance(45_000)
    twins.settle()
    assert twins.settled(kind).error_code is ErrorCode.unknown_member_id


def test_a_classic_member_that_sends_the_new_heartbeat_changes_its_group() -> None:
    twins = Groups()
    twins.quiet(CLASSIC)
    assert twins.join(CONSUMER, group_id=CLASSIC).error_code is ErrorCode.none
    for _ in range(2):
        twins.settled(CONSUMER, group_id=CLASSIC, topic_partitions=())
        twins.join(CLASSIC)
    before = twins.plain.taken
    member_id, epoch = twins.ids["a"], twins.epochs[CLASSIC, "a"]
    answer = twins.settled(CONSUMER, group_id=CLASSIC, member_id=member_id, member_epoch=epoch)
    assert answer.error_code is ErrorCode.none
    assert twins.plain.taken == before


def test_a_target_that_the_log_has_for_the_same_epoch_is_sent() -> None:
    """No broker of ours writes that, but a log may have it."""
    twins = Groups()
    twins.quiet(SHARE)

    def change(side: Side) -> None:
        shares = side.world.ctx.clients.groups.coordinator.shares
        group = shares.get(SHARE)
        assert group is not None
        shares.keep(replace(group, target={"a": NO_PARTS}), side.world.clock.monotonic_ms())

    twins.both(change)
    assert twins.settled(SHARE).assignment is not None


def test_the_interval_that_a_group_was_given_is_in_the_next_answer() -> None:
    twins = Groups()
    for kind in (CONSUMER, SHARE):
        twins.quiet(kind)
        assert twins.beat(kind).heartbeat_interval_ms == 5_000
        change = AlterGroupConfig(
            group_id=kind, assign=((f"{kind}.heartbeat.interval.ms", "7000"),)
        )
        twins.both(partial(propose, change=change))
        before = twins.plain.taken
        assert twins.beat(kind).heartbeat_interval_ms == 7_000
        assert twins.plain.taken == before + 1


def test_long_frames_are_not_kept_in_memory() -> None:
    twins = Groups()
    twins.quiet(CLASSIC)
    overhead = len(twins.frame(apis.HEARTBEAT, 4, twins.request(CLASSIC), ""))
    for size, is_plain in ((FRAME_BYTES_MAX, True), (FRAME_BYTES_MAX + 1, False)):
        before = twins.plain.taken
        twins.beat(CLASSIC, client_id="c" * (size - overhead))
        assert twins.plain.taken == before + is_plain
    for cached in (
        plain_heartbeats._classic, plain_heartbeats._consumer, plain_heartbeats._share,
        plain_heartbeats._classic_answer,
    ):  # fmt: skip
        assert cached.cache_info().maxsize is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_frame_is_served_alike(kind: str) -> None:
    twins = Groups()
    twins.quiet(kind)
    frame = twins.frame(KEYS[kind], APIS[KEYS[kind]].max_version, twins.request(kind))
    for size in range(len(frame)):
        twins.ask(frame[:size])
    twins.ask(frame + b"\0")
    for at in range(4, len(frame)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            twins.ask(frame[:at] + bytes((byte,)) + frame[at + 1 :])
            twins.settle()


STEPS = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from("ab"),
    st.sampled_from(["beat"] * 8 + ["join", "leave", "old", "confirm", "wait", "settle", "topic"]),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_any_life_is_the_same_on_both_paths(steps: list[tuple[str, str, str]]) -> None:
    twins = Groups()
    for number, (kind, name, step) in enumerate(steps):
        if step == "join":
            twins.join(kind, name)
        elif step == "leave":
            twins.leave(kind, name)
        elif step == "old":
            epoch = "generation_id" if kind == CLASSIC else "member_epoch"
            twins.beat(kind, name, **{epoch: twins.epochs.get((kind, name), 1) - 1})
        elif step == "confirm" and kind == CONSUMER:
            twins.beat(kind, name, topic_partitions=())
        elif step == "wait":
            twins.advance(20_000 if name == "a" else 3_000)
        elif step == "settle":
            twins.settle()
        elif step == "topic":
            twins.both(lambda side, at=number: side.world.create(f"t{at}"))
        else:
            twins.beat(kind, name)
    twins.settle()
