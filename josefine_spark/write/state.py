"""What is known for good of one exactly-once sink: its generation and its last decision. Pure.

One record per sink, in a compacted topic, under its id. Every plan of a batch is a generation of
its own; the tasks' transactional ids carry it, so an older driver never touches a newer one's. From
the record that says DECIDED on, the batch is committed: its transactions are, or will be, whoever
comes next.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.client.groups import ProducerIdentity

FORMAT = 1
PREFIX = "josefine-sink"
SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,150}")
BATCH_WRITE = "batch write"
"""In place of a query's id: each batch write is a new one."""
NUMBERED = "numbered batches"
"""In place of a query's id: batch writes whose caller numbers them, and may write one again."""


class Phase(Enum):
    """What a sink does, as its record says."""

    NEW = "new"  # nothing was decided that anybody remembers
    PLANNED = "planned"  # a batch may be being written, and is not decided
    DECIDED = "decided"  # the batch is committed, and not every transaction is ended yet
    SETTLED = "settled"  # the batch is committed, and every transaction is ended


class Event(Enum):
    """What moves a sink."""

    PLAN = "plan"  # a driver takes it and plans a batch
    DECIDE = "decide"  # every task has written
    SETTLE = "settle"  # every transaction of the decision is committed
    FORGET = "forget"  # its last batch is settled and no other will come, or an operator says so


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.NEW, Event.PLAN): Phase.PLANNED,
    (Phase.PLANNED, Event.PLAN): Phase.PLANNED,
    (Phase.PLANNED, Event.DECIDE): Phase.DECIDED,
    (Phase.PLANNED, Event.FORGET): Phase.NEW,
    (Phase.DECIDED, Event.SETTLE): Phase.SETTLED,
    (Phase.DECIDED, Event.FORGET): Phase.NEW,
    (Phase.SETTLED, Event.PLAN): Phase.PLANNED,
    (Phase.SETTLED, Event.FORGET): Phase.NEW,
}
"""A decision is settled before anything else is planned."""


def next_phase(phase: Phase, event: Event) -> Phase:
    """Raises Fatal for a pair that the table does not list."""
    after = TRANSITIONS.get((phase, event))
    if after is None:
        raise Fatal(f"a sink that is {phase.value} cannot take {event.value}")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Which batch of which query; the fingerprint is of its source offsets, or its caller's own.

    `note`: what a caller who numbers batches keeps beside the decision.
    """

    query_id: str
    batch_id: int
    fingerprint: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """The record. `decided` outlives the phase DECIDED: it is the last one there was."""

    phase: Phase = Phase.NEW
    generation: int = 0
    decided: Batch | None = None
    transactions: tuple[tuple[str, ProducerIdentity], ...] = ()
    """Those of `decided`, by transactional id."""

    def planned(self) -> "SinkState":
        """The next generation's."""
        return replace(
            self,
            phase=next_phase(self.phase, Event.PLAN),
            generation=self.generation + 1,
            transactions=(),
        )

    def with_decision(
        self, batch: Batch, transactions: Mapping[str, ProducerIdentity]
    ) -> "SinkState":
        return replace(
            self,
            phase=next_phase(self.phase, Event.DECIDE),
            decided=batch,
            transactions=tuple(sorted(transactions.items())),
        )

    def settled(self) -> "SinkState":
        return replace(self, phase=next_phase(self.phase, Event.SETTLE))

    def forgotten(self) -> "SinkState":
        """Without its decision; its generations go on counting."""
        return SinkState(phase=next_phase(self.phase, Event.FORGET), generation=self.generation)

    def encode(self) -> bytes:
        decided = self.decided
        return json.dumps(
            {
                "format": FORMAT,
                "phase": self.phase.value,
                "generation": self.generation,
                "decided": decided
                and {
                    "queryId": decided.query_id,
                    "batchId": decided.batch_id,
                    "fingerprint": decided.fingerprint,
                    **({"note": decided.note} if decided.note else {}),
                },
                "transactions": [
                    [name, who.producer_id, who.producer_epoch] for name, who in self.transactions
                ],
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> "SinkState":
        """Raises CorruptData, also for a format that is newer."""
        try:
            told: Any = json.loads(data)
            if told["format"] != FORMAT:
                raise CorruptData(f"a sink's record of format {told['format']}, known is {FORMAT}")
            decided = told["decided"]
            return cls(
                phase=Phase(told["phase"]),
                generation=told["generation"],
                decided=decided
                and Batch(
                    query_id=decided["queryId"],
                    batch_id=decided["batchId"],
                    fingerprint=decided["fingerprint"],
                    note=decided.get("note", ""),
                ),
                transactions=tuple(
                    (name, ProducerIdentity(producer_id, epoch))
                    for name, producer_id, epoch in told["transactions"]
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"a sink's record that is none: {error}") from error


class Relation(Enum):
    """A batch that is to run, beside the last decision."""

    FIRST = "nothing was ever decided"
    NEXT = "it comes behind the one decided"
    SAME = "it is the one decided"
    CHANGED = "the one decided had its number, and other source offsets"
    OLDER = "one behind it is decided"
    OTHER = "the one decided is of another query"


class Verdict(Enum):
    """What a task does."""

    WRITE = "write"
    SKIP = "skip"
    STOP = "stop"


VERDICTS: dict[Relation, Verdict] = {
    Relation.FIRST: Verdict.WRITE,
    Relation.NEXT: Verdict.WRITE,
    Relation.SAME: Verdict.SKIP,
    Relation.CHANGED: Verdict.STOP,
    Relation.OLDER: Verdict.STOP,
    Relation.OTHER: Verdict.STOP,
}
"""A batch number alone proves nothing: with a deleted checkpoint they begin at 0 again."""


def relation(decided: Batch | None, batch: Batch) -> Relation:
    """Where `batch` stands."""
    if decided is None:
        return Relation.FIRST
    if decided.query_id != batch.query_id:
        return Relation.OTHER
    if batch.query_id == BATCH_WRITE or batch.batch_id > decided.batch_id:
        return Relation.NEXT
    if batch.batch_id < decided.batch_id:
        return Relation.OLDER
    return Relation.SAME if batch.fingerprint == decided.fingerprint else Relation.CHANGED


def driver_id(sink_id: str) -> str:
    """The sink's own transactional id."""
    return f"{PREFIX}:{sink_id}:driver"


def attempt_id(sink_id: str, generation: int, partition: int, task_attempt: int) -> str:
    """A task attempt's transactional id, which no other attempt ever has."""
    return f"{PREFIX}:{sink_id}:{generation}:{partition}:{task_attempt}"


def generation_of(sink_id: str, transactional_id: str) -> int | None:
    """Of an attempt of this sink; None: it is none."""
    found = re.fullmatch(
        rf"{PREFIX}:{re.escape(sink_id)}:(\d+):\d+:\d+", transactional_id, re.ASCII
    )
    return None if found is None else int(found[1])
