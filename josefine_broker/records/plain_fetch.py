"""Plain fetch requests, compiled: a consumer's, of few partitions, without a session or incremental
in one (KIP-227).

The general path (`wire/codec.py`, `api/fetch.py`) serves every request, also where no binary
exists, and is the oracle of the tests.
"""

import importlib
from contextlib import suppress
from typing import Protocol

from josefine_broker.records.crc import Buffer
from josefine_broker.records.structure import FOLDER

__all__ = [
    "ID_SINCE", "AnsweredPart", "ForgottenPart", "PlainFetch", "PlainFetchRequest", "PlainPart",
    "compiled", "load",
]  # fmt: skip

ID_SINCE = 13
"""Topics are named by id from this version on, by name before."""

PlainPart = tuple[bytes, int, int, int, int]
"""Topic, index, leader epoch, offset, largest size of the partition's records."""
ForgottenPart = tuple[bytes, int]
"""Topic and index."""
PlainFetchRequest = tuple[
    tuple[PlainPart, ...], int, int, int, int, int, int, int, int, tuple[ForgottenPart, ...]
]
"""Partitions, correlation id, version, longest wait, smallest and largest size of the answer,
isolation level (0 or 1), session id, session epoch, and the partitions that leave the session.
Without a session the last three are 0, -1 and ()."""
AnsweredPart = tuple[bytes, int, int, int, int, int]
"""Topic, index, high watermark, last stable offset, log start offset, size of the records."""


class PlainFetch(Protocol):
    """The extension's functions."""

    def parse(self, frame: Buffer, /) -> PlainFetchRequest | None:
        """None: the request is not plain, or not valid."""
        ...

    def answer(
        self, request: PlainFetchRequest, session_id: int, parts: list[AnsweredPart], /
    ) -> list[bytes]:
        """What precedes the records of each part in the whole response frame, and what follows the
        last ones. Parts of one topic follow each other."""
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
