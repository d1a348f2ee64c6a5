"""What befalls one replica's log while its broker is down: a bit flips, or its directory is gone.

Only the newest segment is damaged: an older one has an index that says it was synced, and recovery
does not read it again.
"""

from random import Random

from tests.simulation.memory_files import MemoryFiles

__all__ = ["flip_bit", "lose_directory", "newest_segment"]

_LOG_SUFFIX, _INDEX_SUFFIX = ".log", ".index"


def newest_segment(files: MemoryFiles, directory: str) -> str | None:
    """The path of the segment that was written last, if it holds anything and has no index."""
    logs = [name for name in files.list(directory) if name.endswith(_LOG_SUFFIX)]
    if not logs:
        return None
    path = f"{directory}/{max(logs)}"
    is_sealed = path.removesuffix(_LOG_SUFFIX) + _INDEX_SUFFIX in files.names
    return None if is_sealed or not files.names[path].data else path


def flip_bit(files: MemoryFiles, path: str, rng: Random) -> None:
    """One bit anywhere in the file, on the disk too."""
    inode = files.names[path]
    bit = rng.randrange(8 * len(inode.data))
    inode.data[bit // 8] ^= 1 << bit % 8
    if bit // 8 < len(inode.durable):
        durable = bytearray(inode.durable)
        durable[bit // 8] ^= 1 << bit % 8
        inode.durable = bytes(durable)


def lose_directory(files: MemoryFiles, directory: str) -> None:
    """As if it never had been."""
    files.remove_tree(directory)
    files.sync_directory("")
