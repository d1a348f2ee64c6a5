"""Wrong lines in the plain path of requests for several partitions, as in mutants.py."""

from josefine_broker.api import plain_fetch
from josefine_broker.engine.replicas import plain_batches, plain_parts
from josefine_broker.engine.replicas.following_next import NextBatches
from josefine_broker.host.net.late_answers import LateGroup, LaterParts
from tests.simulation.cluster.mutants import Mutant

__all__ = ["PLAIN_MUTANTS"]

SPREADING = {"spreading": 1.0}

PLAIN_MUTANTS = (
    Mutant(
        breaks="an answer for several partitions waits for each of them",
        function=LaterParts.settle,
        old="if self._left:",
        new="if False:",
        faults=SPREADING,
        seed=1,
    ),
    Mutant(
        breaks="batches for several partitions that are not committed are not acknowledged",
        function=plain_parts._placed,
        old="if found[5] and hosted.partition.high_watermark < offset:",
        new="if False:",
        faults=SPREADING | {"kill_per_second": 0.8},
        seed=1,
    ),
    Mutant(
        breaks="batches that are appended together are told their own offsets",
        function=plain_parts._placed,
        old="offset += request[7]",
        new="offset += 1",
        faults=SPREADING,
        seed=1,
    ),
    Mutant(
        breaks="a follower's next request acknowledges only what is in its log",
        function=NextBatches.take,
        old="log.append(batch, header, now_ms)",
        new="log.__class__",
        faults=SPREADING,
    ),
    Mutant(
        breaks="a follower's next request starts where its log ends",
        function=NextBatches.take,
        old="header.last_offset_delta + 1",
        new="header.last_offset_delta + 2",
        faults=SPREADING,
    ),
    Mutant(
        breaks="a batch that was appended alone is acknowledged when all have it",
        function=plain_batches.append_plain,
        old="if not found[5] or",
        new="if True or",
        faults=SPREADING | {"kill_per_second": 0.8},
    ),
    Mutant(
        breaks="an answer from within the event is that of a committed batch",
        function=LateGroup._send_now,
        old="response.error is not None or",
        new="",
        faults=SPREADING | {"kill_per_second": 0.8},
    ),
    Mutant(
        breaks="partitions that a request forgets leave its session",
        function=plain_fetch._forget,
        old="session.partitions.pop(each, None)",
        new="pass",
        faults=SPREADING,
    ),
)
