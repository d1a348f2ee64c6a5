"""Wrong lines in the plain path of requests for several partitions, as in mutants.py."""

from josefine_broker.api import plain_fetch
from josefine_broker.engine.replicas import plain_parts
from josefine_broker.host.net.late_answers import LaterParts
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
        breaks="partitions that a request forgets leave its session",
        function=plain_fetch._forget,
        old="session.partitions.pop(each, None)",
        new="pass",
        faults=SPREADING,
    ),
)
