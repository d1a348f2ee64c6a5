"""Who takes part in Raft."""

from dataclasses import replace

import pytest

from josefine_broker.engine.controller.membership import (
    MemberChange,
    MemberStep,
    next_member_change,
    why_not_removed,
)
from josefine_broker.engine.metadata.image import MetadataImage
from tests.unit.josefine_broker.engine.metadata.images import broker, image_of


def step(
    image: MetadataImage,
    voters: set[int],
    learners: set[int],
    caught_up: set[int],
    voters_max: int = 3,
) -> MemberChange | None:
    return next_member_change(image, voters, learners, caught_up, voters_max=voters_max)


def change(step: MemberStep, broker_id: int) -> MemberChange:
    return MemberChange(step=step, broker_id=broker_id)


def test_registered_broker_becomes_a_learner() -> None:
    """Checklist row 16."""
    image = image_of(brokers=(1, broker(2, fenced=True)))

    assert step(image, {1}, set(), set()) == change(MemberStep.ADD_LEARNER, 2)


def test_voters_grow_from_one_to_three_when_two_have_caught_up() -> None:
    image = image_of(brokers=(1, 2, 3))

    assert step(image, {1}, {2, 3}, {2}) is None, "two voters bear no more than one"
    assert step(image, {1}, {2, 3}, {2, 3}) == change(MemberStep.PROMOTE, 2)
    assert step(image, {1, 2}, {3}, {3}) == change(MemberStep.PROMOTE, 3)


def test_learner_past_the_number_of_voters_stays_an_observer() -> None:
    """Checklist row 16."""
    image = image_of(brokers=(1, 2, 3, 4, 5))

    assert step(image, {1, 2, 3}, {4, 5}, {4, 5}) is None
    assert step(image, {1, 2, 3}, {4, 5}, {4, 5}, voters_max=5) == change(MemberStep.PROMOTE, 4)


@pytest.mark.parametrize("away", [{"fenced": True}, {"shutting_down": True}])
def test_broker_that_is_away_is_not_promoted(away: dict[str, bool]) -> None:
    image = image_of(brokers=(1, 2, broker(3, **away)))

    assert step(image, {1, 2}, {3}, {3}) is None


def test_broker_removed_by_command_leaves() -> None:
    image = replace(image_of(brokers=(1, 2)), unregistered=frozenset({3}))

    assert step(image, {1, 2, 3}, set(), set()) == change(MemberStep.REMOVE, 3)
    assert step(image, {1, 2}, {3}, set()) == change(MemberStep.REMOVE, 3)


def test_initial_voter_that_never_registered_is_awaited() -> None:
    assert step(image_of(brokers=(1,)), {1, 2, 3}, set(), set()) is None


def test_last_voter_stays() -> None:
    image = replace(image_of(brokers=()), unregistered=frozenset({1}))

    assert step(image, {1}, set(), set()) is None


@pytest.mark.parametrize(
    ("voters", "live", "reason"),
    [
        ({1, 2, 3}, {2, 3}, ""),
        ({1, 2, 3}, {1, 2, 3}, "broker 1 is live, so it has its data"),
        ({1, 2, 3}, {2}, "a majority of the remaining voters must be live: start broker 3 first"),
        ({1}, {2, 3}, "broker 1 is the only voter"),
        ({1, 2, 3, 4, 5}, {2, 3, 4}, ""),
        ({1, 2, 3, 4, 5}, {2, 3}, "start broker 4, 5 first"),
    ],
)
def test_vote_of_a_lost_broker_goes_when_the_others_can_decide(
    voters: set[int], live: set[int], reason: str
) -> None:
    image = image_of(brokers=tuple(broker(each, fenced=each not in live) for each in range(1, 6)))

    said = why_not_removed(image, voters, 1)

    assert reason in said
    assert bool(reason) == bool(said)


def test_broker_whose_vote_was_taken_becomes_a_learner_again() -> None:
    """It is still registered, so nothing else has to be done for it."""
    image = image_of(brokers=(broker(1, fenced=True), 2, 3))

    assert step(image, {2, 3}, set(), set()) == change(MemberStep.ADD_LEARNER, 1)
