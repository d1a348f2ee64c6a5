"""A virtual read_committed reader of transfers: reads each topic from its start to the last stable
offset, from the leader or any replica (KIP-392), and skips what it is told was aborted, as clients
do; now and then it asks where stable records end, or begins anew."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.records.control import read_marker
from josefine_broker.records.reader import read_records
from josefine_broker.wire.entities import list_offsets
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tests.simulation.cluster.clients import Client, Target
from tests.simulation.cluster.consumers import FETCH, LATEST, LIST_OFFSETS, TIMEOUT_MS, WAIT_MS
from tests.simulation.cluster.transfer_facts import TOPICS, Ledger

if TYPE_CHECKING:
    from tests.simulation.cluster.transfer_watch import TransferWatch

__all__ = ["TransferReader"]

READ_COMMITTED = 1
ASKS_END = 0.2
BEGINS_ANEW = 0.03
EVERY_MS = 40


class TransferReader(Client):
    """See the module."""

    def __init__(self, watch: TransferWatch, node: int, rng: Random) -> None:
        super().__init__(watch.world, node, rng)
        self.watch = watch
        self.ledger = Ledger(str(node))
        self._ends: dict[Target, tuple[int, int]] = {}
        """The newest leader epoch and stable end that this reader was told."""
        self._at_end: set[str] = set()
        """Topics whose last answer, in a world that has become calm, had no records."""

    def start(self) -> None:
        """Read as long as the world lives."""
        self.refresh(self._next)

    def _next(self) -> None:
        targets = [each for each in self.leaders if each.name in TOPICS]
        if len(targets) < len(TOPICS):
            self.after_ms(100, partial(self.refresh, self._next))
            return
        if not self.watch.is_calm and self.rng.random() < BEGINS_ANEW:
            self.ledger = Ledger(str(self.node))
        if self.watch.is_calm:  # a wait for records at each end in turn may take too long
            targets = [each for each in targets if each.name not in self._at_end] or targets
        target = self.rng.choice(targets)
        leader = self.leaders[target]
        if leader >= 0 and self.rng.random() < ASKS_END:
            self._ask_end(leader, target)
        elif leader < 0 or self.rng.random() < 0.3:
            self._fetch(self.rng.choice(self.replicas[target]), target)
        else:
            self._fetch(leader, target)

    def _fetch(self, broker_id: int, target: Target) -> None:
        offset = self.ledger.positions[target.name]
        part = FetchPartition(target.partition, -1, offset, -1, -1, 4_000)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=10_000,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=(FetchTopic("", target.topic_id, (part,)),),
        )
        heard = partial(self._heard, self.ledger, target)
        self.ask(broker_id, FETCH, request, TIMEOUT_MS, heard)

    def _look_again(self) -> None:
        self.after_ms(20, partial(self.refresh, self._next))

    def _heard(self, ledger: Ledger, target: Target, response: FetchResponse | None) -> None:
        if response is None or response.error_code or not response.topics:
            self._look_again()
            return
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            name = ErrorCode(answer.error_code).name
            self.world.met[f"read_committed reader told {name}"] += 1
            self._look_again()
            return
        if ledger is self.ledger and not self.watch.facts.is_excused:
            self._read(target.name, answer)
            if self.watch.is_calm and not answer.records:
                self._at_end.add(target.name)
            self.watch.seen(ledger)
        self.after_ms(self.rng.randrange(EVERY_MS), self._next)

    def _read(self, topic: str, answer: FetchPartitionResponse) -> None:
        """As clients do: records of a producer are skipped from the first offset of its aborted
        transaction to its marker."""
        ledger = self.ledger
        ahead = sorted(answer.aborted_transactions or (), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for buffer in answer.records or ():
            view = memoryview(buffer)
            for pos, header in iter_batches(view):
                verify(view, pos, header)
                assert header.end_offset <= answer.last_stable_offset, (
                    f"{topic}: a read_committed reader was given {header}, the last stable offset "
                    f"is {answer.last_stable_offset}"
                )
                while ahead and ahead[0].first_offset <= header.last_offset:
                    aborted.add(ahead.pop(0).producer_id)
                batch = view[pos : pos + header.size_bytes]
                if header.end_offset <= ledger.positions[topic]:
                    continue
                ledger.positions[topic] = header.end_offset
                if header.is_control:
                    marker = read_marker(batch)
                    if marker is not None and not marker.is_commit:
                        aborted.discard(header.producer_id)
                    token = ledger.open.pop((topic, header.producer_id), None)
                    if token is not None:
                        ledger.ended[topic].add(token)
                elif header.is_transactional and header.producer_id not in aborted:
                    for record in read_records(batch):
                        token, amount = (record.value or b"").decode().split()
                        ledger.amounts[topic].setdefault(token, []).append(int(amount))
                        ledger.open[topic, header.producer_id] = token

    def _ask_end(self, broker_id: int, target: Target) -> None:
        part = list_offsets.ListOffsetsPartition(partition_index=target.partition, timestamp=LATEST)
        topic = list_offsets.ListOffsetsTopic(name=target.name, partitions=(part,))
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, isolation_level=READ_COMMITTED, topics=(topic,)
        )
        self.ask(broker_id, LIST_OFFSETS, request, TIMEOUT_MS, partial(self._told_end, target))

    def _told_end(self, target: Target, response: list_offsets.ListOffsetsResponse | None) -> None:
        answer = None if response is None else response.topics[0].partitions[0]
        if answer is None or answer.error_code is not ErrorCode.none:
            self._look_again()
            return
        before = self._ends.get(target, (-1, -1))
        if answer.leader_epoch >= before[0]:
            self._ends[target] = answer.leader_epoch, answer.offset
            self.watch.stable_end_told(target, before, self._ends[target])
        self.after_ms(self.rng.randrange(EVERY_MS), self._next)
