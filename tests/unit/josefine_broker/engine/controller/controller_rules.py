"""What must hold of a controller: after each block, in each decision, once all is decided.

The rules are said anew here, from the design, not taken from the code they judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from josefine_broker.engine.controller.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.engine.metadata.changes import AlterIsr, Change, Decision, PartitionState
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    BrokerEntry,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)

if TYPE_CHECKING:
    from tests.unit.josefine_broker.engine.controller.controller_world import World

SESSION_MS = 1_000


class Heard(NamedTuple):
    """The last word of a broker to this controller, as the world remembers it."""

    epoch: int
    at_ms: int
    applied_height: int
    wants_shutdown: bool


class View(NamedTuple):
    """Who is live, who may go on leading, and whose data may lack records."""

    live: frozenset[int]
    heard: frozenset[int]
    lossy: frozenset[int]


def min_insync(topic: TopicEntry) -> int:
    return int(dict(topic.config).get("min.insync.replicas", "1"))


def is_unclean(topic: TopicEntry) -> bool:
    return dict(topic.config).get("unclean.leader.election.enable") == "true"


def is_safe(topic: TopicEntry) -> bool:
    """A topic whose confirmed records are never lost."""
    return min_insync(topic) == 2 and not is_unclean(topic)


def view_of(brokers: dict[int, BrokerEntry]) -> View:
    return View(
        frozenset(k for k, b in brokers.items() if not b.fenced and not b.shutting_down),
        frozenset(k for k, b in brokers.items() if not b.fenced),
        frozenset(k for k, b in brokers.items() if b.unclean),
    )


# -- after each block


def check_step(
    before: MetadataImage,
    after: MetadataImage,
    change: Change,
    leaders: dict[tuple[UUID, int, int], str],
) -> None:
    """Epochs grow by one, leaders are in sync, each leader epoch has one process."""
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is topic:
            continue
        for index, new in enumerate(topic.partitions):
            if known is not None and index < len(known.partitions):
                _check_change(known.partitions[index], new, topic)
            assert new.leader == NO_LEADER or new.leader in new.isr
            assert set(new.isr) | set(new.elr) <= set(new.replicas)
            assert new.isr or new.elr, "the last members stay"
            assert not set(new.isr) & set(new.elr)
            assert len(set(new.isr)) == len(new.isr)
            assert set(new.adding) | set(new.removing) <= set(new.replicas)
            if new.leader != NO_LEADER:
                who = after.brokers[new.leader].incarnation
                key = (topic.topic_id, index, new.leader_epoch)
                assert leaders.setdefault(key, who) == who, "one process per leader epoch"
    if isinstance(change, Decision):
        _check_decided_step(before, after, change)
    elif isinstance(change, AlterIsr):
        _check_alter_isr(before, after, change)


def _check_decided_step(before: MetadataImage, after: MetadataImage, change: Decision) -> None:
    for broker in after.brokers.values():
        assert broker.fenced or not broker.unclean, "unfenced while ISRs may count on it"
    for state in change.brokers:
        if state.broker_id in before.brokers:
            known = before.brokers[state.broker_id]
            if known.epoch != state.epoch:
                assert after.brokers[state.broker_id] == known, "said of another incarnation"
    for name, topic in after.topics.items():
        for old, new in zip(before.topics[name].partitions, topic.partitions, strict=True):
            if new.leader_epoch > old.leader_epoch and new.leader != NO_LEADER:
                assert after.is_live(new.leader), "it may lead nothing yet"


def _check_alter_isr(before: MetadataImage, after: MetadataImage, change: AlterIsr) -> None:
    """An item has its effect only in the state it was made from, for the incarnations it saw."""
    for item in change.items:
        old_topic, new_topic = before.topic_by_id(item.topic_id), after.topic_by_id(item.topic_id)
        if old_topic is None or new_topic is None or old_topic is new_topic:
            continue
        old, new = old_topic.partitions[item.partition], new_topic.partitions[item.partition]
        assert (old.leader, old.leader_epoch) == (change.broker_id, item.leader_epoch)
        assert old.partition_epoch == item.partition_epoch
        for member in set(new.isr) - set(old.isr):
            assert (member, after.brokers[member].epoch) in item.joined
            assert after.is_live(member)


def _check_change(old: PartitionEntry, new: PartitionEntry, topic: TopicEntry) -> None:
    if new == old:
        return
    assert new.partition_epoch == old.partition_epoch + 1
    assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1)
    assert new.leader == old.leader or new.leader_epoch == old.leader_epoch + 1
    if new.leader_epoch > old.leader_epoch and new.leader != NO_LEADER and not is_unclean(topic):
        assert new.leader in {*old.isr, *old.elr}, "no unclean election"


def check_records(world: World) -> None:
    """Whoever leads has every confirmed record."""
    for topic, index, entry in world.partitions():
        if is_safe(topic) and entry.leader in world.processes:
            has = world.log_of(entry.leader, topic.topic_id, index)
            missing = world.confirmed.get((topic.topic_id, index), frozenset()) - has
            assert not missing, f"{missing} lost by leader {entry.leader} of {entry}"


# -- brokers


def judged(world: World, broker: BrokerEntry) -> tuple[bool, bool, bool]:
    """(fenced, shutting down, unclean) as the heartbeats so far would have it."""
    heard = world.heard.get(broker.broker_id)
    unclean = broker.unclean and _is_counted_on(world.image, broker.broker_id)
    if heard is None or heard.epoch != broker.epoch or world.now_ms - heard.at_ms >= SESSION_MS:
        return True, broker.shutting_down, unclean
    ready = heard.applied_height >= broker.epoch and not unclean and not heard.wants_shutdown
    return broker.fenced and not ready, heard.wants_shutdown, unclean


def _is_counted_on(image: MetadataImage, broker_id: int) -> bool:
    lossy = {key for key, broker in image.brokers.items() if broker.unclean}
    for topic in image.topics.values():
        for entry in topic.partitions:
            members = {*entry.isr, *entry.elr}
            if broker_id in members and members - lossy:
                return True
    return False


def check_due(world: World) -> None:
    """When the controller says that nothing is due, nothing is."""
    wake = world.controller.wake_at_ms()
    assert wake is not None
    if wake <= world.now_ms:
        return
    for broker in world.image.brokers.values():
        found = (broker.fenced, broker.shutting_down, broker.unclean)
        assert judged(world, broker) == found, f"{broker} at {world.now_ms}, next look {wake}"
    assert wake <= world.balance_at_ms


def check_answer(world: World, beat: Heartbeat, answer: HeartbeatAnswer) -> None:
    broker = world.image.brokers.get(beat.broker_id)
    if broker is None or broker.epoch != beat.broker_epoch:
        assert answer == HeartbeatAnswer(known_epoch=False, fenced=True, may_stop=False)
        return
    assert answer.known_epoch
    assert answer.fenced == broker.fenced
    live = world.image.live_brokers()
    needed = any(
        broker.broker_id in entry.isr and live & set(entry.isr)
        for _, _, entry in world.partitions()
    )
    assert answer.may_stop == (beat.wants_shutdown and broker.shutting_down and not needed)


# -- decisions


def check_decision(world: World, decision: Decision) -> None:
    """Each entry follows from the image, the heartbeats and the time."""
    image = world.image
    assert decision.controller_term == world.term
    assert decision.reason
    brokers = dict(image.brokers)
    for state in decision.brokers:
        broker = image.brokers[state.broker_id]
        told = (state.fenced, state.shutting_down, state.unclean)
        assert state.epoch == broker.epoch
        assert told == judged(world, broker), f"{state} of {broker}"
        assert told != (broker.fenced, broker.shutting_down, broker.unclean)
        brokers[state.broker_id] = _with(broker, *told)
    view = view_of(brokers)
    for each in decision.partitions:
        topic = image.topic_by_id(each.topic_id)
        assert topic is not None
        _check_partition(world, topic, topic.partitions[each.partition], each, view)


def _with(broker: BrokerEntry, fenced: bool, shutting_down: bool, unclean: bool) -> BrokerEntry:
    return BrokerEntry(
        broker_id=broker.broker_id,
        endpoints=(),
        epoch=broker.epoch,
        fenced=fenced,
        shutting_down=shutting_down,
        unclean=unclean,
    )


def _check_partition(
    world: World, topic: TopicEntry, old: PartitionEntry, new: PartitionState, view: View
) -> None:
    assert new.partition_epoch == old.partition_epoch
    is_another = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
    assert new.leader_epoch == old.leader_epoch + is_another
    members = {*old.isr, *old.elr}
    lossy = members & view.lossy if members - view.lossy else set()
    left = [each for each in old.isr if each not in lossy]
    balances = world.now_ms >= world.balance_at_ms
    completes = not new.adding and not new.removing and old.is_reassigning
    if new.leader == NO_LEADER:
        stays = old.leader in left and old.leader in view.heard
        assert not stays, "one about to stop leads on while nobody else can"
        assert not completes
    if completes:
        assert set(old.adding) - set(old.removing) <= set(old.isr)
        assert new.replicas == old.target
        assert len(new.isr) >= min(min_insync(topic), len(new.replicas))
        assert set(old.isr) - set(new.isr) <= {*old.removing, *lossy} | set(old.isr) - view.live
    else:
        assert (new.replicas, new.adding, new.removing) == (old.replicas, old.adding, old.removing)
    if new.leader != old.leader and new.leader != NO_LEADER:
        assert new.leader in view.live
        _check_election(topic, old, new, view, left, free=balances or completes)
    if new.leader == old.leader or new.leader in left:
        assert set(new.isr) <= set(left), "the controller lets nobody in"
        if not completes:
            assert set(new.isr) >= set(left) & view.live, "who is live and has all stays"
    if is_unclean(topic) and new.isr == (new.leader,) and new.leader not in members:
        return
    expected = members - set(new.isr) - lossy
    if len(new.isr) >= min(min_insync(topic), len(old.replicas)):
        expected = set()
    if completes or world.now_ms >= world.balance_at_ms:
        assert set(new.elr) <= expected | set(old.elr)
    else:
        assert set(new.elr) == expected, f"{old} to {new}"


def _check_election(
    topic: TopicEntry,
    old: PartitionEntry,
    new: PartitionState,
    view: View,
    left: list[int],
    *,
    free: bool,
) -> None:
    """`free`: a healthy leader may have to give way to the preferred one, or leave."""
    could_stay = old.leader in left and old.leader in view.heard
    in_sync = [each for each in old.replicas if each in left and each in view.live]
    eligible = [each for each in old.replicas if each in old.elr and each in view.live - view.lossy]
    if could_stay and old.leader in view.live:
        assert free, "a healthy leader stays"
        assert new.leader in in_sync
    elif in_sync:
        assert free or new.leader == in_sync[0], "first in replica order"
        assert new.leader in in_sync
    elif not left or not set(left) & view.live:
        if eligible:
            assert new.leader == eligible[0]
        else:
            assert is_unclean(topic)
            assert new.leader == next(each for each in old.replicas if each in view.live)
        assert new.isr == (new.leader,)


# -- once all is decided


def check_decided(world: World) -> None:
    """`decide` has nothing to say: everything is as it should be."""
    image = world.image
    for broker in image.brokers.values():
        found = (broker.fenced, broker.shutting_down, broker.unclean)
        assert judged(world, broker) == found, f"{broker} at {world.now_ms}"
    view = view_of(dict(image.brokers))
    for topic, index, entry in world.partitions():
        where = f"{topic.name}-{index} {entry}, live {sorted(view.live)}"
        isr = set(entry.isr)
        if entry.leader == NO_LEADER:
            assert not isr & view.live, where
            assert not set(entry.elr) & view.live, where
            assert not (is_unclean(topic) and set(entry.replicas) & view.live), where
        else:
            assert entry.leader in view.heard, f"a fenced broker leads nothing: {where}"
            assert entry.leader in view.live or not isr & view.live, where
        if isr & view.live:
            assert isr <= view.live, f"who is away leaves the ISR: {where}"
        elif isr & view.heard:
            assert isr <= view.heard, where
        if entry.is_reassigning and set(entry.adding) - set(entry.removing) <= isr:
            enough = min(min_insync(topic), len(entry.target))
            ready = len(isr & set(entry.target)) >= enough and isr & set(entry.target) & view.live
            assert not ready, f"the reassignment ends: {where}"
        if world.now_ms >= world.balance_at_ms and not entry.is_reassigning:
            preferred = entry.replicas[0]
            if preferred in isr & view.live:
                assert entry.leader == preferred, f"the preferred replica leads: {where}"
    check_records(world)
