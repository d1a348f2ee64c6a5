"""The simulated operator accepts the loss of what was never committed, and of nothing else."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.campaign import simulate_kind
from tests.simulation.cluster.given_up import accept_losses

TP = TopicPartition("orders", 0)
COMMITTED_END = 20


class Repairs:
    """The repairs of the one broker that leads, and what an operator accepted."""

    def __init__(self, *lost: tuple[int, int] | None) -> None:
        self.open = [(TP, SimpleNamespace(lost=each)) for each in lost]
        self.accepted: list[TopicPartition] = []

    def __iter__(self) -> Iterator[tuple[TopicPartition, SimpleNamespace]]:
        return iter(self.open)

    def accept_loss(self, tp: TopicPartition) -> None:
        self.accepted.append(tp)


def _do(what: Callable[[], None]) -> None:
    what()


def accepted(*lost: tuple[int, int] | None) -> list[TopicPartition]:
    repairs = Repairs(*lost)
    facts = SimpleNamespace(key=(UUID(int=1), 0), end_offset=COMMITTED_END)
    process = SimpleNamespace(repairs=repairs, event=_do)
    entries = [(facts, "orders", SimpleNamespace(leader=3))]
    view = SimpleNamespace(entries=lambda: entries, processes={3: process})
    met = {"loss of what was never committed accepted": 0}
    world: Any = SimpleNamespace(view=view, met=met)
    accept_losses(world)
    return repairs.accepted


def test_loss_after_the_committed_end_is_accepted() -> None:
    assert accepted((20, 22)) == [TP]
    assert accepted(None, (25, 30)) == [TP]


@pytest.mark.parametrize("lost", [[], [None], [(19, 21)], [(0, 5), (20, 22)]])
def test_committed_records_are_not_given_up(lost: list[tuple[int, int] | None]) -> None:
    assert accepted(*lost) == []


def test_history_whose_only_copy_of_a_batch_was_torn_gets_whole() -> None:
    assert simulate_kind(46_668).met["loss of what was never committed accepted"]
