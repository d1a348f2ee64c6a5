"""The transactions of a simulated world: their producers and readers, and the checkers that hear of
them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import TRANSACTIONS_TOPIC
from josefine_broker.engine.transactions.records import decode_key, decode_value
from josefine_broker.engine.transactions.states import IDLE, PREPARED, TransactionState
from josefine_broker.records.batch import BatchHeader, iter_batches
from josefine_broker.records.control import read_marker
from josefine_broker.records.reader import read_records
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.participants import Participant
from tests.simulation.cluster.transfer_facts import TOPICS, Ledger
from tests.simulation.cluster.transfer_producers import TransferProducer
from tests.simulation.cluster.transfer_readers import TransferReader
from tests.simulation.cluster.view import Batch

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["TransferWatch"]

IDS = ("alice", "bob", "carol")
READERS = 2
PRODUCER_NODES, READER_NODES, PARTICIPANT_NODE = 160, 180, 170
PARTICIPANT = "dora"
"""Its transactions are decided outside."""


class TransferWatch:
    """One per world that has transactions. Mutable: processes of producers come."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.facts = world.view.transfers
        self.is_moving = True
        """Transactions are begun."""
        self.is_calm = False
        """Nobody crashes or stands still any more."""
        self._states: dict[str, TransactionState] = {}
        """Of each id, by the log."""
        self._open: dict[tuple[str, int], str] = {}
        """By topic and producer id: the token of what was written last, up to its marker."""
        self.producers: list[TransferProducer] = []
        for at, transactional_id in enumerate(IDS):
            chance = Random(rng.random())
            producer = TransferProducer(self, PRODUCER_NODES + at, chance, transactional_id)
            world.scheduler.at(1_500 + rng.randrange(1_000), self.add(producer).start)
        self.readers = [
            TransferReader(self, READER_NODES + at, Random(rng.random())) for at in range(READERS)
        ]
        for reader in self.readers:
            world.scheduler.at(1_500 + rng.randrange(1_000), reader.start)
        chance = Random(world.seed + 12)
        if chance.random() < world.faults.two_phase:
            participant = Participant(self, PARTICIPANT_NODE, chance, PARTICIPANT)
            world.scheduler.at(1_500 + chance.randrange(1_000), self.add(participant).start)

    @property
    def nodes(self) -> list[int]:
        """Where they sit."""
        return [
            *sorted({each.node for each in self.producers}),
            *range(READER_NODES, READER_NODES + READERS),
        ]

    def add(self, producer: TransferProducer) -> TransferProducer:
        """One more process, perhaps of an id that has one already."""
        self.producers.append(producer)
        return producer

    def newest(self, transactional_id: str) -> TransferProducer:
        """The last process of an id."""
        return next(each for each in reversed(self.producers) if each.key == transactional_id)

    def is_newest(self, producer: TransferProducer) -> bool:
        return self.newest(producer.key) is producer

    def settle(self) -> None:
        """Nothing is begun any more, and nobody crashes."""
        self.is_calm = True
        self.is_moving = False

    def resume(self) -> None:
        """Who is gone comes back, and all begin transactions again."""
        self.is_moving = True
        for transactional_id in IDS:
            producer = self.newest(transactional_id)
            if producer.is_gone:
                producer.start()

    @property
    def all_verify(self) -> bool:
        """Whether every broker knows that transactions are verified."""
        processes = self.world.view.processes.values()
        return all(each.ctx.image.verifies_transactions for each in processes)

    def is_completed(self, transactional_id: str) -> bool:
        """Whether its coordinator knows that all markers are written."""
        processes = self.world.view.processes.values()
        found = (
            each.ctx.clients.transactions.coordinator.view(transactional_id) for each in processes
        )
        states = [view.record.state for view in found if view is not None]
        return bool(states) and all(state in IDLE for state in states)

    # -- what producers and readers did and were told

    def has_id(self, producer: TransferProducer, *, is_end: bool) -> None:
        """It was given an epoch, perhaps by the end of its transaction."""
        version = 2 if producer.speaks_2 else 1
        self.world.met[f"producer given an epoch, version {version}"] += 1
        self.facts.fence(producer.producer, is_end=is_end)

    def ended(self, producer: TransferProducer) -> None:
        transaction = producer.transaction
        assert transaction is not None
        transaction.is_decided = True
        self.world.met[f"transaction told {transaction.asked}"] += 1
        self.world.scheduler.note(f"{transaction.token} told {transaction.asked}")

    def seen(self, ledger: Ledger) -> None:
        """A reader has read on."""
        self.world.met["transactions read"] += 1
        for invariant in self.world.invariants:
            invariant.transfers_seen(ledger)

    def stable_end_told(
        self, target: Target, before: tuple[int, int], after: tuple[int, int]
    ) -> None:
        """Leader epochs and ends."""
        self.world.met["stable end told"] += 1
        facts = self.world.view.facts((target.topic_id, target.partition))
        for invariant in self.world.invariants:
            invariant.stable_end_told(facts, before, after)

    # -- what their logs say

    def committed(self, name: str, hosted: HostedPartition, batches: list[Batch]) -> None:
        """These batches of a partition are committed."""
        topic = name.rpartition("-")[0]
        if topic == TRANSACTIONS_TOPIC:
            self._note_states(hosted, batches)
        if topic not in TOPICS:
            return
        for header, batch in _read(hosted, batches):
            if header.is_transactional:
                self.world.met["transaction marker committed"] += header.is_control
                for invariant in self.world.invariants:
                    invariant.transactional_written(topic, header)
                self._note_end(topic, header, batch)

    def _note_end(self, topic: str, header: BatchHeader, batch: memoryview) -> None:
        """By its marker; whose it is the records before it say."""
        key = topic, header.producer_id
        if not header.is_control:
            (record,) = read_records(batch)
            self._open[key] = (record.value or b"").decode().split()[0]
            return
        token, marker = self._open.pop(key, None), read_marker(batch)
        if token is None or marker is None:
            return  # nothing was written
        if self.facts.is_excused:
            return
        transaction = self.facts.transactions[token]
        transaction.outcomes[topic] = "commit" if marker.is_commit else "abort"
        for invariant in self.world.invariants:
            invariant.transaction_ended(transaction, topic)

    def _note_states(self, hosted: HostedPartition, batches: list[Batch]) -> None:
        for header, batch in _read(hosted, batches):
            for record in () if header.is_control else read_records(batch, bytes_max=1 << 20):
                key = None if record.key is None else decode_key(record.key)
                if key is None or record.value is None:
                    continue
                state = decode_value(record.value).state
                before, self._states[key] = self._states.get(key), state
                if before in PREPARED and state is TransactionState.ONGOING:
                    self.world.met["transaction begun by the record that completes the last"] += 1


def _read(
    hosted: HostedPartition, batches: list[Batch]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    offset, end = batches[0].base_offset, batches[-1].end_offset
    while offset < end:
        for buffer in hosted.log.read(offset, 1 << 20, end_offset=end):
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                yield header, data[pos : pos + header.size_bytes]
                offset = header.end_offset
