"""Whether a batch says the leader epoch that wrote it, as the checkpoint remembers.

The epoch of a batch lies outside its checksum, so a flipped bit of it shows only where epochs do
not grow. But an epoch has one leader, whose log ended at one offset when it began: what the
checkpoint says of the begin of an epoch holds for every log that has a batch of it. The checkpoint
may be older than the log, and knows nothing of epochs that came later; of one that it knows and a
truncation took away there is no batch. Its first epoch begins where the log began, or before.
"""

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.log_state import LogState
from josefine_broker.records.batch import BatchHeader


class EpochWitness:
    """The stored leader epochs of one log, as far as they can be read."""

    __slots__ = ("_begins", "_first", "_may_have_holes")

    def __init__(self, state: LogState, *, may_have_holes: bool) -> None:
        """Where the log `may_have_holes` an epoch's first batches may have been cleaned away."""
        self._may_have_holes = may_have_holes
        self._begins: dict[int, int] = {}
        self._first: int | None = None
        try:
            stored = state.leader_epochs()
            starts = LeaderEpochs.from_bytes(stored).starts if stored else ()
        except CorruptData:  # told when the epochs are read from the batches again
            starts = ()
        if starts:
            self._begins, self._first = dict(starts), starts[0].epoch

    def check(self, header: BatchHeader, last_epoch: int | None) -> None:
        """A batch behind one of `last_epoch`; None: behind what is not known. Raises CorruptData,
        for this batch or the one before."""
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
