"""A damaged segment of a log, as a value."""

from typing import NamedTuple


class Damage(NamedTuple):
    """The segment with offsets [base_offset, end_offset) is damaged at or after `offset`."""

    base_offset: int
    end_offset: int
    offset: int
    reason: str
    is_checksum_known: bool = True
    """Whether the checksum over all bytes of the segment is known."""
