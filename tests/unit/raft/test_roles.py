"""The table of roles: what is listed, and that nothing else happens."""

from itertools import product

import pytest

from raft import InvariantBroken, Role
from raft.roles import TRANSITIONS, RoleEvent, next_role


def test_an_unlisted_event_breaks_an_invariant() -> None:
    unlisted = [pair for pair in product(Role, RoleEvent) if pair not in TRANSITIONS]

    assert (Role.LEADER, RoleEvent.LEADER_FOUND) in unlisted
    for role, event in unlisted:
        with pytest.raises(InvariantBroken, match=f"{event.name} cannot happen to a {role.name}"):
            next_role(role, event)


def test_every_role_and_every_event_occurs_in_the_table() -> None:
    assert {role for role, _ in TRANSITIONS} == set(Role)
    assert {event for _, event in TRANSITIONS} == set(RoleEvent)


def test_only_a_won_vote_makes_a_leader_and_a_newer_term_ends_every_role() -> None:
    ways_to_lead = [pair for pair, after in TRANSITIONS.items() if after is Role.LEADER]

    assert ways_to_lead == [(Role.CANDIDATE, RoleEvent.VOTE_WON)]
    assert all(next_role(role, RoleEvent.NEWER_TERM) is Role.FOLLOWER for role in Role)
