"""The durable state of one exactly-once sink: its generation and its last decision. Pure.

Each sink has one record, keyed by its id, in a compacted topic. Every plan of a batch has a
generation of its own; the tasks' transactional ids contain it, so an older driver never touches the
transactions of a newer one. The record with phase DECIDED is the commit point of a batch: this
driver or the next one commits its transactions.
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
"""Replaces the query id of a batch write: each batch write is a new query."""
NUMBERED = "numbered batches"
"""Replaces the query id of batch writes whose caller numbers them and may repeat one."""


class Phase(Enum):
    """The state of a sink, as its record has it."""

    NEW = "new"  # no decision is recorded
    PLANNED = "planned"  # a batch may be in progress and is not decided
    DECIDED = "decided"  # the batch is committed, and some of its transactions are still open
    SETTLED = "settled"  # the batch is committed, and so are all of its transactions


class Event(Enum):
    """An event that changes the phase of a sink."""

    PLAN = "plan"  # a driver takes it and plans a batch
    DECIDE = "decide"  # every task has written
    SETTLE = "settle"  # every transaction of the decision is committed
    FORGET = "forget"  # its last batch is settled and was the last one, or an operator asks for it


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
        raise Fatal(f"a sink in phase {phase.value} cannot take the event {event.value}")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch of one query. The fingerprint is of its source offsets, or given by the caller.

    `note`: text that a caller who numbers batches stores with the decision.
    """

    query_id: str
    batch_id: int
    fingerprint: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """The record of a sink. `decided` is the last decided batch, also after the phase DECIDED."""

    phase: Phase = Phase.NEW
    generation: int = 0
    decided: Batch | None = None
    transactions: tuple[tuple[str, ProducerIdentity], ...] = ()
    """The transactions of `decided`, by transactional id."""

    def planned(self) -> "SinkState":
        """The state of the next generation, with a plan."""
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
        """Without the decision. The generation is kept: a number that was used must not return, or
        an old driver's transactions would pass for new ones."""
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
            read: Any = json.loads(data)
            if read["format"] != FORMAT:
                raise CorruptData(f"sink record has format {read['format']}, known is {FORMAT}")
            decided = read["decided"]
            return cls(
                phase=Phase(read["phase"]),
                generation=read["generation"],
                decided=decided
                and Batch(
                    query_id=decided["queryId"],
                    batch_id=decided["batchId"],
                    fingerprint=decided["fingerprint"],
                    note=decided.get("note", ""),
                ),
                transactions=tuple(
                    (name, ProducerIdentity(producer_id, epoch))
                    for name, producer_id, epoch in read["transactions"]
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"not a valid sink record: {error}") from error


class Relation(Enum):
    """How a batch that is about to run relates to the last decided batch."""

    FIRST = "nothing was ever decided"
    NEXT = "it comes after the decided batch"
    SAME = "it is the decided batch"
    CHANGED = "the decided batch has its number and other source offsets"
    OLDER = "a later batch is decided"
    OTHER = "the decided batch is of another query"


class Verdict(Enum):
    """What a task does with its rows."""

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
"""A batch number alone proves nothing: after a deleted checkpoint the numbers start at 0 again."""


def relation(decided: Batch | None, batch: Batch) -> Relation:
    """How `batch` relates to the last decided one."""
    if decided is None:
        return Relation.FIRST
    if decided.query_id != batch.query_id:
        return Relation.OTHER
    # Each batch write is a new query, so its number 0 never means a repeated batch.
    if batch.query_id == BATCH_WRITE or batch.batch_id > decided.batch_id:
        return Relation.NEXT
    if batch.batch_id < decided.batch_id:
        return Relation.OLDER
    return Relation.SAME if batch.fingerprint == decided.fingerprint else Relation.CHANGED


def driver_id(sink_id: str) -> str:
    """The sink's own transactional id."""
    return f"{PREFIX}:{sink_id}:driver"


def attempt_id(sink_id: str, generation: int, partition: int, task_attempt: int) -> str:
    """A task attempt's transactional id, which no other attempt ever uses."""
    return f"{PREFIX}:{sink_id}:{generation}:{partition}:{task_attempt}"


def generation_of(sink_id: str, transactional_id: str) -> int | None:
    """The generation in a task attempt's id; None: the id is not of an attempt of this sink."""
    found = re.fullmatch(
        rf"{PREFIX}:{re.escape(sink_id)}:(\d+):\d+:\d+", transactional_id, re.ASCII
    )
    return None if found is None else int(found[1])
