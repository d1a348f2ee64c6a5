"""The controller: who is alive, and what follows from it."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.controller.controller import Controller, ControllerConfig, Heartbeat
from josefine_broker.engine.metadata.changes import Decision
from josefine_broker.engine.metadata.image import NO_LEADER, BrokerEntry, MetadataImage
from tests.unit.josefine_broker.engine.metadata.images import (
    TERM,
    TOPIC,
    after,
    broker,
    image_of,
    only,
    partition,
    with_broker,
)

SESSION_MS = 1000
BALANCE_MS = 50_000
CONFIG = ControllerConfig(session_timeout_ms=SESSION_MS, imbalance_check_interval_ms=BALANCE_MS)


class Host:
    """Drives a controller as its host does: each decision is applied before the next."""

    def __init__(self, image: MetadataImage, config: ControllerConfig = CONFIG) -> None:
        self.image = image
        self.now_ms = 0
        self.height = 100
        self.controller = Controller(1, config)
        self.controller.lead(TERM, image, 0)

    def beat(self, *broker_ids: int, height: int = 10**6, stop: bool = False) -> None:
        for broker_id in broker_ids:
            beat = Heartbeat(
                broker_id=broker_id,
                broker_epoch=self.image.brokers[broker_id].epoch,
                applied_height=height,
                wants_shutdown=stop,
            )
            self.answer = self.controller.heartbeat(beat, self.image, self.now_ms)

    def decide(self) -> Decision | None:
        return self.controller.decide(self.image, self.now_ms)

    def settle(self) -> list[Decision]:
        """Decide and apply until nothing is left to do."""
        made: list[Decision] = []
        while (decision := self.decide()) is not None:
            assert len(made) < 20, f"no fixed point: {made[-2:]}"
            assert self.decide() == decision, "deciding again gives the same"
            self.height += 1
            self.image = after(self.image, decision, height=self.height)
            made.append(decision)
        return made

    def pass_ms(self, ms: int, *heard: int) -> None:
        """Time passes; these brokers beat ten times per session."""
        for _ in range(ms // 100):
            self.now_ms += 100
            self.beat(*heard)


def test_new_controller_gives_every_broker_one_session() -> None:
    host = Host(image_of([partition((1, 2))]))

    host.now_ms = SESSION_MS - 1
    assert host.settle() == []

    assert host.controller.wake_at_ms() == SESSION_MS


def test_silent_broker_is_fenced_and_its_partitions_get_other_leaders_in_one_decision() -> None:
    """Checklist row 14."""
    host = Host(image_of([partition((2, 1, 3)), partition((1, 2, 3)), partition((3, 1))]))
    host.pass_ms(SESSION_MS, 1, 3)

    (decision,) = host.settle()

    assert [(b.broker_id, b.fenced) for b in decision.brokers] == [(2, True)]
    leaders = [(e.leader, e.isr, e.leader_epoch) for e in host.image.topics[TOPIC].partitions]
    assert leaders == [(1, (1, 3), 4), (1, (1, 3), 3), (3, (3, 1), 3)]
    assert decision.reason == "broker 2 fenced, 2 partitions changed"


def test_fenced_broker_is_unfenced_when_it_has_applied_its_registration() -> None:
    host = Host(image_of([partition((2,), leader=NO_LEADER)], [1, broker(2, fenced=True)]))
    host.beat(1)

    host.beat(2, height=host.image.brokers[2].epoch - 1)
    assert host.answer.fenced
    assert host.settle() == []

    host.beat(2, height=host.image.brokers[2].epoch)
    host.settle()

    assert host.image.is_live(2)
    assert (only(host.image).leader, only(host.image).leader_epoch) == (2, 4)


def test_heartbeat_of_a_fenced_broker_wakes_the_controller() -> None:
    host = Host(image_of([], [1, broker(2, fenced=True)]))
    host.settle()
    host.now_ms = 300

    host.beat(2)

    assert host.controller.wake_at_ms() == 300


@pytest.mark.parametrize("epoch", [19, 21])
def test_heartbeat_of_another_incarnation_is_not_known(epoch: int) -> None:
    host = Host(image_of([], [1, broker(2, fenced=True)]))

    answer = host.controller.heartbeat(
        Heartbeat(broker_id=2, broker_epoch=epoch, applied_height=100), host.image, 0
    )

    assert not answer.known_epoch
    assert host.settle() == []


def test_heartbeats_before_a_registration_do_not_unfence_the_next_incarnation() -> None:
    host = Host(image_of([], [1, 2]))
    host.beat(1, 2)
    again = BrokerEntry(broker_id=2, endpoints=(), epoch=99, incarnation="new")
    host.image = image_of([], [1, again])

    assert host.settle() == []


def test_broker_that_stops_hands_over_first_and_may_stop_then() -> None:
    """Controlled shutdown."""
    host = Host(image_of([partition((1, 2)), partition((2, 1))]))
    host.beat(1, stop=True)
    assert not host.answer.may_stop

    host.settle()
    host.beat(1, stop=True)

    assert host.answer.may_stop
    assert not host.answer.fenced
    entries = host.image.topics[TOPIC].partitions
    assert [(e.leader, e.isr) for e in entries] == [(2, (2,)), (2, (2,))]


def test_broker_that_stops_keeps_what_nobody_else_could_lead() -> None:
    host = Host(image_of([partition((1,))]))
    host.beat(1, stop=True)
    host.settle()
    host.beat(1, stop=True)

    assert host.answer.may_stop
    assert only(host.image).leader == 1


def test_broker_that_changed_its_mind_takes_part_again() -> None:
    host = Host(image_of([partition((1, 2))]))
    host.beat(1, stop=True)
    host.settle()

    host.beat(1)
    host.settle()

    assert host.image.is_live(1)


def test_fenced_broker_that_wants_to_stop_stays_fenced() -> None:
    host = Host(image_of([], [1, broker(2, fenced=True)]))

    host.beat(2, stop=True)
    host.settle()

    assert host.image.brokers[2].fenced


def test_broker_after_an_unclean_shutdown_leaves_isrs_before_it_is_unfenced() -> None:
    """KIP-966."""
    entries = [partition((2, 1), leader=NO_LEADER), partition((2,), leader=NO_LEADER)]
    host = Host(image_of(entries, [1, broker(2, fenced=True, unclean=True)]))
    host.beat(1, 2)

    decisions = host.settle()

    assert [e.isr for e in host.image.topics[TOPIC].partitions] == [(1,), (2,)]
    assert [e.leader for e in host.image.topics[TOPIC].partitions] == [1, 2]
    assert host.image.is_live(2)
    assert not host.image.brokers[2].unclean
    assert [b.fenced for d in decisions for b in d.brokers] == [False], "unfenced once, at the end"


def test_leaders_go_back_to_preferred_replicas_now_and_then() -> None:
    """Checklist row 37."""
    host = Host(image_of([partition((1, 2), leader=2), partition((3, 2), leader=2, isr=(2,))]))
    host.pass_ms(BALANCE_MS - 100, 1, 2, 3)
    assert host.settle() == []
    host.pass_ms(100, 1, 2, 3)

    host.settle()

    assert [e.leader for e in host.image.topics[TOPIC].partitions] == [1, 2]
    assert host.controller.wake_at_ms() is not None
    host.image = image_of([partition((1, 2), leader=2)])
    assert host.settle() == [], "not before the next interval"


def test_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    moving = partition((3, 1), leader=1, adding=(3,), removing=(1,))
    host = Host(image_of([moving]))

    host.settle()

    assert (only(host.image).replicas, only(host.image).leader) == ((3,), 3)


def test_topic_says_whether_unclean_elections_are_allowed() -> None:
    gone = [1, broker(2, fenced=True)]
    entry = partition((1, 2), leader=NO_LEADER, isr=(2,))
    always = ControllerConfig(unclean_leader_election=True)

    def leader(config: ControllerConfig, **topic: str) -> int:
        host = Host(image_of([entry], gone, **topic), config)
        host.beat(1)
        host.settle()
        return only(host.image).leader

    assert leader(CONFIG) == NO_LEADER
    assert leader(CONFIG, unclean_leader_election_enable="true") == 1
    assert leader(CONFIG, unclean_leader_election_enable="TRUE") == 1
    assert leader(always) == 1
    assert leader(always, unclean_leader_election_enable="false") == NO_LEADER


def test_topics_in_sync_minimum_makes_members_eligible() -> None:
    host = Host(image_of([partition((1, 2))], (1, 2), min_insync_replicas="2"))
    host.pass_ms(SESSION_MS, 1)

    host.settle()

    assert (only(host.image).isr, only(host.image).elr) == ((1,), (2,))


def test_decision_of_an_older_controller_is_refused_as_a_whole() -> None:
    """Checklist row 15."""
    host = Host(image_of([partition((1, 2))]))
    host.pass_ms(SESSION_MS, 2)
    decision = host.decide()
    assert decision is not None

    with pytest.raises(KafkaError) as raised:
        after(host.image, decision, term=TERM + 1)

    assert raised.value.code is ErrorCode.not_controller


def test_controller_that_resigned_decides_nothing_and_knows_nobody() -> None:
    host = Host(image_of([partition((1, 2))]))
    host.controller.resign()
    host.now_ms = 10 * SESSION_MS

    assert host.decide() is None
    assert host.controller.wake_at_ms() is None
    assert host.controller.term is None
    host.beat(1)
    assert not host.answer.known_epoch


def test_controller_that_leads_again_starts_new_sessions() -> None:
    host = Host(image_of([partition((1, 2))]))
    host.controller.resign()
    host.now_ms = 10 * SESSION_MS

    host.controller.lead(TERM + 1, host.image, host.now_ms)

    assert host.decide() is None


def test_large_decision_is_cut_and_continued() -> None:
    entries = [partition((1, 2))] * 7
    host = Host(image_of(entries))
    host.pass_ms(SESSION_MS, 2, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("josefine_broker.engine.controller.controller.DECISION_PARTITIONS_MAX", 3)

        decisions = host.settle()

    assert [len(each.partitions) for each in decisions] == [3, 3, 1]
    assert all(e.leader == 2 for e in host.image.topics[TOPIC].partitions)


def test_partition_that_moved_meanwhile_is_decided_again() -> None:
    host = Host(image_of([partition((1, 2, 3))]))
    host.pass_ms(SESSION_MS, 2, 3)
    stale = host.decide()
    assert stale is not None
    host.image = image_of([partition((1, 2, 3), isr=(1, 3), partition_epoch=8)])

    host.image = after(host.image, stale)
    assert only(host.image).leader == 1, "skipped: it was decided from another ISR"
    host.settle()

    assert (only(host.image).leader, only(host.image).isr) == (3, (3,))


def test_steady_topics_are_not_looked_at_again() -> None:
    """A block that touches one topic costs one topic, not all of them."""
    host = Host(image_of([partition((1, 2))]))
    host.settle()
    looked: list[str] = []
    rules = host.controller.rules
    host.controller.rules = lambda topic: looked.append(topic.name) or rules(topic)  # type: ignore

    host.settle()
    assert looked == []
    host.image = with_broker(host.image, 2, fenced=True)
    host.decide()

    assert looked == [TOPIC]


def test_broker_whose_process_is_gone_is_fenced_before_its_session_is_over() -> None:
    host = Host(image_of([partition((2, 1))]))
    host.settle()

    host.controller.lost(2, host.now_ms)

    assert host.controller.wake_at_ms() == host.now_ms, "its silence counts no more"
    host.settle()
    assert host.image.brokers[2].fenced
    assert only(host.image).leader == 1
    host.beat(2)
    host.settle()
    assert not host.image.brokers[2].fenced


def test_word_that_an_unheard_broker_is_gone_is_no_news() -> None:
    host = Host(image_of([partition((1,))], brokers=(1, broker(2, fenced=True))))
    host.settle()
    due_ms = host.controller.wake_at_ms()

    host.controller.lost(2, host.now_ms)

    assert host.controller.wake_at_ms() == due_ms
    assert host.decide() is None
