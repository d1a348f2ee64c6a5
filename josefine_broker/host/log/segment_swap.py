"""Puts one cleaned segment in the place of those that it was made from, whatever stops it half way.

The steps, with Kafka's names; `<base>` is the first offset of the first of them:
1. `<base>.log.cleaned` is written and synced. It counts for nothing, and a start removes it.
2. It is renamed to `<base>.log.swap`, durably. From here on it counts, and a start does the rest.
3. The indexes of those replaced are removed, and the logs of all but the first, durably: what a
   power cut brings back behind step 4 nobody would know for what it is.
4. It is renamed to `<base>.log`, over the first one, durably. Its index is stored later.

A segment reaches from its first offset to the next one's, cleaned or not. So what a `.swap` has
replaced is known by the offsets in it: all that begins behind its own first and below its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.host.log.index import remove_index
from josefine_broker.host.log.segment import LOG_SUFFIX, stem_of, walk_batches
from josefine_broker.records.batch import verify

CLEANED_SUFFIX = f"{LOG_SUFFIX}.cleaned"
SWAP_SUFFIX = f"{LOG_SUFFIX}.swap"


def begin_swap(files: Files, stem: str) -> bool:
    """Step 2; False where the disk has no room for it, and then nothing has changed. Raises OSError
    when nobody knows."""
    directory, _, name = stem.rpartition("/")
    try:
        files.rename(stem + CLEANED_SUFFIX, stem + SWAP_SUFFIX)
    except OSError:
        if name + CLEANED_SUFFIX in files.list(directory):
            return False
        raise
    return True


def end_swap(files: Files, stem: str, others: Iterable[str]) -> None:
    """Steps 3 and 4; `others` are the stems of those replaced but the first. Raises OSError."""
    remove_index(files, stem)
    for other in others:
        remove_index(files, other)
        files.remove(other + LOG_SUFFIX)
    files.sync_directory(stem.rpartition("/")[0])
    files.rename(stem + SWAP_SUFFIX, stem + LOG_SUFFIX)


def end_swaps(files: Files, directory: str) -> None:
    """At a start: finish the swap that counts, and remove what does not.

    Raises CorruptData where a segment that is to replace others is damaged; then all is as it was.
    """
    names = files.list(directory)
    bases = [name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)]
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")
        elif name.endswith(SWAP_SUFFIX):
            base = name.removesuffix(SWAP_SUFFIX)
            end_offset = _end_of(files, f"{directory}/{name}")
            begin = int(base)
            within = [each for each in map(int, bases) if begin < each < end_offset]
            others = [stem_of(directory, each) for each in within]
            end_swap(files, f"{directory}/{base}", others)


def _end_of(files: Files, path: str) -> int:
    """Where the offsets of a whole segment end. Raises CorruptData."""
    file = files.open(path)
    end_offset = -1
    try:
        for _, header, batch in walk_batches(file, 0, file.size()):
            verify(batch, 0, header)
            if header.base_offset < end_offset:
                raise CorruptData(f"offset {header.base_offset} behind {end_offset}")
            end_offset = header.end_offset
    except CorruptData as error:
        raise CorruptData(
            f"{path}, which is to replace the segments it was made from, is damaged ({error}): "
            f"remove its directory to have the log copied from another replica, or the file alone "
            f"if none of those segments is missing"
        ) from error
    finally:
        file.close()
    return end_offset
