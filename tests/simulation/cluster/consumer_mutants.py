"""Wrong lines, one per rule of the consumer protocol (KIP-848) that matters: see mutants.py."""

from josefine_broker.engine.coordinators import consumer_groups_host
from josefine_broker.engine.groups.consumer import classic, reconciling, replay
from josefine_broker.engine.groups.consumer.consumers import ConsumerGroups
from josefine_broker.engine.groups.consumer.values import ConsumerGroup
from tests.simulation.cluster.group_mutants import FAILOVERS, GROUPS
from tests.simulation.cluster.mutants import Mutant

__all__ = ["CONSUMER_MUTANTS"]

CONSUMERS = {"consumer_groups": 1.0}

CONSUMER_MUTANTS = [
    Mutant(
        breaks="nobody gets a partition before who has it gave it up",
        function=ConsumerGroup.held_by_others,
        old="held |= each.revoking",
        new="pass",
        faults=GROUPS | CONSUMERS,
    ),
    Mutant(
        breaks="a member that does not say what it has gave nothing up",
        function=reconciling._has_any,
        old="return owned is None or not owned.isdisjoint(parts)",
        new="return owned is not None and not owned.isdisjoint(parts)",
        faults=GROUPS | CONSUMERS,
    ),
    Mutant(
        breaks="who is no member in its epoch of a consumer group commits nothing",
        function=ConsumerGroups.may_commit,
        old="member is None or",
        new="member is None:\n        return ErrorCode.none\n    if",
        faults=GROUPS | CONSUMERS,
        seed=3,
    ),
    Mutant(
        breaks="a member is told what is committed",
        function=consumer_groups_host.heartbeat,
        old="consumers.end_offset(group_id)",
        new="0",
        faults=FAILOVERS | CONSUMERS,
        seed=3,
    ),
    Mutant(
        breaks="the next coordinator knows what each member has",
        function=replay._group,
        old="has = pieces.current.get(member_id, said)",
        new="has = said",
        faults=FAILOVERS | CONSUMERS,
    ),
    Mutant(
        breaks="a classic member is called when the group's target is a newer one",
        function=classic.must_join_again,
        old="member.epoch != group.epoch or",
        new="",
        faults=GROUPS | CONSUMERS | {"migrating": 1.0},
    ),
]
