"""Wrong lines, one per rule of share groups (KIP-932) that matters: see mutants.py."""

from josefine_broker.engine.coordinators import share_partitions_host
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.partition import SharePartition
from tests.simulation.cluster.mutants import Mutant

__all__ = ["SHARE_MUTANTS"]

SHARES = {"shares": 1.0}
FAILOVERS = SHARES | {
    "kill_per_second": 0.8,
    "pause_per_second": 0.8,
    "restart_per_second": 3.0,
    "partition_per_second": 0.4,
}

LETTERS = FAILOVERS | {"dead_letters": 1.0}

SHARE_MUTANTS = [
    Mutant(
        breaks="a record has one member at a time",
        function=SharePartition._take,
        old="if each.state is not RecordState.AVAILABLE:",
        new="if each.state in FINAL:",
        faults=SHARES,
    ),
    Mutant(
        breaks="a lock lasts as long as it was promised",
        function=SharePartition.expire,
        old="each.lock_end_ms <= now_ms",
        new="each.lock_end_ms <= now_ms + 900",
        faults=SHARES,
    ),
    Mutant(
        breaks="each delivery of a record counts",
        function=SharePartition._take,
        old="deliveries=each.deliveries + 1",
        new="deliveries=max(1, each.deliveries)",
        faults=SHARES,
        seed=9,
    ),
    Mutant(
        breaks="an answer counts when it is stored",
        function=share_partitions_host.acknowledge,
        old="led.waiting.append((write, settle))",
        new="settle(None)",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="what is finished is stored",
        function=SharePartition.begin_write,
        old="state, deliveries = each.settles or each.state, each.deliveries",
        new="state, deliveries = each.state, each.deliveries",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a new leader starts where the last one was",
        function=stored.written,
        old="start = max(before.start_offset, new.start_offset)",
        new="start = before.start_offset if before.start_offset >= 0 else new.start_offset",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a dead letter is written once its state is stored",
        function=SharePartition.letters_due,
        old="each.state is RecordState.ARCHIVING and each.write == NO_WRITE",
        new="RecordState.ARCHIVING in (each.state, each.settles)",
        faults=LETTERS,
        seed=40,
    ),
    Mutant(
        breaks="a record waits for its dead letter under the next leader, too",
        function=SharePartition.begin_write,
        old="if state in FINAL and each.first == start:",
        new="if state in (*FINAL, RecordState.ARCHIVING) and each.first == start:",
        faults=LETTERS,
        seed=9,
    ),
    Mutant(
        breaks="a lock that ended gives its records to others",
        function=SharePartition._free,
        old="self._put(Span(span.first, span.last, state, deliveries, write=write))",
        new="self._put(span._replace(lock_end_ms=10**12))",
        faults=SHARES,
    ),
]
