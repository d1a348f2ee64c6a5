"""The role of a hosted replica, as a state machine: leader, follower, or neither yet.

Rules: a role is taken only with a log that can carry it. A replica whose log lacks batches repairs
it first, and a leader that was elected in doubt first asks the others for more. Both answer the
reads of other replicas meanwhile, and nothing else.
"""

from enum import Enum


class ReplicaState(Enum):
    """What this replica does."""

    OPENED = "opened"  # its log is recovered; the image has not assigned a role yet
    LEADER = "leader"  # takes appends, answers clients and followers
    FOLLOWER = "follower"  # copies its leader, if there is one; answers consumers that read here
    REPAIRING = "repairing"  # its log lacks batches: it serves only reads of other replicas
    CATCHING_UP = "catching_up"  # leader in doubt: asks the others for more, and serves as above


class ReplicaEvent(Enum):
    """What happens to a replica."""

    LEAD = "lead"  # the image names this broker as leader, perhaps under a new epoch
    FOLLOW = "follow"  # the image names another leader, or none
    DAMAGED = "damaged"  # a replay passed over damaged batches: the producers' state lacks them
    REPAIRED = "repaired"  # the log is whole, and was replayed
    DOUBTED = "doubted"  # the image names this broker as leader, although its log may be shorter


TRANSITIONS: dict[tuple[ReplicaState, ReplicaEvent], ReplicaState] = {
    (ReplicaState.OPENED, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.OPENED, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
    (ReplicaState.LEADER, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.LEADER, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
    (ReplicaState.FOLLOWER, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.FOLLOWER, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
    # A leader replays nothing: what is damaged while it leads is in its state already.
    (ReplicaState.OPENED, ReplicaEvent.DAMAGED): ReplicaState.REPAIRING,
    (ReplicaState.FOLLOWER, ReplicaEvent.DAMAGED): ReplicaState.REPAIRING,
    (ReplicaState.REPAIRING, ReplicaEvent.REPAIRED): ReplicaState.OPENED,
    (ReplicaState.OPENED, ReplicaEvent.DOUBTED): ReplicaState.CATCHING_UP,
    (ReplicaState.FOLLOWER, ReplicaEvent.DOUBTED): ReplicaState.CATCHING_UP,
    (ReplicaState.CATCHING_UP, ReplicaEvent.DOUBTED): ReplicaState.CATCHING_UP,
    (ReplicaState.CATCHING_UP, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.CATCHING_UP, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
}
