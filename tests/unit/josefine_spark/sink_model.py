"""An exactly-once sink in a world of lists: a broker's transactions, Spark's batches, and drivers
that end, stand still and come back between any two steps.

The broker is what the protocol takes for granted of Kafka's: a newer producer of an id fences the
older and aborts what it left open, an end may be asked for again, only the current producer writes
the record. Answers get lost, and a write may be on its way when its driver looks again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any

from josefine_broker.client.groups import ProducerIdentity
from josefine_spark.base.errors import SinkError
from josefine_spark.write import protocol
from josefine_spark.write.state import Batch, SinkState, Verdict, attempt_id

SINK, QUERY = "s", "q"
TIMEOUT_MS = 1_000
BATCHES, ROWS = 3, 4
DRIVER = "driver"


@dataclass
class Transaction:
    """One transactional id."""

    epoch: int = 0
    rows: list[int] | None = None
    """What its open transaction holds; None: none is open."""
    ended: dict[int, bool] = field(default_factory=dict)
    """Epoch → whether it committed."""


@dataclass
class Broker:
    """Takes the steps. `rng` decides which answers are lost."""

    rng: Random
    trouble: float = 0.0
    transactions: dict[str, Transaction] = field(default_factory=dict)
    visible: list[int] = field(default_factory=list)
    state: SinkState | None = None
    pending: list[tuple[int, int, SinkState | None]] = field(default_factory=list)
    """Records on their way, with their driver's epoch and number."""
    epoch: int = 0
    sequence: int = 0
    fences: bool = True
    open_ms: int = 0
    """How long transactions of participants stay open; 0: there are none."""
    young: set[str] = field(default_factory=set)
    """Transactions that were found open: they have time left to be ended as decided."""

    def take(self, step: Any) -> Any:
        name = type(step).__name__
        result = getattr(self, f"_{name}")(step)
        if self.trouble and name != "Read" and self.rng.random() < self.trouble:
            raise SinkError("the answer is lost")
        return result

    def _TakeOver(self, step: Any) -> Any:  # noqa: N802
        self.epoch, self.sequence = self.epoch + 1, 1
        return protocol.Driver(0, self.epoch, 1, self.open_ms)

    def _Read(self, step: Any) -> SinkState:  # noqa: N802
        return self.state or SinkState()

    def _Write(self, step: Any) -> Any:  # noqa: N802
        _, epoch, sequence, _ = step.driver
        if self.trouble and self.rng.random() < self.trouble:
            self.pending.append((epoch, sequence, step.state))
            raise SinkError("it is on its way")
        if not self.arrives(epoch, sequence, step.state):
            raise SinkError("fenced")
        return step.driver._replace(sequence=sequence + 1)

    def arrives(self, epoch: int, sequence: int, state: SinkState | None) -> bool:
        """Once by its number; False: a newer driver has written."""
        if self.fences and epoch != self.epoch:
            return False
        if sequence == self.sequence:
            self.state, self.sequence = state, sequence + 1
        return True

    def deliver(self) -> None:
        """Something that was on its way arrives."""
        if self.pending:
            self.arrives(*self.pending.pop(self.rng.randrange(len(self.pending))))

    def _FindOpen(self, step: Any) -> list[str]:  # noqa: N802
        return [name for name, each in self.transactions.items() if each.rows is not None]

    def _Abort(self, step: Any) -> None:  # noqa: N802
        for name in step.ids:
            self.begin(name)
            self.transactions[name].rows = None

    def _AreOpen(self, step: Any) -> tuple[str, ...]:  # noqa: N802
        self.young.update(step.transactions)
        return tuple(
            name
            for name, who in step.transactions.items()
            if self.transactions[name].rows is None
            or self.transactions[name].epoch != who.producer_epoch
        )

    def _Commit(self, step: Any) -> tuple[str, ...]:  # noqa: N802
        otherwise = []
        for name, who in step.transactions.items():
            if not self._end(name, who.producer_epoch):
                otherwise.append(name)
            if self.trouble and self.rng.random() < self.trouble:
                raise SinkError("the coordinator is away")
        return tuple(otherwise)

    def _end(self, name: str, epoch: int) -> bool:
        found = self.transactions[name]
        if found.rows is None or found.epoch != epoch:
            return found.ended.get(epoch, False)
        self.visible += found.rows
        found.ended[epoch] = True
        found.rows = None
        found.epoch += 1
        return True

    def time_out(self) -> None:
        """One that is open for too long, before anybody decided on it."""
        if self.open_ms:
            return
        old = [name for name in self._FindOpen(None) if name not in self.young]
        if old:
            found = self.transactions[self.rng.choice(old)]
            found.ended[found.epoch] = False
            found.rows = None
            found.epoch += 1

    def begin(self, name: str) -> int:
        """A producer takes the id; its epoch."""
        found = self.transactions.setdefault(name, Transaction())
        if found.rows is not None:
            found.ended[found.epoch] = False
        found.epoch += 1
        found.rows = []
        return found.epoch

    def write(self, name: str, epoch: int, row: int) -> None:
        found = self.transactions[name]
        if found.epoch != epoch or found.rows is None:
            raise SinkError("fenced")
        found.rows.append(row)


