"""Wrong lines, one per rule of consumer groups that matters: see mutants.py."""

from josefine_broker.engine.coordinators import groups_host, offsets_topic
from josefine_broker.engine.coordinators.loading_groups import Loading
from josefine_broker.engine.groups import rebalancing, syncing, views
from josefine_broker.engine.groups.group import Group
from josefine_broker.engine.metadata_quorum import apply_committed
from tests.simulation.cluster.mutants import Mutant, get

__all__ = ["GROUP_MUTANTS"]

GROUPS = {"groups": 1.0, "unclean_allowed": 0.0, "reckless": 0.0}
FAILOVERS = {
    **GROUPS,
    "kill_per_second": 0.8,
    "restart_per_second": 3.0,
    "pause_per_second": 0.4,
    "connection_slow": 0.2,
}
MAY_COMMIT = """code = _is_of(group, identity, generation)
    if code is not ErrorCode.none:
        return code
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    group.heard(group.members[identity.member_id], now_ms)
"""
GROUP_MUTANTS = [
    Mutant(
        breaks="who is no member of this generation commits nothing",
        function=syncing.may_commit,
        old=MAY_COMMIT,
        new="pass\n",
        faults=GROUPS,
    ),
    Mutant(
        breaks="a static member's former process is told that it is fenced",
        function=Group.check,
        old="return ErrorCode.fenced_instance_id",
        new="return ErrorCode.unknown_member_id",
        faults=GROUPS,
        seed=39,
    ),
    Mutant(
        breaks="an assignment is told when it is stored",
        function=groups_host._store,
        old="if not appended.decide():",
        new="settle(None)\n    if False:",
        faults=FAILOVERS,
        seed=9,
    ),
    Mutant(
        breaks="an offset is known when it is committed",
        function=offsets_topic._TakeIn._look,
        old="if hosted.partition.high_watermark < appended.end_offset:",
        new="if False:",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="an offset commit is acknowledged when it is committed",
        function=offsets_topic.store_offsets,
        old="return answer_when_committed(ctx, [appended], timeout_ms, lambda: build(outcome[0]))",
        new="return build(None)",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a new coordinator reads its partition to the end of its log",
        function=Loading._begin,
        old="self._hosted.log.log_end_offset",
        new="self._hosted.partition.high_watermark",
        faults=FAILOVERS,
        seed=1,
    ),
    Mutant(
        breaks="a new coordinator serves what it has read when that is committed",
        function=get(Loading._is_committed),
        old="self._hosted.partition.high_watermark >= self._end",
        new="True",
        faults=FAILOVERS,
        seed=17,
    ),
    Mutant(
        breaks="a new coordinator reads its groups",
        function=apply_committed._coordinate,
        old="elif led_in is None or",
        new="elif led_in is not None and",
        faults=FAILOVERS,
        seed=1,
    ),
    Mutant(
        breaks="each rebalance begins a generation",
        function=rebalancing.complete_join,
        old="group.generation += 1",
        new="pass",
        faults=GROUPS,
    ),
    Mutant(
        breaks="the next coordinator goes on with the generation",
        function=views.restored,
        old="group.generation = record.generation",
        new="pass",
        faults=FAILOVERS,
        seed=1,
    ),
]
