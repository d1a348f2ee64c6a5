"""Plain fetch requests, compiled: a consumer's, of one partition, without a session.

The general path (`wire/codec.py`, `api/fetch.py`) serves every request, also where no binary
exists, and is the oracle of the tests.
"""

import importlib
from contextlib import suppress
from typing import Protocol

from josefine_broker.records.crc import Buffer
from josefine_broker.records.plain_produce import Key
from josefine_broker.records.structure import FOLDER

__all__ = ["PlainFetch", "PlainFetchRequest", "compiled", "load"]

PlainFetchRequest = tuple[Key, int, int, int, int, int, int, int, int]
"""Key, correlation id, version, smallest and largest size of the answer, isolation level (0 or 1),
leader epoch, offset, largest size of the partition's records."""


class PlainFetch(Protocol):
    """The extension's functions."""

    def parse(self, frame: Buffer, /) -> PlainFetchRequest | None:
        """None: the request is not plain, or not valid."""
        ...

    def answer(
        self,
        request: PlainFetchRequest,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records_bytes: int,
        /,
    ) -> tuple[bytes, bytes]:
        """What precedes the records in the whole response frame, and what follows them."""
        ...


def load(folder: str = FOLDER) -> PlainFetch | None:
    """The extension of a platform; None if this Python cannot load one."""
    with suppress(ImportError):
        found: PlainFetch = importlib.import_module(
            f"josefine_broker.records.native.{folder}.plain_fetch"
        )
        return found
    return None


compiled = load()
"""None: every request takes the general path."""
