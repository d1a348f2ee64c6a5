"""The repair of one damaged segment: from which replica to fetch, when to try again, when a range
is lost.

Rules: a repair needs no leader. Each missing batch is fetched from any replica that has verified
it, so different damage on each replica is repaired as long as every batch is intact on one of them.
The leader is asked first, then the in-sync replicas, then the others; the replica that helped last
is asked first for the next batch. A range is lost only when every other replica has answered and
none has it: a replica that is silent may have it. A lost range is looked for again, because a
replica may be restored, and is given up only by an operator.
"""

from collections.abc import Sequence
from enum import Enum

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.partition.repair.damage import Damage

RETRY_MS_MIN, RETRY_MS_MAX = 250, 30_000
"""Delay after an attempt that got no further; it doubles."""


class RepairState(Enum):
    """What happens to the damaged segment."""

    FOUND = "found"  # it is damaged; its repair has not started, or starts again
    COPYING = "copying"  # intact batches are copied, up to the next damaged one
    ASKING = "asking"  # a replica was asked for the batches that are missing
    WAITING = "waiting"  # no replica could help now: try again at the retry time
    LOST = "lost"  # every other replica answered, and none has the batches: the same, with an alarm
    REPAIRED = "repaired"  # the intact segment has replaced it
    DROPPED = "dropped"  # the segment is gone, or has changed: damage that is left is found again


class RepairEvent(Enum):
    """What happens to a repair."""

    BEGUN = "begun"  # the copy was started
    STOPPED = "stopped"  # the copy has come to a batch that has to be fetched
    ANSWERED = "answered"  # a replica sent batches
    SILENT = "silent"  # no replica helps now, and one did not answer
    REFUSED = "refused"  # every other replica answered that it does not have the batches
    FAILED = "failed"  # the copy failed: no space, no handle, or a batch does not belong there
    DUE = "due"  # the retry time has come, or the operator gave up the lost range
    INSTALLED = "installed"  # the copy is complete, and took the segment's place
    CHANGED = "changed"  # the log has no such segment any more


_S, _E = RepairState, RepairEvent
TRANSITIONS: dict[tuple[RepairState, RepairEvent], RepairState] = {
    (_S.FOUND, _E.BEGUN): _S.COPYING,
    (_S.FOUND, _E.FAILED): _S.FOUND,
    (_S.FOUND, _E.CHANGED): _S.DROPPED,
    (_S.COPYING, _E.STOPPED): _S.ASKING,
    (_S.COPYING, _E.FAILED): _S.FOUND,
    (_S.COPYING, _E.INSTALLED): _S.REPAIRED,
    (_S.COPYING, _E.CHANGED): _S.DROPPED,
    (_S.ASKING, _E.ANSWERED): _S.COPYING,
    (_S.ASKING, _E.SILENT): _S.WAITING,
    (_S.ASKING, _E.REFUSED): _S.LOST,
    (_S.ASKING, _E.FAILED): _S.FOUND,
    (_S.ASKING, _E.CHANGED): _S.DROPPED,
    (_S.WAITING, _E.DUE): _S.ASKING,
    (_S.WAITING, _E.FAILED): _S.FOUND,
    (_S.WAITING, _E.CHANGED): _S.DROPPED,
    (_S.LOST, _E.DUE): _S.ASKING,
    (_S.LOST, _E.FAILED): _S.FOUND,
    (_S.LOST, _E.CHANGED): _S.DROPPED,
}


class Repair:
    """See the module. One per damaged segment; mutable."""

    __slots__ = (
        "_helper", "_refused", "_retry_ms", "_silent", "damage", "given_up_to", "lost",
        "retry_at_ms", "state",
    )  # fmt: skip

    def __init__(self, damage: Damage) -> None:
        self.damage = damage
        self.state = RepairState.FOUND
        self.retry_at_ms = 0
        self.lost: tuple[int, int] | None = None
        """The offset range that no replica has."""
        self.given_up_to = 0
        """The operator has given up what no replica has below this offset."""
        self._helper = -1
        self._refused: dict[int, int] = {}
        """By replica: where its log starts, if that is after the missing batch, else 0."""
        self._silent: set[int] = set()
        self._retry_ms = RETRY_MS_MIN

    @property
    def is_over(self) -> bool:
        return self.state in (RepairState.REPAIRED, RepairState.DROPPED)

    def on(self, event: RepairEvent) -> None:
        """Raises Fatal for an event that this state does not expect."""
        next_state = TRANSITIONS.get((self.state, event))
        if next_state is None:
            raise Fatal(f"repair of {self.damage}, {self.state.value}: event {event.value}")
        self.state = next_state

    def choose(self, replicas: Sequence[int]) -> int | None:
        """The replica to ask next for the missing batch: the one that helped last, else the first
        that was not asked for it. None: all were."""
        left = [each for each in replicas if each not in self._refused.keys() | self._silent]
        if self._helper in left:
            return self._helper
        return left[0] if left else None

    def helped(self, replica: int) -> None:
        """It sent intact batches: the next ones may be anywhere."""
        self._helper = replica
        self._refused.clear()
        self._silent.clear()
        self._retry_ms = RETRY_MS_MIN
        self.lost = None

    def refused(self, replica: int, starts_at: int = 0) -> None:
        """It answered that it does not have the batch intact. `starts_at`: because its log starts
        there, after the batch."""
        self._refused[replica] = starts_at

    def deleted_before(self, in_sync: Sequence[int]) -> int:
        """Up to there the other in-sync replicas have deleted the records; 0: one of them has not,
        or was not asked, or there is none."""
        return min((self._refused.get(each, 0) for each in in_sync), default=0)

    def silent(self, replica: int) -> None:
        """It did not answer, or does not know yet whether it has the batch."""
        self._silent.add(replica)

    def exhausted(self, now_ms: int) -> bool:
        """Every replica was asked in vain; returns whether the batch is lost."""
        is_lost = bool(self._refused) and not self._silent
        self.on(RepairEvent.REFUSED if is_lost else RepairEvent.SILENT)
        self._wait(now_ms)
        return is_lost

    def failed(self, now_ms: int) -> None:
        """The copy could not be continued."""
        self.on(RepairEvent.FAILED)
        self._wait(now_ms)

    def _wait(self, now_ms: int) -> None:
        self.retry_at_ms = now_ms + self._retry_ms
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
        self._refused.clear()
        self._silent.clear()

    def is_due(self, now_ms: int) -> bool:
        """Whether there is something to do: to start, or to ask again."""
        match self.state:
            case RepairState.FOUND:
                return now_ms >= self.retry_at_ms
            case RepairState.WAITING | RepairState.LOST:
                is_given_up = self.lost is not None and self.lost[0] < self.given_up_to
                return now_ms >= self.retry_at_ms or is_given_up
            case _:
                return False


def order_of(leader: int, isr: Sequence[int], replicas: Sequence[int], own_id: int) -> list[int]:
    """The other replicas in the order in which they are asked."""
    order = dict.fromkeys((leader, *isr, *replicas))
    return [each for each in order if each != own_id and each in replicas]
