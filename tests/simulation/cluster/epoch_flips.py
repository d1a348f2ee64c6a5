"""Which flips of a batch's leader epoch a recovery can see: the one field that no checksum covers.

It can where epochs do not grow any more, or where the checkpoint of epochs knows another begin of
the one that is there or was there. What is left out of the worlds is a flip that neither shows, and
damage to the checkpoint behind a flip that it alone shows.
"""

from itertools import pairwise

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.log_state import LogState
from josefine_broker.records.batch import BatchHeader, iter_batches
from tests.simulation.memory_files import MemoryFiles

__all__ = ["flip_can_be_seen", "needs_checkpoint"]

_EPOCH_BYTES = range(12, 16)


def flip_can_be_seen(files: MemoryFiles, path: str, bit: int) -> bool:
    """Whether a recovery that is right notices this bit of a log, or must not care."""
    batches = _batches(bytes(files.names[path].data))
    for at, (position, header) in enumerate(batches):
        if bit // 8 - position in _EPOCH_BYTES:
            flipped = header.leader_epoch ^ 1 << 8 * (position + 15 - bit // 8) + bit % 8
            around = [each.leader_epoch for _, each in (*batches[:at], *batches[at + 1 :])]
            return _shows(flipped, around, at) or _is_known(
                files, path, [each for _, each in batches], at, flipped
            )
    return True


def needs_checkpoint(files: MemoryFiles, directory: str) -> bool:
    """Whether the epochs of its batches are not those of its checkpoint."""
    begins = _begins(files, directory)
    for path in files.names_in(directory):
        if not path.endswith(".log"):
            continue
        headers = [each for _, each in _batches(bytes(files.names[f"{directory}/{path}"].data))]
        for before, header in pairwise(headers):
            began = begins.get(header.leader_epoch)
            if began is None:
                continue
            is_first = before.leader_epoch < header.leader_epoch
            if header.end_offset <= began or (is_first and header.base_offset > began):
                return True
    return False


def _shows(flipped: int, around: list[int], at: int) -> bool:
    """Whether the epochs no longer grow with this one at its place among the others."""
    return any(each > flipped for each in around[:at]) or any(
        each < flipped for each in around[at:]
    )


def _is_known(
    files: MemoryFiles, path: str, headers: list[BatchHeader], at: int, flipped: int
) -> bool:
    begins, epoch = _begins(files, path.rpartition("/")[0]), headers[at].leader_epoch
    if flipped > epoch:
        return flipped in [*begins][1:]
    is_next_the_same = at + 1 < len(headers) and headers[at + 1].leader_epoch == epoch
    return epoch in begins and is_next_the_same


def _batches(data: bytes) -> list[tuple[int, BatchHeader]]:
    """As far as they are some."""
    found = []
    try:
        found.extend(iter_batches(data))
    except CorruptData:
        return found
    return found


def _begins(files: MemoryFiles, directory: str) -> dict[int, int]:
    try:
        stored = LogState(files, directory).leader_epochs()
        return dict(LeaderEpochs.from_bytes(stored).starts) if stored else {}
    except CorruptData:
        return {}
