"""Client quotas (KIP-13, KIP-124, KIP-546): their entities and keys."""

from collections.abc import Mapping
from typing import NamedTuple

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST = "request_percentage"
KEYS = (PRODUCER, CONSUMER, REQUEST)
"""Bytes per second of produce requests and of fetch answers; per cent of the broker's thread."""

USER, CLIENT_ID = "user", "client-id"
TYPES = (USER, CLIENT_ID)
DEFAULT = ""
"""In place of a name: every entity without its own quota, each for itself. No name is empty."""


class QuotaEntity(NamedTuple):
    """The entity of a quota: a user, a client id, or a client id of a user."""

    user: str | None
    """Without the "User:" of a principal; None: any user."""
    client_id: str | None

    def __str__(self) -> str:
        parts = (f"{kind} {name or '(default)'}" for kind, name in self.parts)
        return ", ".join(parts)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """(type, name) of its components."""
        found = ((USER, self.user), (CLIENT_ID, self.client_id))
        return [(kind, name) for kind, name in found if name is not None]


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Entity → key → limit; entities without a limit are absent."""
