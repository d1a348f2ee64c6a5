"""How a newcomer asks its way in: one question at a time, rounds with pauses, what ends them."""

from uuid import UUID

import pytest

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.joining import (
    PAUSE_MS,
    Ask,
    Asking,
    Step,
    as_newcomer,
    for_level,
    unproposed,
)
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeAnswer,
    ProposeChange,
)
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import Change, Origin, RegisterBroker, UnregisterBroker
from josefine_broker.engine.metadata.features import JOSEFINE_VERSION
from josefine_broker.engine.metadata.image import COMPLETENESS_LEVEL, MetadataImage
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims

ONE, TWO, LEADER = HostPort("one", 1), HostPort("two", 2), HostPort("leader", 3)
WITH_LEADER = Discovered(cluster_id="c", leader=3, addresses={3: LEADER, 2: TWO})
WITHOUT = Discovered(cluster_id="c", leader=-1, addresses={2: TWO})


def asking(*seeds: HostPort) -> Asking:
    return Asking(9, seeds, AddressBook())


def asked(ask: Ask | None) -> Ask:
    assert ask is not None
    return ask


def test_newcomer_asks_one_seed_after_another_for_the_leader_and_then_the_leader() -> None:
    one = asking(ONE, TWO)
    first = asked(one.begin(b"change", 0))
    assert (first.address, first.to, first.said) == (ONE, 0, Discover())

    second = asked(one.unanswered(first.number, "one is down", 5))
    assert (second.address, second.said) == (TWO, Discover())
    last = asked(one.answered(second.number, WITH_LEADER, 6))

    assert (last.address, last.to, last.said) == (LEADER, 3, ProposeChange(change=b"change"))
    assert one.answered(last.number, ProposeAnswer(), 7) is None
    assert (one.step, one.trouble, one.refusal) == (Step.PAUSING, "", "")


def test_every_address_that_was_told_is_asked_in_the_next_round() -> None:
    one = asking(ONE)
    first = asked(one.begin(b"change", 0))
    last = asked(one.answered(first.number, WITH_LEADER, 0))
    one.unanswered(last.number, "no answer", 100)
    one.tick(100 + PAUSE_MS)

    found = [asked(one.begin(b"change", 700)).address]
    while (ask := one.unanswered(one._number, "down", 700)) is not None:
        found.append(ask.address)

    assert found == [ONE, LEADER, TWO]
    assert one.trouble == "down; down; down"


def test_round_ends_with_a_pause_and_with_why_nobody_took_it_in() -> None:
    one = asking(ONE)
    first = asked(one.begin(b"change", 0))

    assert one.answered(first.number, WITHOUT, 40) is None
    assert (one.step, one.trouble) == (Step.PAUSING, "one:1 knows no leader")
    assert one.wake_at_ms() == 40 + PAUSE_MS
    one.tick(39 + PAUSE_MS)
    assert one.step is Step.PAUSING
    one.tick(40 + PAUSE_MS)
    assert (one.step, one.wake_at_ms()) == (Step.IDLE, None)


def test_who_only_wants_to_be_seen_greets_everybody_and_proposes_nothing() -> None:
    one = asking(ONE, TWO)
    first = asked(one.begin(None, 0))
    second = asked(one.answered(first.number, WITH_LEADER, 1))
    third = asked(one.unanswered(second.number, "down", 2))

    assert [second.address, third.address] == [TWO, LEADER]  # the last is who was told of
    assert second.said == third.said == Discover()
    assert one.answered(third.number, WITH_LEADER, 3) is None
    assert one.trouble == ""  # somebody answered


def test_refusal_by_the_leader_is_kept_and_a_failure_is_asked_again() -> None:
    for answer, refusal, trouble in (
        (ProposeAnswer(refused="never"), "never", ""),
        (ProposeAnswer(failed="not now"), "", "not now"),
    ):
        one = asking(ONE)
        first = asked(one.begin(b"change", 0))
        last = asked(one.answered(first.number, WITH_LEADER, 0))
        one.answered(last.number, answer, 0)
        assert (one.refusal, one.trouble) == (refusal, trouble)


