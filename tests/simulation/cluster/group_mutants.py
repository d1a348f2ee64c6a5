"""Wrong lines, one per rule of consumer groups that matters: see mutants.py."""

from josefine_broker.engine import blocks, coordinating, offsets_topic
from josefine_broker.engine.groups import coordinator, rebalancing, syncing
from josefine_broker.engine.groups.group import Group
from josefine_broker.engine.loading_groups import Loading
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
GROUP_MUTANTS = [
    Mutant(
        breaks="who is of another generation commits nothing",
        function=syncing._is_of,
        old="generation == group.generation and not",
        new="not",
        faults=GROUPS,
    ),
    Mutant(
        breaks="a static member's former process is told that it is fenced",
        function=Group.check,
        old="return ErrorCode.fenced_instance_id",
        new="return ErrorCode.unknown_member_id",
        faults=GROUPS,
    ),
    Mutant(
        breaks="an assignment is told when it is stored",
        function=coordinating._store,
        old="if not appended.decide():",
        new="settle(None)\n    if False:",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="an offset is known when it is committed",
        function=offsets_topic._TakeIn.look,
        old="if hosted.partition.high_watermark < end_offset:",
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
    ),
    Mutant(
        breaks="a new coordinator serves what it has read when that is committed",
        function=get(Loading._is_committed),
        old="self._hosted.partition.high_watermark >= self._end",
        new="True",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a new coordinator reads its groups",
        function=blocks._coordinate,
        old="elif led_in is None or",
        new="elif led_in is not None and",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a sync is for its own generation",
        function=syncing._may_sync,
        old="if request.generation != group.generation:",
        new="if False:",
        faults=FAILOVERS,
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
        function=coordinator._restored,
        old="group.generation = record.generation",
        new="pass",
        faults=FAILOVERS,
    ),
]
