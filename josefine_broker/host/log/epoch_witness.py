"""A check of the leader epochs in batches against the stored checkpoint.

The epoch of a batch is outside its checksum, so a flipped bit in it shows only where epochs
decrease. But an epoch has one leader, whose log ended at one offset when the epoch started: the
start offset in the checkpoint holds for every log with a batch of that epoch. The checkpoint may be
older than the log and lack later epochs; an epoch that it lists and a truncation removed has no
batch. Its first epoch starts at the log start or earlier.
"""

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.log_state import LogState
from josefine_broker.records.batch import BatchHeader


class EpochWitness:
    """The stored leader epochs of one log, if readable."""

    __slots__ = ("_begins", "_first", "_may_have_holes")

    def __init__(self, state: LogState, *, may_have_holes: bool) -> None:
        """`may_have_holes`: an epoch's first batches may have been cleaned away."""
        self._may_have_holes = may_have_holes
        self._begins: dict[int, int] = {}
        self._first: int | None = None
        try:
            stored = state.leader_epochs()
            starts = LeaderEpochs.from_bytes(stored).starts if stored else ()
        except CorruptData:  # logged when the epochs are rebuilt from the batches
            starts = ()
        if starts:
            self._begins, self._first = dict(starts), starts[0].epoch

    def check(self, header: BatchHeader, last_epoch: int | None) -> None:
        """Check a batch that follows one of `last_epoch`; None: the previous batch is unknown.
        Raises CorruptData, for this batch or the one before."""
        epoch = header.leader_epoch
        began = self._begins.get(epoch)
        if began is None:
            return
        is_early = header.end_offset <= began and epoch != self._first
        begins_here = last_epoch is not None and last_epoch < epoch
        is_late = begins_here and header.base_offset > began and not self._may_have_holes
        if is_early or is_late:
            raise CorruptData(
                f"a batch at offset {header.base_offset} of leader epoch {epoch}"
                f"{', the first one' * is_late}, which began at offset {began}"
            )