@dataclass
class World:
    """A query over `BATCHES` batches; `committed` is its checkpoint's commit log."""

    broker: Broker
    rng: Random
    steps: ModuleType
    committed: set[int] = field(default_factory=set)

    def life(self) -> Iterator[str]:
        """A driver from its start to its end, step by step. Raises SinkError."""
        attempts = 0  # of each driver, which is why they alone name nothing
        while len(self.committed) < BATCHES:
            number = next(n for n in range(BATCHES) if n not in self.committed)
            batch = Batch(query_id=QUERY, batch_id=number, fingerprint=f"f{number}")
            planned = yield from self.taken(self.steps.plan(SINK, QUERY, 0, TIMEOUT_MS))
            transactions = {}
            if self.steps.judge(SINK, planned.decided, batch) is Verdict.WRITE:
                for partition, rows in enumerate(self.split(number)):
                    reported = self.rng.randrange(2)
                    for twin in range(2) if self.rng.random() < 0.3 else (reported,):
                        attempts += 1
                        name = attempt_id(SINK, planned.generation, partition, attempts)
                        epoch = yield from self.attempt(name, rows)
                        if twin == reported:
                            transactions[name] = ProducerIdentity(0, epoch)
                yield from self.decide(planned, batch, transactions)
            self.committed.add(number)
            yield "committed"

    def decide(self, planned: Any, batch: Batch, transactions: Any) -> Iterator[str]:
        written = self.steps.Written(batch=batch, transactions=transactions)
        try:
            yield from self.taken(self.steps.commit(planned, written, 0))
        except SinkError:
            yield "failed"
            yield from self.taken(self.steps.give_up(planned))
            raise

    def attempt(self, name: str, rows: list[int]) -> Generator[str, None, int]:
        epoch = self.broker.begin(name)
        for row in rows:
            yield "row"
            self.broker.write(name, epoch, row)
        return epoch

    def split(self, number: int) -> list[list[int]]:
        """The rows of a batch over tasks, another way each time."""
        cut = self.rng.randint(1, ROWS - 1)
        rows = list(range(number * ROWS, (number + 1) * ROWS))
        return [rows[:cut], rows[cut:]]

    def taken(self, steps: Any) -> Generator[str, None, Any]:
        """Each step in two halves: a driver may end before it, and before its result is known."""
        result = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as stop:
                return stop.value
            yield "before"
            result = self.broker.take(step)
            yield "after"

    def finish(self) -> None:
        """Undisturbed, at most a few drivers."""
        self.broker.trouble = 0.0
        for _ in self.life():
            pass


EXPECTED = list(range(BATCHES * ROWS))
