"""16. A transaction is all or nothing for read_committed readers, and so the sum over all accounts
never changes for them.

What a reader sees was asked to be committed; once it has read the marker in a topic it has seen all
that was written there; and of what a producer ended before a transaction whose marker was read in
every topic, each was seen in all of them, or in none.
"""

from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.transfer_facts import TOPICS, Ledger

__all__ = ["TransfersAreWhole"]


class TransfersAreWhole(Invariant):
    def transfers_seen(self, ledger: Ledger) -> None:
        known = self.view.transfers.transactions
        for topic in TOPICS:
            for token, amounts in ledger.amounts[topic].items():
                transaction, count = known[token], len(amounts)
                assert transaction.asked == "commit", (
                    f"{topic}: reader {ledger.reader} sees {transaction}"
                )
                is_ended = token in ledger.ended[topic]
                assert count == transaction.transfers or (
                    count < transaction.transfers and not is_ended
                ), f"{topic}: reader {ledger.reader} sees {count} records of {transaction}"
        self._check_sums(ledger)

    def _check_sums(self, ledger: Ledger) -> None:
        for name in {token.split("/")[0] for token in ledger.ended[TOPICS[0]]}:
            ended = [_serials(ledger, topic, name) for topic in TOPICS]
            if not all(ended):
                continue
            last = min(max(each) for each in ended)
            seen = [{serial for serial in each if serial <= last} for each in ended]
            assert seen[0] == seen[1] == seen[2], (
                f"reader {ledger.reader} sees of {name} {seen} in {TOPICS}, up to {last}"
            )
            balance = sum(
                sum(ledger.amounts[topic][f"{name}/{serial}"])
                for topic in TOPICS
                for serial in seen[0]
            )
            assert balance == 0, f"reader {ledger.reader}: the sum has changed by {balance}"


def _serials(ledger: Ledger, topic: str, name: str) -> set[int]:
    """Of the transactions of a transactional id whose marker was read."""
    pairs = (token.split("/") for token in ledger.ended[topic])
    return {int(serial) for found, serial in pairs if found == name}
