"""What the checkers know of transactions: bank transfers over three topics, who wrote what in
which, how each ended as far as its producer was told, and what a read_committed reader has seen.

Every record names its transaction, so that it is known again wherever it turns up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.engine.metadata.image import TRANSACTIONS_TOPIC
from josefine_broker.engine.transactions.values import NOBODY, Producer

if TYPE_CHECKING:
    from tests.simulation.cluster.view import PartitionFacts, View

__all__ = ["TOPICS", "Fence", "Ledger", "Transaction", "TransferFacts"]

TOPICS = ("debits", "credits", "notes")
"""One partition each. A transfer writes the negative amount, the amount, and a note of 0."""


@dataclass(slots=True)
class Transaction:
    """Of one producer. Mutable."""

    transactional_id: str
    serial: int
    """Those of one transactional id count up, over all its producers."""
    producer: Producer
    transfers: int
    asked: str = ""
    """Commit or abort, as its producer asked for; empty: it never came to that."""
    is_decided: bool = False
    """Its producer was told that it is as it asked."""
    two_phase: bool = False
    """Somebody outside decides how it ends,"""
    is_prepared: bool = False
    """once all of it is written, and that was told outside;"""
    decision: str = ""
    """to commit or to abort; empty: not decided yet."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """By topic: what its marker says."""

    @property
    def token(self) -> str:
        return f"{self.transactional_id}/{self.serial}"


class Fence(NamedTuple):
    """A producer was given the id: those of older epochs write nothing behind here."""

    producer: Producer
    ends: dict[str, int]
    """By topic."""
    is_end: bool
    """By the end of a transaction, whose markers may still be on their way."""


@dataclass(slots=True)
class Ledger:
    """What a read_committed reader has seen since it began. Mutable."""

    reader: str
    amounts: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: {topic: {} for topic in TOPICS}
    )
    """By topic and token."""
    ended: dict[str, set[str]] = field(default_factory=lambda: {topic: set() for topic in TOPICS})
    """By topic: the tokens of those whose marker was read."""
    open: dict[tuple[str, int], str] = field(default_factory=dict)
    """By topic and producer id: the token of what was read last, up to its marker."""
    positions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOPICS, 0))


class TransferFacts:
    """Mutable; filled by `transfer_watch.py`."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.transactions: dict[str, Transaction] = {}
        """By token."""
        self.fences: list[Fence] = []
        self._serials: dict[str, int] = {}

    def partitions(self) -> Iterator[tuple[PartitionFacts, str]]:
        """Those that transactions depend on."""
        for facts, name, _ in self._view.entries():
            if name in (*TOPICS, TRANSACTIONS_TOPIC):
                yield facts, name

    @property
    def is_excused(self) -> bool:
        """Whether some of it may have been lost."""
        return any(
            facts.excused or facts.losses.cuts or facts.losses.due_epoch >= 0
            for facts, _ in self.partitions()
        )

    def begun(
        self, transactional_id: str, producer: Producer, transfers: int, *, two_phase: bool = False
    ) -> Transaction:
        serial = self._serials[transactional_id] = self._serials.get(transactional_id, 0) + 1
        transaction = Transaction(
            transactional_id, serial, producer, transfers, two_phase=two_phase
        )
        self.transactions[transaction.token] = transaction
        return transaction

    def fence(self, producer: Producer, *, is_end: bool) -> None:
        assert producer != NOBODY
        ends = {name: facts.end_offset for facts, name in self.partitions() if name in TOPICS}
        self.fences.append(Fence(producer, ends, is_end))
