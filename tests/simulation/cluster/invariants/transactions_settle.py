"""19. No transaction stays open for ever: once faults stop, also of those whose producer died every
one is ended, and readers see all; what a producer was told to be committed is there. And every
transactional id can be used again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.engine.metadata.image import TRANSACTIONS_TOPIC
from josefine_broker.engine.transactions.states import IDLE
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.transfer_facts import TOPICS

if TYPE_CHECKING:
    from tests.simulation.cluster.transfer_watch import TransferWatch
    from tests.simulation.cluster.world import World

__all__ = ["TransactionsSettle"]

SETTLED_WITHIN_MS = 45_000
"""A question to a broker that lost its power is given up after 30 seconds."""
COMMITTED_WITHIN_MS = 10_000
READ_WITHIN_MS = 10_000


class TransactionsSettle(Invariant):
    def settled(self, world: World) -> None:
        watch = world.transfers
        if watch is None or watch.facts.is_excused or not self.view.image.serves_transactions:
            return
        settled = world.scheduler.run_until(lambda: not self._open(), SETTLED_WITHIN_MS)
        assert settled, f"long after the last fault {self._open()}"
        self._commit_once_more(world, watch)
        settled = world.scheduler.run_until(lambda: not self._open(), SETTLED_WITHIN_MS)
        assert settled, f"long after the last transaction {self._open()}"
        read = world.scheduler.run_until(lambda: not self._unread(watch), READ_WITHIN_MS)
        assert read, f"long after the last transaction {self._unread(watch)}"
        self._check_told(watch)
        world.met["transactions settled"] += 1

    def _open(self) -> str:
        """What is not ended; empty: nothing."""
        for facts, name, entry in self.view.entries():
            hosted = self.view.hosted(entry.leader, name, facts.key)
            if name not in (*TOPICS, TRANSACTIONS_TOPIC):
                continue
            if hosted is None:
                return f"{facts.name} is not led"
            stable, end = hosted.partition.last_stable_offset, hosted.log.log_end_offset
            if stable < end:
                return f"{facts.name} is stable up to {stable} of {end}"
        for broker_id, process in self.view.processes.items():
            transactions = process.ctx.clients.transactions
            if transactions.loading:
                return f"broker {broker_id} reads {sorted(transactions.loading)}"
            for view in transactions.coordinator.views():
                state = view.record.state
                if state not in IDLE:
                    return f"{view.transactional_id} is {state.value} at broker {broker_id}"
        return ""

    def _commit_once_more(self, world: World, watch: TransferWatch) -> None:
        known = watch.facts.transactions
        before = set(known)

        def all_committed() -> bool:
            done = {
                each.transactional_id
                for token, each in known.items()
                if token not in before and each.asked == "commit" and each.is_decided
            }
            return done >= {each.key for each in watch.producers if each.may_begin}

        watch.resume()
        in_time = world.scheduler.run_until(all_committed, COMMITTED_WITHIN_MS)
        assert in_time, "long after the last fault a transactional id commits nothing"
        watch.is_moving = False
        world.scheduler.run_until(
            lambda: not any(each.transaction for each in watch.producers), COMMITTED_WITHIN_MS
        )

    def _unread(self, watch: TransferWatch) -> str:
        """Who has not read all; empty: everybody has."""
        for facts, name, _ in self.view.entries():
            if name in TOPICS:
                for reader in watch.readers:
                    position = reader.ledger.positions[name]
                    if position < facts.end_offset:
                        return f"reader {reader.node} is at {position} of {facts.end_offset}"
        return ""

    def _check_told(self, watch: TransferWatch) -> None:
        for reader in watch.readers:
            balance = sum(
                sum(amounts) for seen in reader.ledger.amounts.values() for amounts in seen.values()
            )
            assert balance == 0, f"reader {reader.node}: the sum has changed by {balance}"
            for token, transaction in watch.facts.transactions.items():
                seen_in = [topic for topic in TOPICS if token in reader.ledger.amounts[topic]]
                assert len(seen_in) in (0, len(TOPICS)), (
                    f"reader {reader.node} sees {transaction} in {seen_in}"
                )
                was_told = transaction.is_decided and transaction.asked == "commit"
                assert seen_in or not was_told, f"reader {reader.node} does not see {transaction}"