def test_answer_to_a_question_that_is_over_moves_nothing() -> None:
    one = asking(ONE, TWO)
    first = asked(one.begin(b"change", 0))
    second = asked(one.unanswered(first.number, "slow", 3_000))

    assert one.answered(first.number, WITH_LEADER, 3_001) is None
    assert one.step is Step.LOOKING
    asked(one.answered(second.number, WITH_LEADER, 3_002))
    assert one.step is Step.PROPOSING


@pytest.mark.parametrize("number", [0, 1, 2, 7])
def test_answer_to_a_question_that_nobody_asked_moves_nothing(number: int) -> None:
    idle, pausing = asking(ONE), asking(ONE)
    pausing.unanswered(asked(pausing.begin(b"change", 0)).number, "down", 0)

    for one, step in ((idle, Step.IDLE), (pausing, Step.PAUSING)):
        assert one.answered(number, WITH_LEADER, 1) is None
        assert one.unanswered(number, "no answer", 1) is None
        assert one.step is step
        assert "no answer" not in one.trouble


def test_nobody_to_ask_is_a_round_too() -> None:
    one = asking()
    assert one.begin(b"change", 10) is None
    assert (one.step, one.wake_at_ms()) == (Step.PAUSING, 10 + PAUSE_MS)


def greeting(cluster_id: str = "") -> Hello:
    return Hello(node_id=9, to=1, cluster_id=cluster_id, address="nine:1")


def answer_to(
    change: Change, voters: tuple[int, ...] = (1,), cluster_id: str = ""
) -> ProposeAnswer | None:
    payload = encode_change(change, Origin(9, 0))
    return unproposed(MetadataImage(cluster_id="c"), voters, 1, greeting(cluster_id), payload)


def own_and_others() -> tuple[RegisterBroker, ...]:
    return tuple(RegisterBroker(broker_id=id_, incarnation="i", endpoints=()) for id_ in (9, 8))


def test_leader_proposes_a_newcomers_own_registration_and_nothing_else() -> None:
    own, others = own_and_others()
    nothing_else = ProposeAnswer(refused="a broker proposes its own registration and nothing else")

    assert answer_to(own) is None
    assert answer_to(own, cluster_id="c") is None
    assert answer_to(others) == nothing_else
    assert answer_to(UnregisterBroker(broker_id=9)) == nothing_else
    unread = unproposed(MetadataImage(cluster_id="c"), (1,), 1, greeting(), b"{}")
    assert unread is not None
    assert unread.refused.startswith("a registration that cannot be")


def test_voter_is_refused_without_its_data_and_waits_for_its_blocks_with_them() -> None:
    """A learner that was killed when it became a voter does not know that it is one. It has its
    promises and was refused for good as one that had lost them (seed 43963)."""
    own, _ = own_and_others()

    lost, waits = answer_to(own, (1, 9)), answer_to(own, (1, 9), cluster_id="c")

    assert lost is not None
    assert lost.refused.startswith(
        "broker 9 votes in this cluster, but came with an empty data directory"
    )
    assert waits == ProposeAnswer(failed="broker 9 votes here: the block is on its way to it")


def registration(**logs: Completeness) -> RegisterBroker:
    claims = LogClaims(
        default=Completeness.MISSING,
        logs={(UUID(int=number), 0): each for number, each in enumerate(logs.values())},
    )
    return RegisterBroker(broker_id=3, incarnation="i", endpoints=(), logs=claims)


def test_newcomer_makes_claims_about_the_logs_that_it_has_and_only_then() -> None:
    lost = registration(a=Completeness.UNSYNCED, b=Completeness.MISSING)

    assert as_newcomer(lost) == lost
    assert as_newcomer(registration(b=Completeness.MISSING)).logs is None
    assert as_newcomer(registration()).logs is None


def test_leader_leaves_out_claims_that_its_cluster_is_too_old_for() -> None:
    change = encode_change(registration(a=Completeness.UNSYNCED), Origin(3, 7))
    new = MetadataImage(cluster_id="c", features={JOSEFINE_VERSION: COMPLETENESS_LEVEL})
    old = MetadataImage(cluster_id="c", features={JOSEFINE_VERSION: COMPLETENESS_LEVEL - 1})

    assert for_level(new, change) == change
    plain, origin = decode_change(for_level(old, change))
    assert isinstance(plain, RegisterBroker)
    assert (plain.logs, origin) == (None, Origin(3, 7))
