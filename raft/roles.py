"""The roles of a node: states, events and the transition table."""

from enum import Enum, auto

from raft.errors import InvariantBroken

__all__ = ["TRANSITIONS", "Role", "RoleEvent", "next_role"]


class Role(Enum):
    """The role of a node in its term."""

    FOLLOWER = auto()  # accepts blocks from the leader of its term, if known
    PRE_CANDIDATE = auto()  # asks whether an election could be won; its term is unchanged
    CANDIDATE = auto()  # asks for votes in a term of its own
    LEADER = auto()  # makes blocks; a term has one leader


class RoleEvent(Enum):
    """The events that change a role."""

    ELECTION_TIMEOUT = auto()  # no leader heard for long enough, or the last round was inconclusive
    PRE_VOTE_WON = auto()  # a majority would vote for us
    VOTE_WON = auto()  # a majority did
    VOTE_REFUSED = auto()  # a majority is impossible
    GAVE_WAY = auto()  # a rival with a higher id asked at the same time and could win
    TRANSFER = auto()  # the leader asked us to take over at once
    LEADER_FOUND = auto()  # an append or snapshot of this very term
    NEWER_TERM = auto()  # a message of a newer term
    QUORUM_LOST = auto()  # the leader does not hear a majority (check-quorum)
    REMOVED = auto()  # the leader committed its own removal


TRANSITIONS: dict[tuple[Role, RoleEvent], Role] = {
    (Role.FOLLOWER, RoleEvent.ELECTION_TIMEOUT): Role.PRE_CANDIDATE,
    (Role.FOLLOWER, RoleEvent.TRANSFER): Role.CANDIDATE,
    (Role.FOLLOWER, RoleEvent.LEADER_FOUND): Role.FOLLOWER,
    (Role.FOLLOWER, RoleEvent.NEWER_TERM): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, RoleEvent.ELECTION_TIMEOUT): Role.PRE_CANDIDATE,
    (Role.PRE_CANDIDATE, RoleEvent.PRE_VOTE_WON): Role.CANDIDATE,
    (Role.PRE_CANDIDATE, RoleEvent.VOTE_REFUSED): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, RoleEvent.GAVE_WAY): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, RoleEvent.TRANSFER): Role.CANDIDATE,
    (Role.PRE_CANDIDATE, RoleEvent.LEADER_FOUND): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, RoleEvent.NEWER_TERM): Role.FOLLOWER,
    (Role.CANDIDATE, RoleEvent.ELECTION_TIMEOUT): Role.PRE_CANDIDATE,
    (Role.CANDIDATE, RoleEvent.VOTE_WON): Role.LEADER,
    (Role.CANDIDATE, RoleEvent.VOTE_REFUSED): Role.FOLLOWER,
    (Role.CANDIDATE, RoleEvent.LEADER_FOUND): Role.FOLLOWER,
    (Role.CANDIDATE, RoleEvent.NEWER_TERM): Role.FOLLOWER,
    (Role.LEADER, RoleEvent.NEWER_TERM): Role.FOLLOWER,
    (Role.LEADER, RoleEvent.QUORUM_LOST): Role.FOLLOWER,
    (Role.LEADER, RoleEvent.REMOVED): Role.FOLLOWER,
}
"""An unlisted pair cannot happen; LEADER with LEADER_FOUND would be two leaders in one term."""


def next_role(role: Role, event: RoleEvent) -> Role:
    """Raises InvariantBroken for an event that is impossible in this role."""
    after = TRANSITIONS.get((role, event))
    if after is None:
        raise InvariantBroken(f"{event.name} cannot happen to a {role.name}")
    return after
