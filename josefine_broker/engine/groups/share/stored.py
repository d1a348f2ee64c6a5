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

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.share.states import FINAL, RecordState
from josefine_broker.engine.groups.share.values import (
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
    able to write again.
    """

    def change(before: ShareState | None) -> ShareState:
        if before is None:
            return ShareState(state_epoch, 0, start_offset, (), 0)
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
    """WriteShareGroupState: its batches replace what is stored of the same records. What is
    finished stays so, and what is archiving becomes nothing but finished (it may have a dead letter
    already): a write that was on its way for long may come after a later one. Raises
    KafkaError(fenced_leader_epoch | fenced_state_epoch), and KafkaError(invalid_request) if nothing
    is stored: the state was deleted, and a write must not bring it back."""

    def change(before: ShareState | None) -> ShareState:
        if before is None:
            message = "nothing is stored of this share partition: read its state first"
            raise KafkaError(ErrorCode.invalid_request, message)
        _check_leader_epoch(before, new.leader_epoch)
        _check_state_epoch(before, new.state_epoch)
        # Batches of another state epoch are of another start: nothing of them is to be merged.
        if new.state_epoch > before.state_epoch:
            return new
        start = max(before.start_offset, new.start_offset)
        finished = [each for each in before.batches if each.state in FINAL]
        batches = _laid_over(before.batches, new.batches, start)
        # Over the ranges of the write, but for records that it has finished.
        archiving = [each for each in before.batches if each.state is RecordState.ARCHIVING]
        if archiving:
            ended = [each for each in new.batches if each.state in FINAL]
            batches = _laid_over(_laid_over(batches, archiving, start), ended, start)
        batches = _laid_over(batches, finished, start)
        # Counted here: what was laid over may differ from what the leader counted.
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


def _laid_over(
    below: Iterable[StateBatch], above: Iterable[StateBatch], start: int
) -> list[StateBatch]:
    """The batches of both in order, from the start offset on; where they overlap, those above.

    Neighbours with equal states and counts are joined, or the record would grow with each write.
    Batches of one side do not overlap each other.
    """
    # Those above stay whole; of those below, the parts that nothing covers.
    upper = sorted((each for each in above if each.last >= start), key=lambda batch: batch.first)
    found = list(upper)
    for each in below:
        first = max(each.first, start)
        # `first` is the first offset of this batch that no cover before has dealt with.
        for cover in upper:
            if cover.last < first or cover.first > each.last:
                continue
            if cover.first > first:
                found.append(each._replace(first=first, last=cover.first - 1))
            first = cover.last + 1
        if first <= each.last:
            found.append(each._replace(first=first))
    found.sort(key=lambda batch: batch.first)
    joined: list[StateBatch] = []
    for each in found:
        first = max(each.first, start)
        if joined and joined[-1][1:] == (first - 1, each.state, each.deliveries):
            joined[-1] = joined[-1]._replace(last=each.last)
        else:
            joined.append(each._replace(first=first))
    return joined
