"""Client quotas as words (KIP-13, KIP-124, KIP-546): whom one is for, and what it bounds."""

from collections.abc import Mapping
from typing import NamedTuple

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST = "request_percentage"
KEYS = (PRODUCER, CONSUMER, REQUEST)
"""Bytes a second of produce requests and of fetch answers; per cent of the broker's thread."""

USER, CLIENT_ID = "user", "client-id"
TYPES = (USER, CLIENT_ID)
DEFAULT = ""
"""In place of a name: of all who have none of their own, each for itself. No name is empty."""


class QuotaEntity(NamedTuple):
    """Whom a quota is for: a user, a client id, or a client id of a user."""

    user: str | None
    """Without the "User:" of a principal; None: whoever it is."""
    client_id: str | None

    def __str__(self) -> str:
        parts = (f"{kind} {name or '(default)'}" for kind, name in self.parts)
        return ", ".join(parts)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """(type, name) of what it has."""
        found = ((USER, self.user), (CLIENT_ID, self.client_id))
        return [(kind, name) for kind, name in found if name is not None]


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Whom → key → bound; nobody is there without one."""
