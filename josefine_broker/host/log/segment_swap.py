"""The replacement of segments by a cleaned or repaired one, safe against a stop at any step.

The steps, with Kafka's file names; `<base>` is the base offset of the first replaced segment:
1. `<base>.log.cleaned` is written and synced. It does not count yet; a start removes it.
2. It is renamed to `<base>.log.swap`, durably. From now on it counts; a start does the rest.
3. The indexes of the replaced segments are removed, and the logs of all but the first, durably: if
   a power loss brought one back after step 4, it could not be recognized.
4. It is renamed to `<base>.log`, over the first one, durably. Its index is stored later.

A segment covers its base offset up to the next one's, cleaned or not. So the segments that a
`.swap` replaces are known by its offsets: all that start after its own base and below its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.index import remove_index
from josefine_broker.host.log.segment import LOG_SUFFIX, stem_of
from josefine_broker.records.batch import verify

CLEANED_SUFFIX = f"{LOG_SUFFIX}.cleaned"
REPAIRED_SUFFIX = f"{LOG_SUFFIX}.repaired"
"""In place of `.cleaned` in step 1: a segment that was made intact (`segment_rebuild.py`)."""
SWAP_SUFFIX = f"{LOG_SUFFIX}.swap"


def begin_swap(files: Files, stem: str, suffix: str = CLEANED_SUFFIX) -> bool:
    """Step 2; False if the disk is full, and then nothing has changed. Raises OSError when the
    state is unknown."""
    directory, _, name = stem.rpartition("/")
    try:
        files.rename(stem + suffix, stem + SWAP_SUFFIX)
    except OSError:
        if name + suffix in files.list(directory):
            return False
        raise
    return True


def end_swap(files: Files, stem: str, others: Iterable[str]) -> None:
    """Steps 3 and 4; `others` are the stems of the replaced segments except the first. Raises
    OSError."""
    remove_index(files, stem)
    for other in others:
        remove_index(files, other)
        files.remove(other + LOG_SUFFIX)
    files.sync_directory(stem.rpartition("/")[0])
    files.rename(stem + SWAP_SUFFIX, stem + LOG_SUFFIX)


def end_swaps(files: Files, directory: str) -> None:
    """At a start: finish a swap that counts, and remove one that does not.

    Raises CorruptData if a replacing segment is damaged; then nothing is changed.
    """
    names = files.list(directory)
    bases = [name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)]
    for name in names:
        if name.endswith((CLEANED_SUFFIX, REPAIRED_SUFFIX)):
            files.remove(f"{directory}/{name}")
        elif name.endswith(SWAP_SUFFIX):
            base = name.removesuffix(SWAP_SUFFIX)
            end_offset = _end_of(files, f"{directory}/{name}")
            begin = int(base)
            within = [each for each in map(int, bases) if begin < each < end_offset]
            others = [stem_of(directory, each) for each in within]
            end_swap(files, f"{directory}/{base}", others)


def _end_of(files: Files, path: str) -> int:
    """The end offset of a complete segment. Raises CorruptData."""
    file = files.open(path)
    end_offset = -1
    try:
        for _, header, batch in walk_batches(file, 0, file.size()):
            verify(batch, 0, header)
            if header.base_offset < end_offset:
                raise CorruptData(f"offset {header.base_offset} after {end_offset}")
            end_offset = header.end_offset
    except CorruptData as error:
        raise CorruptData(
            f"{path}, the replacement of the segments it was made from, is damaged ({error}): "
            f"remove its directory to have the log copied from another replica, or only the file "
            f"if none of those segments is missing"
        ) from error
    finally:
        file.close()
    return end_offset
