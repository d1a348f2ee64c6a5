"""Membership of brokers in the metadata Raft: the next step towards the registered brokers.

Rules: a registered broker becomes a learner, and a voter once it has caught up and is live, up to
`voters_max`; the others stay learners (observers). Voters are added in pairs to an odd number: two
voters tolerate no more failures than one, and stop when either fails. Only a broker that was
removed by command leaves Raft; a voter that never registered is waited for.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from josefine_broker.engine.metadata.image import MetadataImage


class MemberStep(Enum):
    """A change of one member."""

    ADD_LEARNER = "add learner"  # receives blocks
    PROMOTE = "promote"  # votes, from learner to voter
    REMOVE = "remove"  # neither


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """One step for one broker."""

    step: MemberStep
    broker_id: int


def next_member_change(
    image: MetadataImage,
    voters: Collection[int],
    learners: Collection[int],
    caught_up: Collection[int],
    *,
    voters_max: int,
) -> MemberChange | None:
    """The next step; None: no change is needed. `caught_up` are learners near the head."""
    members = {*voters, *learners}
    for broker_id in sorted(image.unregistered & members):
        if set(voters) != {broker_id}:
            return MemberChange(step=MemberStep.REMOVE, broker_id=broker_id)
    for broker_id in sorted(image.brokers):
        if broker_id not in members:
            return MemberChange(step=MemberStep.ADD_LEARNER, broker_id=broker_id)
    ready = sorted(image.live_brokers().intersection(learners, caught_up))
    room = voters_max - len(voters)
    needed = 1 if len(voters) % 2 == 0 else 2
    if len(ready) >= needed and room >= needed:
        return MemberChange(step=MemberStep.PROMOTE, broker_id=ready[0])
    return None


def why_not_removed(image: MetadataImage, voters: Collection[int], broker_id: int) -> str:
    """Why this broker, which lost its data, cannot be removed as voter now; empty: it can.

    The other voters must have a majority without it, because they commit the block with the change.
    """
    live = image.live_brokers()
    if broker_id in live:
        return f"broker {broker_id} is live, so it has its data: stop it first if they are lost"
    rest = sorted({*voters} - {broker_id})
    if not rest:
        return f"broker {broker_id} is the only voter: no decision is possible without it"
    there = [each for each in rest if each in live]
    if 2 * len(there) <= len(rest):
        away = ", ".join(str(each) for each in rest if each not in live)
        return f"a majority of the remaining voters must be live: start broker {away} first"
    return ""
