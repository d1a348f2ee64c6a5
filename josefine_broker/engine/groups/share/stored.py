"""The stored states of share partitions, as the share coordinator keeps them (KIP-932). Mutable.

The host asks how a request changes a state, writes the record, and returns the state (`keep`) once
it is in its log, so the states are never ahead of the log. Answers wait until the record is
committed.

Rules: a state is written and read by one leader of its partition at a time: the leader epoch only
grows, and an older leader is fenced. The state epoch grows when the offsets of the group are
altered, and fences a leader that has not read the state since.

A change is a function of the state, and not a call that changes it, so that a change can be refused
or its write fail before anything in memory is different. See KIP-932, "Managing durable
share-partition state".
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.share.states import FINAL, RecordState
from josefine_broker.engine.groups.share.values import (
    NO_START,
    ShareKey,
    ShareState,
    StateBatch,
)

Change = Callable[[ShareState | None], ShareState | None]
"""What a request makes of a stored state; None: there is none. Raises KafkaError."""


class ShareStates:
    """The states by share partition."""

    __slots__ = ("_ends", "_states")

    def __init__(self) -> None:
        self._states: dict[ShareKey, ShareState] = {}
        self._ends: dict[ShareKey, int] = {}
        """The end offset of a state's last record in its partition's log."""

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ShareKey]:
        return iter(self._states)

    def get(self, key: ShareKey) -> ShareState | None:
        return self._states.get(key)

    def end_offset(self, key: ShareKey) -> int:
        """The offset up to which the log must be committed for this state; 0: it was loaded."""
        return self._ends.get(key, 0)

    def keep(self, key: ShareKey, state: ShareState | None, end_offset: int) -> None:
        """Replace a state by this one, which is in the log up to there; None: it is deleted."""
        self._ends[key] = end_offset
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state

    def forget(self, keys: Iterable[ShareKey]) -> None:
        """Forget share partitions for good: their topic is deleted, and its id never returns."""
        for key in keys:
            self._states.pop(key, None)
            self._ends.pop(key, None)

    def load(self, states: dict[ShareKey, ShareState]) -> None:
        """Keep these from now on. They were read from the committed log: nothing to wait for."""
        for key, state in states.items():
            self._states[key] = state
            self._ends.pop(key, None)

    def unload(self, is_gone: Callable[[ShareKey], bool]) -> None:
        """Forget the states that another broker coordinates now."""
        for table in (self._states, self._ends):
            for key in [each for each in table if is_gone(each)]:
                del table[key]


def initialized(state_epoch: int, start_offset: int) -> Change:
    """InitializeShareGroupState: start there, with nothing in flight. Raises
    KafkaError(fenced_state_epoch).

    The leader epoch stays: the leader of the partition is the same, and one before it must not be
    able to write again. A request of the state epoch of now may be a late repetition: it changes
    nothing, and is fenced once the state has been used.
    """

    def change(before: ShareState | None) -> ShareState:
        if before is None:
            return ShareState(state_epoch, 0, start_offset, (), 0)
        if state_epoch == before.state_epoch and before.start_offset != NO_START:
            if (before.start_offset, before.batches) == (start_offset, ()):
                return before
            # Else it would deliver again what was finished since.
            message = f"it is in use in state epoch {state_epoch} already"
            raise KafkaError(ErrorCode.fenced_state_epoch, message)
        _check_state_epoch(before, state_epoch)
        return ShareState(state_epoch, before.leader_epoch, start_offset, (), 0)

    return change


def read(leader_epoch: int) -> Change:
    """ReadShareGroupState by the leader of that epoch; what was never stored is new. Raises
    KafkaError(fenced_leader_epoch)."""

    def change(before: ShareState | None) -> ShareState:
        if before is None:
            return ShareState(leader_epoch=leader_epoch)
        _check_leader_epoch(before, leader_epoch)
        # The same leader asks again, after a failure or an answer that was lost.
        if leader_epoch == before.leader_epoch:
            return before
        # Stored before it is answered: from then on the leader before cannot write.
        return before._replace(leader_epoch=leader_epoch)

    return change


def written(new: ShareState) -> Change:
    """WriteShareGroupState: of each record, what is further on of the stored state and this one. A
    write that was on its way for long may come after later ones, and takes nothing back of them:
    neither the start, nor what is finished, nor the number of deliveries.

    Raises KafkaError(fenced_leader_epoch | fenced_state_epoch), and KafkaError(invalid_request) if
    its state was deleted: a write must not bring it back.
    """

    def change(before: ShareState | None) -> ShareState:
        if before is None:
            message = "nothing is stored of this share partition: read its state first"
            raise KafkaError(ErrorCode.invalid_request, message)
        _check_leader_epoch(before, new.leader_epoch)
        _check_state_epoch(before, new.state_epoch)
        # A leader has its state epoch from here: this one was deleted, and another state is stored.
        if new.state_epoch > before.state_epoch:
            message = f"the state of epoch {new.state_epoch} was deleted: read the state again"
            raise KafkaError(ErrorCode.invalid_request, message)
        start = max(before.start_offset, new.start_offset)
        batches = _joined(before.batches, new.batches, start)
        # Counted here: what was joined may differ from what the leader counted.
        count = sum(each.last - each.first + 1 for each in batches if each.state in FINAL)
        return new._replace(start_offset=start, batches=tuple(batches), complete_count=count)

    return change


def deleted(before: ShareState | None) -> None:
    """DeleteShareGroupState. Deleting what is not stored succeeds: a request may come twice."""


def unchanged(before: ShareState | None) -> ShareState | None:
    """ReadShareGroupStateSummary. Nothing is written, and no epoch is checked: the group's
    coordinator asks, which need not lead the partition."""
    return before


def _check_leader_epoch(stored: ShareState, leader_epoch: int) -> None:
    """Raises KafkaError(fenced_leader_epoch) for an older leader: two leaders would give the same
    records to two members."""
    if leader_epoch < stored.leader_epoch:
        message = f"a leader of epoch {stored.leader_epoch} uses it, not of {leader_epoch}"
        raise KafkaError(ErrorCode.fenced_leader_epoch, message)


def _check_state_epoch(stored: ShareState, state_epoch: int) -> None:
    """Raises KafkaError(fenced_state_epoch) for an older epoch: the write would undo the alteration
    of the offsets."""
    if state_epoch < stored.state_epoch:
        message = f"it is in state epoch {stored.state_epoch}, not in {state_epoch}"
        raise KafkaError(ErrorCode.fenced_state_epoch, message)


def _progress(batch: StateBatch) -> tuple[int, int]:
    """How far its records are; the larger one is further. While one leader writes in one state
    epoch, that of a record only grows."""
    # A record that is archiving becomes nothing but finished: it may have a dead letter already.
    if batch.state in FINAL:
        return 2, 0
    return int(batch.state is RecordState.ARCHIVING), batch.deliveries


def _joined(
    stored: Iterable[StateBatch], new: Iterable[StateBatch], start: int
) -> list[StateBatch]:
    """The batches of both in order, from the start offset on; where they overlap, those that are
    further, and of equal ones the stored ones.

    Neighbours with equal states and counts are one, or the record would grow with each write.
    Batches of one side do not overlap each other.
    """
    sides = [
        sorted((each for each in side if each.last >= start), key=lambda batch: batch.first)
        for side in (stored, new)
    ]
    # Between two edges each side has one batch, or none.
    edges = {max(each.first, start) for side in sides for each in side}
    edges.update(each.last + 1 for side in sides for each in side)
    at = [0, 0]
    found: list[StateBatch] = []
    for first, end in pairwise(sorted(edges)):
        here = []
        for which, side in enumerate(sides):
            while at[which] < len(side) and side[at[which]].last < first:
                at[which] += 1
            if at[which] < len(side) and side[at[which]].first <= first:
                here.append(side[at[which]])
        if not here:
            continue
        best = max(here, key=_progress)
        if found and found[-1][1:] == (first - 1, best.state, best.deliveries):
            found[-1] = found[-1]._replace(last=end - 1)
        else:
            found.append(best._replace(first=first, last=end - 1))
    return found
