"""The structure check of a batch's records: compiled if available, otherwise in Python.

The compiled one is an extension of Python's stable ABI that comes with the package (8 KB): 0.1
microseconds a batch and 6 nanoseconds a record of 100 bytes, measured. numba would add 87 MB and
0.4 s of processor time to a broker of 72 MB.
"""

import importlib
import platform
import sys
from collections.abc import Callable

from josefine_broker.records import structure_twin
from josefine_broker.records.crc import Buffer
from josefine_broker.records.structure_twin import Fault, Found

__all__ = ["FOLDER", "WHY", "Check", "Fault", "Found", "check", "is_compiled", "load"]

Check = Callable[[Buffer, int, int, int, int, bool], Found | None]
"""See `structure_twin.check`."""

FOLDER = f"{sys.platform}_{platform.machine()}"
"""The folder of this platform's binary in `native/`."""

WHY = {
    Fault.LENGTH: "its length is not valid, or it is longer than the rest of the batch",
    Fault.TIMESTAMP: "its timestamp delta is not a valid varint",
    Fault.OFFSET: "its offset delta is not its position in the batch",
    Fault.KEY: "its key's length is not valid",
    Fault.VALUE: "its value's length is not valid",
    Fault.HEADER_COUNT: "its header count is not valid",
    Fault.HEADER_NAME: "a header has no valid name",
    Fault.HEADER_VALUE: "the length of a header's value is not valid",
    Fault.TOO_LONG: "its length is more than its fields take",
    Fault.LEFT_OVER: "bytes are left after the last record",
    Fault.NO_KEY: "it has no key, and the topic is compacted",
}


def load(folder: str = FOLDER) -> Check | None:
    """The compiled check of a platform; None if this Python cannot load one."""
    try:
        module = importlib.import_module(
            f"josefine_broker.records.native.{folder}.record_structure"
        )
    except ImportError:
        return None
    compiled: Check = module.check
    return compiled


_compiled = load()
is_compiled = _compiled is not None
"""Whether records are checked at full speed on this platform."""
check: Check = _compiled or structure_twin.check
