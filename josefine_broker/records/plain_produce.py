"""Plain produce requests, compiled: small batches without a codec, one for each partition.

The extension parses a request frame (versions 3 to 13) together with its batch, assembles the bytes
that the log appends for several requests, and encodes their answers. It has no twin function by
function: the general path (`wire/codec.py`, `api/produce.py`) serves every request, also where no
binary exists, and is the oracle of the tests.
"""

import importlib
from contextlib import suppress
from typing import Protocol

from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.records.crc import Buffer
from josefine_broker.records.structure import FOLDER

__all__ = [
    "FRAME_BYTES_MAX", "PARTS_FRAME_BYTES_MAX", "PARTS_MAX", "Assembled", "Key", "PlainProduce",
    "PlainRequest", "Survey", "compiled", "load",
]  # fmt: skip

FRAME_BYTES_MAX = 4096
"""Larger requests of one batch, and larger batches, are not plain: per byte, the general path is
faster."""
PARTS_MAX, PARTS_FRAME_BYTES_MAX = 1024, 1 << 18
"""The batches of a plain request, and its bytes, where it has several batches."""

Key = tuple[bytes, int, bool]
"""Topic, partition index, and whether the topic is an id (16 bytes) or a name."""
PlainRequest = tuple[
    Key, memoryview, int, int, int, int, int, int, int, int, bool, int, ProducerId, ProducerEpoch,
    int,
]  # fmt: skip
"""Key, frame, correlation id, version, acks (1 or -1), start and size of the batch in the frame,
records, smallest and largest timestamp, whether a record has no key, timeout in milliseconds,
producer id (-1: none), its epoch, and the batch's first sequence number."""
Survey = tuple[int, int, int, int, bool, bool, bool]
"""Of several requests: records, bytes, smallest and largest timestamp, whether a record has no key,
whether a request has acks=all, whether one has a producer id. The smallest timestamp ignores "no
timestamp"."""
Assembled = tuple[bytes | memoryview, int, int, int, list[tuple[int, int, int]]]
"""The batches, stamped; the end offset; the segment's largest timestamp, and the offset of the
batch that raised it (-1: none did); offset, position and timestamp before of the new index entries.
"""


class PlainProduce(Protocol):
    """The extension's functions."""

    def parse(self, frame: Buffer, /) -> PlainRequest | None:
        """None: the request is not plain, or not valid."""
        ...

    def parse_parts(self, frame: Buffer, /) -> list[PlainRequest] | None:
        """Each batch of a request with several, as a request of its own. None: the request is not
        plain, or not valid, or has only one batch."""
        ...

    def survey(self, requests: list[PlainRequest], /) -> Survey: ...

    def assemble(
        self,
        requests: list[PlainRequest],
        size: int,
        base_offset: int,
        leader_epoch: int,
        position: int,
        index_position: int,
        interval: int,
        max_ms: int,
        /,
    ) -> Assembled:
        """For a segment that ends at `position`, has its last index entry at `index_position` (-1:
        none), and `max_ms` as its largest timestamp."""
        ...

    def answers(
        self, requests: list[PlainRequest], base_offset: int, log_start_offset: int, /
    ) -> list[bytes]:
        """Whole response frames; the batches are stored from `base_offset` on."""
        ...

    def answer_parts(
        self, frame: Buffer, base_offsets: list[int], log_start_offsets: list[int], /
    ) -> bytes:
        """The whole response frame to a request of `parse_parts`; an offset for each batch."""
        ...


def load(folder: str = FOLDER) -> PlainProduce | None:
    """The extension of a platform; None if this Python cannot load one."""
    with suppress(ImportError):
        found: PlainProduce = importlib.import_module(
            f"josefine_broker.records.native.{folder}.plain_produce"
        )
        return found
    return None


compiled = load()
"""None: every request takes the general path."""
